"""Reasoning with signatures, as servers give it that pass Chat Completions on to other providers (R4.15).

OpenRouter's ``reasoning_details`` hold what the provider behind it wants back: signatures, redacted data, summaries.
They are streamed in pieces, and must be given back whole and in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

OPTION = "reasoningDetails"
"""Their name in the provider metadata of a reasoning part."""

_STREAMED = ("text", "summary", "data")
"""Fields that come in pieces; of the others, the latest that is said stands."""

_SEALS = ("signature", "data")
"""What cannot be made again from the text of the reasoning."""


class ReasoningDetails:
    """Puts the details of one reply together.

    Args:
        provider: Namespace of provider metadata.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._details: list[dict[str, Any]] = []

    def add(self, pieces: Iterable[dict[str, Any]]) -> None:
        """Take the pieces of one event; one belongs to the last detail if kind and index are the same."""
        for piece in pieces:
            last = self._details[-1] if self._details else {}
            if (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
                self._details.append(dict(piece))
                continue
            for name, value in piece.items():
                if name in _STREAMED and isinstance(value, str):
                    last[name] = (last.get(name) or "") + value
                elif value is not None:
                    last[name] = value

    def take(self) -> dict[str, Any] | None:
        """Provider metadata with what came since the last call; ``None`` if the text alone says as much."""
        details, self._details = self._details, []
        if not any(detail.get(seal) for detail in details for seal in _SEALS):
            return None
        return {self._provider: {OPTION: details}}
