"""The official SDK beside our adapter: it reads the same answers, and it may send our requests."""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import types

from interlock.chunks import Chunk, File, Finish, ReasoningDelta, Source, ToolCall, ToolResult
from interlock.errors import APICallError, ConfigurationError
from interlock.models import GoogleModel
from interlock.testing import drain, text_of
from tests.models.google_server import COMPLETE, GoogleServer, fixture, refusal
from tests.models.reading import HI, until_failure
from tests.models.wire import Pieces, Reply, event_reply, loopback

pytestmark = pytest.mark.anyio


def sdk_client(server: GoogleServer, **options: Any) -> genai.Client:
    """The SDK on the server's transport."""
    given = {"api_key": "AIza-secret", **options}
    return genai.Client(http_options=types.HttpOptions(httpx_async_client=server.http, api_version="v1beta"), **given)


def our_reading(chunks: list[Chunk]) -> dict[str, Any]:
    calls = [c.payload for c in chunks if isinstance(c, ToolCall)]
    finish = next(c.payload for c in chunks if isinstance(c, Finish))
    usage = finish.output.usage.to_dict() if finish.output and finish.output.usage else {}
    told_beside = ("groundingMetadata", "urlContextMetadata")
    return {
        "text": text_of(chunks),
        "thoughts": "".join(c.payload.text for c in chunks if isinstance(c, ReasoningDelta)),
        "calls": [
            (c.tool_name.lower(), c.args)
            for c in calls
            if (c.provider_metadata or {}).get("google", {}).get("part") not in told_beside
        ],
        "results": [
            c.payload.result
            for c in chunks
            if isinstance(c, ToolResult) and c.payload.tool_name in ("code_execution", "google_search_web")
        ],
        "files": [base64.b64decode(c.payload.data) for c in chunks if isinstance(c, File)],
        "sources": {c.payload.url for c in chunks if isinstance(c, Source) and c.payload.url},
        "reason": finish.step_result.raw_reason,
        "total": usage.get("totalTokens"),
        "cached": usage.get("cachedInputTokens"),
    }


async def sdk_reading(client: genai.Client) -> dict[str, Any]:
    parts: list[types.Part] = []
    sources: set[str | None] = set()
    told: dict[str, Any] = {"reason": None, "total": None, "cached": None}
    async for event in await client.aio.models.generate_content_stream(model="gemini-3-flash", contents="hi"):
        if event.usage_metadata:
            told["total"] = event.usage_metadata.total_token_count
            told["cached"] = event.usage_metadata.cached_content_token_count
        if event.prompt_feedback and event.prompt_feedback.block_reason:
            told["reason"] = event.prompt_feedback.block_reason.value
        for candidate in event.candidates or []:
            parts += (candidate.content and candidate.content.parts) or []
            if candidate.finish_reason:
                told["reason"] = candidate.finish_reason.value
            grounding = candidate.grounding_metadata
            for chunk in (grounding and grounding.grounding_chunks) or []:
                sources |= {one.uri for one in (chunk.web, chunk.maps) if one}
            for citation in (candidate.citation_metadata and candidate.citation_metadata.citations) or []:
                sources.add(citation.uri)
    calls: list[tuple[str, Any]] = []
    results: list[Any] = []
    for part in parts:
        if part.function_call:
            calls.append((str(part.function_call.name), part.function_call.args))
        if part.executable_code:
            calls.append(("code_execution", part.executable_code.model_dump(mode="json", include={"language", "code"})))
        if part.tool_call and part.tool_call.tool_type:
            calls.append((part.tool_call.tool_type.value.lower(), part.tool_call.args))
        if part.code_execution_result:
            results.append(part.code_execution_result.model_dump(mode="json", include={"outcome", "output"}))
        if part.tool_response:
            results.append(part.tool_response.response)
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "thoughts": "".join(part.text or "" for part in parts if part.thought),
        "calls": calls,
        "results": results,
        "files": [part.inline_data.data for part in parts if part.inline_data],
        "sources": sources,
        **told,
    }


@pytest.mark.parametrize("name", [name for name in COMPLETE if name != "unknown"])
async def test_the_sdk_reads_the_same_out_of_an_answer(name: str) -> None:
    server = GoogleServer(event_reply([fixture(name)]), event_reply([fixture(name)]))
    assert our_reading(await drain(server.model.stream(HI))) == await sdk_reading(sdk_client(server))


async def test_the_sdks_client_sends_our_request_and_we_read_its_reply() -> None:
    server = GoogleServer(event_reply([fixture("server_tools")]), event_reply([fixture("server_tools")]))
    model = GoogleModel("gemini-3-flash", client=sdk_client(server), headers={"x-a": "1"})
    assert our_reading(await drain(model.stream(HI))) == our_reading(await drain(server.model.stream(HI)))
    by_sdk, by_us = server.requests
    assert (by_sdk.url, json.loads(by_sdk.content)) == (by_us.url, json.loads(by_us.content))
    assert (by_sdk.headers["x-goog-api-key"], by_sdk.headers["x-a"]) == ("AIza-secret", "1")
    assert "google-genai" in by_sdk.headers["user-agent"]


