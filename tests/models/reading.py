"""What a test asks of the chunks of an answer, whichever provider gave it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from interlock.chunks import Chunk, Finish, ToolCall, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def content(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """The payloads of what the answer says, with their types."""
    return [
        {"type": chunk.type, **chunk_to_dict(chunk)["payload"]}
        for chunk in chunks
        if chunk.type not in ("stream-start", "response-metadata", "finish")
    ]


def payloads(chunks: list[Chunk], kind: str) -> list[dict[str, Any]]:
    """The payloads of the chunks of one type."""
    return [chunk_to_dict(chunk)["payload"] for chunk in chunks if chunk.type == kind]


def finish_of(chunks: list[Chunk]) -> dict[str, Any]:
    """The payload of the last chunk."""
    assert isinstance(chunks[-1], Finish)
    payload: dict[str, Any] = chunk_to_dict(chunks[-1])["payload"]
    return payload


def calls_of(chunks: list[Chunk]) -> list[tuple[str, str, Any]]:
    """Id, tool and arguments of each call."""
    return [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in chunks if isinstance(c, ToolCall)]


async def until_failure(stream: AsyncIterator[Chunk]) -> tuple[list[Chunk], APICallError]:
    """What came before the failure, and the failure."""
    seen: list[Chunk] = []
    try:
        async for chunk in stream:
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")
