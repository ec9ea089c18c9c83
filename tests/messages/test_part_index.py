from __future__ import annotations

from typing import Any, SupportsIndex

from interlock.messages import MessageList, Part
from interlock.messages._part_index import PartIndex
from interlock.messages.parts import DataPart, StepStartPart
from tests.messages.builders import call, done, text


class CountedParts(list[Part]):
    """Counts how often a part of it is read."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, SupportsIndex):
            self.reads += 1
        return super().__getitem__(key)


def test_a_call_is_found_by_its_id_and_the_newest_one_wins() -> None:
    """R3.18"""
    older, newer = call("c1"), call("c1")
    index = PartIndex([text("a"), older, newer])
    assert index.find("c1") is newer
    assert index.find("c2") is None


def test_calls_without_an_id_are_never_the_same() -> None:
    """R3.18"""
    assert PartIndex([call("")]).find("") is None


def test_parts_that_are_appended_are_read_and_no_others_again() -> None:
    """Cost: a long response is read once, not at each step."""
    parts = CountedParts([StepStartPart(), call("c1")])
    index = PartIndex(parts)
    for number in range(2, 50):
        parts += [StepStartPart(), call(f"c{number}")]
        assert index.find(f"c{number}") is parts[-1]
        assert index.steps == number
    assert parts.reads <= 3 * len(parts)


def test_a_call_is_open_until_it_has_an_outcome() -> None:
    """R4.4"""
    pending = call("c2")
    index = PartIndex([done("c1"), pending])
    assert index.has_open_calls()
    pending.tool_invocation.state = "result"
    assert not index.has_open_calls()


def test_what_is_put_between_parts_is_seen() -> None:
    """R7.9"""
    message_list = MessageList().add("q", "input")
    message_list.append_response([text("a")], message_id="r", model="m")
    message_list.response_snapshot()
    message_list.append_data_part(DataPart(type="data-x", data=1), message_id="r")
    message_list.append_response([text("b")], message_id="r", model="m")
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("bad")], message_id="r", model="m")
    message_list.restore_response(snapshot)
    parts = message_list.get.response.db()[0].content.parts
    assert [part.type for part in parts] == ["text", "step-start", "data-x", "text"]
