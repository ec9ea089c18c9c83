"""Anthropic's answers: recorded in the wire's form, made event by event, and served through a mock transport."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk, Finish, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest
from interlock.models.anthropic import AnthropicModel
from interlock.testing import drain
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in ("overloaded", "truncated"))

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def event(kind: str, **fields: Any) -> bytes:
    """One event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n".encode()


def answer(*blocks: bytes, stop_reason: str | None = "end_turn", usage: dict[str, Any] | None = None) -> bytes:
    """A whole answer around the events of its blocks."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": []}
    return b"".join(
        [
            event("message_start", message={**message, "usage": {"input_tokens": 3, "output_tokens": 1}}),
            *blocks,
            event("message_delta", delta={"stop_reason": stop_reason}, usage=usage or {"output_tokens": 2}),
            event("message_stop"),
        ]
    )


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    """The events of one block."""
    return b"".join(
        [
            event("content_block_start", index=index, content_block=start),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]
    )


class AnthropicServer:
    """A model on a mock transport, and the requests that it sent."""

    def __init__(self, *replies: httpx2.Response | bytes, model_id: str = "claude-sonnet-5-5", **options: Any) -> None:
        self.requests: list[httpx2.Request] = []
        self._replies = [event_reply([reply]) if isinstance(reply, bytes) else reply for reply in replies]
        self.http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._reply))
        given = {"api_key": "sk-ant-secret", "client": self.http, **options}
        self.model = AnthropicModel(model_id, **given)

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self._replies.pop(0)

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


async def read(reply: bytes, request: ModelRequest = HI, **options: Any) -> list[Chunk]:
    """The chunks of a reply."""
    return await drain(AnthropicServer(reply, **options).model.stream(request))


async def until_failure(stream: AsyncIterator[Chunk]) -> tuple[list[Chunk], APICallError]:
    """What came before the failure, and the failure."""
    seen: list[Chunk] = []
    try:
        async for chunk in stream:
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")


def content(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """The payloads of what the answer says, with their types."""
    return [
        {"type": chunk.type, **chunk_to_dict(chunk)["payload"]}
        for chunk in chunks
        if chunk.type not in ("stream-start", "response-metadata", "finish")
    ]


def finish_of(chunks: list[Chunk]) -> dict[str, Any]:
    """The payload of the last chunk."""
    assert isinstance(chunks[-1], Finish)
    payload: dict[str, Any] = chunk_to_dict(chunks[-1])["payload"]
    return payload
