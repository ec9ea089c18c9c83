"""The contract of ``contract.py``, over every adapter."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from interlock import Agent, tool
from interlock.chunks import Chunk, Finish, ReasoningDelta, Source, ToolCall, ToolResult
from interlock.errors import APICallError, ModelError
from interlock.models import ModelRequest, ToolSpec
from interlock.testing import drain, text_of
from tests.models import contract
from tests.models.contract import ASKED, CAPABILITIES, REFUSALS, Outcomes
from tests.models.contract_adapters import ADAPTERS, PAUSE_S, SECRET, Adapter, Played, Said

pytestmark = pytest.mark.anyio

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
TOOLS = ModelRequest(
    prompt=HI.prompt,
    tools=[ToolSpec(name="get_weather", input_schema={"type": "object", "properties": {"city": {"type": "string"}}})],
)
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def offering(capability: str) -> pytest.MarkDecorator:
    """Run a test over the adapters that offer the capability."""
    adapters = [one for one in ADAPTERS if capability not in one.not_offered]
    return pytest.mark.parametrize("adapter", adapters, ids=[one.name for one in adapters])


async def read(played: Played, request: ModelRequest = HI) -> list[Chunk]:
    """The chunks of an answer, which must be in order."""
    chunks = await drain(played.model.stream(request))
    check_order(chunks)
    assert played.is_closed()
    return chunks


async def until_failure(played: Played) -> tuple[list[Chunk], APICallError]:
    seen: list[Chunk] = []
    try:
        async for chunk in played.model.stream(HI):
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        assert played.is_closed()
        return seen, error
    raise AssertionError("the stream did not fail")


def said(chunks: list[Chunk]) -> Said:
    finish = next(chunk.payload for chunk in chunks if isinstance(chunk, Finish))
    return Said(
        text=text_of(chunks),
        reasoning="".join(chunk.payload.text for chunk in chunks if isinstance(chunk, ReasoningDelta)),
        calls=[(chunk.payload.tool_name, chunk.payload.args) for chunk in chunks if isinstance(chunk, ToolCall)],
        reason=finish.step_result.reason,
    )


def check_order(chunks: list[Chunk]) -> None:
    """The opening, then spans that open and close, at last one finish (R5.3, R5.6)."""
    kinds = [chunk.type for chunk in chunks]
    assert kinds.count("finish") == 1
    assert kinds[-1] == "finish"
    assert "stream-start" not in kinds[1:]
    assert kinds.count("response-metadata") <= 1
    open_spans: set[tuple[str, str]] = set()
    for chunk in chunks:
        kind, _, moment = chunk.type.rpartition("-")
        if kind in ("text", "reasoning", "tool-call-input-streaming") and moment in ("start", "delta", "end"):
            payload: Any = chunk.payload  # type: ignore[attr-defined]  # every chunk of these types has one
            key = kind, getattr(payload, "id", None) or getattr(payload, "tool_call_id", "")
            assert (key in open_spans) is (moment != "start"), chunk
            (open_spans.discard if moment == "end" else open_spans.add)(key)
    assert not open_spans


@offering("streamed text")
async def test_text_is_streamed(adapter: Adapter) -> None:
    """R5.3, R5.5"""
    chunks = await read(adapter.play("streamed text"))
    assert said(chunks) == adapter.expected["streamed text"]
    assert [chunk.type for chunk in chunks].count("text-delta") > 1


@offering("tool call")
async def test_a_tool_is_called(adapter: Adapter) -> None:
    """R5.6"""
    assert said(await read(adapter.play("tool call"), TOOLS)) == adapter.expected["tool call"]


@offering("parallel tool calls")
async def test_tools_are_called_in_parallel(adapter: Adapter) -> None:
    """R5.6"""
    chunks = await read(adapter.play("parallel tool calls"), TOOLS)
    assert said(chunks) == adapter.expected["parallel tool calls"]
    assert are_unique(chunks)


def are_unique(chunks: list[Chunk]) -> bool:
    ids = [chunk.payload.tool_call_id for chunk in chunks if isinstance(chunk, ToolCall)]
    return len(set(ids) - {""}) == len(ids)


@offering("missing call ids")
async def test_calls_without_ids_get_some(adapter: Adapter) -> None:
    """R5.6, FR-095"""
    chunks = await read(adapter.play("missing call ids"), TOOLS)
    expected = adapter.expected.get("missing call ids") or adapter.expected["parallel tool calls"]
    assert said(chunks) == expected
    assert are_unique(chunks)


@offering("reasoning")
async def test_reasoning_is_apart_from_text(adapter: Adapter) -> None:
    """R4.15"""
    assert said(await read(adapter.play("reasoning"))) == adapter.expected["reasoning"]


@offering("signed reasoning goes back")
async def test_signed_reasoning_goes_back(adapter: Adapter) -> None:
    """R4.15, FR-104: over two steps of a run"""
    played = adapter.play_turns("signed reasoning goes back", "streamed text")
    result = await Agent(id="a", model=played.model, tools=[get_weather]).generate("hi")
    assert result.text.endswith(adapter.expected["streamed text"].text)
    assert adapter.signature in played.sent()


@tool
def get_weather(city: str, days: int | None = None) -> str:
    """The weather in a city."""
    return f"4° in {city}"


@offering("provider-executed tools")
async def test_what_the_provider_executed_has_its_result(adapter: Adapter) -> None:
    """R4.13, R10.12"""
    chunks = await read(adapter.play("provider-executed tools"))
    calls = [one.payload for one in chunks if isinstance(one, ToolCall)]
    results = {one.payload.tool_call_id: one.payload for one in chunks if isinstance(one, ToolResult)}
    assert calls
    assert all(call.provider_executed and results[call.tool_call_id].provider_executed for call in calls)
    assert {call.tool_name for call in calls} == {result.tool_name for result in results.values()}


@offering("citations")
async def test_what_is_cited_is_a_source(adapter: Adapter) -> None:
    sources = [one.payload for one in await read(adapter.play("citations")) if isinstance(one, Source)]
    assert sources
    assert all(source.id and str(source.url).startswith("https://") for source in sources)


@offering("content filter")
async def test_a_refused_answer_says_so(adapter: Adapter) -> None:
    """R5.5"""
    assert said(await read(adapter.play("content filter"))) == adapter.expected["content filter"]


@offering("usage")
async def test_usage_is_counted(adapter: Adapter) -> None:
    """R12.22"""
    finish = (await read(adapter.play("usage")))[-1]
    assert isinstance(finish, Finish)
    assert finish.payload.output is not None
    assert finish.payload.output.usage is not None
    assert finish.payload.output.usage.to_dict() == adapter.expected["usage"].usage


@offering("structured output")
async def test_an_answer_follows_a_schema(adapter: Adapter) -> None:
    """R12.32"""
    played = adapter.play("structured output")
    request = ModelRequest(prompt=HI.prompt, response_format={"type": "json", "schema": CITY})
    chunks = await read(played, request)
    assert said(chunks) == adapter.expected["structured output"]
    assert "city" in json.loads(text_of(chunks))
    assert '"required":["city"]' in played.sent().replace(" ", "")


@offering("image input")
async def test_an_image_is_sent(adapter: Adapter) -> None:
    """R4.16"""
    played = adapter.play("image input")
    image = {"type": "file", "mediaType": "image/png", "data": "iVBORw0KGgo="}
    prompt = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
    await read(played, ModelRequest(prompt=prompt))
    assert "iVBORw0KGgo=" in played.sent()
    assert "image/png" in played.sent()


def cases() -> list[Any]:
    """Every wish that an adapter's provider can grant."""
    return [
        pytest.param(adapter, wish, id=f"{adapter.name}-{wish}")
        for adapter in ADAPTERS
        for wish in ASKED
        if wish not in adapter.not_offered
    ]


