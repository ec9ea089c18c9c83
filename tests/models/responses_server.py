"""Recorded replies of the Responses API, and a model that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk, Finish, ToolCall, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest
from interlock.models.openai_responses import OpenAIResponsesModel
from interlock.testing import drain
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "openai_responses"
BROKEN = ("context_overflow", "failed", "rate_limited", "truncated")
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in BROKEN)
HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def events_of(name: str) -> list[dict[str, Any]]:
    lines = fixture(name).decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


class ResponsesServer:
    """A model on a mock transport, and the requests that it sent."""

    def __init__(self, *replies: httpx2.Response | Exception, **model_options: Any) -> None:
        self.requests: list[httpx2.Request] = []
        self._replies = list(replies)
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._reply))
        options = {"api_key": "sk-secret", "base_url": "https://api.example/v1", **model_options}
        self.model = OpenAIResponsesModel("gpt-5", client=client, **options)

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


async def read(*pieces: bytes, request: ModelRequest = HI) -> list[Chunk]:
    return await drain(ResponsesServer(event_reply(pieces)).model.stream(request))


async def until_failure(*pieces: bytes) -> tuple[list[Chunk], APICallError]:
    seen: list[Chunk] = []
    try:
        async for chunk in ResponsesServer(event_reply(pieces)).model.stream(HI):
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")


def content(chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [
        {"type": chunk.type, **chunk_to_dict(chunk)["payload"]}
        for chunk in chunks
        if chunk.type not in ("stream-start", "response-metadata", "finish")
    ]


def payloads(chunks: list[Chunk], kind: str) -> list[dict[str, Any]]:
    return [chunk_to_dict(chunk)["payload"] for chunk in chunks if chunk.type == kind]


def finish_of(chunks: list[Chunk]) -> dict[str, Any]:
    assert isinstance(chunks[-1], Finish)
    payload: dict[str, Any] = chunk_to_dict(chunks[-1])["payload"]
    return payload


def calls_of(chunks: list[Chunk]) -> list[tuple[str, str, Any]]:
    return [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in chunks if isinstance(c, ToolCall)]