async def test_vertex_ai_is_reached_through_the_sdks_client() -> None:
    server = GoogleServer(event_reply([fixture("tools")]))
    client = sdk_client(server, vertexai=True)
    model = GoogleModel("gemini-3-flash", client=client)
    assert [type(c) for c in await drain(model.stream(HI))].count(ToolCall) == 1
    assert server.requests[0].url.path.endswith("/publishers/google/models/gemini-3-flash:streamGenerateContent")
    assert (
        repr(model)
        == "GoogleModel('gemini-3-flash', provider='google', url='google.genai, "
        + "publishers/google/models/gemini-3-flash:streamGenerateContent')"
    )


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("error_401", 401, "UNAUTHENTICATED"),
        ("error_429", 429, "RESOURCE_EXHAUSTED"),
        ("error_503", 503, "UNAVAILABLE"),
    ],
)
async def test_a_refusal_that_the_sdk_raises_is_the_same_typed_error(name: str, status: int, code: str) -> None:
    """R17.7"""
    model = GoogleModel("gemini-3-flash", client=sdk_client(GoogleServer(refusal(name, status))))
    with pytest.raises(APICallError) as caught:
        await drain(model.stream(HI))
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.retry_after_s == (34.07 if status == 429 else None)
    assert caught.value.response_headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("error_in_stream", "UNAVAILABLE"),
        ("bare_error", "RESOURCE_EXHAUSTED"),
        ("malformed_call", "MALFORMED_FUNCTION_CALL"),
        ("truncated", "truncated_stream"),
    ],
)
async def test_an_answer_that_breaks_off_is_the_same_typed_error(name: str, code: str) -> None:
    """R7.14, FR-100"""
    server = GoogleServer(event_reply([fixture(name)]))
    server.model = GoogleModel("gemini-3-flash", client=sdk_client(server))
    seen, error = await until_failure(server.model.stream(HI))
    assert text_of(seen)
    assert (error.code, error.is_retryable) == (code, True)


async def test_an_event_that_the_sdk_cannot_read_is_a_typed_error() -> None:
    reply = event_reply([fixture("text").split(b"\r\n\r\n")[0] + b'\r\n\r\ndata: {"a\r\n\r\n'])
    model = GoogleModel("gemini-3-flash", client=sdk_client(GoogleServer(reply)))
    with pytest.raises(APICallError) as caught:
        await drain(model.stream(HI))
    assert caught.value.code == "malformed_stream"


@pytest.mark.parametrize(
    ("problem", "code"),
    [(httpx2.ConnectError("refused"), "connection_error"), (httpx2.ReadTimeout("slow"), "timeout")],
)
async def test_a_connection_that_the_sdk_lost_is_a_typed_error(problem: Exception, code: str) -> None:
    """R7.13"""
    client = sdk_client(GoogleServer(problem))
    with pytest.raises(APICallError) as caught:
        await drain(GoogleModel("gemini-3-flash", client=client).stream(HI))
    assert (caught.value.code, caught.value.is_retryable) == (code, True)


async def test_leaving_the_stream_makes_the_sdk_close_the_reply() -> None:
    never = asyncio.Event()
    async with loopback(lambda _: Reply([fixture("text"), never])) as server:
        client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url, client_args={}))
        async with aclosing(GoogleModel("gemini-3-flash", client=client).stream(HI)) as stream:
            async for chunk in stream:
                if chunk.type == "text-delta":
                    break
        async with asyncio.timeout(5):
            await server.all_closed.wait()
        assert server.open_replies == 0
        await client.aio.aclose()


async def test_a_client_with_a_key_and_an_address_takes_no_others() -> None:
    client = sdk_client(GoogleServer())
    for options in ({"api_key": "k"}, {"base_url": "https://x.example"}):
        with pytest.raises(ConfigurationError, match="give them to it"):
            GoogleModel("gemini-3-flash", client=client, **options)


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"client is a Pieces: give an httpx2.AsyncClient or a google.genai"):
        GoogleModel("gemini-3-flash", client=Pieces([]))  # type: ignore[arg-type]


async def test_a_refusal_through_the_sdk_shows_no_key() -> None:
    """R17.7: neither in the error nor in its traceback"""
    body = {"error": {"code": 401, "message": "no: AIza-secret", "status": "UNAUTHENTICATED"}}
    server = GoogleServer(httpx2.Response(401, json=body))
    _, error = await until_failure(GoogleModel("gemini-3-flash", client=sdk_client(server)).stream(HI))
    assert str(error) == "no: *** (check the key in the SDK's client)"
    assert "AIza-secret" not in "".join(traceback.format_exception(error)) + str(vars(error))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (200, "answered with text/html instead of an event stream: check base_url"),
        (404, "a web page came back (check base_url)"),
        (502, "a web page came back; check base_url"),
    ],
)
async def test_a_web_page_through_the_sdk_says_to_check_the_address(status: int, message: str) -> None:
    page = httpx2.Response(status, headers={"content-type": "text/html"}, text="<html>Welcome</html>")
    _, error = await until_failure(GoogleModel("gemini-3-flash", client=sdk_client(GoogleServer(page))).stream(HI))
    assert str(error).endswith(message)
    assert (error.status_code, error.is_retryable) == (status, status == 502)
