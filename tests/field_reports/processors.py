"""Small processors of the kinds that the reports are about."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from interlock import Chunk, Processor, TextDelta
from interlock.chunks import TextDeltaPayload
from interlock.messages.parts import TextPart, ToolInvocationPart

PRIVATE = re.compile(
    r"[\w.]+@[\w.]+\.\w+|\d{4}[ ]?\d{4}[ ]?\d{4}[ ]?\d{4}|\d{3}-\d{2}-\d{4}|\+1 555 \d{3} \d{4}|sk-\w+",
)
LONGEST = 24
"""No private value in the cases is longer."""


def masked(value: Any) -> Any:
    """JSON-like data with every private value in its strings replaced; keys and shape stay."""
    if isinstance(value, str):
        return PRIVATE.sub("[PRIVATE]", value)
    if isinstance(value, dict):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return value


def mask_message(message: Any) -> None:
    """Mask texts, file names, links and tool arguments of a message in place."""
    for part in message.content.parts:
        if isinstance(part, TextPart):
            part.text = masked(part.text)
        elif isinstance(part, ToolInvocationPart):
            part.tool_invocation.args = masked(part.tool_invocation.args)
            part.tool_invocation.result = masked(part.tool_invocation.result)
        elif part.type == "file":
            part.filename = masked(part.filename)
            if "://" in part.data:
                part.data = masked(part.data)


class Batcher(Processor):
    """Groups chunks: neighbouring deltas of one part become one, everything else keeps its place."""

    id = "batcher"

    def __init__(self, size: int, *, emits_on_non_text: bool = True) -> None:
        self._size = size
        self._emits_on_non_text = emits_on_non_text

    def process_output_stream(self, args: Any) -> list[Chunk]:
        held = args.state.setdefault("held", [])
        part = args.part
        last = held[-1] if held else None
        if isinstance(part, TextDelta) and isinstance(last, TextDelta) and last.payload.id == part.payload.id:
            last.payload.text += part.payload.text
        else:
            held.append(part)
        args.state["size"] = args.state.get("size", 0) + 1
        is_due = args.state["size"] >= self._size or (self._emits_on_non_text and not isinstance(part, TextDelta))
        return self._release(args.state) if is_due else []

    def flush_output_stream(self, args: Any, reason: str) -> list[Chunk]:
        return self._release(args.state)

    def _release(self, state: dict[str, Any]) -> list[Chunk]:
        released: list[Chunk] = state.get("held", [])
        state["held"], state["size"] = [], 0
        return released


class HoldBack(Processor):
    """Shows text a little late, so that a private value is whole before any of it is shown."""

    id = "hold-back"

    def __init__(self, replace: Callable[[str], str] = lambda _: "[PRIVATE]") -> None:
        self._replace = replace

    def process_output_stream(self, args: Any) -> Any:
        part, state = args.part, args.state
        if part.type == "text-delta":
            state["text"] = state.get("text", "") + part.payload.text
            state["id"] = part.payload.id
            return self._take(state, is_last=False)
        if part.type == "text-end":
            return [*self._take(state, is_last=True), part]
        return part

    def flush_output_stream(self, args: Any, reason: str) -> Any:
        return self._take(args.state, is_last=True)

    def _take(self, state: dict[str, Any], *, is_last: bool) -> list[Chunk]:
        text: str = state.get("text", "")
        limit = len(text) if is_last else max(0, len(text) - LONGEST)
        out, position = [], 0
        for match in PRIVATE.finditer(text):
            if match.start() >= limit:
                break
            out += [text[position : match.start()], self._replace(match.group())]
            position = match.end()
        out.append(text[position : max(position, limit)])
        state["text"] = text[max(position, limit) :]
        released = "".join(out)
        return [TextDelta(payload=TextDeltaPayload(id=state["id"], text=released))] if released else []


class Windowed(Processor):
    """Has a detector judge the text in windows, and shows a window only once it was judged.

    Args:
        detect: Whether a text is bad.
        size: Characters of a window.
        overlap: Characters of the window before that are judged again.
    """

    id = "windowed"

    def __init__(self, detect: Callable[[str], bool], size: int, overlap: int = 20) -> None:
        self._detect = detect
        self._size = size
        self._overlap = overlap

    def process_output_stream(self, args: Any) -> Any:
        part, state = args.part, args.state
        if part.type == "text-delta":
            state.setdefault("held", []).append(part)
            state["text"] = state.get("text", "") + part.payload.text
            if len(state["text"]) - len(state.get("tail", "")) < self._size:
                return None
            return self._judged(args)
        return [*self._judged(args), part]

    def flush_output_stream(self, args: Any, reason: str) -> Any:
        return self._judged(args)

    def _judged(self, args: Any) -> list[Chunk]:
        state = args.state
        held: list[Chunk] = state.get("held", [])
        if held and self._detect(state["text"]):
            args.abort("bad text")
        text: str = state.get("text", "")
        state["text"] = state["tail"] = text[max(0, len(text) - self._overlap) :]
        state["held"] = []
        return held
