"""An attempt whose snapshot waits for the first change is undone like one whose snapshot is taken at once (R7.9)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.messages import MessageList
from interlock.messages.parts import DataPart, ReasoningPart, StepStartPart, ToolInvocationPart
from tests.messages.builders import assistant, at, call, done, text, user

Change = Callable[[MessageList], object]


def append(*make: Callable[[], Any]) -> Change:
    return lambda messages: messages.append_response([one() for one in make], message_id="r", model="m")


def record(call_id: str, result: Any = "new", metadata: Any = None) -> Change:
    """The run records the result in the part that it holds, live or not."""

    def change(messages: MessageList) -> None:
        part = messages.peek_tool_invocation(call_id) or call(call_id)
        messages.record_result(part, result, metadata)

    return change


def rewrite(messages: MessageList) -> None:
    for message in messages.get.all.db():
        for part in message.content.parts:
            if isinstance(part, ToolInvocationPart):
                part.tool_invocation.result = "edited"


def drop_first_parts(messages: MessageList) -> None:
    for message in messages.get.response.db():
        del message.content.parts[:1]


BEFORE: dict[str, Change] = {
    "nothing": lambda messages: None,
    "a step": append(lambda: text("a")),
    "a step with an open call": append(lambda: text("a"), lambda: call("c1"), lambda: call("c2")),
    "a step with an answered call": append(lambda: done("c1")),
    "a step that opened the next": append(lambda: text("a"), StepStartPart),
    "a remembered answer": lambda messages: messages.add(
        assistant("old", call("c1"), id="m", created_at=at(0)), "memory"
    ),
    "an answer with mirrors": lambda messages: messages.add(
        assistant("old", call("c1"), id="r", tool_invocations=[call("c1").tool_invocation.to_dict()]), "response"
    ),
    "an answer with the mirror of a call that is to come": lambda messages: messages.add(
        assistant("old", id="r", tool_invocations=[call("c3").tool_invocation.to_dict()]), "response"
    ),
    "a sealed answer": lambda messages: messages.add(
        assistant("old", id="r", metadata={"mastra": {"sealed": True}}), "response"
    ),
    "a step that somebody holds": lambda messages: (append(lambda: call("c1"))(messages), messages.expose()),
}

CHANGES: dict[str, Change] = {
    "text": append(lambda: text("b")),
    "broken text": append(lambda: text("\ud83d")),
    "two texts": append(lambda: text("b"), lambda: text("c")),
    "a call": append(lambda: call("c3", args={"x": 1})),
    "a known call": append(lambda: call("c1", args={"x": 1})),
    "the same call twice": append(lambda: call("c4"), lambda: done("c4")),
    "a call and text": append(lambda: call("c5"), lambda: text("d")),
    "reasoning": append(lambda: ReasoningPart(reasoning="why"), lambda: text("e")),
    "a step of its own": append(StepStartPart, lambda: text("f")),
    "data": lambda messages: messages.append_data_part(DataPart(type="data-x", data=1), message_id=None),
    "result of an old call": record("c1"),
    "result of a new call": record("c3", {"y": 2}, {"provider": {"a": 1}}),
    "result of no call": record("c9"),
    "update": lambda messages: messages.update_tool_invocation(done("c1", "other"), {"note": 1}),
    "question": lambda messages: messages.add("again", "input"),
    "answer of a hook": lambda messages: messages.add(assistant("mine", id="h"), "response"),
    "removal": lambda messages: messages.remove_by_ids(["r"]),
    "clearing": lambda messages: messages.clear.response.db(),
    "edits in place": rewrite,
    "removed parts": drop_first_parts,
    "exposure": lambda messages: messages.expose(),
    "prompt": lambda messages: messages.prompt_for_model(),
}


def told(messages: MessageList) -> dict[str, Any]:
    """All there is to know of a list, but for the moments at which messages were made."""
    out = messages.serialize()
    for entry in out["messages"]:
        entry["message"].pop("createdAt")
    return out


def lists(before: str) -> tuple[MessageList, MessageList]:
    made = []
    for _ in range(2):
        numbers = count()
        messages = MessageList(generate_message_id=lambda numbers=numbers: f"id-{next(numbers)}")  # type: ignore[misc]
        BEFORE[before](messages.add(user("q", id="q"), "input"))
        made.append(messages)
    return made[0], made[1]


@given(
    before=st.sampled_from(sorted(BEFORE)),
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=5),
    is_stored=st.booleans(),
)
def test_it_makes_no_difference_when_the_snapshot_is_taken(before: str, changes: list[str], is_stored: bool) -> None:
    """R7.9, R3.26"""
    eager, waiting = lists(before)
    eager.response_snapshot()
    waiting.begin_attempt()
    for name in changes:
        CHANGES[name](eager)
        CHANGES[name](waiting)
    if is_stored:
        assert told(eager) == told(waiting)
        eager, waiting = (MessageList.deserialize(one.serialize()) for one in (eager, waiting))
    assert eager.prompt_for_model() == waiting.prompt_for_model()
    eager.restore_response()
    waiting.restore_response()
    assert told(eager) == told(waiting)
    assert eager.prompt_for_model() == waiting.prompt_for_model()


@pytest.mark.parametrize("before", ["nothing", "a step", "a step with an open call", "a step with an answered call"])
def test_an_ordinary_step_is_taken_out_without_a_trace(before: str) -> None:
    """R7.9"""
    messages, _ = lists(before)
    was = told(messages)
    messages.begin_attempt()
    part = call("c7", args={"x": 1})
    messages.append_response([text("b"), part], message_id="r", model="m")
    assert messages.record_result(part, "r")
    messages.restore_response()
    assert {**told(messages), "attempt": None} == {**was, "attempt": None}


def test_a_result_goes_into_the_part_that_the_run_holds() -> None:
    """R10.7"""
    messages, _ = lists("a step")
    messages.begin_attempt()
    part = call("c7", provider_metadata={"mastra": {"modelOutput": "old"}, "provider": {"a": 1}})
    messages.append_response([part], message_id="r", model="m")
    assert messages.record_result(part, "\ud83d", {"provider": {"b": 2}})
    assert messages.find_tool_invocation("c7") is part
    assert part.tool_invocation.state == "result"
    assert part.tool_invocation.result == "\ufffd"
    assert part.provider_metadata == {"provider": {"a": 1, "b": 2}}


def test_a_result_goes_into_the_copy_that_a_hook_put_in_place_of_the_part() -> None:
    """R3.20, R10.7"""
    messages, _ = lists("nothing")
    messages.begin_attempt()
    part = call("c7")
    messages.append_response([part], message_id="r", model="m")
    copy = call("c7", args={"x": 2})
    messages.get.response.db()[0].content.parts = [copy]
    assert messages.record_result(part, "r")
    assert copy.tool_invocation.result == "r"
    assert copy.tool_invocation.args == {"x": 2}
    assert part.tool_invocation.state == "call"
