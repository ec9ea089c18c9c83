"""What of a message is stored (R13.12)."""

from __future__ import annotations

import pytest

from interlock.memory.storable import storable, without_working_memory
from interlock.messages.parts import (
    ErrorPart,
    Message,
    MessageContent,
    Part,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)


def message(*parts: Part, role: str = "assistant", text: str | None = None) -> Message:
    return Message(role=role, id="m", content=MessageContent(parts=list(parts), content=text))


def call(state: str = "call", name: str = "search") -> ToolInvocationPart:
    return ToolInvocationPart(tool_invocation=ToolInvocation(state=state, tool_call_id="c", tool_name=name))


def kept(given: Message) -> list[Part]:
    stored = storable(given)
    return [] if stored is None else stored.content.parts


def test_system_messages_are_not_stored() -> None:
    """R13.12"""
    assert storable(message(TextPart(text="be nice"), role="system")) is None


def test_incomplete_and_working_memory_calls_are_not_stored() -> None:
    """R13.12"""
    text, pending, result = TextPart(text="a"), call("call"), call("result")
    parts = kept(message(text, call("partial-call"), pending, call("result", "updateWorkingMemory"), result))
    assert parts == [text, pending, result]


def test_the_legacy_mirror_of_calls_follows_the_parts() -> None:
    """R13.12"""
    given = message(TextPart(text="a"))
    given.content.tool_invocations = [
        {"state": "partial-call", "toolName": "search"},
        {"state": "result", "toolName": "updateWorkingMemory"},
        {"state": "result", "toolName": "search"},
    ]
    stored = storable(given)
    assert stored is not None
    assert stored.content.tool_invocations == [{"state": "result", "toolName": "search"}]


def test_a_message_that_is_left_without_parts_is_not_stored() -> None:
    """R13.12"""
    assert storable(message(call("partial-call"))) is None
    assert storable(message(StepStartPart(), call("result", "updateWorkingMemory"))) is None
    assert storable(message(TextPart(text="<working_memory>x</working_memory>"))) is None


def test_a_message_of_the_legacy_form_is_stored() -> None:
    """R4.20"""
    assert storable(message(text="old")) is not None


def test_an_error_part_is_stored() -> None:
    """R13.10"""
    part = ErrorPart(error={"name": "APICallError", "message": "no"})
    assert kept(message(part)) == [part]


def test_working_memory_is_cut_from_text() -> None:
    """R13.12"""
    stored = storable(
        message(TextPart(text="Hi<working_memory>x</working_memory>!"), text="<working_memory></working_memory>Hi")
    )
    assert stored is not None
    assert stored.content.parts == [TextPart(text="Hi!")]
    assert stored.content.content == "Hi"


def test_the_live_message_is_not_changed() -> None:
    given = message(TextPart(text="Hi<working_memory>x</working_memory>"), call("partial-call"))
    before = given.to_dict()
    storable(given)
    assert given.to_dict() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<working_memory>x</working_memory>b<working_memory>y</working_memory>c", "abc"),
        ("a<working_memory>x<working_memory>y</working_memory>b", "ab"),
        ("a<working_memory>never closed", "a<working_memory>never closed"),
        ("a</working_memory>b", "a</working_memory>b"),
        ("", ""),
    ],
)
def test_only_closed_tags_are_cut(text: str, expected: str) -> None:
    """R13.12"""
    assert without_working_memory(text) == expected
