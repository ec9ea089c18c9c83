from __future__ import annotations

from typing import Any

import pytest

from interlock.chunks import GenericChunk
from interlock.models import ModelRequest
from interlock.testing import text_of, types_of
from tests.models.reading import HI, calls_of, content, finish_of, payloads
from tests.models.responses_server import COMPLETE, ResponsesServer, events_of, failure_of, fixture, read, sse
from tests.models.wire import event, event_reply

pytestmark = pytest.mark.anyio

CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5", "created_at": 1}}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def text_delta(piece: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece, **fields}


def item_done(index: int = 0, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


async def test_text_becomes_one_span_with_the_usage_at_the_end() -> None:
    """R5.5, FR-104: the item's id comes with the start"""
    chunks = await read(fixture("text"))
    assert types_of(chunks) == [
        *("stream-start", "response-metadata", "text-start", *["text-delta"] * 6, "text-end", "finish"),
    ]
    assert text_of(chunks) == "Grüße, 世界 👋🏽 from\n\u2028the other side."
    assert payloads(chunks, "text-start") == [
        {"id": "msg_01text:0", "providerMetadata": {"openai": {"itemId": "msg_01text"}}}
    ]
    assert finish_of(chunks) == {
        "stepResult": {"reason": "stop", "rawReason": "completed"},
        "output": {
            "usage": {
                "inputTokens": 31,
                "outputTokens": 14,
                "totalTokens": 45,
                "reasoningTokens": 0,
                "cachedInputTokens": 16,
            }
        },
        "providerMetadata": {"openai": {"responseId": "resp_01text", "serviceTier": "default"}},
    }


async def test_response_metadata_names_the_reply() -> None:
    reply = event_reply([fixture("text")], **{"x-request-id": "r1", "set-cookie": "secret"})
    chunks = [chunk async for chunk in ResponsesServer(reply).model.stream(HI)]
    (payload,) = payloads(chunks, "response-metadata")
    assert (payload["id"], payload["modelId"]) == ("resp_01text", "gpt-5-2025-08-07")
    assert payload["timestamp"] == "2025-12-02T10:06:40.000Z"
    assert payload["headers"]["x-request-id"] == "r1"
    assert "set-cookie" not in payload["headers"]


@pytest.mark.parametrize("name", COMPLETE)
async def test_every_cut_between_packets_gives_the_same_chunks(name: str) -> None:
    """R5.6; packets may end inside a character, a line break or an event"""
    data = fixture(name)
    whole = content(await read(data))
    for size in (1, 7, 61, 997):
        assert content(await read(*(data[start : start + size] for start in range(0, len(data), size)))) == whole


async def test_line_breaks_of_windows_and_comments_change_nothing() -> None:
    data = b": hello\r\n\r\n" + fixture("text").replace(b"\n", b"\r\n")
    assert content(await read(data)) == content(await read(fixture("text")))


async def test_reasoning_is_a_span_for_each_part_of_its_summary() -> None:
    """R4.15; only the last span has the encrypted form, whole"""
    chunks = content(await read(fixture("reasoning_tool")))[:8]
    own = {"openai": {"itemId": "rs_02tool"}}
    sealed = {
        "openai": {"itemId": "rs_02tool", "reasoningEncryptedContent": "gAAAAABo-wea-ther-encrypted-0123456789=="}
    }
    assert chunks == [
        {"type": "reasoning-start", "id": "rs_02tool:0", "providerMetadata": own},
        {"type": "reasoning-delta", "id": "rs_02tool:0", "text": "**Looking up** "},
        {"type": "reasoning-delta", "id": "rs_02tool:0", "text": "the weather."},
        {"type": "reasoning-end", "id": "rs_02tool:0", "providerMetadata": own},
        {"type": "reasoning-start", "id": "rs_02tool:1", "providerMetadata": own},
        {"type": "reasoning-delta", "id": "rs_02tool:1", "text": "Oslo is "},
        {"type": "reasoning-delta", "id": "rs_02tool:1", "text": "in Norway."},
        {"type": "reasoning-end", "id": "rs_02tool:1", "providerMetadata": sealed},
    ]


async def test_reasoning_that_is_kept_secret_is_an_empty_span() -> None:
    """R4.15, FR-104: without it the message could not be given back"""
    chunks = content(await read(fixture("secret_reasoning")))
    own = {"openai": {"itemId": "rs_04sec"}}
    assert chunks[:3] == [
        {"type": "reasoning-start", "id": "rs_04sec:0", "providerMetadata": own},
        {"type": "reasoning-end", "id": "rs_04sec:0", "providerMetadata": own},
        {
            "type": "text-start",
            "id": "msg_04sec:0",
            "providerMetadata": {
                "openai": {"itemId": "msg_04sec", "reasoningItemId": "rs_04sec", "phase": "final_answer"}
            },
        },
    ]


async def test_reasoning_in_full_is_marked_as_such() -> None:
    """R4.15"""
    chunks = await read(fixture("raw_reasoning"))
    assert [payload["text"] for payload in payloads(chunks, "reasoning-delta")] == ["The user ", "greets me."]
    assert payloads(chunks, "reasoning-end")[0]["providerMetadata"]["openai"]["contentType"] == "reasoning_text"


async def test_a_streamed_call_is_shown_piece_by_piece_and_then_whole() -> None:
    """R5.6"""
    chunks = await read(fixture("reasoning_tool"))
    name = {"toolCallId": "call_02tool", "toolName": "get_weather"}
    own = {"openai": {"itemId": "fc_02tool", "reasoningItemId": "rs_02tool"}}
    assert content(chunks)[8:] == [
        {"type": "tool-call-input-streaming-start", **name},
        *(
            {"type": "tool-call-delta", **name, "argsTextDelta": piece}
            for piece in ('{"', "city", '":"', "Tromsø ❄️", '"}')
        ),
        {"type": "tool-call-input-streaming-end", "toolCallId": "call_02tool", "providerMetadata": own},
        {"type": "tool-call", **name, "args": {"city": "Tromsø ❄️"}, "providerMetadata": own},
    ]
    assert finish_of(chunks)["stepResult"]["reason"] == "tool-calls"


async def test_parallel_calls_keep_their_own_arguments() -> None:
    """R5.6"""
    assert calls_of(await read(fixture("parallel_tools"))) == [
        ("call_03a", "get_weather", {"city": "Oslo"}),
        ("call_03b", "get_weather", {"city": "Rome"}),
        ("call_03c", "now", {}),
    ]


async def test_interleaved_calls_keep_their_own_arguments() -> None:
    """R5.6"""

    def added(index: int, call_id: str) -> dict[str, Any]:
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": "f", "arguments": ""}
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def piece(index: int, delta: str) -> dict[str, Any]:
        return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}

    def done(index: int, call_id: str, args: str) -> dict[str, Any]:
        return item_done(index, type="function_call", id=f"fc_{index}", call_id=call_id, name="f", arguments=args)

    events = [added(0, "a"), added(1, "b"), piece(0, '{"x"'), piece(1, '{"y"'), piece(0, ":1}"), piece(1, ":2}")]
    events += [done(1, "b", '{"y":2}'), done(0, "a", '{"x":1}'), COMPLETED]
    assert calls_of(await read(sse(CREATED, *events))) == [("b", "f", {"y": 2}), ("a", "f", {"x": 1})]


