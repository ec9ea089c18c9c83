"""Text and reasoning spans of a reply, for wires that send bare pieces of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.chunks import (
    Chunk,
    ReasoningDelta,
    ReasoningDeltaPayload,
    ReasoningEnd,
    ReasoningEndPayload,
    ReasoningStart,
    ReasoningStartPayload,
    TextDelta,
    TextDeltaPayload,
    TextEnd,
    TextEndPayload,
    TextStart,
    TextStartPayload,
)


class Spans:
    """Opens a span at its first piece and closes it when another kind of content comes.

    Each method appends the chunks it makes to ``out``.

    Args:
        sealed: Asked for the provider metadata of a reasoning that ends.
    """

    __slots__ = ("_id", "_kind", "_opened", "_sealed")

    def __init__(self, sealed: Callable[[], dict[str, Any] | None] = lambda: None) -> None:
        self._sealed = sealed
        self._kind: str | None = None
        self._id = ""
        self._opened = 0

    def text(self, out: list[Chunk], piece: str, metadata: dict[str, Any] | None = None, kind: str = "text") -> None:
        """A piece of text; a span of another ``kind`` of text, such as a refusal, is a span of its own."""
        if self._kind != kind:
            self._open(out, kind)
            out.append(TextStart(payload=TextStartPayload(id=self._id, provider_metadata=metadata)))
        out.append(TextDelta(payload=TextDeltaPayload(id=self._id, text=piece)))

    def reasoning(self, out: list[Chunk], piece: str) -> None:
        """A piece of reasoning."""
        if self._kind != "reasoning":
            self._open(out, "reasoning")
            out.append(ReasoningStart(payload=ReasoningStartPayload(id=self._id)))
        out.append(ReasoningDelta(payload=ReasoningDeltaPayload(id=self._id, text=piece)))

    @property
    def is_open(self) -> bool:
        """Whether a span is open."""
        return self._kind is not None

    @property
    def have_begun(self) -> bool:
        """Whether there was any."""
        return self._opened > 0

    def close(self, out: list[Chunk], metadata: dict[str, Any] | None = None) -> None:
        """Close the open span, if there is one."""
        if self._kind == "reasoning":
            metadata = metadata or self._sealed()
            out.append(ReasoningEnd(payload=ReasoningEndPayload(id=self._id, provider_metadata=metadata)))
        elif self._kind is not None:
            out.append(TextEnd(payload=TextEndPayload(id=self._id, provider_metadata=metadata)))
        self._kind = None

    def _open(self, out: list[Chunk], kind: str) -> None:
        self.close(out)
        self._opened += 1
        self._kind = kind
        self._id = f"{kind}-{self._opened}"
