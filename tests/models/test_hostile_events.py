"""Whatever a provider sends, an adapter gives well-typed chunks or raises ``APICallError`` (R5.4, R7.5)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.chunks import Chunk, GenericChunk
from interlock.errors import APICallError
from interlock.models.reading import read_end, read_event
from interlock.models.reply import ReplyReader
from interlock.models.sse import EventReader, ServerEvent
from tests.models.readers import HEAD, READERS

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = [(path.parent.name, path.stem) for path in sorted(FIXTURES.glob("*/*.sse"))]
MISSING = object()
VALUES: list[Any] = [None, "", 0, -1, 1.5, True, [], {}, "x", [None], [1], {"a": None}, 10**25, [{}], 1e308, MISSING]
FAILED = GenericChunk(type="failed")
"""Stands behind the chunks of an answer that failed."""

MUTATIONS = 250
"""Of each recorded answer; the seed is its name, so they are the same in every run."""


@pytest.mark.parametrize(("protocol", "name"), RECORDED)
def test_a_changed_answer_gives_typed_chunks_or_an_api_call_error(protocol: str, name: str) -> None:
    events = _events(protocol, name)
    dice = random.Random(f"{protocol}/{name}")
    for _ in range(MUTATIONS):
        place = dice.randrange(len(events))
        changed = [*events[:place], _mutated(events[place], dice), *events[place + 1 :]]
        chunks = _read(READERS[protocol](), changed)
        for chunk in chunks:
            _require_types(chunk)


@pytest.mark.parametrize("protocol", READERS)
@pytest.mark.parametrize(
    "data",
    [
        *("null", "0", '"x"', "[]", "[{}]", "{", "\ud800", "\x00", "{}x"),
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"type":"x","error":' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"error":{"code":1' + "0" * 30 + ',"message":[1' + "0" * 30 + "]}}",
    ],
    ids=lambda data: ascii(data)[:20],
)
def test_an_event_that_is_none_gives_an_api_call_error(protocol: str, data: str) -> None:
    assert _read(READERS[protocol](), [ServerEvent("error" if "error" in data else "", data)])[-1] is FAILED


@pytest.mark.parametrize("wrong", [5, 1.5, True, ["x"], {"a": 1}], ids=str)
@pytest.mark.parametrize(
    ("protocol", "event"),
    [
        ("anthropic", {"type": "content_block_start", "content_block": {"type": "text", "text": "?"}}),
        ("anthropic", {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": "?"}}),
        ("anthropic", {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "c", "name": "?"}}),
        ("google", {"candidates": [{"content": {"parts": [{"text": "?"}]}}]}),
        ("google", {"candidates": [{"content": {"parts": [{"toolCall": {"toolType": "x", "id": "?"}}]}}]}),
        ("openai_chat", {"choices": [{"delta": {"content": [{"type": "text", "text": "?"}]}}]}),
        (
            "openai_chat",
            {"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"text": "?"}]}]}}]},
        ),
        ("openai_responses", {"type": "response.output_text.delta", "delta": "?"}),
        (
            "openai_responses",
            {"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": "?"}]}},
        ),
        (
            "openai_responses",
            {"type": "response.output_item.done", "item": {"type": "reasoning", "summary": [{"text": "?"}]}},
        ),
        (
            "openai_responses",
            {"type": "response.output_item.done", "item": {"type": "function_call", "arguments": "?"}},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_no_text_never_becomes_text(protocol: str, event: dict[str, Any], wrong: Any) -> None:
    data = json.dumps(event).replace('"?"', json.dumps(wrong))
    chunks = _read(READERS[protocol](), [ServerEvent("", data)])
    assert chunks[-1] is FAILED
    assert wrong not in [getattr(chunk.payload, "text", None) for chunk in chunks]  # type: ignore[attr-defined]


def test_the_error_names_the_provider_and_the_event() -> None:
    """R7.5"""
    usage = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":7}'
    with pytest.raises(
        APICallError, match=r"api\.example/v1 sent an event 'message_delta' that cannot be read"
    ) as raised:
        read_event(READERS["anthropic"](), HEAD, "message_delta", usage)
    assert (raised.value.code, raised.value.is_retryable) == ("malformed_stream", True)
    assert raised.value.response_body == usage


def _events(protocol: str, name: str) -> list[ServerEvent]:
    data = (FIXTURES / protocol / f"{name}.sse").read_bytes()
    events = EventReader(1_000_000).feed(data + b"\n\n")
    return [event for event in events if event.data.startswith("{")] or [ServerEvent("", "{}")]


def _mutated(event: ServerEvent, dice: random.Random) -> ServerEvent:
    """The event with one of its values replaced or left out."""
    data = json.loads(event.data)
    container, key = dice.choice(list(_places(data)))
    value = dice.choice(VALUES)
    if value is MISSING:
        del container[key]
    else:
        container[key] = value
    return ServerEvent(event.event, json.dumps(data))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in ``value``, as what holds it and where."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _read(reader: ReplyReader, events: list[ServerEvent]) -> list[Chunk]:
    """The chunks up to the end, or to the error."""
    chunks: list[Chunk] = []
    try:
        for event in events:
            chunks += read_event(reader, HEAD, event.event, event.data)
            if reader.is_done:
                break
        chunks += read_end(reader, HEAD)
    except APICallError:
        chunks.append(FAILED)
    return chunks


def _require_types(chunk: Chunk) -> None:
    if not isinstance(chunk, GenericChunk):
        assert msgspec.convert(msgspec.to_builtins(chunk), type(chunk)) == chunk
