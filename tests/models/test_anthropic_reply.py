from __future__ import annotations

from typing import Any

import pytest

from interlock.chunks import GenericChunk, ToolCall
from interlock.models import ModelRequest
from interlock.testing import text_of, types_of
from tests.models.anthropic_server import COMPLETE, AnthropicServer, answer, block, event, fixture, read
from tests.models.reading import HI, content, finish_of, until_failure
from tests.models.wire import event_reply

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": ""}


def text(piece: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": piece}


def calls_of(chunks: list[Any]) -> list[tuple[str, str, Any]]:
    return [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in chunks if isinstance(c, ToolCall)]


async def test_text_becomes_one_span_with_the_usage_at_the_end() -> None:
    """R5.5"""
    chunks = await read(fixture("text"))
    assert types_of(chunks) == [
        *("stream-start", "response-metadata", "text-start", "text-delta", "text-delta", "text-delta"),
        *("text-end", "finish"),
    ]
    assert text_of(chunks) == "Hello, Zürich 🏔️"
    finish = finish_of(chunks)
    assert finish["stepResult"] == {"reason": "stop", "rawReason": "end_turn"}
    assert finish["output"] == {
        "usage": {"inputTokens": 25, "outputTokens": 9, "totalTokens": 34, "cachedInputTokens": 0}
    }


@pytest.mark.parametrize("name", COMPLETE)
async def test_every_cut_between_packets_gives_the_same_chunks(name: str) -> None:
    data = fixture(name)
    whole = content(await read(data))
    for size in (1, 7, 61):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        server = AnthropicServer(event_reply(pieces))
        assert content([chunk async for chunk in server.model.stream(HI)]) == whole


async def test_response_metadata_names_the_reply() -> None:
    server = AnthropicServer(event_reply([fixture("text")], **{"request-id": "req_1", "set-cookie": "secret"}))
    chunks = [chunk async for chunk in server.model.stream(HI)]
    payload = chunks[1].to_dict()["payload"]
    assert (payload["id"], payload["modelId"]) == ("msg_010000000000000000000001", "claude-sonnet-5-5")
    assert payload["headers"]["request-id"] == "req_1"
    assert "set-cookie" not in payload["headers"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("something_new", "other"),
    ],
)
async def test_stop_reasons_are_normalised(raw: str, reason: str) -> None:
    """R5.5"""
    chunks = await read(answer(block(0, TEXT, text("x")), stop_reason=raw))
    assert finish_of(chunks)["stepResult"] == {"reason": reason, "rawReason": raw}


async def test_an_answer_without_a_reason_ends_as_unknown_or_with_its_calls() -> None:
    """R5.5"""
    assert finish_of(await read(answer(stop_reason=None)))["stepResult"] == {"reason": "unknown"}
    call = block(0, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}})
    assert finish_of(await read(answer(call, stop_reason=None)))["stepResult"] == {"reason": "tool-calls"}


async def test_cache_reads_and_writes_are_input_tokens() -> None:
    """R12.22"""
    finish = finish_of(await read(fixture("cached")))
    assert finish["output"]["usage"] == {
        "inputTokens": 8 + 120 + 2048,
        "outputTokens": 4,
        "totalTokens": 8 + 120 + 2048 + 4,
        "cachedInputTokens": 2048,
    }
    facts = finish["providerMetadata"]["anthropic"]
    assert facts["cacheCreationInputTokens"] == 120
    assert facts["usage"]["cache_creation"] == {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 100}
    assert facts["stopSequence"] == "END"


async def test_thinking_tokens_are_reasoning_tokens() -> None:
    """R12.22"""
    assert finish_of(await read(fixture("thinking")))["output"]["usage"]["reasoningTokens"] == 64


async def test_an_answer_without_usage_says_so_by_absence() -> None:
    reply = event("message_start", message={"id": "m"}) + event("message_stop")
    assert finish_of(await read(reply))["output"]["usage"] == {}


async def test_parallel_calls_are_shown_piece_by_piece_and_then_whole() -> None:
    """R5.6"""
    chunks = await read(fixture("parallel_tools"))
    weather = {"toolCallId": "toolu_01A0000000000000000000aa", "toolName": "get_weather"}
    time = {"toolCallId": "toolu_01B0000000000000000000bb", "toolName": "get_time"}
    assert content(chunks)[4:] == [
        {"type": "tool-call-input-streaming-start", **weather},
        {"type": "tool-call-delta", **weather, "argsTextDelta": '{"city": '},
        {"type": "tool-call-delta", **weather, "argsTextDelta": '"Zürich"'},
        {"type": "tool-call-delta", **weather, "argsTextDelta": ', "unit": "c"}'},
        {"type": "tool-call-input-streaming-end", "toolCallId": weather["toolCallId"]},
        {"type": "tool-call", **weather, "args": {"city": "Zürich", "unit": "c"}},
        {"type": "tool-call-input-streaming-start", **time},
        {"type": "tool-call-input-streaming-end", "toolCallId": time["toolCallId"]},
        {"type": "tool-call", **time, "args": {}},
    ]
    assert finish_of(chunks)["stepResult"] == {"reason": "tool-calls", "rawReason": "tool_use"}


