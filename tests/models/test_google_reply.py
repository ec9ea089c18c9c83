from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.chunks import GenericChunk, ToolCall
from interlock.models import ModelRequest
from interlock.testing import drain, text_of, types_of
from tests.models.google_server import COMPLETE, GoogleServer, event, fixture, read, sse
from tests.models.reading import HI, content, finish_of, until_failure
from tests.models.wire import event_reply

pytestmark = pytest.mark.anyio


def signed(text: str) -> dict[str, Any]:
    return {"google": {"thoughtSignature": base64.b64encode(f"signature {text}".encode()).decode()}}


def calls_of(chunks: list[Any]) -> list[tuple[str, str, Any]]:
    return [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in chunks if isinstance(c, ToolCall)]


async def test_text_becomes_one_span_with_the_usage_at_the_end() -> None:
    """R5.5"""
    chunks = await read(fixture("text"))
    assert types_of(chunks) == [
        *("stream-start", "response-metadata", "text-start", "text-delta", "text-delta", "text-delta"),
        *("text-end", "finish"),
    ]
    assert text_of(chunks) == "Grüße aus Oslo 🌦, 日本"
    assert finish_of(chunks) == {
        "stepResult": {"reason": "stop", "rawReason": "STOP"},
        "output": {"usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}},
    }


@pytest.mark.parametrize("name", COMPLETE)
async def test_every_cut_between_packets_gives_the_same_chunks(name: str) -> None:
    data = fixture(name)
    whole = without_ids(content(await read(data)))
    for size in (1, 7, 61):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert without_ids(content(await read(*pieces))) == whole


def without_ids(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls without an id of their own get random ones."""
    return [{**one, "toolCallId": ""} if str(one.get("toolCallId")).startswith("call_") else one for one in told]


async def test_response_metadata_names_the_reply() -> None:
    headers = {"server-timing": "gfet4t7; dur=1", "set-cookie": "secret"}
    chunks = await drain(GoogleServer(event_reply([fixture("text")], **headers)).model.stream(HI))
    payload = chunks[1].to_dict()["payload"]
    assert (payload["id"], payload["modelId"]) == ("resp-text", "gemini-3-flash")
    assert payload["headers"]["server-timing"] == "gfet4t7; dur=1"
    assert "set-cookie" not in payload["headers"]


async def test_vertex_says_when_the_reply_was_made() -> None:
    created = {"createTime": "2026-01-02T03:04:05.678901Z", "candidates": [{"finishReason": "STOP"}]}
    assert (await read(sse(created)))[1].to_dict()["payload"]["timestamp"] == "2026-01-02T03:04:05.678Z"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("RECITATION", "content-filter"),
        ("BLOCKLIST", "content-filter"),
        ("PROHIBITED_CONTENT", "content-filter"),
        ("SPII", "content-filter"),
        ("IMAGE_SAFETY", "content-filter"),
        ("MODEL_ARMOR", "content-filter"),
        ("LANGUAGE", "other"),
        ("OTHER", "other"),
        ("SOMETHING_NEW", "other"),
        ("FINISH_REASON_UNSPECIFIED", "unknown"),
    ],
)
async def test_finish_reasons_are_normalised(raw: str, reason: str) -> None:
    """R5.5"""
    assert finish_of(await read(event({"text": "x"}, finish=raw)))["stepResult"] == {"reason": reason, "rawReason": raw}


@pytest.mark.parametrize(
    ("raw", "is_retryable"),
    [("MALFORMED_FUNCTION_CALL", True), ("UNEXPECTED_TOOL_CALL", True), ("MISSING_THOUGHT_SIGNATURE", False)],
)
async def test_a_mistake_of_the_model_is_an_error_that_says_so(raw: str, is_retryable: bool) -> None:
    """R5.7, R7.14"""
    ending = event({"text": "I will"}, finish=raw, finishMessage="Malformed: print(f(")
    seen, error = await until_failure(GoogleServer(event_reply([ending])).model.stream(HI))
    assert text_of(seen) == "I will"
    assert (str(error), error.code, error.is_retryable) == ("Malformed: print(f(", raw, is_retryable)


async def test_a_mistake_without_a_message_names_the_reason() -> None:
    _, error = await until_failure(GoogleServer(event_reply([event(finish="MALFORMED_RESPONSE")])).model.stream(HI))
    assert str(error) == "the model's answer ended with MALFORMED_RESPONSE"


async def test_a_filtered_answer_keeps_what_was_said_and_the_ratings() -> None:
    """R5.5"""
    chunks = await read(fixture("safety"))
    assert text_of(chunks) == "First you "
    finish = finish_of(chunks)
    assert finish["stepResult"] == {"reason": "content-filter", "rawReason": "SAFETY"}
    assert finish["providerMetadata"]["google"]["safetyRatings"][0]["blocked"] is True


async def test_a_blocked_prompt_ends_as_content_filter() -> None:
    """R5.5"""
    chunks = await read(fixture("blocked_prompt"))
    assert types_of(chunks) == ["stream-start", "response-metadata", "finish"]
    finish = finish_of(chunks)
    assert finish["stepResult"] == {"reason": "content-filter", "rawReason": "PROHIBITED_CONTENT"}
    assert finish["providerMetadata"] == {"google": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}}
    assert finish["output"]["usage"] == {"inputTokens": 31, "totalTokens": 31}


async def test_thoughts_count_as_output_and_what_tools_brought_in_as_input() -> None:
    """R12.22"""
    assert finish_of(await read(fixture("usage")))["output"]["usage"] == {
        "inputTokens": 2130,
        "outputTokens": 66,
        "totalTokens": 2196,
        "reasoningTokens": 64,
        "cachedInputTokens": 2048,
    }


async def test_thoughts_are_a_span_before_the_text_and_a_closing_signature_stays_with_the_text() -> None:
    """R4.15"""
    assert content(await read(fixture("reasoning"))) == [
        {"type": "reasoning-start", "id": "reasoning-1"},
        {"type": "reasoning-delta", "id": "reasoning-1", "text": "**Weighing it**\n\nThe rivers first. "},
        {"type": "reasoning-delta", "id": "reasoning-1", "text": "Then the sea."},
        {"type": "reasoning-end", "id": "reasoning-1"},
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "text": "It is "},
        {"type": "text-delta", "id": "text-2", "text": "Bergen."},
        {"type": "text-end", "id": "text-2", "providerMetadata": signed("end")},
    ]


async def test_a_signed_piece_of_text_ends_its_span() -> None:
    """R4.15; a text must go back with the signature it came with, and no other's"""
    chunks = await read(event({"text": "a", "thoughtSignature": "c2ln"}), event({"text": "b"}, finish="STOP"))
    assert [(c["type"], c["id"], c.get("providerMetadata")) for c in content(chunks) if c["type"] == "text-end"] == [
        ("text-end", "text-1", {"google": {"thoughtSignature": "c2ln"}}),
        ("text-end", "text-2", None),
    ]


async def test_a_signature_without_text_behind_a_call_is_kept_as_reasoning() -> None:
    """R4.15"""
    call = {"functionCall": {"name": "f", "args": {}, "id": "c1"}}
    told = content(await read(event(call), event({"text": "", "thoughtSignature": "c2ln"}, finish="STOP")))
    assert told[-1] == {
        "type": "reasoning-end",
        "id": "reasoning-1",
        "providerMetadata": {"google": {"thoughtSignature": "c2ln"}},
    }


async def test_a_call_is_shown_as_a_streamed_one_and_then_whole() -> None:
    """R5.6"""
    chunks = await read(fixture("tools"))
    name = {"toolCallId": "fc-1001", "toolName": "get_weather"}
    assert content(chunks)[3:] == [
        {"type": "tool-call-input-streaming-start", **name},
        {"type": "tool-call-delta", **name, "argsTextDelta": '{"city":"Oslo","days":2}'},
        {"type": "tool-call-input-streaming-end", "toolCallId": "fc-1001", "providerMetadata": signed("call")},
        {"type": "tool-call", **name, "args": {"city": "Oslo", "days": 2}, "providerMetadata": signed("call")},
    ]
    assert finish_of(chunks)["stepResult"] == {"reason": "tool-calls", "rawReason": "STOP"}


async def test_parallel_calls_keep_their_own_arguments() -> None:
    """R5.6"""
    assert calls_of(await read(fixture("parallel_tools"))) == [
        ("fc-1", "get_weather", {"city": "Oslo"}),
        ("fc-2", "get_weather", {"city": "Rome"}),
        ("fc-3", "get_time", {}),
    ]


async def test_calls_without_ids_get_unique_ones() -> None:
    """R5.6, FR-095"""
    calls = calls_of(await read(fixture("missing_ids")))
    assert [args for _, _, args in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert len({call_id for call_id, _, _ in calls} - {""}) == 2


async def test_a_call_id_of_an_earlier_step_is_replaced() -> None:
    """R5.6, FR-095"""
    past: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}}]},
    ]
    request = ModelRequest(prompt=[*HI.prompt, *past])
    chunks = await read(event({"functionCall": {"name": "f", "id": "c1"}}, finish="STOP"), request=request)
    assert calls_of(chunks)[0][0] not in ("c1", "")


