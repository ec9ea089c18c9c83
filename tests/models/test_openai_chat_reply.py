from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.chunks import Chunk, GenericChunk, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest
from interlock.testing import drain, text_of, types_of
from tests.models.reading import HI, calls_of, content, finish_of, until_failure
from tests.models.wire import DONE, HELLO, MockServer, call, event, event_reply, sse, usage_event

pytestmark = pytest.mark.anyio


async def read(*pieces: bytes, request: ModelRequest = HI, **model_options: Any) -> list[Chunk]:
    return await drain(MockServer(event_reply(pieces), **model_options).model.stream(request))


async def failure(*pieces: bytes) -> APICallError:
    _, error = await until_failure(MockServer(event_reply(pieces)).model.stream(HI))
    return error


async def test_text_becomes_one_span_with_the_usage_at_the_end() -> None:
    """R5.5"""
    chunks = await read(*HELLO)
    assert types_of(chunks) == [
        *("stream-start", "response-metadata", "text-start", "text-delta", "text-delta", "text-end", "finish")
    ]
    assert text_of(chunks) == "Hello"
    assert finish_of(chunks) == {
        "stepResult": {"reason": "stop", "rawReason": "stop"},
        "output": {"usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}},
    }


async def test_response_metadata_names_the_reply() -> None:
    server = MockServer(event_reply(HELLO, **{"x-request-id": "r1", "set-cookie": "secret"}))
    chunks = await drain(server.model.stream(HI))
    payload = chunk_to_dict(chunks[1])["payload"]
    assert payload["id"] == "c1"
    assert payload["modelId"] == "gpt-5"
    assert payload["timestamp"] == "2023-11-14T22:13:20.000Z"
    assert payload["headers"]["x-request-id"] == "r1"
    assert "set-cookie" not in payload["headers"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("model_length", "length"),
        ("error", "error"),
        ("something_new", "other"),
    ],
)
async def test_finish_reasons_are_normalised(raw: str, reason: str) -> None:
    """R5.5"""
    outcome = finish_of(await read(event({"content": "x"}), event(finish_reason=raw), DONE))["stepResult"]
    assert outcome == {"reason": reason, "rawReason": raw}


async def test_a_reply_without_a_reason_ends_as_unknown() -> None:
    """R5.5"""
    assert finish_of(await read(event({"content": "x"}), DONE))["stepResult"] == {"reason": "unknown"}


async def test_cached_and_reasoning_tokens_are_counted() -> None:
    usage = usage_event(prompt_tokens_details={"cached_tokens": 4}, completion_tokens_details={"reasoning_tokens": 1})
    chunks = await read(event({"content": "x"}, "stop"), usage, DONE)
    assert finish_of(chunks)["output"]["usage"] == {
        "inputTokens": 7,
        "outputTokens": 2,
        "totalTokens": 9,
        "reasoningTokens": 1,
        "cachedInputTokens": 4,
    }


async def test_a_reply_without_usage_says_so_by_absence() -> None:
    chunks = await read(event({"content": "x"}, "stop"), DONE)
    assert finish_of(chunks)["output"]["usage"] == {}


async def test_usage_in_the_last_content_event_is_read() -> None:
    chunks = await read(event({"content": "x"}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 1}), DONE)
    assert finish_of(chunks)["output"]["usage"] == {"inputTokens": 1, "outputTokens": 1}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_a_span_before_the_text(field: str) -> None:
    chunks = await read(event({field: "hm"}), event({"content": "Hi"}), event(finish_reason="stop"), DONE)
    assert content(chunks) == [
        {"type": "reasoning-start", "id": "reasoning-1"},
        {"type": "reasoning-delta", "id": "reasoning-1", "text": "hm"},
        {"type": "reasoning-end", "id": "reasoning-1"},
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "text": "Hi"},
        {"type": "text-end", "id": "text-2"},
    ]


async def test_content_blocks_are_read_as_text_and_reasoning() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    chunks = await read(event({"content": [thinking, {"type": "text", "text": "Hi"}]}, "stop"), DONE)
    assert [(c["type"], c.get("text")) for c in content(chunks) if "text" in c] == [
        ("reasoning-delta", "hm"),
        ("text-delta", "Hi"),
    ]