async def test_input_that_comes_with_the_start_of_a_call_is_read() -> None:
    call = block(0, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}})
    assert calls_of(await read(answer(call, stop_reason="tool_use"))) == [("toolu_1", "f", {"a": 1})]


async def test_input_that_is_no_json_is_kept_as_text() -> None:
    """R5.6"""
    chunks = await read(fixture("max_tokens"))
    assert calls_of(chunks) == [
        ("toolu_01J0000000000000000000jj", "write_file", '{"path": "a.txt", "text": "Once'),
    ]
    assert finish_of(chunks)["stepResult"]["reason"] == "length"


async def test_a_call_id_of_the_prompt_is_not_given_twice() -> None:
    """FR-095"""
    call = {"type": "tool-call", "toolCallId": "toolu_1", "toolName": "f", "input": {}}
    result = {"type": "tool-result", "toolCallId": "toolu_1", "toolName": "f", "output": {"type": "text", "value": "x"}}
    request = ModelRequest(
        prompt=[*HI.prompt, {"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}]
    )
    reply = answer(block(0, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}), stop_reason="tool_use")
    [(call_id, _, _)] = calls_of(await read(reply, request))
    assert call_id
    assert call_id != "toolu_1"


async def test_thinking_keeps_its_signature_and_its_redacted_parts() -> None:
    """R4.15"""
    signature = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk="
    data = "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"
    assert content(await read(fixture("thinking")))[:8] == [
        {"type": "reasoning-start", "id": "reasoning-0"},
        {"type": "reasoning-delta", "id": "reasoning-0", "text": "The user asks "},
        {"type": "reasoning-delta", "id": "reasoning-0", "text": "for the weather."},
        {
            "type": "reasoning-signature",
            "id": "reasoning-0",
            "signature": signature,
            "providerMetadata": {"anthropic": {"signature": signature}},
        },
        {"type": "reasoning-end", "id": "reasoning-0"},
        {"type": "reasoning-start", "id": "reasoning-1"},
        {
            "type": "redacted-reasoning",
            "id": "reasoning-1",
            "data": data,
            "providerMetadata": {"anthropic": {"redactedData": data}},
        },
        {"type": "reasoning-end", "id": "reasoning-1"},
    ]


async def test_hidden_thinking_still_has_its_signature() -> None:
    """R4.15"""
    assert [chunk["type"] for chunk in content(await read(fixture("hidden_thinking")))][:3] == [
        *("reasoning-start", "reasoning-signature", "reasoning-end")
    ]


async def test_a_search_of_the_providers_own_is_a_call_with_its_result() -> None:
    """R4.13, R10.12"""
    chunks = content(await read(fixture("web_search")))
    search = {"toolCallId": "srvtoolu_01D0000000000000000000dd", "toolName": "web_search"}
    call = next(chunk for chunk in chunks if chunk["type"] == "tool-call")
    assert call == {
        "type": "tool-call",
        **search,
        "args": {"query": "height of the Eiger"},
        "providerExecuted": True,
    }
    result = next(chunk for chunk in chunks if chunk["type"] == "tool-result")
    assert {key: value for key, value in result.items() if key != "result"} == {
        "type": "tool-result",
        **search,
        "providerExecuted": True,
    }
    assert result["result"][0]["encrypted_content"] == "EqgfCioIARgBIiQ3YTAwMjY1Mi1m"


async def test_a_search_alone_does_not_end_as_a_tool_call() -> None:
    """R5.5"""
    assert finish_of(await read(fixture("web_search")))["stepResult"]["reason"] == "stop"


async def test_a_failed_search_is_a_result_that_is_an_error() -> None:
    """FR-117"""
    result = next(chunk for chunk in content(await read(fixture("web_search_error"))) if chunk["type"] == "tool-result")
    assert result["isError"] is True
    assert result["result"] == {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}


async def test_executed_code_is_a_call_with_its_result_and_names_its_container() -> None:
    chunks = await read(fixture("code_execution"))
    result = next(chunk for chunk in content(chunks) if chunk["type"] == "tool-result")
    assert (result["toolName"], result["result"]["stdout"]) == ("bash_code_execution", "42\n")
    assert finish_of(chunks)["providerMetadata"]["anthropic"]["container"] == {
        "id": "container_011Cexample",
        "expiresAt": "2026-12-02T12:00:00Z",
    }


async def test_a_result_of_an_earlier_turns_call_has_its_name() -> None:
    call = {
        "type": "tool-call",
        "toolCallId": "srvtoolu_1",
        "toolName": "web_search",
        "input": {},
        "providerExecuted": True,
    }
    request = ModelRequest(prompt=[*HI.prompt, {"role": "assistant", "content": [call]}])
    reply = answer(block(0, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}))
    assert content(await read(reply, request))[0]["toolName"] == "web_search"


