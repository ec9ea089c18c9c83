"""What of a message is stored (R13.12)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from interlock._text import well_formed, well_formed_data
from interlock.messages._copying import copy_data
from interlock.messages._mirrors import mirrors_of
from interlock.messages._model_output import is_stale, without_output
from interlock.messages.parts import Message, MessageContent, Part, TextPart, ToolInvocationPart
from interlock.messages.text import mirrored_text

WORKING_MEMORY_TOOL = "updateWorkingMemory"

_working_memory = re.compile(r"<working_memory>.*?(?:</working_memory>|\Z)", re.DOTALL)


def saved_form(message: Message) -> Message | None:
    """The message as it is stored: itself if nothing has to go, else a copy; ``None`` if nothing of it is left.

    Calls whose arguments never arrived in full, updates of the working memory and blank text of an assistant are left
    out, ``<working_memory>`` blocks are cut from text, and strings that no store could encode are mended. What is not
    in the parts is not in the legacy mirrors either.
    """
    content = message.content
    parts = [kept for part in content.parts if (kept := _saved_part(part, message.role)) is not None]
    legacy = _saved_text(mirrored_text(content))
    mirrors = mirrors_of(content, parts)
    if (
        len(parts) == len(content.parts)
        and all(map(_is, parts, content.parts))
        and legacy == content.content
        and all(getattr(content, name) == mirror for name, mirror in mirrors.items())
    ):
        return message if parts or legacy else None
    if not parts or all(part.type == "step-start" for part in parts):
        return None
    saved: MessageContent = content.__copy__()
    saved.parts, saved.content = parts, legacy
    for name, mirror in mirrors.items():
        setattr(saved, name, mirror)
    copy: Message = message.__copy__()
    copy.content = saved
    return copy


def saved_forms(messages: Iterable[Message]) -> list[Message]:
    """The stored forms of messages, in order, without those of which nothing is stored."""
    return [saved for message in messages if (saved := saved_form(message)) is not None]


def _saved_part(part: Part, role: str) -> Part | None:
    if part.__class__ is TextPart:
        assert isinstance(part, TextPart)
        text = _saved_text(part.text) or ""
        if role == "assistant" and part.provider_metadata is None and not text.strip():
            return None
        if text == part.text:
            return part
        twin: TextPart = part.__copy__()
        twin.text = text
        return twin
    if isinstance(part, ToolInvocationPart):
        invocation = part.tool_invocation
        if invocation.state == "partial-call" or invocation.tool_name == WORKING_MEMORY_TOOL:
            return None
        args, result = well_formed_data(invocation.args), well_formed_data(invocation.result)
        is_outdated = part.provider_metadata is not None and is_stale(part)
        if args is not invocation.args or result is not invocation.result or is_outdated:
            call: ToolInvocationPart = copy_data(part)
            call.tool_invocation.args, call.tool_invocation.result = args, result
            if is_outdated:
                call.provider_metadata = without_output(call.provider_metadata)
            return call
    return part


def _saved_text(text: str | None) -> str | None:
    if not text:
        return text
    if "<working_memory>" in text:
        text = _working_memory.sub("", text)
    return well_formed(text)


def _is(one: object, other: object) -> bool:
    return one is other