async def test_a_call_that_is_not_streamed_is_shown_as_if_it_were() -> None:
    """R5.6"""
    call = item_done(type="function_call", call_id="a", name="f", arguments='{"x":1}')
    assert types_of(await read(sse(CREATED, call, COMPLETED)))[2:-1] == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
    ]


@pytest.mark.parametrize("call_id", [None, "", "call_1"])
async def test_a_call_id_that_is_missing_or_taken_is_replaced(call_id: str | None) -> None:
    """R5.6, FR-095"""
    past = {"type": "tool-call", "toolCallId": "call_1", "toolName": "f", "input": {}}
    request = ModelRequest(prompt=[*HI.prompt, {"role": "assistant", "content": [past]}])
    call = item_done(type="function_call", call_id=call_id, name="f", arguments="{}")
    (made,) = calls_of(await read(sse(CREATED, call, COMPLETED), request=request))
    assert made[0] not in ("", "call_1")


async def test_arguments_that_are_no_json_stay_text_for_the_tool_phase_to_refuse() -> None:
    """R5.6"""
    call = item_done(type="function_call", call_id="a", name="f", arguments='{"x":')
    assert calls_of(await read(sse(CREATED, call, COMPLETED))) == [("a", "f", '{"x":')]


async def test_a_search_of_the_providers_own_has_its_result_beside_it() -> None:
    """R4.13, R10.12"""
    chunks = await read(fixture("web_search"))
    first = [chunk for chunk in content(chunks) if chunk.get("toolCallId") == "ws_06a"]
    name = {"toolCallId": "ws_06a", "toolName": "web_search"}
    args = {"type": "search", "query": "tallest tower 2026", "queries": ["tallest tower 2026"]}
    own = {"openai": {"itemId": "ws_06a", "reasoningItemId": "rs_06a", "itemType": "web_search_call"}}
    text = '{"type":"search","query":"tallest tower 2026","queries":["tallest tower 2026"]}'
    sources = [
        {"type": "url", "url": "https://towers.example/list"},
        {"type": "url", "url": "https://news.example/tower"},
    ]
    assert first == [
        {"type": "tool-call-input-streaming-start", **name, "providerExecuted": True},
        {"type": "tool-call-delta", **name, "argsTextDelta": text},
        {"type": "tool-call-input-streaming-end", "toolCallId": "ws_06a", "providerMetadata": own},
        {"type": "tool-call", **name, "args": args, "providerExecuted": True, "providerMetadata": own},
        {"type": "tool-result", **name, "result": {"sources": sources}, "providerExecuted": True},
    ]
    assert finish_of(chunks)["stepResult"]["reason"] == "stop"


