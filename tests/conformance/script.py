"""The model's script: one entry a provider call, used up over all calls of a scenario."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]

EXHAUSTED = "the model script of the scenario has no further entry"
"""What a provider call fails with when the script is at its end."""

_SPANS = {"text-start": "text-delta", "reasoning-start": "reasoning-delta"}


class Script:
    """Hands out the entries in order."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self.position = 0

    def next_entry(self) -> Entry:
        self.position += 1
        if self.position > len(self._entries):
            return {"error": {"message": EXHAUSTED}}
        return self._entries[self.position - 1]


def parts_of(entry: Entry, *, joins_text: bool) -> list[Mapping[str, Any]]:
    """The stream parts of an entry; with ``joins_text`` (``generate``) each text block is one delta."""
    return list(_joined(entry["chunks"])) if joins_text else list(entry["chunks"])


def _joined(parts: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    deltas: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        kind = part["type"]
        if kind in _SPANS:
            deltas[_SPANS[kind], part["id"]] = []
            yield part
        elif kind in ("text-delta", "reasoning-delta"):
            deltas.setdefault((kind, part["id"]), []).append(part["delta"])
        elif kind in ("text-end", "reasoning-end"):
            delta = kind.replace("-end", "-delta")
            yield {"type": delta, "id": part["id"], "delta": "".join(deltas.pop((delta, part["id"]), []))}
            yield part
        elif not kind.startswith("tool-input-"):
            yield part


def parsed_input(part: Mapping[str, Any]) -> Any:
    """The arguments of a scripted call; text that is not JSON stays text."""
    text = part.get("input", "{}")
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def error_text(part: Mapping[str, Any]) -> str:
    """The message of an ``error`` part."""
    error = part.get("error")
    return str(error.get("message", "")) if isinstance(error, Mapping) else str(error)
