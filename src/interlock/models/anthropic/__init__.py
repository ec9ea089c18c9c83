"""Models that speak Anthropic's Messages protocol."""
