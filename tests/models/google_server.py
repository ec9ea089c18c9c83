"""Gemini's answers: recorded in the wire's form, made event by event, and served through a mock transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk
from interlock.models import GoogleModel, ModelRequest
from interlock.testing import drain
from tests.models.mock_provider import MockProvider
from tests.models.reading import HI
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "google"
BROKEN = ("bare_error", "error_in_stream", "malformed_call", "truncated")
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in BROKEN)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def refusal(name: str, status: int, **headers: str) -> httpx2.Response:
    """A recorded refusal."""
    body = (FIXTURES / f"{name}.json").read_bytes()
    return httpx2.Response(status, headers={"content-type": "application/json", **headers}, content=body)


def event(*parts: dict[str, Any], finish: str | None = None, **candidate: Any) -> bytes:
    """One event with one candidate."""
    told = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **candidate}
    return sse({"candidates": [{**told, **({"finishReason": finish} if finish else {})}], "responseId": "r"})


def sse(data: Any) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\r\n\r\n".encode()


class GoogleServer(MockProvider):
    """Gemini, and a model that calls it."""

    def __init__(self, *replies: httpx2.Response | Exception, model_id: str = "gemini-3-flash", **options: Any) -> None:
        super().__init__(*replies)
        self.model = GoogleModel(model_id, client=self.http, **{"api_key": "AIza-secret", **options})


async def read(*pieces: bytes, request: ModelRequest = HI, **options: Any) -> list[Chunk]:
    return await drain(GoogleServer(event_reply(pieces), **options).model.stream(request))
