"""Models that speak OpenAI's protocols: OpenAI's own, Azure's, and those of compatible servers."""
