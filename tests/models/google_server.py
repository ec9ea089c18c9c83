"""Gemini's answers: recorded in the wire's form, made event by event, and served through a mock transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk, Finish, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import GoogleModel, ModelRequest
from interlock.testing import drain
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "google"
BROKEN = ("bare_error", "error_in_stream", "malformed_call", "truncated")
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in BROKEN)

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


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


class GoogleServer:
    """A model on a mock transport, and the requests that it sent."""

    def __init__(self, *replies: httpx2.Response | Exception, model_id: str = "gemini-3-flash", **options: Any) -> None:
        self.requests: list[httpx2.Request] = []
        self._replies = list(replies)
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self.reply))
        self.model = GoogleModel(model_id, client=client, **{"api_key": "AIza-secret", **options})

    def reply(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


async def read(*pieces: bytes, request: ModelRequest = HI, **options: Any) -> list[Chunk]:
    return await drain(GoogleServer(event_reply(pieces), **options).model.stream(request))


async def until_failure(server: GoogleServer, request: ModelRequest = HI) -> tuple[list[Chunk], APICallError]:
    seen: list[Chunk] = []
    try:
        async for chunk in server.model.stream(request):
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")


def content(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """The chunks between the opening and the finish, flat."""
    return [
        {"type": chunk.type, **chunk_to_dict(chunk)["payload"]}
        for chunk in chunks
        if chunk.type not in ("stream-start", "response-metadata", "finish")
    ]


def finish_of(chunks: list[Chunk]) -> dict[str, Any]:
    assert isinstance(chunks[-1], Finish)
    payload: dict[str, Any] = chunk_to_dict(chunks[-1])["payload"]
    return payload
