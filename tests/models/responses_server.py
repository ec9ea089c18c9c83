"""Recorded replies of the Responses API, and a model that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk
from interlock.errors import APICallError
from interlock.models import ModelRequest
from interlock.models.openai.responses import OpenAIModel
from interlock.testing import drain
from tests.models.mock_provider import MockProvider
from tests.models.reading import HI, until_failure
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"
BROKEN = ("context_overflow", "failed", "rate_limited", "truncated")
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in BROKEN)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def events_of(name: str) -> list[dict[str, Any]]:
    lines = fixture(name).decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


class ResponsesServer(MockProvider):
    """A Responses server, and a model that calls it."""

    def __init__(self, *replies: httpx2.Response | Exception, **model_options: Any) -> None:
        super().__init__(*replies)
        options = {"api_key": "sk-secret", "base_url": "https://api.example/v1", **model_options}
        self.model = OpenAIModel("gpt-5", client=self.http, **options)


async def read(*pieces: bytes, request: ModelRequest = HI) -> list[Chunk]:
    return await drain(ResponsesServer(event_reply(pieces)).model.stream(request))


async def failure_of(*pieces: bytes) -> tuple[list[Chunk], APICallError]:
    return await until_failure(ResponsesServer(event_reply(pieces)).model.stream(HI))