async def test_a_refusal_is_text_of_its_own_and_ends_as_content_filter() -> None:
    chunks = await read(event({"refusal": "I can't"}), event({"refusal": " help."}), event(finish_reason="stop"), DONE)
    assert text_of(chunks) == "I can't help."
    assert content(chunks)[0]["providerMetadata"] == {"openai": {"refusal": True}}
    assert finish_of(chunks)["stepResult"] == {"reason": "content-filter", "rawReason": "stop"}


async def test_citations_become_sources() -> None:
    citation = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    chunks = await read(event({"content": "x", "annotations": [citation]}, "stop"), DONE)
    source = next(c for c in content(chunks) if c["type"] == "source")
    assert source == {
        "type": "source",
        "id": "source-1",
        "sourceType": "url",
        "title": "A",
        "url": "https://a.example",
    }


async def test_log_probabilities_are_kept() -> None:
    piece = {"choices": [{"index": 0, "delta": {"content": "x"}, "logprobs": {"content": [{"token": "x"}]}}]}
    chunks = await read(sse(piece), event(finish_reason="stop"), DONE)
    assert finish_of(chunks)["stepResult"]["logprobs"] == [{"token": "x"}]


async def test_only_the_first_answer_is_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}}]}
    assert text_of(await read(sse(other), *HELLO)) == "Hello"


async def test_a_streamed_call_is_shown_piece_by_piece_and_then_whole() -> None:
    """R5.6"""
    chunks = await read(
        event({"content": "Let me see."}),
        call(0, id="call_1", name="get_weather", args=""),
        call(0, args='{"city":'),
        call(0, args='"Oslo"}'),
        event(finish_reason="tool_calls"),
        DONE,
    )
    name = {"toolCallId": "call_1", "toolName": "get_weather"}
    assert content(chunks)[2:] == [
        {"type": "text-end", "id": "text-1"},
        {"type": "tool-call-input-streaming-start", **name},
        {"type": "tool-call-delta", **name, "argsTextDelta": '{"city":'},
        {"type": "tool-call-delta", **name, "argsTextDelta": '"Oslo"}'},
        {"type": "tool-call-input-streaming-end", "toolCallId": "call_1"},
        {"type": "tool-call", **name, "args": {"city": "Oslo"}},
    ]
    assert finish_of(chunks)["stepResult"]["reason"] == "tool-calls"


async def test_interleaved_parallel_calls_keep_their_own_arguments() -> None:
    """R5.6"""
    chunks = await read(
        call(0, id="a", name="f", args='{"x"'),
        call(1, id="b", name="g", args='{"y"'),
        call(0, args=":1}"),
        call(1, args=":2}"),
        event(finish_reason="tool_calls"),
        DONE,
    )
    assert calls_of(chunks) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


@pytest.mark.parametrize("provider_id", ["", "call_1", None])
async def test_calls_without_ids_of_their_own_get_unique_ones(provider_id: str | None) -> None:
    """R5.6, FR-095"""
    chunks = await read(
        call(0, id=provider_id, name="get_weather", args='{"city":"Oslo"}'),
        call(1, id=provider_id, name="get_weather", args='{"city":"Rome"}'),
        event(finish_reason="tool_calls"),
        DONE,
    )
    calls = calls_of(chunks)
    assert [args for _, _, args in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert len({call_id for call_id, _, _ in calls}) == 2
    assert all(call_id for call_id, _, _ in calls)


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("ids", [("a", "b"), ("", ""), ("same", "same")])
async def test_calls_that_share_an_index_or_have_none_stay_apart(index: int | None, ids: tuple[str, str]) -> None:
    """R5.6, FR-095"""
    chunks = await read(
        call(index, id=ids[0], name="f", args='{"x":1}'),
        call(index, id=ids[1], name="f", args='{"x":'),
        call(index, args="2}"),
        event(finish_reason="tool_calls"),
        DONE,
    )
    assert [args for _, _, args in calls_of(chunks)] == [{"x": 1}, {"x": 2}]
    assert len({call_id for call_id, _, _ in calls_of(chunks)}) == 2


async def test_a_call_id_of_an_earlier_step_is_replaced() -> None:
    """R5.6, FR-095"""
    past: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "call_1", "toolName": "f", "input": {}}]},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "call_1",
                    "toolName": "f",
                    "output": {"type": "text", "value": "x"},
                }
            ],
        },
    ]
    request = ModelRequest(prompt=[*HI.prompt, *past])
    chunks = await read(
        call(0, id="call_1", name="f", args="{}"), event(finish_reason="tool_calls"), DONE, request=request
    )
    assert calls_of(chunks)[0][0] not in ("", "call_1")