async def test_a_paused_turn_keeps_its_open_call() -> None:
    chunks = await read(fixture("pause_turn"))
    assert finish_of(chunks)["stepResult"] == {"reason": "stop", "rawReason": "pause_turn"}
    assert content(chunks)[-1]["providerExecuted"] is True


async def test_a_call_from_code_says_who_called() -> None:
    calls = [chunk for chunk in content(await read(fixture("programmatic_call"))) if chunk["type"] == "tool-call"]
    assert "providerMetadata" not in calls[0]
    assert calls[1]["providerMetadata"] == {
        "anthropic": {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_01H0000000000000000000hh"}}
    }


async def test_a_call_of_a_remote_mcp_server_is_dynamic_and_names_the_server() -> None:
    call = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "demo", "input": {"a": 1}}
    result = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True, "content": "no"}
    chunks = content(await read(answer(block(0, call), block(1, result))))
    assert chunks[2:] == [
        {
            "type": "tool-call",
            "toolCallId": "mcptoolu_1",
            "toolName": "echo",
            "args": {"a": 1},
            "providerExecuted": True,
            "dynamic": True,
            "providerMetadata": {"anthropic": {"serverName": "demo"}},
        },
        {
            "type": "tool-result",
            "toolCallId": "mcptoolu_1",
            "toolName": "echo",
            "result": {"content": "no", "is_error": True},
            "isError": True,
            "providerExecuted": True,
        },
    ]


async def test_cited_pages_become_sources_and_stay_with_the_text() -> None:
    chunks = content(await read(fixture("web_search")))
    source = next(chunk for chunk in chunks if chunk["type"] == "source")
    assert source == {
        "type": "source",
        "id": "source-1",
        "sourceType": "url",
        "title": "Eiger",
        "url": "https://peaks.example/eiger",
        "providerMetadata": {
            "anthropic": {
                "type": "web_search_result_location",
                "citedText": "The Eiger is 3,967 m high.",
                "url": "https://peaks.example/eiger",
                "title": "Eiger",
                "encryptedIndex": "Eo8BCioIAhgBIiQyYjQ0OWJm",
            }
        },
    }
    end = next(chunk for chunk in chunks if chunk["type"] == "text-end" and "providerMetadata" in chunk)
    [kept] = end["providerMetadata"]["anthropic"]["citations"]
    assert kept["encrypted_index"] == "Eo8BCioIAhgBIiQyYjQ0OWJm"


async def test_cited_documents_become_sources_that_name_the_file() -> None:
    pdf = {"type": "file", "mediaType": "application/pdf", "data": "JVBERg==", "filename": "grass.pdf"}
    note = {"type": "file", "mediaType": "text/plain", "data": "R3JlZW4=", "filename": "colours.txt"}
    request = ModelRequest(prompt=[{"role": "user", "content": [pdf, note]}])
    chunks = content(await read(fixture("document_citations"), request))
    sources = [chunk for chunk in chunks if chunk["type"] == "source"]
    named = [(one["sourceType"], one["title"], one["mimeType"], one["filename"]) for one in sources]
    assert named == [
        ("document", "Colours", "text/plain", "colours.txt"),
        ("document", "grass.pdf", "application/pdf", "grass.pdf"),
    ]
    assert sources[1]["providerMetadata"]["anthropic"]["startPageNumber"] == 1


async def test_a_citation_of_a_search_result_is_a_page_if_its_source_is_one() -> None:
    def citation(source: str) -> dict[str, Any]:
        cited = {"type": "search_result_location", "cited_text": "x", "source": source, "title": "T"}
        return {"type": "citations_delta", "citation": {**cited, "search_result_index": 0}}

    reply = answer(block(0, TEXT, text("x"), citation("https://a.example"), citation("kb/7")))
    sources = [chunk for chunk in content(await read(reply)) if chunk["type"] == "source"]
    assert [(one["sourceType"], one.get("url"), one["title"]) for one in sources] == [
        ("url", "https://a.example", "T"),
        ("document", None, "T"),
    ]


async def test_a_refusal_ends_as_content_filter_and_says_why() -> None:
    """R5.5"""
    chunks = await read(fixture("refusal"))
    finish = finish_of(chunks)
    assert finish["stepResult"] == {"reason": "content-filter", "rawReason": "refusal"}
    assert finish["providerMetadata"]["anthropic"]["stopDetails"]["category"] == "cyber"


