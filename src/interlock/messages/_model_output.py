"""What a model is told in place of a tool's result, and whether it still belongs to that result (R4.11, R10.10).

Hooks edit results in place and do not know of the output that was made of them. A mark beside the output tells which
result it was made of; an output of another result is neither sent nor stored.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from interlock._json import to_json
from interlock.messages.parts import ToolInvocationPart

_NOTES = "mastra"
_OUTPUT = "modelOutput"
_MARKS = "interlock"
_MARK = "modelOutputOf"


def noted_output(output: Any, result: Any) -> dict[str, Any]:
    """Provider metadata that says to tell the model ``output`` for as long as the result is ``result``."""
    return {_NOTES: {_OUTPUT: output}, _MARKS: {_MARK: _mark(result)}}


def model_output(part: ToolInvocationPart) -> Any:
    """What the model is told in place of the result, ``None`` if that is the result itself."""
    metadata = part.provider_metadata
    notes = metadata.get(_NOTES) if metadata else None
    output = notes.get(_OUTPUT) if isinstance(notes, dict) else None
    return None if output is None or is_stale(part) else output


def is_stale(part: ToolInvocationPart) -> bool:
    """Whether the noted output was made of another result; one without a mark is taken at its word."""
    marks = (part.provider_metadata or {}).get(_MARKS)
    mark = marks.get(_MARK) if isinstance(marks, dict) else None
    return mark is not None and mark != _mark(part.tool_invocation.result)


def without_output(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without the noted output and its mark."""
    if not metadata:
        return metadata
    left = dict(metadata)
    for namespace, name in ((_NOTES, _OUTPUT), (_MARKS, _MARK)):
        notes = left.get(namespace)
        if isinstance(notes, dict) and name in notes:
            left[namespace] = {key: value for key, value in notes.items() if key != name}
            if not left[namespace]:
                del left[namespace]
    return left or None


def _mark(result: Any) -> int:
    # Short on purpose: nothing of a result can be told from it.
    try:
        return zlib.crc32(msgspec.json.encode(to_json(result), order="deterministic"))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return zlib.crc32(repr(result).encode("utf-8", "surrogatepass"))
