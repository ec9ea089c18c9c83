"""Anthropic's answers: recorded in the wire's form, made event by event, and served through a mock transport."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

from interlock.chunks import Chunk
from interlock.models import ModelRequest
from interlock.models.anthropic.model import AnthropicModel
from interlock.testing import drain
from tests.models.mock_provider import MockProvider
from tests.models.reading import HI
from tests.models.wire import event_reply

FIXTURES = Path(__file__).parent / "fixtures" / "anthropic"
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in ("overloaded", "truncated"))


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


class AnthropicServer(MockProvider):
    """The Messages API, and a model that calls it."""

    def __init__(
        self, *replies: httpx2.Response | Exception | bytes, model_id: str = "claude-sonnet-5-5", **options: Any
    ) -> None:
        super().__init__(*(event_reply([reply]) if isinstance(reply, bytes) else reply for reply in replies))
        given = {"api_key": "sk-ant-secret", "client": self.http, **options}
        self.model = AnthropicModel(model_id, **given)


async def read(reply: bytes, request: ModelRequest = HI, **options: Any) -> list[Chunk]:
    """The chunks of a reply."""
    return await drain(AnthropicServer(reply, **options).model.stream(request))
