from __future__ import annotations

from typing import Any

import pytest

from interlock.messages import MessageList
from interlock.messages.parts import DataPart, ToolApproval
from tests.messages.builders import assistant, at, call, done, ids, kinds, said, text, user


def test_an_assistant_message_is_folded_into_the_last_one() -> None:
    """R3.17"""
    message_list = MessageList()
    message_list.add(assistant("a", id="one", created_at=at(1)), "input").add(assistant("b", id="two"), "response")
    (merged,) = message_list.get.all.db()
    assert (merged.id, merged.created_at) == ("one", at(1))
    assert merged.content.parts == [text("a"), text("b")]


def test_the_merged_message_takes_the_incoming_source() -> None:
    """R3.17"""
    message_list = MessageList().add(assistant("a", id="one"), "memory").add(assistant("b"), "response")
    assert message_list.source_of("one") == "response"


def test_metadata_is_merged_shallowly() -> None:
    """R3.17"""
    message_list = MessageList().add(assistant("a", metadata={"x": {"y": 1}, "z": 1}), "input")
    message_list.add(assistant("b", metadata={"x": {"w": 2}}), "response")
    assert message_list.get.all.db()[0].content.metadata == {"x": {"w": 2}, "z": 1}


def test_the_legacy_content_follows_the_latest_text() -> None:
    """R4.2"""
    message_list = MessageList().add({"role": "assistant", "content": "a"}, "input").add(assistant("b"), "response")
    assert message_list.get.all.db()[0].content.content == "b"


@pytest.mark.parametrize(
    ("first", "second", "source", "merge"),
    [
        (assistant("a"), assistant("b"), "response", False),
        (assistant("a"), assistant("b"), "memory", True),
        (user("a"), assistant("b"), "response", True),
        (assistant("a"), user("b"), "response", True),
        (assistant("a", thread_id="t"), assistant("b", thread_id="u"), "response", True),
        (assistant("a", metadata={"mastra": {"sealed": True}}), assistant("b"), "response", True),
        (assistant(DataPart(type="data-x")), assistant("b"), "response", True),
        (assistant("a", created_at=at(9)), assistant("b", created_at=at(1)), "response", True),
    ],
    ids=["merge=False", "memory", "after-user", "user", "thread", "sealed", "data-only", "older"],
)
def test_messages_that_stay_apart(first: Any, second: Any, source: str, merge: bool) -> None:
    """R3.17"""
    message_list = MessageList().add(first, "input").add(second, source, merge=merge)
    assert len(message_list) == 2


def test_a_data_only_message_of_the_same_id_is_merged_into() -> None:
    """R3.17"""
    message_list = MessageList().add(assistant(DataPart(type="data-x"), id="r"), "response")
    message_list.add(assistant("b", id="r"), "response")
    assert [kinds(one) for one in message_list.get.all.db()] == [["data-x", "text"]]


def test_context_and_saved_messages_are_never_merged() -> None:
    """R3.2, R3.17, R13.12"""
    message_list = MessageList().add(assistant("c"), "context").add(assistant("r"), "response")
    message_list.add(assistant("c2"), "context")
    assert said(message_list) == [("assistant", "c"), ("assistant", "r"), ("assistant", "c2")]


def test_equal_texts_of_two_steps_are_both_kept() -> None:
    """R3.18"""
    message_list = MessageList().add(assistant("OK", done(), id="r"), "response")
    message_list.add(assistant("OK", id="other"), "response")
    assert kinds(message_list.get.all.db()[0]) == ["text", "tool-invocation", "step-start", "text"]


def test_a_call_that_is_there_is_updated_in_place() -> None:
    """R3.18"""
    message_list = MessageList().add(assistant("a", call(args={"x": 1}), "b"), "input")
    message_list.add(assistant(done(result={"y": 2})), "response")
    (merged,) = message_list.get.all.db()
    invocation = merged.content.parts[1].tool_invocation  # type: ignore[attr-defined]
    assert kinds(merged) == ["text", "tool-invocation", "text"]
    assert (invocation.state, invocation.args, invocation.result) == ("result", {"x": 1}, {"y": 2})


def test_a_finished_call_is_never_set_back() -> None:
    """R3.18"""
    message_list = MessageList().add(assistant(done(result="r", args={"x": 1})), "input")
    message_list.add(assistant(call(args={"x": 1})), "response")
    (part,) = message_list.get.all.db()[0].content.parts
    assert part == done(result="r", args={"x": 1})


def test_error_and_approval_are_taken_over() -> None:
    """R3.18"""
    message_list = MessageList().add(assistant(call(args={"x": 1})), "input")
    denial = ToolApproval(id="c1", approved=False, reason="no")
    message_list.add(assistant(call(state="output-denied", approval=denial)), "response")
    invocation = message_list.get.all.db()[0].content.parts[0].tool_invocation  # type: ignore[attr-defined]
    assert (invocation.state, invocation.approval, invocation.args) == ("output-denied", denial, {"x": 1})


def test_a_redelivered_message_adds_only_its_tail() -> None:
    """R3.18"""
    message_list = MessageList().add(assistant("a", call(args={"x": 1}), id="m"), "input")
    message_list.add(assistant("a", done(args={"x": 1}), "b", id="m"), "input")
    (merged,) = message_list.get.all.db()
    assert kinds(merged) == ["text", "tool-invocation", "step-start", "text"]
    assert merged.content.parts[1] == done(args={"x": 1})