async def test_what_comes_after_reasoning_remembers_it() -> None:
    """FR-104"""
    chunks = await read(fixture("web_search"))
    (start,) = payloads(chunks, "text-start")
    assert start["providerMetadata"]["openai"] == {"itemId": "msg_06", "reasoningItemId": "rs_06b"}


async def test_a_cited_page_becomes_a_source() -> None:
    (source,) = payloads(await read(fixture("web_search")), "source")
    assert source == {
        "id": "source-1",
        "sourceType": "url",
        "title": "All towers",
        "url": "https://towers.example/list?utm_source=openai",
        "providerMetadata": {"openai": {"type": "url_citation", "startIndex": 40, "endIndex": 64}},
    }


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("file_search", {"type": "file_citation", "index": 14, "fileId": "file-08"}),
        (
            "code_interpreter",
            {
                "type": "container_file_citation",
                "startIndex": 22,
                "endIndex": 57,
                "fileId": "cfile_07",
                "containerId": "cntr_07",
            },
        ),
    ],
)
async def test_a_cited_file_becomes_a_document(name: str, facts: dict[str, Any]) -> None:
    (source,) = payloads(await read(fixture(name)), "source")
    assert source["sourceType"] == "document"
    assert source["filename"] in ("policy.pdf", "pi.csv")
    assert source["providerMetadata"] == {"openai": facts}


async def test_a_citation_that_comes_with_the_whole_message_only_is_read_once() -> None:
    citation = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}
    added = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": citation}
    other = {**citation, "url": "https://b.example"}
    message = [{"type": "output_text", "text": "x", "annotations": [citation, other]}]
    done = item_done(type="message", id="m", content=message)
    chunks = await read(sse(CREATED, text_delta("x"), added, done, COMPLETED))
    assert [source["url"] for source in payloads(chunks, "source")] == ["https://a.example", "https://b.example"]


async def test_code_that_the_provider_ran_has_its_output() -> None:
    """R10.12"""
    chunks = await read(fixture("code_interpreter"))
    assert calls_of(chunks) == [
        ("ci_07", "code_interpreter", {"container_id": "cntr_07", "code": 'print("π ≈", 22 / 7)\n'})
    ]
    (result,) = payloads(chunks, "tool-result")
    assert result["result"] == {"outputs": [{"type": "logs", "logs": "π ≈ 3.142857142857143\n"}]}


async def test_a_file_search_has_its_hits() -> None:
    """R10.12"""
    chunks = await read(fixture("file_search"))
    assert calls_of(chunks) == [("fs_08", "file_search", {"queries": ["refund policy"]})]
    (result,) = payloads(chunks, "tool-result")
    assert result["result"]["results"][0]["text"] == "Refunds within 30 days."