async def test_what_is_new_to_us_ends_nothing() -> None:
    """R5.2"""
    chunks = await read(fixture("unknown"))
    assert text_of(chunks) == "Hi"
    assert content(chunks)[-1] == {
        "type": "custom",
        "kind": "anthropic.brand_new_block",
        "providerMetadata": {"anthropic": {"type": "brand_new_block", "z": 3}},
    }
    assert finish_of(chunks)["stepResult"] == {"reason": "other", "rawReason": "brand_new_reason"}


async def test_an_uploaded_file_is_a_file() -> None:
    chunks = content(await read(answer(block(0, {"type": "container_upload", "file_id": "file_1"}))))
    assert chunks == [{"type": "file", "data": "file_1", "mimeType": "application/octet-stream"}]


async def test_text_that_comes_with_the_start_of_a_block_is_read() -> None:
    assert text_of(await read(answer(block(0, {"type": "text", "text": "He"}, text("y"))))) == "Hey"


async def test_a_block_without_text_has_no_delta() -> None:
    """FR-099"""
    assert [chunk["type"] for chunk in content(await read(answer(block(0, TEXT))))] == ["text-start", "text-end"]


async def test_an_empty_delta_is_passed_on() -> None:
    """R5.8, FR-011"""
    assert len(content(await read(answer(block(0, TEXT, text("")))))) == 3


@pytest.mark.parametrize("tool", ["json_response", "other"])
async def test_the_input_of_the_tool_that_stands_for_the_answer_is_text(tool: str) -> None:
    """R12.32"""
    request = ModelRequest(
        prompt=HI.prompt, response_format={"type": "json", "schema": {"type": "object", "properties": {}}}
    )
    chunks = await read(
        fixture("json_tool").replace(b"json_response", tool.encode()), request, model_id="claude-opus-4-1"
    )
    if tool == "json_response":
        assert text_of(chunks) == '{"n": 7}'
        assert finish_of(chunks)["stepResult"] == {"reason": "stop", "rawReason": "tool_use"}
    else:
        assert calls_of(chunks)[0][1:] == ("other", {"n": 7})


async def test_raw_events_are_shown_on_request() -> None:
    chunks = await read(fixture("text"), ModelRequest(prompt=HI.prompt, include_raw_chunks=True))
    raw = [chunk.payload["type"] for chunk in chunks if isinstance(chunk, GenericChunk) and chunk.type == "raw"]
    assert raw[0] == "message_start"
    assert "ping" in raw
    assert raw[-1] == "message_stop"


async def test_an_error_inside_the_answer_fails_the_call() -> None:
    """FR-100"""
    seen, error = await until_failure(AnthropicServer(fixture("overloaded")).model.stream(HI))
    assert text_of(seen) == "Par"
    assert calls_of(seen) == []
    assert (str(error), error.code, error.status_code, error.is_retryable) == (
        "Overloaded",
        "overloaded_error",
        529,
        True,
    )


@pytest.mark.parametrize(
    ("code", "status_code", "is_retryable"),
    [
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("request_too_large", 413, False),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("timeout_error", 504, True),
        ("brand_new_error", None, False),
    ],
)
async def test_errors_inside_the_answer_have_the_status_they_would_have_had(
    code: str, status_code: int | None, is_retryable: bool
) -> None:
    reply = event("error", error={"type": code, "message": "no"})
    _, error = await until_failure(AnthropicServer(reply).model.stream(HI))
    assert (error.code, error.status_code, error.is_retryable) == (code, status_code, is_retryable)


async def test_an_answer_that_breaks_off_is_an_error() -> None:
    """FR-100"""
    seen, error = await until_failure(AnthropicServer(fixture("truncated")).model.stream(HI))
    assert text_of(seen) == "Par"
    assert (error.code, error.is_retryable) == ("truncated_stream", True)


@pytest.mark.parametrize(
    "reply", [b"data: {broken\n\n", b"data: []\n\n", event("content_block_delta", index=3, delta=text("x"))]
)
async def test_an_event_that_cannot_be_read_is_an_error(reply: bytes) -> None:
    _, error = await until_failure(AnthropicServer(reply).model.stream(HI))
    assert (error.code, error.is_retryable) == ("malformed_stream", True)


async def test_a_block_that_the_server_did_not_close_is_closed() -> None:
    start = event("content_block_start", index=0, content_block=TEXT)
    reply = answer(start, event("content_block_delta", index=0, delta=text("x")))
    assert [chunk["type"] for chunk in content(await read(reply))] == ["text-start", "text-delta", "text-end"]
