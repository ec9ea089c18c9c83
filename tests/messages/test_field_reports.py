"""Cases that users of other frameworks ran into."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.messages import MessageList
from tests.messages.builders import ids, pairs, prompt, said

Item = dict[str, Any]


def asks(message_id: str, words: str, **fields: Any) -> Item:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": words}], **fields}


def says(message_id: str, words: str, **fields: Any) -> Item:
    return {**asks(message_id, words, **fields), "role": "assistant"}


def calls(message_id: str, *call_ids: str, **fields: Any) -> Item:
    parts = [{"type": "tool-call", "toolCallId": one, "toolName": "t", "args": {}} for one in call_ids]
    return {"id": message_id, "role": "assistant", "parts": parts, **fields}


def results(message_id: str, *call_ids: str, value: str = "x", **fields: Any) -> Item:
    parts = [{"type": "tool-result", "toolCallId": one, "toolName": "t", "result": value} for one in call_ids]
    return {"id": message_id, "role": "tool", "parts": parts, **fields}


def assert_pairs_are_valid(sent: list[dict[str, Any]]) -> None:
    """Every call is answered, once, by the tool message directly behind it, and nothing else is."""
    open_calls: list[str] = []
    for one in sent:
        if one["role"] == "tool":
            assert [part["toolCallId"] for part in one["content"]] == open_calls
            open_calls = []
            continue
        assert open_calls == []
        if one["role"] == "assistant":
            open_calls = [part["toolCallId"] for part in one["content"] if part["type"] == "tool-call"]
    assert open_calls == []


BROKEN_PAIRS = {
    "call without result": [asks("u1", "a"), calls("a1", "c1"), asks("u2", "b")],
    "result without call": [asks("u1", "a"), results("tr1", "c9"), asks("u2", "b")],
    "result before its call": [asks("u1", "a"), results("tr0", "c1"), calls("a1", "c1"), asks("u2", "b")],
    "two results": [
        asks("u1", "a"),
        calls("a1", "c1"),
        results("r1", "c1"),
        results("r2", "c1", value="y"),
        asks("u2", "b"),
    ],
}


@pytest.mark.parametrize("source", ["input", "memory"])
@pytest.mark.parametrize("case", BROKEN_PAIRS)
def test_a_broken_pair_does_not_make_every_later_turn_fail(case: str, source: str) -> None:
    """FR-082"""
    message_list = MessageList().add(BROKEN_PAIRS[case], source)
    sent = prompt(message_list)
    assert_pairs_are_valid(sent)
    assert [what for role, what in pairs(sent) if role == "user"] == [["a"], ["b"]]
    assert sum(role == "tool" for role, _ in pairs(sent)) == (case != "call without result")


def test_parallel_calls_that_were_answered_in_part() -> None:
    """FR-083"""
    message_list = MessageList()
    message_list.add(
        [asks("u1", "go"), calls("a1", "c1", "c2", "c3", "c4"), results("r1", "c1", "c3"), asks("u2", "next")], "memory"
    )
    sent = prompt(message_list)
    assert_pairs_are_valid(sent)
    assert pairs(sent) == [("user", ["go"]), ("assistant", ["c1", "c3"]), ("tool", ["c1", "c3"]), ("user", ["next"])]


MOMENT = {"createdAt": "2026-01-01T00:00:00.000Z"}


@pytest.mark.parametrize("dates", [MOMENT, {}], ids=["equal", "none"])
def test_equal_dates_never_reorder(dates: Item) -> None:
    """FR-084"""
    items = [
        asks("m1", "q1", **dates),
        calls("m2", "c1", **dates),
        results("m3", "c1", **dates),
        says("m4", "done", **dates),
        asks("m5", "q2", **dates),
    ]
    message_list = MessageList().add(items, "memory")
    assert ids(message_list) == ["m1", "m2", "m4", "m5"]
    restored = MessageList.deserialize(message_list.serialize())
    reloaded = MessageList().add([one.to_dict() for one in restored.get.all.db()], "memory")
    for one in (message_list, restored, reloaded):
        assert pairs(prompt(one)) == [
            ("user", ["q1"]),
            ("assistant", ["c1"]),
            ("tool", ["c1"]),
            ("assistant", ["done"]),
            ("user", ["q2"]),
        ]


def test_call_ids_that_repeat_over_turns_keep_their_own_results() -> None:
    """FR-095"""
    message_list = MessageList()
    for turn, city in enumerate(("Oslo", "Rome")):
        one = calls(f"a{turn}", "call_1")
        one["parts"][0]["args"] = {"city": city}
        message_list.add([asks(f"u{turn}", city), one, results(f"r{turn}", "call_1", value=city)], "input")
    sent = prompt(message_list)
    assert_pairs_are_valid(sent)
    asked = [part["input"]["city"] for one in sent for part in one["content"] if part["type"] == "tool-call"]
    told = [part["output"]["value"] for one in sent for part in one["content"] if part["type"] == "tool-result"]
    assert asked == told == ["Oslo", "Rome"]


def test_parts_are_stored_in_the_order_of_the_stream() -> None:
    """FR-119"""
    message_list = MessageList().add("q", "input")
    for step, words in enumerate("ABC"):
        text = says("x", words)["parts"]
        tool = calls("x", f"c{step}")["parts"] if words != "C" else []
        message_list.add({"id": "r", "role": "assistant", "content": [*text, *tool]}, "response")
    stored = MessageList.deserialize(message_list.serialize()).get.response.db()
    order = [
        getattr(part, "text", None) or part.tool_invocation.tool_call_id  # type: ignore[attr-defined]
        for one in stored
        for part in one.content.parts
        if part.type != "step-start"
    ]
    assert order == ["A", "c0", "B", "c1", "C"]


def test_a_turn_without_a_question_can_be_sent() -> None:
    """A client that continues after its own tool sends the call and the result only."""
    message_list = MessageList().add([calls("a1", "c1"), results("r1", "c1")], "input")
    assert pairs(prompt(message_list)) == [("assistant", ["c1"]), ("tool", ["c1"])]
    assert said(message_list) == [("assistant", "")]
