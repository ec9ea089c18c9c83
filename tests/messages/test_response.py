from __future__ import annotations

from typing import Any

import pytest

from interlock.messages import Message, MessageContent, MessageList
from interlock.messages.parts import DataPart, ReasoningPart, StepStartPart, ToolInvocationPart
from tests.messages.builders import assistant, at, call, done, ids, kinds, pairs, prompt, said, text, user


def data(name: str = "x", value: Any = 1) -> DataPart:
    return DataPart(type=f"data-{name}", data=value)


def asked(words: str = "q") -> MessageList:
    return MessageList(thread_id="t").add(words, "input")


def answer(message_list: MessageList) -> list[str]:
    """The part types of the response, its texts spelled out."""
    return [
        getattr(part, "text", part.type) if part.type == "text" else part.type
        for one in message_list.get.response.db()
        for part in one.content.parts
    ]


def test_the_first_parts_make_a_response_message() -> None:
    """R4.7"""
    message_list = asked()
    part = text("a")
    message = message_list.append_response([part, call(), text("b")], message_id="r")
    assert message is message_list.get_by_id("r")
    assert message is not None
    assert message.content.parts[0] is part
    assert kinds(message) == ["text", "tool-invocation", "step-start", "text"]
    assert message.content.content == "a\nb"
    assert (message.role, message.thread_id, message_list.source_of("r")) == ("assistant", "t", "response")


def test_no_parts_make_no_message() -> None:
    """R4.7"""
    message_list = asked()
    assert message_list.append_response([], message_id="r") is None
    assert len(message_list) == 1


def test_a_later_step_opens_with_its_model() -> None:
    """R3.19"""
    message_list = asked()
    message_list.append_response([text("OK"), done()], message_id="r", model="m0")
    message_list.append_response([text("OK")], message_id="r", model="m1")
    (message,) = message_list.get.response.db()
    assert message.content.parts[2] == StepStartPart(model="m1")
    assert answer(message_list) == ["OK", "tool-invocation", "step-start", "OK"]
    assert message.content.content == "OK"


def test_a_remembered_answer_is_extended() -> None:
    """R3.17"""
    message_list = MessageList().add(
        [user("q", id="q", created_at=at(0)), assistant("a", id="a", created_at=at(1))], "memory"
    )
    message = message_list.append_response([text("b")], message_id="r", model="m")
    assert message is not None
    assert (message.id, kinds(message), message_list.source_of("a")) == (
        "a",
        ["text", "step-start", "text"],
        "response",
    )


@pytest.mark.parametrize(
    "last",
    [
        assistant("a", id="a", metadata={"mastra": {"sealed": True}}),
        assistant(data(), id="a"),
        assistant("a", id="a", thread_id="other"),
        user("a", id="a"),
    ],
    ids=["sealed", "data-only", "thread", "user"],
)
def test_a_message_that_cannot_be_extended_is_left_alone(last: Any) -> None:
    """R3.17"""
    message_list = MessageList(thread_id="t").add(last, "input")
    message = message_list.append_response([text("b")], message_id="r")
    assert message is not None
    assert (message.id, ids(message_list)) == ("r", ["a", "r"])


def test_context_is_not_extended() -> None:
    """R13.12"""
    message_list = MessageList().add(assistant("c", id="c"), "context")
    message_list.append_response([text("b")], message_id="r")
    assert (message_list.source_of("c"), message_list.source_of("r")) == ("context", "response")


def test_a_response_behind_a_new_question_gets_an_id_of_its_own() -> None:
    """R3.12, R3.15"""
    message_list = asked()
    message_list.append_response([text("a")], message_id="r")
    message_list.add("and?", "input")
    message = message_list.append_response([text("b")], message_id="r")
    assert message is not None
    assert message.id != "r"
    assert [words for _, words in said(message_list)] == ["q", "a", "and?", "b"]


def test_broken_characters_are_mended_before_storage() -> None:
    """FR-080"""
    message_list = asked()
    broken = [
        text("a\ud83d"),
        ReasoningPart(reasoning="\ud83c\udf89"),
        done(result={"x": "\udc00"}, args={"y": "\ud800"}),
    ]
    message_list.append_response(list(broken), message_id="r")
    assert message_list.get.response.db()[0].content.parts == [
        text("a\ufffd"),
        ReasoningPart(reasoning="🎉"),
        done(result={"x": "\ufffd"}, args={"y": "\ufffd"}),
    ]


def test_a_late_result_updates_the_call_of_an_earlier_step() -> None:
    """R3.18, R10.12"""
    message_list = asked()
    message_list.append_response([call("w", provider_executed=True), done("c1")], message_id="r")
    message_list.append_response([done("w", provider_executed=True), text("b")], message_id="r")
    assert answer(message_list) == ["tool-invocation", "tool-invocation", "step-start", "b"]
    part = message_list.find_tool_invocation("w")
    assert part is not None
    assert part.tool_invocation.state == "result"


