"""The chunk catalogue and its wire form (R5.1, R5.2, R0.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.chunks import (
    CHUNK_TYPES,
    Chunk,
    DataChunk,
    ErrorChunk,
    ErrorPayload,
    Finish,
    GenericChunk,
    TextDelta,
    TextDeltaPayload,
    ToolErrorChunk,
    ToolErrorPayload,
    ToolResult,
    ToolResultPayload,
    chunk_from_dict,
    chunk_to_dict,
    detached,
)
from interlock.errors import APICallError, StructuredOutputError
from interlock.usage import Usage

CATALOGUE: dict[str, dict[str, Any]] = {
    "start": {"id": "agent", "messageId": "m"},
    "step-start": {"messageId": "m", "request": {"body": []}, "warnings": [], "startedAt": 1},
    "response-metadata": {"id": "r", "modelId": "x", "timestamp": "2026-01-02T03:04:05.678Z", "headers": {"a": "b"}},
    "text-start": {"id": "t", "providerMetadata": {"p": {"k": 1}}},
    "text-delta": {"id": "t", "text": "x"},
    "text-end": {"id": "t"},
    "reasoning-start": {"id": "r", "signature": "s"},
    "reasoning-delta": {"id": "r", "text": "x"},
    "reasoning-end": {"id": "r", "signature": "s"},
    "reasoning-signature": {"id": "r", "signature": "s"},
    "redacted-reasoning": {"id": "r", "data": "x"},
    "tool-call-input-streaming-start": {"toolCallId": "c", "toolName": "t", "dynamic": True},
    "tool-call-delta": {"toolCallId": "c", "argsTextDelta": "{", "toolName": "t"},
    "tool-call-input-streaming-end": {"toolCallId": "c"},
    "tool-call": {"toolCallId": "c", "toolName": "t", "args": {"a": None}, "providerExecuted": True},
    "tool-result": {"toolCallId": "c", "toolName": "t", "result": None, "isError": False},
    "tool-error": {"toolCallId": "c", "toolName": "t", "error": "broke", "args": {}},
    "tool-output": {"toolCallId": "c", "output": {"n": 1}, "toolName": "t"},
    "tool-output-denied": {"toolCallId": "c", "toolName": "t", "approval": {"id": "c", "approved": False}},
    "tool-call-approval": {"toolCallId": "c", "toolName": "t", "args": {}, "resumeSchema": "{}"},
    "tool-call-suspended": {"toolCallId": "c", "toolName": "t", "args": {}, "suspendPayload": 1, "resumeSchema": "{}"},
    "source": {"id": "s", "sourceType": "url", "title": "T", "url": "https://example.org"},
    "file": {"data": "aGk=", "mimeType": "text/plain", "filename": "a.txt"},
    "reasoning-file": {"data": "aGk=", "mimeType": "text/plain"},
    "custom": {"kind": "p.event"},
    "step-finish": {
        "messageId": "m",
        "stepResult": {"reason": "stop", "isContinued": False},
        "output": {"text": "x", "usage": {"inputTokens": 1}},
        "totalUsage": {"totalTokens": 2},
    },
    "finish": {"stepResult": {"reason": "stop"}, "output": {"usage": {"inputTokens": 1, "newKind": 3}}},
    "error": {"error": {"name": "E", "message": "m"}},
    "abort": {"reason": "user"},
    "tripwire": {"reason": "no", "retry": True, "metadata": {"a": 1}, "processorId": "p"},
}


@pytest.mark.parametrize("kind", CATALOGUE)
def test_every_type_of_the_catalogue_is_typed_and_written_back_unchanged(kind: str) -> None:
    """R5.1"""
    wire = {"type": kind, "runId": "r", "from": "AGENT", "payload": CATALOGUE[kind], "metadata": {"m": 1}}
    chunk = chunk_from_dict(wire)
    assert type(chunk) is CHUNK_TYPES[kind]
    assert not isinstance(chunk, GenericChunk)
    assert chunk.to_dict() == wire


def test_the_catalogue_of_this_test_is_complete() -> None:
    assert set(CATALOGUE) | {"object", "object-result"} == set(CHUNK_TYPES)


@pytest.mark.parametrize("kind", ["object", "object-result"])
@pytest.mark.parametrize("value", [{"a": 1}, [], None, "x"])
def test_objects_stand_at_the_top(kind: str, value: Any) -> None:
    """R5.1"""
    wire = {"type": kind, "runId": "r", "from": "AGENT", "object": value}
    assert chunk_from_dict(wire).to_dict() == wire


@pytest.mark.parametrize("extra", [{}, {"id": "d"}, {"transient": True}, {"data": None}, {"somethingNew": [1]}])
def test_data_chunks_carry_data_at_the_top(extra: dict[str, Any]) -> None:
    """R5.1"""
    wire = {"type": "data-x", "runId": "r", "from": "AGENT", "data": {"n": 1}, **extra}
    chunk = chunk_from_dict(wire)
    assert isinstance(chunk, DataChunk)
    assert chunk.to_dict() == wire


@pytest.mark.parametrize("kind", ["workflow-step", "watch", "step-output", "goal", "x"])
def test_an_unknown_type_passes_through(kind: str) -> None:
    """R5.2"""
    wire = {"type": kind, "runId": "r", "from": "WORKFLOW", "payload": {"a": [1, None]}, "aside": {"b": 2}}
    chunk = chunk_from_dict(wire)
    assert isinstance(chunk, GenericChunk)
    assert chunk.to_dict() == wire


def test_unknown_fields_of_a_known_type_survive() -> None:
    """R0.1"""
    wire = {
        "type": "text-delta",
        "runId": "r",
        "from": "AGENT",
        "payload": {"id": "t", "text": "x", "new": 1},
        "also": 2,
    }
    chunk = chunk_from_dict(wire)
    assert isinstance(chunk, TextDelta)
    assert chunk.to_dict() == wire


def test_a_payload_of_another_shape_is_kept_as_it_is() -> None:
    """R5.2"""
    wire = {"type": "text-delta", "runId": "r", "from": "AGENT", "payload": {"words": ["a"]}}
    assert isinstance(chunk_from_dict(wire), GenericChunk)
    assert chunk_from_dict(wire).to_dict() == wire


@pytest.mark.parametrize("wire", [{}, {"type": ""}, {"type": 3}, {"payload": {}}])
def test_a_chunk_without_a_type_is_refused(wire: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a chunk needs a non-empty string 'type'"):
        chunk_from_dict(wire)


def test_reading_shares_nothing_with_the_given_data() -> None:
    payload = {"toolCallId": "c", "toolName": "t", "args": {"a": [1]}}
    chunk = chunk_from_dict({"type": "tool-call", "payload": payload})
    payload["args"]["a"].append(2)  # type: ignore[index]
    assert chunk.to_dict()["payload"]["args"] == {"a": [1]}


def test_a_detached_chunk_shares_nothing() -> None:
    """R11.6"""
    chunk = ToolResult(payload=ToolResultPayload(tool_call_id="c", tool_name="t", result={"a": [1]}))
    copy = detached(chunk)
    chunk.payload.result["a"].append(2)
    assert isinstance(copy, ToolResult)
    assert copy.payload.result == {"a": [1]}


@pytest.mark.parametrize(
    "chunk",
    [
        ErrorChunk(payload=ErrorPayload(error=APICallError("no", status_code=400, response_body="secret"))),
        ToolErrorChunk(
            payload=ToolErrorPayload(tool_call_id="c", tool_name="t", error=APICallError("no", response_body="secret"))
        ),
    ],
)
def test_an_exception_goes_out_as_name_and_message_only(chunk: Chunk) -> None:
    """R0.1, R5.1"""
    for wire in (chunk_to_dict(chunk), chunk.to_dict(), {"payload": chunk.payload.to_dict()}):  # type: ignore[attr-defined]
        assert json.loads(json.dumps(wire))["payload"]["error"] == {"name": "APICallError", "message": "no"}


def test_a_client_is_not_told_what_the_answer_was_that_does_not_fit() -> None:
    """R0.1, R12.33"""
    error = StructuredOutputError(["x: must be a number (got 'a secret')", "secret: unknown"])
    wire = ErrorChunk(payload=ErrorPayload(error=error)).to_dict()
    assert wire["payload"]["error"] == {
        "name": "StructuredOutputError",
        "message": "the answer does not fit the requested schema (2 problems)",
    }


def test_usage_and_outcome_of_a_finish_are_typed() -> None:
    """R5.1"""
    chunk = chunk_from_dict({"type": "finish", "payload": CATALOGUE["finish"]})
    assert isinstance(chunk, Finish)
    assert chunk.payload.step_result.reason == "stop"
    assert chunk.payload.output is not None
    assert chunk.payload.output.usage == Usage(input_tokens=1, extra={"newKind": 3})


def test_a_chunk_tells_itself_in_one_line() -> None:
    assert repr(TextDelta(payload=TextDeltaPayload(id="t", text="x"))) == (
        "TextDelta(payload=TextDeltaPayload(id='t', text='x'))"
    )


json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(
    kind=st.sampled_from([*CATALOGUE, "object", "data-x", "unheard-of"]),
    payload=st.dictionaries(
        st.sampled_from(["id", "text", "toolCallId", "args", "error", "stepResult", "new"]), json_data
    ),
    aside=st.dictionaries(st.sampled_from(["metadata", "object", "data", "new"]), json_data),
)
def test_any_json_is_read_without_loss(kind: str, payload: Any, aside: dict[str, Any]) -> None:
    """R0.1, R5.2"""
    wire = {"type": kind, "runId": "r", "from": "AGENT", "payload": payload, **aside}
    assert _holds(chunk_from_dict(wire).to_dict(), wire)


def _holds(written: Any, wire: Any) -> bool:
    """Whether everything of ``wire`` is in ``written``; ``null`` and absent are the same on the wire (R0.1)."""
    if isinstance(wire, dict):
        return isinstance(written, dict) and all(
            item is None or (key in written and _holds(written[key], item)) for key, item in wire.items()
        )
    if isinstance(wire, list):
        return isinstance(written, list) and len(written) == len(wire) and all(map(_holds, written, wire))
    return bool(written == wire)
