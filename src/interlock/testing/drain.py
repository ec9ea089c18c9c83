"""Read a stream to its end."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, TypeVar

from interlock.chunks import Chunk, TextDelta

T = TypeVar("T")


async def drain(stream: AsyncIterable[T]) -> list[T]:
    """Everything that ``stream`` yields."""
    return [item async for item in stream]


def text_of(chunks: Iterable[Chunk]) -> str:
    """The text deltas of ``chunks``, joined."""
    return "".join(chunk.payload.text for chunk in chunks if isinstance(chunk, TextDelta))


def types_of(chunks: Iterable[Any]) -> list[str]:
    """The type of each chunk, in order."""
    return [chunk.type for chunk in chunks]