def test_several_appends_of_one_attempt_open_one_step() -> None:
    """R3.19, R10.12"""
    message_list = asked()
    message_list.append_response([text("a")], message_id="r", model="m")
    message_list.response_snapshot()
    message_list.append_response([call("w", provider_executed=True)], message_id="r", model="m")
    message_list.append_response([ReasoningPart(reasoning="hm")], message_id="r", model="m")
    assert answer(message_list) == ["a", "step-start", "tool-invocation", "reasoning"]


def test_data_goes_to_the_current_response() -> None:
    """R9.4, R9.7"""
    message_list = asked()
    message_list.append_response([text("a")], message_id="r")
    message_list.append_data_part(data(value=1))
    message_list.append_data_part(data(value=1), message_id="r")
    assert answer(message_list) == ["a", "data-x", "data-x"]


def test_data_makes_the_response_it_is_meant_for() -> None:
    """R9.6"""
    message_list = asked()
    message_list.response_snapshot()
    assert message_list.append_data_part(data(), message_id="r").id == "r"
    message_list.append_response([text("a")], message_id="r", model="m")
    assert (ids(message_list)[1:], answer(message_list)) == (["r"], ["data-x", "a"])


def test_data_for_nobody_makes_a_response() -> None:
    """R9.6"""
    message_list = asked()
    message = message_list.append_data_part(data())
    assert message_list.get.response.db() == [message]


def test_data_for_a_remembered_message_is_saved_with_it() -> None:
    """R9.4, R9.6"""
    message_list = MessageList().add([user("q", id="q"), assistant("a", id="a")], "memory")
    message_list.append_data_part(data(), message_id="a")
    message_list.append_data_part(data(), message_id="q")
    assert [message_list.source_of(one) for one in ("q", "a")] == ["input", "response"]


def test_data_for_context_stays_context() -> None:
    """R9.6, R13.12"""
    message_list = MessageList().add(assistant("a", id="a"), "context")
    message_list.append_data_part(data(), message_id="a")
    assert message_list.source_of("a") == "context"


def test_data_written_during_a_step_stands_behind_its_beginning() -> None:
    """R3.19, R9.7"""
    message_list = asked()
    message_list.append_response([text("a"), done()], message_id="r", model="m0")
    message_list.response_snapshot()
    message_list.append_data_part(data(), message_id="r")
    message_list.append_response([text("b")], message_id="r", model="m1")
    assert answer(message_list) == ["a", "tool-invocation", "step-start", "data-x", "b"]


def test_data_never_reaches_a_prompt() -> None:
    """R9.11"""
    message_list = asked()
    message_list.append_data_part(data(), message_id="r")
    assert pairs(prompt(message_list)) == [("user", ["q"])]


def test_a_rejected_first_attempt_leaves_nothing() -> None:
    """R7.9"""
    message_list = asked()
    snapshot = message_list.response_snapshot()
    message_list.append_data_part(data(), message_id="r")
    message_list.append_response([text("bad"), call()], message_id="r")
    message_list.update_tool_invocation(done())
    message_list.restore_response(snapshot)
    assert said(message_list) == [("user", "q")]
    assert pairs(prompt(message_list)) == [("user", ["q"])]


def test_a_rejected_later_attempt_leaves_the_accepted_steps() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([text("a"), done()], message_id="r", model="m")
    before = message_list.serialize()
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad"), call("c2")], message_id="r", model="m")
    message_list.update_tool_invocation(done("c2"), {"note": 1})
    message_list.append_data_part(data())
    message_list.restore_response(snapshot)
    after = message_list.serialize()
    assert (after["messages"], after["system"]) == (before["messages"], before["system"])


def test_an_attempt_can_be_rejected_again_and_again() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([text("a")], message_id="r", model="m")
    for words in ("bad", "worse", "good"):
        snapshot = message_list.response_snapshot()
        message_list.append_response([text(words)], message_id="r", model="m")
        if words != "good":
            message_list.restore_response(snapshot)
    assert answer(message_list) == ["a", "step-start", "good"]


def test_what_input_hooks_added_stays() -> None:
    """R7.9"""
    message_list = asked()
    message_list.add("context", "context")
    snapshot = message_list.response_snapshot()
    message_list.add("note", "input")
    message_list.append_response([text("bad")], message_id="r")
    message_list.restore_response(snapshot)
    assert [words for _, words in said(message_list)] == ["q", "context", "note"]


def test_a_message_that_took_the_place_of_a_response_is_left_as_it_is() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([text("a"), call()], message_id="r")
    snapshot = message_list.response_snapshot()
    message_list.add(Message(id="r", role="user", content=MessageContent(parts=[])), "input", merge=False)
    before = message_list.serialize()["messages"]
    message_list.restore_response(snapshot)
    assert message_list.serialize()["messages"] == before
    assert pairs(prompt(message_list)) == [("user", ["q"])]


