from __future__ import annotations

from typing import Any

import pytest

from interlock.chunks import Chunk, ToolCall, ToolInputDelta, ToolInputStart
from interlock.models.streamed_calls import CallIds, StreamedCalls, parsed_args
from interlock.testing import types_of


def assembled(*pieces: dict[str, Any], taken: tuple[str, ...] = ()) -> list[Chunk]:
    calls = StreamedCalls(CallIds(taken))
    out: list[Chunk] = []
    for piece in pieces:
        calls.piece(out, **{"index": None, "provider_id": None, "name": None, "args_text": None, **piece})
    calls.finish(out)
    return out


def whole(chunks: list[Chunk]) -> list[tuple[str, Any]]:
    return [(chunk.payload.tool_name, chunk.payload.args) for chunk in chunks if isinstance(chunk, ToolCall)]


@pytest.mark.parametrize(
    ("text", "args"),
    [("", {}), ("  ", {}), (None, {}), ('{"a":1}', {"a": 1}), ("[1]", [1]), ("{oops", "{oops"), ({"a": 1}, {"a": 1})],
)
def test_arguments_are_parsed_where_they_can_be(text: Any, args: Any) -> None:
    """R5.6"""
    assert parsed_args(text) == args


def test_a_provider_id_is_used_once() -> None:
    """R5.6"""
    ids = CallIds([{"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "old"}]}])
    assert ids.unique("new") == "new"
    others = [ids.unique(given) for given in ("new", "old", "", None)]
    assert len({"new", "old", *others}) == 6


def test_a_name_that_comes_late_holds_the_pieces_back() -> None:
    """R5.6"""
    chunks = assembled({"index": 0, "args_text": '{"a"'}, {"index": 0, "name": "f"}, {"index": 0, "args_text": ":1}"})
    assert isinstance(chunks[0], ToolInputStart)
    assert [c.payload.args_text_delta for c in chunks if isinstance(c, ToolInputDelta)] == ['{"a"', ":1}"]
    assert whole(chunks) == [("f", {"a": 1})]


def test_an_id_that_comes_late_belongs_to_the_call_at_its_index() -> None:
    """R5.6"""
    chunks = assembled(
        {"index": 0, "name": "f", "args_text": '{"a"'},
        {"index": 0, "provider_id": "x", "args_text": ":1}"},
    )
    assert whole(chunks) == [("f", {"a": 1})]


def test_a_name_repeated_with_every_piece_is_one_call() -> None:
    """R5.6"""
    pieces = ['{"a', '":', "1}"]
    chunks = assembled(*({"index": 0, "provider_id": "x", "name": "f", "args_text": piece} for piece in pieces))
    assert whole(chunks) == [("f", {"a": 1})]
    assert types_of(chunks).count("tool-call-input-streaming-start") == 1


def test_pieces_of_an_earlier_call_find_it_by_id_when_indexes_are_reused() -> None:
    """R5.6"""
    chunks = assembled(
        {"index": 0, "provider_id": "a", "name": "f", "args_text": '{"x"'},
        {"index": 0, "provider_id": "b", "name": "g", "args_text": '{"y"'},
        {"index": 0, "provider_id": "a", "args_text": ":1}"},
        {"index": 0, "provider_id": "b", "args_text": ":2}"},
    )
    assert whole(chunks) == [("f", {"x": 1}), ("g", {"y": 2})]


def test_calls_without_arguments_at_indexes_of_their_own_stay_apart() -> None:
    """R5.6"""
    chunks = assembled(
        {"index": 0, "provider_id": "same", "name": "f"}, {"index": 1, "provider_id": "same", "name": "g"}
    )
    assert whole(chunks) == [("f", {}), ("g", {})]


def test_a_call_that_never_gets_a_name_is_still_reported() -> None:
    """R5.6; the tool phase answers it as an unknown tool"""
    assert whole(assembled({"index": 0, "provider_id": "a", "args_text": "{}"})) == [("", {})]