def test_a_redelivery_is_known_without_its_times_and_metadata() -> None:
    """R3.18"""
    first = assistant(text("a", created_at=5, provider_metadata={"p": {}}), id="m")
    message_list = MessageList().add(first, "input").add(assistant("a", "b", id="m"), "input")
    assert [part.text for part in message_list.get.all.db()[0].content.parts] == ["a", "b"]  # type: ignore[attr-defined]


def test_a_reused_call_id_is_another_call() -> None:
    """R3.18, FR-095"""
    message_list = MessageList().add(assistant(done(args={"city": "Bern"})), "response")
    message_list.add(assistant(call(args={"city": "Kiel"})), "response")
    states = [
        (part.tool_invocation.state, part.tool_invocation.args["city"])  # type: ignore[attr-defined]
        for part in message_list.get.all.db()[0].content.parts
    ]
    assert states == [("result", "Bern"), ("call", "Kiel")]


def test_text_directly_after_a_call_begins_a_new_step() -> None:
    """R3.19"""
    message_list = MessageList().add(assistant(done()), "response").add(assistant("b"), "response")
    assert kinds(message_list.get.all.db()[0]) == ["tool-invocation", "step-start", "text"]


def test_an_outcome_in_storage_reaches_the_live_call() -> None:
    """R3.15"""
    message_list = MessageList().add(assistant(call("c1"), call("c2"), id="m"), "input")
    message_list.add(assistant(done("c1", result=5), call("c2"), id="m", created_at=at(1)), "memory")
    (live,) = message_list.get.all.db()
    assert [part.tool_invocation.state for part in live.content.parts] == ["result", "call"]  # type: ignore[attr-defined]
    assert message_list.source_of("m") == "input"


def test_tool_results_go_into_the_message_with_the_call() -> None:
    """R3.5"""
    message_list = MessageList().add(
        [
            {
                "role": "assistant",
                "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "t", "args": {"x": 1}}],
            },
            {
                "role": "tool",
                "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": {"y": 2}}],
            },
        ],
        "input",
    )
    (only,) = message_list.get.all.db()
    assert only.content.parts == [done(args={"x": 1}, result={"y": 2})]


def test_a_tool_result_makes_a_remembered_message_new() -> None:
    """R3.5, R12.40"""
    message_list = MessageList().add(assistant(call(), id="m"), "memory")
    message_list.add({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "result": "r"}]}, "input")
    assert message_list.source_of("m") == "input"


def test_a_tool_result_without_a_call_is_kept_as_an_assistant_message() -> None:
    """R3.5"""
    result = {"type": "tool-result", "toolCallId": "c9", "toolName": "t", "result": "x", "input": {"q": 1}}
    message_list = MessageList().add(["a", {"id": "x", "role": "tool", "content": [result]}], "input")
    orphan = message_list.get.all.db()[1]
    assert (orphan.id, orphan.role, orphan.content.parts) == ("x", "assistant", [done("c9", "x", args={"q": 1})])


def test_a_result_that_came_alone_resolves_the_stored_call() -> None:
    """R3.15, R12.40"""
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": {"applied": True}}
    message_list = MessageList().add({"role": "tool", "content": [result]}, "input")
    stored = [user("q", id="q", created_at=at(1)), assistant("let me", call(args={"x": 1}), id="a", created_at=at(2))]
    message_list.add(stored, "memory")
    assert ids(message_list) == ["q", "a"]
    assert message_list.get.all.db()[1].content.parts[1] == done(args={"x": 1}, result={"applied": True})
    assert message_list.source_of("a") == "input"


def test_a_second_result_of_a_call_is_ignored() -> None:
    """R3.5, FR-082"""
    message_list = MessageList().add(assistant(call()), "input")
    for value in ("x", "y"):
        message_list.add(
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "result": value}]}, "input"
        )
    assert message_list.get.all.db()[0].content.parts == [done(result="x")]


def test_results_of_calls_without_ids_are_paired_in_order() -> None:
    """FR-095"""
    message_list = MessageList().add(assistant(call("", args={"c": "Oslo"}), call("", args={"c": "Rome"})), "input")
    results = [{"type": "tool-result", "toolCallId": "", "toolName": "t", "result": city} for city in ("Oslo", "Rome")]
    message_list.add({"role": "tool", "content": results}, "input")
    paired = [
        (part.tool_invocation.args["c"], part.tool_invocation.result)  # type: ignore[attr-defined]
        for part in message_list.get.all.db()[0].content.parts
    ]
    assert paired == [("Oslo", "Oslo"), ("Rome", "Rome")]


def test_only_the_claimed_result_leaves_the_message_it_waited_in() -> None:
    """R3.15, R12.40"""
    results = [{"type": "tool-result", "toolCallId": one, "toolName": "t", "result": one} for one in ("c1", "c9")]
    message_list = MessageList().add({"id": "x", "role": "tool", "content": results}, "input")
    message_list.add(assistant(call("c1"), id="a", created_at=at(1)), "memory")
    held = [[part.tool_invocation.result for part in one.content.parts] for one in message_list.get.all.db()]  # type: ignore[attr-defined]
    assert (ids(message_list), held) == (["a", "x"], [["c1"], ["c9"]])