def test_what_was_removed_meanwhile_stays_removed() -> None:
    """R7.16"""
    message_list = asked()
    message_list.append_response([text("a")], message_id="r")
    snapshot = message_list.response_snapshot()
    message_list.remove_by_ids(["r"])
    message_list.restore_response(snapshot)
    assert said(message_list) == [("user", "q")]


def test_a_late_result_of_a_rejected_attempt_is_taken_back() -> None:
    """R7.9, R10.12"""
    message_list = asked()
    pending = call("w", provider_executed=True, args={"q": 1})
    message_list.append_response([pending], message_id="r")
    snapshot = message_list.response_snapshot()
    message_list.append_response([done("w", result="late"), text("bad")], message_id="r")
    message_list.restore_response(snapshot)
    (message,) = message_list.get.response.db()
    assert message.content.parts == [call("w", provider_executed=True, args={"q": 1})]


def test_calls_that_share_an_id_are_put_back_each_as_it_was() -> None:
    """R7.9, FR-095"""
    message_list = asked()
    message_list.add(assistant(call(args={"x": 1}), done(args={"x": 2}), id="r"), "response", merge=False)
    before = message_list.serialize()["messages"]
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad")], message_id="r", model="m")
    message_list.restore_response(snapshot)
    assert message_list.serialize()["messages"] == before


def test_a_result_for_a_remembered_call_is_taken_back() -> None:
    """R7.9"""
    message_list = MessageList().add([assistant(call(), id="a"), user("q", id="q")], "memory")
    snapshot = message_list.response_snapshot()
    message_list.update_tool_invocation(done(), {"note": 1})
    message_list.restore_response(snapshot)
    stored = message_list.get_by_id("a")
    assert stored is not None
    assert (stored.content.parts, stored.content.metadata, message_list.source_of("a")) == ([call()], None, "memory")


def test_an_extended_remembered_answer_is_cut_back() -> None:
    """R7.9"""
    message_list = MessageList().add(assistant("a", id="a"), "memory")
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad")], message_id="r", model="m")
    message_list.restore_response(snapshot)
    assert (said(message_list), message_list.source_of("a")) == ([("assistant", "a")], "memory")


def test_data_for_an_older_message_is_taken_back() -> None:
    """R7.9"""
    message_list = MessageList().add([assistant("a", id="a"), user("q", id="q")], "memory")
    snapshot = message_list.response_snapshot()
    message_list.append_data_part(data(), message_id="a")
    message_list.restore_response(snapshot)
    stored = message_list.get_by_id("a")
    assert stored is not None
    assert (kinds(stored), message_list.source_of("a")) == (["text"], "memory")


def test_edits_of_accepted_steps_by_a_hook_survive() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([text("a"), done()], message_id="r", model="m")
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad")], message_id="r", model="m")
    (message,) = message_list.get.response.db()
    message.content.parts = [
        text(part.text.upper()) if part.type == "text" else part  # type: ignore[attr-defined]
        for part in message.content.parts
    ]
    message_list.restore_response(snapshot)
    assert answer(message_list) == ["A", "tool-invocation"]


def test_rejected_parts_go_though_a_hook_removed_accepted_ones() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([ReasoningPart(reasoning="x"), text("a"), done()], message_id="r", model="m")
    snapshot = message_list.response_snapshot()
    message_list.append_response([ReasoningPart(reasoning="y"), text("bad")], message_id="r", model="m")
    (message,) = message_list.get.response.db()
    message.content.parts = [part for part in message.content.parts if part.type != "reasoning"]
    message_list.restore_response(snapshot)
    assert answer(message_list) == ["a", "tool-invocation"]


def test_rejected_parts_go_though_a_hook_returned_copies() -> None:
    """R7.9"""
    message_list = asked()
    message_list.append_response([text("a"), done()], message_id="r", model="m")
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad"), call("c2")], message_id="r", model="m")
    stage = message_list.get.all.db()
    message_list.reconcile([one.to_dict() for one in stage], stage, "response")
    message_list.restore_response(snapshot)
    assert answer(message_list) == ["a", "tool-invocation"]


def test_the_last_snapshot_survives_storage() -> None:
    """R3.26, R7.11"""
    message_list = asked()
    message_list.append_response([text("a"), call("w", provider_executed=True)], message_id="r", model="m")
    message_list.response_snapshot()
    message_list.append_response([done("w"), text("bad"), call("c2")], message_id="r", model="m")
    restored = MessageList.deserialize(message_list.serialize())
    restored.restore_response()
    assert answer(restored) == ["a", "tool-invocation"]
    part = restored.find_tool_invocation("w")
    assert isinstance(part, ToolInvocationPart)
    assert part.tool_invocation.state == "call"


def test_data_for_an_assistant_message_of_the_caller_makes_it_a_response() -> None:
    """R9.4"""
    message_list = MessageList().add(assistant("a", id="a"), "input")
    message_list.append_data_part(data(), message_id="a")
    assert message_list.source_of("a") == "response"
