"""Answers that are good but told in an odd way, and failures told in an odd way (R5.4, R5.6, R7.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.chunks import Chunk, GenericChunk, TextStart
from interlock.errors import APICallError
from interlock.models.counts import token_count
from interlock.models.reading import read_end, read_event
from interlock.models.sse import EventReader, ServerEvent
from interlock.testing import text_of
from tests.models.readers import HEAD, READERS
from tests.models.reading import calls_of, content, finish_of

FIXTURES = Path(__file__).parent / "fixtures"
BOOKKEEPING = {
    *("index", "output_index", "content_index", "summary_index", "sequence_number", "created", "created_at", "object"),
    *("model", "modelVersion", "createTime", "responseId", "thought", "thoughtSignature", "safetyRatings"),
    *("logprobs", "usage", "usageMetadata", "service_tier", "system_fingerprint", "annotations", "role"),
    *("stop_sequence", "item_id", "obfuscation", "signature", "error", "incomplete_details", "citations", "metadata"),
}
"""Fields that an answer can do without."""
USAGE = ("usage", "usageMetadata")


def recorded(protocol: str, name: str) -> list[dict[str, Any]]:
    data = (FIXTURES / protocol / f"{name}.sse").read_bytes()
    return [json.loads(event.data) for event in EventReader(10_000_000).feed(data) if event.data.startswith("{")]


def read(protocol: str, *events: dict[str, Any] | ServerEvent) -> list[Chunk]:
    reader = READERS[protocol]()
    chunks: list[Chunk] = []
    for event in events:
        told = event if isinstance(event, ServerEvent) else ServerEvent("", json.dumps(event))
        chunks += read_event(reader, HEAD, told.event, told.data)
    return [*chunks, *read_end(reader, HEAD)]


def failure(protocol: str, *events: dict[str, Any] | ServerEvent) -> APICallError:
    with pytest.raises(APICallError) as raised:
        read(protocol, *events)
    return raised.value


def completes(protocol: str, name: str) -> bool:
    try:
        return bool(read(protocol, *recorded(protocol, name)))
    except APICallError:
        return False


ANSWERS = [
    (path.parent.name, path.stem) for path in sorted(FIXTURES.glob("*/*.sse")) if completes(path.parent.name, path.stem)
]


def places(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every field of every object in ``value``."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from places(item)


def said(chunks: list[Chunk]) -> list[Any]:
    return [text_of(chunks), [(name, args) for _, name, args in calls_of(chunks)]]


@pytest.mark.parametrize(("protocol", "name"), ANSWERS)
def test_a_bookkeeping_field_that_is_null_takes_nothing_from_the_answer(protocol: str, name: str) -> None:
    """R7.5"""
    expected = said(read(protocol, *recorded(protocol, name)))
    for field in BOOKKEEPING:
        events = recorded(protocol, name)
        found = [place for place in places(events) if place[1] == field]
        values = {repr(container[key]) for container, key in found}
        # Blocks are told apart by their index, and thoughts by their flag, where there are any.
        if (field.endswith("index") and len(values) > 1) or (field == "thought" and "True" in values):
            continue
        for container, key in found:
            container[key] = None
        assert said(read(protocol, *events)) == expected, field


@pytest.mark.parametrize("count", [5.7, 1e308, True, "7", "", None, -1, 10**25, [], {}, "many"], ids=repr)
@pytest.mark.parametrize("protocol", READERS)
def test_a_token_count_that_is_odd_takes_nothing_from_the_answer(protocol: str, count: Any) -> None:
    """R5.4"""
    events = recorded(protocol, "text")
    expected = said(read(protocol, *events))
    for container, key in list(places(events)):
        if key in USAGE and isinstance(container[key], dict):
            counts = container[key]
            counts.update({name: count for name, value in counts.items() if isinstance(value, int)})
    chunks = read(protocol, *events)
    assert said(chunks) == expected
    for told in finish_of(chunks)["output"]["usage"].values():
        assert told is None or type(told) is int


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 3), (5.7, 6), ("12", 12), (True, None), ("x", None), ("", None), (None, None), (float("inf"), None)],
)
def test_a_count_is_a_whole_number_or_unknown(value: Any, count: int | None) -> None:
    """R5.4"""
    assert token_count(value) == count


@pytest.mark.parametrize(
    ("protocol", "event", "end"),
    [
        ("openai_chat", {"choices": [{"delta": {"content": "?"}}]}, {"choices": [{"finish_reason": "stop"}]}),
        ("openai_responses", {"type": "response.output_text.delta", "delta": "?"}, {"type": "response.completed"}),
        (
            "anthropic",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "?"}},
            {"type": "message_stop"},
        ),
        (
            "google",
            {"candidates": [{"content": {"parts": [{"text": "?"}]}}]},
            {"candidates": [{"finishReason": "STOP"}]},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_half_a_character_does_not_cost_the_answer(protocol: str, event: dict[str, Any], end: dict[str, Any]) -> None:
    """R7.5"""
    data = json.dumps(event).replace("?", r"a\ud83d b \ud83d\ude00 \\ud83d")
    assert text_of(read(protocol, ServerEvent("", data), end)) == "a\ufffd b \U0001f600 \\ud83d"


def test_half_a_character_does_not_cost_the_arguments_of_a_call() -> None:
    """R5.6"""
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": r'{"x":"\ud83d"}'}}
    chunks = read("openai_chat", {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    assert calls_of(chunks) == [("c", "f", {"x": "\ufffd"})]


ITEM = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f"}
COMPLETED = {"type": "response.completed", "response": {"status": "completed"}}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "arguments": ""}}
DELTA = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"x":5}'}
ARGUMENTS_DONE = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"x":5}'}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "arguments": '{"x":5}'}}
WHOLE = {"type": "response.completed", "response": {"status": "completed", "output": [DONE["item"]]}}


@pytest.mark.parametrize(
    "events",
    [
        [ADDED, DELTA, ARGUMENTS_DONE, DONE, WHOLE],
        [ADDED, DELTA, ARGUMENTS_DONE, COMPLETED],
        [ADDED, DELTA, COMPLETED],
        [ADDED, ARGUMENTS_DONE, COMPLETED],
        [ADDED, DELTA, {**DONE, "item": {**ITEM, "arguments": ""}}, COMPLETED],
        [ADDED, DELTA, DONE, DONE, COMPLETED],
        [ADDED, DELTA, WHOLE],
        [ADDED, WHOLE],
        [DONE, COMPLETED],
        [DONE, WHOLE],
        [WHOLE],
        [ADDED, DELTA, {**DONE, "item": {**DONE["item"], "call_id": "c", "id": "changed"}}, WHOLE],  # type: ignore[dict-item]
        [{**ADDED, "output_index": None}, {**DELTA, "output_index": None}, WHOLE],
    ],
)
def test_a_call_that_is_told_in_part_is_called_once(events: list[dict[str, Any]]) -> None:
    """R5.6"""
    chunks = read("openai_responses", *events)
    assert calls_of(chunks) == [("c", "f", {"x": 5})]
    assert finish_of(chunks)["stepResult"]["reason"] == "tool-calls"


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}], **fields}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "response.output_text.delta", "output_index": 0, "delta": "full"}],
        [{"type": "response.output_item.done", "output_index": 0, "item": message("full", id="m")}],
        [{"type": "response.output_item.done", "output_index": 0, "item": message("full", id="another")}],
        [{"type": "response.output_item.done", "output_index": None, "item": message("full")}],
    ],
)
def test_an_answer_in_the_last_event_is_told_once(events: list[dict[str, Any]]) -> None:
    """R5.4"""
    end = {"type": "response.completed", "response": {"status": "completed", "output": [message("full", id="m")]}}
    assert text_of(read("openai_responses", *events, end)) == "full"


def test_calls_at_one_place_are_all_called() -> None:
    """R5.6"""
    second = {**ITEM, "id": "fc2", "call_id": "c2"}
    other = {**DONE, "item": {**second, "arguments": "{}"}}
    end = {"type": "response.completed", "response": {"output": [DONE["item"], other["item"]]}}
    expected = [("c", "f", {"x": 5}), ("c2", "f", {})]
    for events in (
        [ADDED, DELTA, DONE, {**ADDED, "item": second}, other],
        [DONE, other],
        [ADDED, DELTA, {**ADDED, "item": second}],
        [ADDED, DELTA, {**ADDED, "item": second}, other],
    ):
        for last in (end, COMPLETED):
            assert sorted(calls_of(read("openai_responses", *events, last)), key=str) == expected


def test_a_call_of_the_providers_that_has_no_result_is_not_called_here() -> None:
    """R5.6"""
    item = {"type": "web_search_call", "id": "ws", "status": "in_progress"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert calls_of(read("openai_responses", added, COMPLETED)) == []


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}}


def test_a_block_that_begins_where_one_is_open_ends_that_one() -> None:
    """R5.6"""
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'},
    }
    chunks = read(
        "anthropic",
        *(block("tool_use", id="a", name="f", input={}), delta),
        block("tool_use", id="b", name="f", input={"x": 2}),
        *(block("text", text="one"), block("text", text="two"), {"type": "message_stop"}),
    )
    assert calls_of(chunks) == [("a", "f", {"x": 1}), ("b", "f", {"x": 2})]
    assert text_of(chunks) == "onetwo"
    kinds = [chunk.type for chunk in chunks]
    assert kinds.count("text-start") == kinds.count("text-end") == 2


@pytest.mark.parametrize(
    "earlier", [[], [{"choices": [{"index": 0, "delta": {"content": "full"}}]}]], ids=["alone", "too"]
)
def test_a_whole_message_in_the_place_of_pieces_is_the_answer(earlier: list[dict[str, Any]]) -> None:
    """R5.4"""
    choice = {"index": 0, "message": {"role": "assistant", "content": "full"}, "finish_reason": "stop"}
    assert text_of(read("openai_chat", *earlier, {"choices": [choice]})) == "full"


def test_calls_in_a_whole_message_are_called_once() -> None:
    """R5.6"""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    event = {
        "choices": [{"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]
    }
    assert calls_of(read("openai_chat", event)) == [("c", "f", {})]
    assert calls_of(read("openai_chat", event, event)) == [("c", "f", {})]


def test_a_call_in_the_old_form_is_called() -> None:
    """R5.6"""
    pieces: list[dict[str, Any]] = [{"name": "f", "arguments": ""}, {"arguments": '{"x":'}, {"arguments": "1}"}]
    events = [{"choices": [{"delta": {"content": None, "function_call": piece}}]} for piece in pieces]
    chunks = read("openai_chat", *events, {"choices": [{"delta": {}, "finish_reason": "function_call"}]})
    assert [(name, args) for _, name, args in calls_of(chunks)] == [("f", {"x": 1})]
    assert finish_of(chunks)["stepResult"]["reason"] == "tool-calls"


@pytest.mark.parametrize("protocol", READERS)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("upstream died", "upstream died"),
        ('{"message":"slow down","code":"rate_limit"}', "slow down"),
        ('{"error":"slow down"}', "slow down"),
        ('{"error":{"message":"slow down"}}', "slow down"),
        ("{broken", "{broken"),
    ],
)
def test_an_error_event_says_what_the_server_said(protocol: str, data: str, message: str) -> None:
    """R7.5"""
    error = failure(protocol, ServerEvent("error", data))
    assert message in str(error)
    assert error.code != "malformed_stream"
    assert error.is_retryable


@pytest.mark.parametrize("protocol", READERS)
@pytest.mark.parametrize(
    "data", [{"detail": "nope"}, {"message": "nope"}, {"status": "down", "reason": "nope"}], ids=str
)
def test_an_event_of_no_kind_that_ends_the_stream_is_quoted(protocol: str, data: dict[str, Any]) -> None:
    """R7.5"""
    assert "nope" in str(failure(protocol, data))


@pytest.mark.parametrize("protocol", ["anthropic", "google", "openai_chat"])
@pytest.mark.parametrize("data", [{}, {"detail": "still here"}], ids=str)
def test_an_event_of_no_kind_before_the_answer_changes_nothing(protocol: str, data: dict[str, Any]) -> None:
    """R5.4"""
    events = recorded(protocol, "text")
    assert content(read(protocol, data, *events)) == content(read(protocol, *events))


def test_the_readers_are_given_their_events_as_they_come() -> None:
    """The helper of this module reads what the adapters read."""
    assert any(isinstance(chunk, TextStart) for chunk in read("openai_chat", *recorded("openai_chat", "text")))
    assert not any(isinstance(chunk, GenericChunk) for chunk in read("openai_chat", *recorded("openai_chat", "text")))