async def test_a_call_without_arguments_has_an_empty_object() -> None:
    """R5.6"""
    chunks = await read(call(0, id="a", name="f"), event(finish_reason="tool_calls"), DONE)
    assert calls_of(chunks) == [("a", "f", {})]


async def test_arguments_that_are_no_json_stay_text_for_the_tool_phase_to_refuse() -> None:
    """R5.6"""
    chunks = await read(call(0, id="a", name="f", args='{"x":'), event(finish_reason="length"), DONE)
    assert calls_of(chunks) == [("a", "f", '{"x":')]


async def test_arguments_sent_as_an_object_are_read() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}
    chunks = await read(event({"tool_calls": [piece]}), event(finish_reason="tool_calls"), DONE)
    assert calls_of(chunks) == [("a", "f", {"x": 1})]


async def test_raw_events_come_only_when_asked_for() -> None:
    request = ModelRequest(prompt=HI.prompt, include_raw_chunks=True)
    raw = [chunk for chunk in await read(*HELLO, request=request) if chunk.type == "raw"]
    assert len(raw) == 5
    assert isinstance(raw[1], GenericChunk)
    assert raw[1].payload["choices"][0]["delta"] == {"content": "Hel"}
    assert "raw" not in types_of(await read(*HELLO))


FIXTURE = b"".join(
    [
        b": a comment\r\n\r\n",
        event({"role": "assistant", "content": "Grüße, 世界 👋"}).replace(b"\n", b"\r\n"),
        b"event: message\ndata: " + json.dumps({"choices": [{"delta": {"content": "\u2028 x"}}]}).encode() + b"\n\n",
        b":keep-alive\n\n",
        call(0, id="a", name="f", args='{"town":"Zürich 🏔"}'),
        event(finish_reason="tool_calls"),
        usage_event(),
        DONE,
    ]
)


async def test_a_stream_reads_the_same_wherever_it_is_cut() -> None:
    """R5.6; packets may end inside a character, a line break or an event"""
    whole = content(await read(FIXTURE))
    assert "".join(c["text"] for c in whole if c["type"] == "text-delta") == "Grüße, 世界 👋\u2028 x"
    for border in range(1, len(FIXTURE)):
        assert content(await read(FIXTURE[:border], FIXTURE[border:])) == whole
    assert content(await read(*(FIXTURE[i : i + 1] for i in range(len(FIXTURE))))) == whole


async def test_an_error_event_fails_the_call() -> None:
    """R7.14, FR-100"""
    error = await failure(
        event({"content": "Par"}), sse({"error": {"message": "Overloaded", "type": "overloaded_error"}})
    )
    assert str(error) == "Overloaded"
    assert error.code == "overloaded_error"
    assert error.is_retryable
    assert error.response_body is not None


@pytest.mark.parametrize(
    ("body", "code", "is_retryable"),
    [
        ({"error": {"message": "too long", "code": "context_length_exceeded"}}, "context_length_exceeded", False),
        ({"error": {"message": "bad gateway", "code": 502}}, "502", True),
        ({"object": "error", "message": "bad", "code": 400}, "400", False),
        ({"error": "it broke"}, None, True),
    ],
    ids=["context", "gateway", "vllm", "text"],
)
async def test_error_events_of_any_shape_are_typed(body: Any, code: str | None, is_retryable: bool) -> None:
    """R17.7, FR-100, FR-102"""
    error = await failure(event({"content": "x"}), sse(body))
    assert (error.code, error.is_retryable) == (code, is_retryable)