async def test_calls_of_an_mcp_server_have_results_and_failures() -> None:
    """R10.12"""
    chunks = await read(fixture("mcp"))
    assert calls_of(chunks) == [("mcp_09a", "find_ticket", {"id": 7}), ("mcp_09b", "find_ticket", {"id": 8})]
    assert [payload["argsTextDelta"] for payload in payloads(chunks, "tool-call-delta")] == ['{"id"', ":7}", '{"id":8}']
    (result,) = payloads(chunks, "tool-result")
    assert result["result"] == '{"title":"Printer"}'
    (failed,) = payloads(chunks, "tool-error")
    assert failed["toolCallId"] == "mcp_09b"
    assert "no such ticket" in failed["error"]
    assert payloads(chunks, "tool-call")[0]["providerMetadata"]["openai"]["serverLabel"] == "tickets"


async def test_an_image_that_the_provider_made_is_a_file() -> None:
    (file,) = payloads(await read(fixture("image")), "file")
    assert (file["mimeType"], file["data"][:4]) == ("image/webp", "UklG")
    assert file["providerMetadata"]["openai"]["itemId"] == "ig_10"


async def test_items_of_other_kinds_are_passed_on_and_events_of_other_kinds_are_not() -> None:
    """R5.2"""
    chunks = await read(fixture("unknown"))
    (custom,) = payloads(chunks, "custom")
    assert custom["kind"] == "openai.compaction"
    assert custom["providerMetadata"]["openai"]["encrypted_content"] == "gAAAAABo-compaction=="
    assert text_of(chunks) == "Still here."


async def test_each_part_of_a_message_is_a_span() -> None:
    chunks = await read(fixture("two_parts"))
    assert [payload["id"] for payload in payloads(chunks, "text-start")] == ["msg_20two:0", "msg_20two:1"]
    assert text_of(chunks) == "First.Second."


async def test_text_that_is_not_streamed_is_one_piece() -> None:
    done = item_done(type="message", id="m", content=[{"type": "output_text", "text": "whole"}])
    assert text_of(await read(sse(CREATED, done, COMPLETED))) == "whole"


async def test_text_of_a_server_that_announces_no_items_is_read() -> None:
    chunks = await read(sse(text_delta("Hel"), text_delta("lo"), COMPLETED))
    assert text_of(chunks) == "Hello"
    assert types_of(chunks)[-3:] == ["response-metadata", "text-end", "finish"]


async def test_a_refusal_is_text_of_its_own_and_ends_as_content_filter() -> None:
    """R5.5"""
    chunks = await read(fixture("refusal"))
    assert text_of(chunks) == "I'm sorry, I can't help with that."
    assert payloads(chunks, "text-start")[0]["providerMetadata"] == {"openai": {"itemId": "msg_11ref", "refusal": True}}
    assert finish_of(chunks)["stepResult"] == {"reason": "content-filter", "rawReason": "refusal"}


@pytest.mark.parametrize(
    ("details", "reason", "raw"),
    [
        ({"reason": "max_output_tokens"}, "length", "max_output_tokens"),
        ({"reason": "content_filter"}, "content-filter", "content_filter"),
        ({"reason": "steered"}, "other", "steered"),
        (None, "other", "incomplete"),
    ],
)
async def test_the_reason_of_an_incomplete_response_is_normalised(details: Any, reason: str, raw: str) -> None:
    """R5.5"""
    response = {"id": "r", "status": "incomplete", "incomplete_details": details}
    chunks = await read(sse(CREATED, text_delta("x"), {"type": "response.incomplete", "response": response}))
    assert finish_of(chunks)["stepResult"] == {"reason": reason, "rawReason": raw}


@pytest.mark.parametrize(("name", "reason"), [("length", "length"), ("content_filter", "content-filter")])
async def test_a_cut_answer_keeps_its_text_and_its_usage(name: str, reason: str) -> None:
    """R5.5"""
    chunks = await read(fixture(name))
    assert text_of(chunks)
    assert finish_of(chunks)["stepResult"]["reason"] == reason
    assert finish_of(chunks)["output"]["usage"]["inputTokens"] == 14


async def test_log_probabilities_are_kept() -> None:
    chunks = await read(sse(CREATED, text_delta("x", logprobs=[{"token": "x", "logprob": -0.1}]), COMPLETED))
    assert finish_of(chunks)["stepResult"]["logprobs"] == [{"token": "x", "logprob": -0.1}]


