"""The legacy fields of a message beside its parts: they say what the parts say, or nothing (R4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.messages.parts import FilePart, MessageContent, Part, ReasoningPart, ToolInvocation, ToolInvocationPart

_FACTS = ("args", "result", "state")


def mirrors_of(content: MessageContent, parts: Sequence[Part]) -> dict[str, Any]:
    """What the mirrors that ``content`` has must be for these parts.

    A hook that takes something out of the parts does not know of the mirrors; they must not keep it.
    """
    mirrors: dict[str, Any] = {}
    if not parts:
        return mirrors
    if content.tool_invocations:
        calls = {
            part.tool_invocation.tool_call_id: part.tool_invocation
            for part in parts
            if isinstance(part, ToolInvocationPart)
        }
        mirrors["tool_invocations"] = [
            _mirrored(entry, calls[entry.get("toolCallId", "")])
            for entry in content.tool_invocations
            if entry.get("toolCallId") in calls
        ] or None
    if content.reasoning:
        texts = [part.reasoning for part in parts if isinstance(part, ReasoningPart)]
        is_known = content.reasoning in ("".join(texts), "\n".join(texts))
        mirrors["reasoning"] = content.reasoning if is_known else "\n".join(texts) or None
    if content.experimental_attachments:
        names = {part.data: part.filename for part in parts if isinstance(part, FilePart)}
        mirrors["experimental_attachments"] = [
            one if one.get("name") == names[one.get("url", "")] else {**one, "name": names[one.get("url", "")]}
            for one in content.experimental_attachments
            if one.get("url") in names
        ] or None
    return mirrors


def _mirrored(entry: dict[str, Any], call: ToolInvocation) -> dict[str, Any]:
    told = call.to_dict()
    return entry if all(entry.get(fact) == told.get(fact) for fact in _FACTS) else told