async def test_code_that_was_executed_is_a_call_of_the_provider_with_its_result() -> None:
    """R10.12"""
    call, result, *_ = content(await read(fixture("code_execution")))
    assert (call["toolName"], call["args"]) == ("code_execution", {"language": "PYTHON", "code": "print(17 + 25)\n"})
    assert call["providerExecuted"] is True
    assert call["providerMetadata"]["google"] == {"part": "executableCode", **signed("code")["google"]}
    assert result["toolCallId"] == call["toolCallId"]
    assert result["result"] == {"outcome": "OUTCOME_OK", "output": "42\n"}


async def test_two_programs_keep_their_own_outcomes() -> None:
    """R10.12; whether the API gives them ids or not"""
    for ids in ({}, {"id": "x1"}), ({"id": "x1"}, {"id": "x2"}):
        pieces = []
        for number, own in enumerate(ids):
            pieces.append(event({"executableCode": {"language": "PYTHON", "code": str(number), **own}}))
            pieces.append(event({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": str(number), **own}}))
        told = content(await read(*pieces, event({"text": "x"}, finish="STOP")))
        paired = {one["toolCallId"]: one["args"]["code"] for one in told if one["type"] == "tool-call"}
        results = {one["toolCallId"]: one["result"]["output"] for one in told if one["type"] == "tool-result"}
        assert paired == results
        assert len(paired) == 2


async def test_a_search_is_a_call_of_the_provider_with_its_sources() -> None:
    """R10.12"""
    chunks = await read(fixture("google_search"))
    call, result, first, second = content(chunks)[4:]
    assert (call["toolName"], call["args"]) == ("google_search", {"queries": ["who won the match in Bergen"]})
    assert result["toolCallId"] == call["toolCallId"]
    assert [one["title"] for one in result["result"]["sources"]] == ["sport.example", "news.example"]
    assert first == {
        "type": "source",
        "id": "source-1",
        "sourceType": "url",
        "title": "sport.example",
        "url": "https://vertexaisearch.example/redirect/1",
    }
    assert second["id"] == "source-2"
    supports = finish_of(chunks)["providerMetadata"]["google"]["groundingMetadata"]["groundingSupports"]
    assert supports[0]["segment"]["text"] == "Norway won in Bergen."


async def test_pages_that_were_read_are_a_call_of_the_provider() -> None:
    """R10.12"""
    told = {one["type"]: one for one in content(await read(fixture("url_context")))}
    assert told["tool-call"]["toolName"] == "url_context"
    assert told["tool-call"]["args"] == {"urls": ["https://a.example/page", "https://b.example/"]}
    statuses = [page["urlRetrievalStatus"] for page in told["tool-result"]["result"]["pages"]]
    assert statuses == ["URL_RETRIEVAL_STATUS_SUCCESS", "URL_RETRIEVAL_STATUS_ERROR"]
    assert told["source"]["url"] == "https://a.example/page"


async def test_a_search_that_is_part_of_the_answer_is_told_once() -> None:
    """R10.12"""
    chunks = await read(fixture("server_tools"))
    assert calls_of(chunks) == [
        ("st-1", "google_search_web", {"queries": ["northernmost city of Norway"]}),
        ("fc-7", "get_weather", {"city": "Hammerfest"}),
    ]
    results = [one for one in content(chunks) if one["type"] == "tool-result"]
    assert [(one["toolCallId"], one["result"]) for one in results] == [
        ("st-1", {"search_suggestions": "<div>chip</div>"})
    ]


async def test_documents_places_and_quotations_are_sources() -> None:
    told = [one for one in content(await read(fixture("documents"))) if one["type"] == "source"]
    assert [(one["sourceType"], one["title"], one.get("url")) for one in told] == [
        ("document", "handbook.pdf", None),
        ("url", "A café", "https://maps.example/?cid=1"),
    ]
    quoted = [one for one in content(await read(fixture("citations"))) if one["type"] == "source"]
    assert [one["url"] for one in quoted] == ["https://plays.example/hamlet"]


async def test_a_source_that_is_told_twice_is_one() -> None:
    web = {"groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}]}
    told = content(await read(event({"text": "x"}, groundingMetadata=web), event(finish="STOP", groundingMetadata=web)))
    assert [one["id"] for one in told if one["type"] == "source"] == ["source-1"]


async def test_an_image_that_the_model_made_is_a_file() -> None:
    told = content(await read(fixture("image")))[-1]
    assert (told["type"], told["mimeType"]) == ("file", "image/png")
    assert base64.b64decode(told["data"]).startswith(b"\x89PNG")
    assert told["providerMetadata"] == signed("image")


async def test_an_image_of_a_thought_is_no_part_of_the_answer() -> None:
    sketch = {"thought": True, "inlineData": {"mimeType": "image/png", "data": "QUJD"}}
    stored = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/film"}}
    told = content(await read(event(sketch, stored, finish="STOP")))
    assert [(one["type"], one["data"]) for one in told] == [("reasoning-file", "QUJD"), ("file", "gs://bucket/film")]


async def test_log_probabilities_are_kept() -> None:
    chosen = {"chosenCandidates": [{"token": "x", "logProbability": -0.1}]}
    chunks = await read(event({"text": "x"}, finish="STOP", logprobsResult=chosen))
    assert finish_of(chunks)["stepResult"]["logprobs"] == chosen["chosenCandidates"]


async def test_only_the_first_answer_is_read() -> None:
    other = {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "MAX_TOKENS"}]}
    chunks = await read(fixture("text"), sse(other))
    assert text_of(chunks) == "Grüße aus Oslo 🌦, 日本"
    assert finish_of(chunks)["stepResult"]["reason"] == "stop"


async def test_unknown_events_fields_and_parts_are_passed_over() -> None:
    assert text_of(await read(fixture("unknown"))) == "Hello"


async def test_raw_events_come_only_when_asked_for() -> None:
    request = ModelRequest(prompt=HI.prompt, include_raw_chunks=True)
    raw = [c for c in await read(fixture("text"), request=request) if c.type == "raw"]
    assert isinstance(raw[0], GenericChunk)
    assert raw[0].payload["responseId"] == "resp-text"
    assert len(raw) == 3
    assert "raw" not in types_of(await read(fixture("text")))