@pytest.mark.parametrize(("adapter", "wish"), cases())
async def test_what_is_asked_for_is_sent(adapter: Adapter, wish: str) -> None:
    """R4.9, R4.16, R12.3"""
    asked = adapter.asked[wish]
    prompt = [{"role": "user", "content": [asked.part]}] if asked.part else HI.prompt
    played = adapter.play("streamed text")
    chunks = await read(played, ModelRequest(prompt=prompt, **asked.fields))
    assert chunks[0].payload["warnings"] == []  # type: ignore[attr-defined]  # the opening
    assert stands_in(asked.sent, json.loads(played.sent()))


def stands_in(wanted: Any, value: Any) -> bool:
    """Whether ``value``, or something in it, has the wanted fields."""
    if fits(wanted, value):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(stands_in(wanted, one) for one in inner)


def fits(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(value, dict):
        return all(key in value and fits(item, value[key]) for key, item in wanted.items())
    return bool(wanted == value)


@offering("another provider's file id")
async def test_a_file_id_of_another_provider_is_refused(adapter: Adapter) -> None:
    """R4.16: nothing is sent"""
    own = adapter.asked["image by file id"].part
    assert own is not None
    # Azure calls some of its files as Anthropic calls its own.
    is_openai = adapter.name in ("azure", "openai_responses")
    others = {"file-a1", "file_011a", "files/a1"} - {own["data"], "file_011a" if is_openai else ""}
    for file_id in others:
        for media_type in ("image/png", "application/pdf", "text/plain"):
            part = {"type": "file", "mediaType": media_type, "data": file_id}
            request = ModelRequest(prompt=[{"role": "user", "content": [part]}])
            with pytest.raises(ModelError, match="is the id of a file at another provider: upload"):
                await drain(adapter.play("streamed text").model.stream(request))


@pytest.mark.parametrize("status", REFUSALS)
@offering("error 400")
async def test_a_refusal_is_typed(adapter: Adapter, status: int) -> None:
    """R7.13, R17.7"""
    seen, error = await until_failure(adapter.refuse(status))
    assert seen == []
    assert error.status_code == status
    assert error.is_retryable is (status in (429, 500, 529))
    assert error.retry_after_s == (PAUSE_S if status == 429 else None)
    assert str(error).startswith("no: ***")
    assert SECRET not in f"{error!r} {error.response_body} {error.url}"


@offering("error inside the stream")
async def test_an_error_inside_the_stream_is_typed(adapter: Adapter) -> None:
    """R7.14, FR-100"""
    seen, error = await until_failure(adapter.play("error inside the stream"))
    assert text_of(seen) == adapter.expected["error inside the stream"].text
    assert error.is_retryable
    assert not any(isinstance(chunk, Finish) for chunk in seen)


@offering("bare error behind the events")
async def test_a_bare_error_behind_the_events_is_typed(adapter: Adapter) -> None:
    """FR-100: some servers break off with an error that is no event"""
    error_body = b'{"error": {"message": "it broke, %s", "code": 503}}' % SECRET.encode()
    _, error = await until_failure(adapter.play_pieces([adapter.pieces("truncated stream"), b"\n\n" + error_body]))
    assert str(error) == "it broke, ***"
    assert (error.status_code, error.is_retryable) == (503, True)


@offering("web page")
async def test_a_web_page_says_to_check_the_address(adapter: Adapter) -> None:
    """R7.13"""
    seen, error = await until_failure(adapter.show_page())
    assert seen == []
    assert str(error).endswith("answered with text/html instead of an event stream: check base_url")
    assert not error.is_retryable


@offering("timeout")
async def test_a_timeout_is_an_error(adapter: Adapter) -> None:
    """R7.13"""
    _, error = await until_failure(adapter.fail(httpx2.ReadTimeout("")))
    assert (error.code, error.is_retryable) == ("timeout", True)


@offering("lost connection")
async def test_a_lost_connection_is_an_error(adapter: Adapter) -> None:
    """R7.13"""
    _, error = await until_failure(adapter.fail(httpx2.RemoteProtocolError("peer closed connection")))
    assert (error.code, error.is_retryable) == ("connection_error", True)


@offering("truncated stream")
async def test_a_truncated_stream_is_an_error(adapter: Adapter) -> None:
    """R7.14, FR-100; what was cut is no call"""
    seen, error = await until_failure(adapter.play("truncated stream"))
    assert (error.code, error.is_retryable) == ("truncated_stream", True)
    assert not any(isinstance(chunk, (Finish, ToolCall)) for chunk in seen)


@offering("odd chunk borders")
async def test_packets_may_be_cut_anywhere(adapter: Adapter) -> None:
    for capability in ("streamed text", "parallel tool calls"):
        data = adapter.pieces(capability)
        for size in (1, 2, 3, 7, 64, 1000):
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
            chunks = await read(adapter.play_pieces(pieces))
            assert said(chunks) == adapter.expected[capability]


@offering("cut multi-byte characters")
async def test_characters_may_be_cut(adapter: Adapter) -> None:
    data = adapter.pieces("streamed text")
    inside = [place for place, byte in enumerate(data) if byte & 0b1100_0000 == 0b1000_0000]
    assert inside
    for place in inside:
        chunks = await read(adapter.play_pieces([data[:place], data[place:]]))
        assert said(chunks) == adapter.expected["streamed text"]


@offering("early close")
async def test_leaving_closes_the_reply(adapter: Adapter) -> None:
    """R12.27"""
    played = adapter.hold()
    async with aclosing(played.model.stream(HI)) as stream:  # type: ignore[type-var]  # an async generator in truth
        async for chunk in stream:
            if chunk.type == "text-delta":
                break
        assert not played.is_closed()
    assert played.is_closed()


@offering("cancellation")
async def test_cancelling_closes_the_reply(adapter: Adapter) -> None:
    """R12.27"""
    played = adapter.hold()
    has_begun = asyncio.Event()

    async def reader() -> None:
        async for chunk in played.model.stream(HI):
            if chunk.type == "text-delta":
                has_begun.set()

    task = asyncio.create_task(reader())
    await has_begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert played.is_closed()


@offering("unknown event")
async def test_an_unknown_event_is_passed_over(adapter: Adapter) -> None:
    assert said(await read(adapter.play("unknown event"))) == adapter.expected["streamed text"]


@offering("raw events")
async def test_raw_events_come_when_asked_for(adapter: Adapter) -> None:
    raw = [
        chunk
        for is_asked in (True, False)
        for chunk in await read(
            adapter.play("streamed text"), ModelRequest(prompt=HI.prompt, include_raw_chunks=is_asked)
        )
        if chunk.type == "raw"
    ]
    events = re.findall(rb"^data: ?\{", adapter.pieces("streamed text"), re.MULTILINE)
    assert len(raw) == len(events)


@offering("unsupported setting")
async def test_an_unsupported_setting_warns(adapter: Adapter) -> None:
    settings: Any = {"min_tokens": 3}
    played = adapter.play("unsupported setting")
    chunks = await read(played, ModelRequest(prompt=HI.prompt, settings=settings))
    (warning,) = chunks[0].payload["warnings"]  # type: ignore[attr-defined]  # the opening
    assert (warning["type"], warning["setting"]) == ("unsupported-setting", "minTokens")
    assert "min_tokens" not in played.sent()


def test_every_capability_has_its_test_and_every_test_its_capability() -> None:
    """The table has no holes."""
    tests = {name for name in globals() if name.startswith("test_")}
    shown = {name.partition("[")[0] for name in CAPABILITIES.values()}
    assert shown == {name for name in tests if "adapter" in getattr(globals()[name], "__annotations__", {})}


def test_the_table_names_a_test_in_each_cell_or_says_that_there_is_none() -> None:
    outcomes = Outcomes()
    outcomes.passed = {"test_text_is_streamed[google]", "test_a_refusal_is_typed[google-401]"}
    outcomes.failed = {"test_a_tool_is_called[google]"}
    column = SimpleNamespace(name="google", not_offered=frozenset({"usage"}))
    cells = dict(line.split(" | ") for line in padless(contract.table([column], outcomes)))
    assert cells["streamed text"] == "test_text_is_streamed"
    assert cells["error 401"] == "test_a_refusal_is_typed[401]"
    assert cells["tool call"] == "FAILED test_a_tool_is_called[google]"
    assert cells["usage"] == "not offered by the provider"
    assert cells["reasoning"] == "NOT RUN test_reasoning_is_apart_from_text[google]"


def test_the_table_is_printed_and_has_no_holes() -> None:
    command = [sys.executable, "-m", "tests.models.contract", "-k", "not no_holes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(line.split(" | ", 1) for line in padless(done.stdout))
    assert rows["streamed text"].split(" | ") == ["test_text_is_streamed"] * len(ADAPTERS)
    assert not re.search(r"NOT RUN|FAILED", done.stdout)


def padless(table: str) -> list[str]:
    return [" | ".join(cell.strip() for cell in line.split("|")) for line in table.splitlines() if "-+-" not in line]
