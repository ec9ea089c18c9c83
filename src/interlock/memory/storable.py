"""What of a message is stored (R13.12)."""

from __future__ import annotations

import msgspec

from interlock.messages.parts import Message, Part, TextPart, ToolInvocationPart

WORKING_MEMORY_TOOL = "updateWorkingMemory"
"""Calls of this tool belong to working memory, not to the conversation."""

_OPEN, _CLOSE = "<working_memory>", "</working_memory>"


def storable(message: Message) -> Message | None:
    """The message as it is stored; ``None`` if nothing of it is (R13.12).

    Left out are system messages, calls whose arguments have not arrived completely, calls of the working-memory tool
    and text between ``<working_memory>`` tags. The given message is not changed; parts that stay are shared with it.
    """
    if message.role == "system":
        return None
    content = message.content
    parts = [kept for part in content.parts if (kept := _storable_part(part)) is not None]
    text = None if content.content is None else without_working_memory(content.content)
    if not text and all(part.type == "step-start" for part in parts):
        return None
    calls = content.tool_invocations
    if calls is not None:
        calls = [call for call in calls if not _is_left_out(call.get("state"), call.get("toolName"))]
    return msgspec.structs.replace(
        message, content=msgspec.structs.replace(content, parts=parts, content=text, tool_invocations=calls)
    )


def without_working_memory(text: str) -> str:
    """``text`` without what stands between ``<working_memory>`` tags, and without the tags."""
    kept = []
    position = 0
    # No regular expression: text full of opening tags without a closing one would take it quadratic time.
    while (start := text.find(_OPEN, position)) >= 0 and (end := text.find(_CLOSE, start)) >= 0:
        kept.append(text[position:start])
        position = end + len(_CLOSE)
    kept.append(text[position:])
    return "".join(kept)


def _storable_part(part: Part) -> Part | None:
    if isinstance(part, ToolInvocationPart):
        invocation = part.tool_invocation
        return None if _is_left_out(invocation.state, invocation.tool_name) else part
    if isinstance(part, TextPart):
        text = without_working_memory(part.text)
        if text != part.text:
            return msgspec.structs.replace(part, text=text) if text.strip() else None
    return part


def _is_left_out(state: object, tool_name: object) -> bool:
    return state == "partial-call" or tool_name == WORKING_MEMORY_TOOL