async def test_a_reply_without_usage_says_so_by_absence() -> None:
    assert finish_of(await read(sse(CREATED, text_delta("x"), COMPLETED)))["output"]["usage"] == {}


async def test_raw_events_come_only_when_asked_for() -> None:
    request = ModelRequest(prompt=HI.prompt, include_raw_chunks=True)
    raw = [chunk for chunk in await read(fixture("text"), request=request) if chunk.type == "raw"]
    assert [chunk.payload for chunk in raw if isinstance(chunk, GenericChunk)] == events_of("text")
    assert "raw" not in types_of(await read(fixture("text")))


async def test_a_failed_response_fails_the_call() -> None:
    """R7.14, FR-100"""
    seen, error = await failure_of(fixture("failed"))
    assert text_of(seen) == "Partial."
    assert str(error).startswith("An error occurred while processing your request.")
    assert (error.code, error.is_retryable) == ("server_error", True)


async def test_a_failed_response_that_says_nothing_fails_the_call() -> None:
    """FR-100"""
    _, error = await failure_of(sse(CREATED, {"type": "response.failed", "response": {"status": "failed"}}))
    assert (str(error), error.code) == ("the response was failed", "response_failed")


async def test_an_error_event_fails_the_call() -> None:
    """R7.14, FR-100"""
    _, error = await failure_of(fixture("rate_limited"))
    assert str(error).startswith("Rate limit reached for gpt-5")
    assert (error.code, error.is_retryable) == ("rate_limit_exceeded", True)


async def test_an_overflow_inside_the_stream_says_what_to_do() -> None:
    """FR-102"""
    _, error = await failure_of(fixture("context_overflow"))
    assert str(error).endswith("(the prompt does not fit into the model: leave out old messages or long tool results)")
    assert (error.code, error.is_retryable) == ("context_length_exceeded", False)


async def test_an_error_without_a_code_may_pass() -> None:
    """R7.13"""
    _, error = await failure_of(sse({"type": "error", "code": None, "message": "it broke", "param": None}))
    assert (str(error), error.code, error.is_retryable) == ("it broke", None, True)


async def test_a_stream_that_ends_in_the_middle_fails_and_makes_no_call() -> None:
    """R7.14, FR-100"""
    seen, error = await failure_of(fixture("truncated"))
    assert types_of(seen)[-2:] == ["tool-call-input-streaming-start", "tool-call-delta"]
    assert (error.code, error.is_retryable) == ("truncated_stream", True)


@pytest.mark.parametrize("data", [b"data: {oops\n\n", b"data: 7\n\n", b'data: {"output_index": "x"}\n\n'])
async def test_an_unreadable_event_fails_the_call(data: bytes) -> None:
    """R7.14"""
    _, error = await failure_of(sse(CREATED), data)
    assert (error.code, error.is_retryable) == ("malformed_stream", True)


@pytest.mark.parametrize(
    "event",
    [
        text_delta(7),  # type: ignore[arg-type]  # what the test is about
        item_done(type="message", content="x"),
        item_done(type="message", content=[7]),
        item_done(type="reasoning", summary=["x"]),
        item_done(type="function_call", name="f", call_id=[7]),
        {"type": "response.completed", "response": {"usage": []}},
    ],
)
async def test_an_event_with_something_else_in_it_fails_the_call(event: dict[str, Any]) -> None:
    """R7.14"""
    _, error = await failure_of(sse(CREATED, event, COMPLETED))
    assert error.code == "malformed_stream"


async def test_a_time_that_is_none_is_left_out() -> None:
    created = {"type": "response.created", "response": {"id": "resp_1", "created_at": 1_764_670_000_000_000}}
    (metadata,) = payloads(await read(sse(created, COMPLETED)), "response-metadata")
    assert "timestamp" not in metadata


async def test_an_event_of_another_protocol_is_not_tried_again() -> None:
    _, error = await failure_of(event({"content": "x"}))
    assert "it is no event of the Responses API" in str(error)
    assert not error.is_retryable


async def test_leaving_early_closes_the_reply() -> None:
    """R12.28"""
    reply = event_reply([fixture("text")])
    stream = ResponsesServer(reply).model.stream(HI)
    await anext(stream)
    assert not reply.is_closed
    await stream.aclose()
    assert reply.is_closed
