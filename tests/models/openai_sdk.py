"""OpenAI's SDK, on a transport of the tests."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI

from tests.models.mock_provider import MockProvider


def openai_client(provider: MockProvider, **options: Any) -> AsyncOpenAI:
    """OpenAI's SDK on the provider's transport."""
    return AsyncOpenAI(**{"api_key": "sk-secret", "max_retries": 0, "http_client": provider.http, **options})
