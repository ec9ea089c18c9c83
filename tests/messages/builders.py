"""Short names for the messages and parts that the tests are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.messages import Message, MessageContent, MessageList, Part, get_text
from interlock.messages.parts import TextPart, ToolInvocation, ToolInvocationPart

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def text(words: str, **fields: Any) -> TextPart:
    return TextPart(text=words, **fields)


def call(call_id: str = "c1", name: str = "t", args: Any = None, **fields: Any) -> ToolInvocationPart:
    part = {key: fields.pop(key) for key in ("provider_executed", "title", "provider_metadata") if key in fields}
    invocation = ToolInvocation(tool_call_id=call_id, tool_name=name, args={} if args is None else args, **fields)
    return ToolInvocationPart(tool_invocation=invocation, **part)


def done(
    call_id: str = "c1", result: Any = "r", name: str = "t", args: Any = None, **fields: Any
) -> ToolInvocationPart:
    return call(call_id, name, args, state="result", result=result, **fields)


def message(role: str, *parts: Part | str, **fields: Any) -> Message:
    content = {key: fields.pop(key) for key in ("metadata", "provider_metadata", "tool_invocations") if key in fields}
    made = [text(part) if isinstance(part, str) else part for part in parts]
    return Message(role=role, content=MessageContent(parts=made, **content), **fields)


def user(*parts: Part | str, **fields: Any) -> Message:
    return message("user", *parts, **fields)


def assistant(*parts: Part | str, **fields: Any) -> Message:
    return message("assistant", *parts, **fields)


def said(message_list: MessageList) -> list[tuple[str, str]]:
    """Role and text of every message."""
    return [(one.role, get_text(one)) for one in message_list.get.all.db()]


def ids(message_list: MessageList) -> list[str]:
    return [one.id for one in message_list.get.all.db()]


def kinds(one: Message) -> list[str]:
    """The types of a message's parts."""
    return [part.type for part in one.content.parts]


def prompt(message_list: MessageList) -> list[dict[str, Any]]:
    return message_list.get.all.llm_prompt()


def pairs(sent: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Role, and what each content part is: its text, or the call id it is about."""
    return [
        (
            one["role"],
            [part.get("toolCallId") or part.get("text") or part.get("data") or "" for part in one["content"]],
        )
        for one in sent
        if one["role"] != "system"
    ]
