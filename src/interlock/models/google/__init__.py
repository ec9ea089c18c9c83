"""Models that speak Gemini's protocol."""
