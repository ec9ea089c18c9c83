from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock.messages import MessageList, pending_tool_invocations
from interlock.messages.parts import ToolInvocationPart
from tests.messages.builders import assistant, at, call, done, prompt, user


def invocation(message_list: MessageList, call_id: str = "c1") -> Any:
    part = message_list.find_tool_invocation(call_id)
    assert part is not None
    return part.tool_invocation


def test_the_result_is_recorded_and_the_original_arguments_are_kept() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call(args={"x": 1}, title="T", provider_executed=True)), "response")
    assert message_list.update_tool_invocation(done(args={"x": 2}, result="new", name="other")) is True
    part = message_list.find_tool_invocation("c1")
    assert part == done(args={"x": 1}, result="new", title="T", provider_executed=True)


def test_the_part_may_be_a_dict() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call()), "response")
    assert message_list.update_tool_invocation(done(result=5).to_dict())
    assert invocation(message_list).result == 5


def test_the_newest_call_of_that_id_is_meant() -> None:
    """R3.20"""
    message_list = MessageList()
    message_list.add([assistant(call(), id="a"), user("x"), assistant(call(), id="b")], "input")
    message_list.update_tool_invocation(done())
    states = [
        one.content.parts[0].tool_invocation.state for one in message_list.get.all.db() if one.role == "assistant"
    ]  # type: ignore[attr-defined]
    assert states == ["call", "result"]


def test_provider_metadata_is_merged_by_namespace_and_key() -> None:
    """R3.20"""
    old = {"a": {"x": 1, "y": 1}, "b": {"z": 1}}
    message_list = MessageList().add(assistant(call(provider_metadata=old)), "response")
    message_list.update_tool_invocation(done(provider_metadata={"a": {"y": 2}, "c": {"w": 3}}))
    part = message_list.find_tool_invocation("c1")
    assert part is not None
    assert part.provider_metadata == {"a": {"x": 1, "y": 2}, "b": {"z": 1}, "c": {"w": 3}}


def test_metadata_goes_to_the_message() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call(), metadata={"a": 1}), "response")
    message_list.update_tool_invocation(done(), {"b": 2})
    assert message_list.get.all.db()[0].content.metadata == {"a": 1, "b": 2}


def test_the_legacy_mirror_stays_in_step() -> None:
    """R3.20, R4.2"""
    mirror = [{"state": "call", "toolCallId": "c1", "toolName": "t", "args": {}}]
    message_list = MessageList().add(assistant(call(), tool_invocations=mirror), "response")
    message_list.update_tool_invocation(done(result=5))
    assert message_list.get.all.db()[0].content.tool_invocations == [
        {"state": "result", "toolCallId": "c1", "toolName": "t", "args": {}, "result": 5}
    ]


def test_the_message_becomes_a_response() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call(), id="m"), "memory")
    message_list.update_tool_invocation(done())
    assert message_list.source_of("m") == "response"


def test_a_context_message_stays_context() -> None:
    """R3.20, R13.12"""
    message_list = MessageList().add(assistant(call(), id="m"), "context")
    assert message_list.update_tool_invocation(done())
    assert message_list.source_of("m") == "context"


def test_an_unknown_call_changes_nothing_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call()), "response")
    with caplog.at_level(logging.WARNING, "interlock"):
        assert message_list.update_tool_invocation(done("c2")) is False
    assert "'c2'" in caplog.text
    assert invocation(message_list).state == "call"


def test_a_part_without_call_id_is_refused() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(call("")), "response")
    assert message_list.update_tool_invocation(done("")) is False
    assert message_list.update_tool_invocation({"type": "text", "text": "x"}) is False


def test_a_provider_call_of_the_same_tool_takes_the_new_id() -> None:
    """R3.20"""
    mirror = [{"state": "call", "toolCallId": "old", "toolName": "t", "args": {}}]
    part = call("old", provider_executed=True, args={"q": 1})
    message_list = MessageList().add(assistant(part, tool_invocations=mirror), "response")
    assert message_list.update_tool_invocation(done("new", result=5))
    assert (invocation(message_list, "new").result, invocation(message_list, "new").args) == (5, {"q": 1})
    (legacy,) = message_list.get.all.db()[0].content.tool_invocations or []
    assert legacy["toolCallId"] == "new"


def test_a_result_can_be_changed_again() -> None:
    """R3.20"""
    message_list = MessageList().add(assistant(done(result="raw")), "response")
    assert message_list.update_tool_invocation(done(result="clean"))
    assert invocation(message_list).result == "clean"


def test_a_call_can_be_made_to_fail() -> None:
    """R3.20, R10.8"""
    message_list = MessageList().add(assistant(done(result="raw")), "response")
    message_list.update_tool_invocation(call(state="output-error", error_text="no"))
    assert (invocation(message_list).error_text, invocation(message_list).result) == ("no", None)


def test_references_taken_before_see_the_result() -> None:
    """R3.8, R3.20"""
    message_list = MessageList().add(assistant(call()), "response")
    part = message_list.get.all.db()[0].content.parts[0]
    message_list.update_tool_invocation(done(result=5))
    assert isinstance(part, ToolInvocationPart)
    assert part.tool_invocation.result == 5


def test_lone_surrogates_in_a_result_are_replaced_before_storage() -> None:
    """FR-080"""
    message_list = MessageList().add(assistant(call()), "response")
    message_list.update_tool_invocation(done(result={"a\ud83d": ["bad \ud83d…", "\ud83c\udf89"]}))
    assert invocation(message_list).result == {"a\ufffd": ["bad \ufffd…", "🎉"]}


def test_the_next_prompt_has_the_result() -> None:
    """R10.7"""
    message_list = MessageList().add(assistant(call()), "response")
    assert prompt(message_list) == []
    message_list.update_tool_invocation(done(result="clean"))
    assert prompt(message_list)[1]["content"][0]["output"] == {"type": "text", "value": "clean"}


def test_pending_calls_of_a_message_are_listed() -> None:
    """R4.4"""
    states = [
        "partial-call",
        "call",
        "approval-requested",
        "approval-responded",
        "result",
        "output-error",
        "output-denied",
    ]
    message = assistant(*(call(state, state=state) for state in states), created_at=at(1))
    assert [part.tool_invocation.tool_call_id for part in pending_tool_invocations(message)] == states[:4]