async def test_an_event_named_error_fails_the_call() -> None:
    """FR-100"""
    error = await failure(b'event: error\ndata: {"message": "no"}\n\n')
    assert str(error) == "no"


async def test_a_stream_that_ends_in_the_middle_fails_and_runs_no_cut_call() -> None:
    """R7.14, FR-100"""
    server = MockServer(event_reply([event({"content": "Par"}), call(0, id="a", name="f", args='{"a":')]))
    seen, error = await until_failure(server.model.stream(HI))
    assert types_of(seen)[-2:] == ["tool-call-input-streaming-start", "tool-call-delta"]
    assert "ended in the middle" in str(error)
    assert error.is_retryable
    assert error.code == "truncated_stream"


async def test_a_reason_without_the_closing_event_is_a_whole_reply() -> None:
    assert text_of(await read(*HELLO[:-2])) == "Hello"


@pytest.mark.parametrize("data", [b"data: {oops\n\n", b'data: "text"\n\n', b'data: {"choices": 7}\n\n'])
async def test_an_unreadable_event_fails_the_call(data: bytes) -> None:
    """R7.14"""
    error = await failure(event({"content": "x"}), data)
    assert error.code == "malformed_stream"
    assert error.is_retryable


@pytest.mark.parametrize(
    "delta", [{"content": [{"type": "text"}]}, {"content": [{"type": "thinking", "thinking": ["x"]}]}]
)
async def test_a_block_with_something_else_in_it_fails_the_call(delta: dict[str, Any]) -> None:
    """R7.14"""
    assert (await failure(event(delta))).code == "malformed_stream"


async def test_a_time_that_is_none_is_left_out() -> None:
    chunks = await read(event({"content": "x"}, "stop", created=1_764_670_000_000_000), DONE)
    assert "timestamp" not in chunk_to_dict(chunks[1])["payload"]


async def test_a_failing_stream_closes_its_reply() -> None:
    reply = event_reply([event({"content": "x"}), b"data: {oops\n\n"])
    with pytest.raises(APICallError):
        await drain(MockServer(reply).model.stream(HI))
    assert reply.is_closed


async def test_leaving_early_closes_the_reply() -> None:
    reply = event_reply(HELLO)
    stream = MockServer(reply).model.stream(HI)
    await anext(stream)
    assert not reply.is_closed
    await stream.aclose()
    assert reply.is_closed


async def test_nothing_is_sent_before_the_first_chunk_is_asked_for() -> None:
    server = MockServer(event_reply(HELLO))
    stream = server.model.stream(HI)
    assert server.requests == []
    await drain(stream)
    assert len(server.requests) == 1


def thought(**detail: Any) -> bytes:
    """A piece of signed reasoning, as OpenRouter sends it."""
    return event({"reasoning": detail.get("text"), "reasoning_details": [{"type": "reasoning.text", **detail}]})


async def test_what_signs_the_reasoning_is_kept_with_it() -> None:
    """R4.15"""
    chunks = await read(
        thought(text="I ", index=0), thought(text="think.", index=0), thought(signature="s", index=0),
        event({"content": "Yes."}, "stop"), DONE,
    )  # fmt: skip
    (end,) = [one for one in content(chunks) if one["type"] == "reasoning-end"]
    (detail,) = end["providerMetadata"]["openai"]["reasoningDetails"]
    assert detail == {"type": "reasoning.text", "text": "I think.", "index": 0, "signature": "s"}


async def test_reasoning_that_is_redacted_is_an_empty_span() -> None:
    """R4.15"""
    chunks = await read(thought(data="cmVk"), event({"content": "Yes."}, "stop"), DONE)
    ends = [one for one in content(chunks) if one["type"] == "reasoning-end"]
    assert [end["providerMetadata"]["openai"]["reasoningDetails"][0]["data"] for end in ends] == ["cmVk"]


async def test_reasoning_without_a_seal_carries_nothing() -> None:
    chunks = await read(thought(text="I think."), event({"content": "Yes."}, "stop"), DONE)
    (end,) = [one for one in content(chunks) if one["type"] == "reasoning-end"]
    assert "providerMetadata" not in end
