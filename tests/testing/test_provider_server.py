"""The stand-in for the providers' servers, read by our adapters and by OpenAI's SDK."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, get_args

import httpx2
import pytest
from openai import AsyncOpenAI, RateLimitError
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from interlock import Agent, tool
from interlock.chunks import (
    LENGTH,
    Chunk,
    Finish,
    ReasoningDelta,
    Source,
    SourcePayload,
    TextDelta,
    TextDeltaPayload,
    ToolCall,
)
from interlock.errors import APICallError
from interlock.models import (
    AnthropicModel,
    GoogleModel,
    LanguageModel,
    ModelRequest,
    OpenAIChatModel,
    OpenAIModel,
    ToolSpec,
    resolve_model,
    stream_with_retries,
)
from interlock.testing import delay, drain, finish, reasoning, text, text_of, tool_call, tool_input, wait_for
from interlock.testing.provider_server import ProviderServer, RawReply, ReceivedRequest, end_early, hang_up

pytestmark = pytest.mark.anyio

HI = ModelRequest(
    prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}], tools=[ToolSpec(name="f", description="F.")]
)

MODELS: dict[str, Callable[[ProviderServer], LanguageModel]] = {
    "chat": lambda server: OpenAIChatModel("gpt-5", base_url=f"{server.url}/v1"),
    "responses": lambda server: OpenAIModel("gpt-5", base_url=f"{server.url}/v1"),
    "anthropic": lambda server: AnthropicModel("claude-sonnet-5", api_key="k", base_url=f"{server.url}/v1"),
    "google": lambda server: GoogleModel("gemini-3-flash", api_key="k", base_url=f"{server.url}/v1beta"),
}


@pytest.fixture(params=MODELS)
def model_on(request: pytest.FixtureRequest) -> Callable[[ProviderServer], LanguageModel]:
    """A model of each protocol, on a given server."""
    return MODELS[request.param]


ModelOn = Callable[[ProviderServer], LanguageModel]


def finish_of(chunks: list[Chunk]) -> Finish:
    assert isinstance(chunks[-1], Finish)
    return chunks[-1]


def calls_of(chunks: list[Chunk]) -> list[tuple[str, str, Any]]:
    return [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in chunks if isinstance(c, ToolCall)]


def closing(model: LanguageModel) -> Any:
    """The stream of ``model``, closed at the end of the block."""
    stream: Any = model.stream(HI)
    return aclosing(stream)


async def until_failure(model: LanguageModel) -> tuple[list[Chunk], APICallError]:
    seen: list[Chunk] = []
    try:
        async for chunk in model.stream(HI):
            seen.append(chunk)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")


async def failure(model: LanguageModel) -> APICallError:
    return (await until_failure(model))[1]


async def test_text_comes_through_every_protocol(model_on: ModelOn) -> None:
    async with ProviderServer([["Grüße, ", "世界 👋🏽"], "Again."]) as server:
        model = model_on(server)
        first, second = [await drain(model.stream(HI)) for _ in range(2)]
    assert [chunk.payload.text for chunk in first if isinstance(chunk, TextDelta)][:2] == ["Grüße, ", "世界 👋🏽"]
    assert text_of(second) == "Again."
    assert finish_of(first).payload.step_result.reason == "stop"


async def test_reasoning_calls_and_usage_come_through_every_protocol(model_on: ModelOn) -> None:
    turn = [
        reasoning("Hm, ", "well.", signature="c2lnbmF0dXJl"),
        "Let me see.",
        tool_input("f", '{"city":', '"Oslo"}', id="c1"),
        tool_call("f", {"city": "Rome"}, id="c2"),
        finish("tool-calls", 21, 9),
    ]
    async with ProviderServer([turn]) as server:
        chunks = await drain(model_on(server).stream(HI))
    assert "".join(c.payload.text for c in chunks if isinstance(c, ReasoningDelta)) == "Hm, well."
    assert text_of(chunks) == "Let me see."
    assert calls_of(chunks) == [("c1", "f", {"city": "Oslo"}), ("c2", "f", {"city": "Rome"})]
    end = finish_of(chunks).payload
    assert end.step_result.reason == "tool-calls"
    assert end.output is not None
    assert end.output.usage is not None
    assert (end.output.usage.input_tokens, end.output.usage.output_tokens) == (21, 9)


@pytest.mark.parametrize("reason", ["length", "content-filter"])
async def test_other_ends_come_through_every_protocol(model_on: ModelOn, reason: str) -> None:
    async with ProviderServer([[*text("Once"), finish(reason)]]) as server:
        chunks = await drain(model_on(server).stream(HI))
    assert finish_of(chunks).payload.step_result.reason == reason


async def test_packets_may_cut_characters(model_on: ModelOn) -> None:
    async with ProviderServer([["Grüße, ", "世界 👋🏽"]], packet_size=1) as server:
        assert text_of(await drain(model_on(server).stream(HI))).rstrip() == "Grüße, 世界 👋🏽"


async def test_a_delta_without_a_start_is_a_text(model_on: ModelOn) -> None:
    delta = TextDelta(payload=TextDeltaPayload(id="t", text="Hello"))
    async with ProviderServer([[delta]]) as server:
        assert text_of(await drain(model_on(server).stream(HI))) == "Hello"


async def test_a_refusal_comes_in_the_providers_form(model_on: ModelOn) -> None:
    error = APICallError("slow down", status_code=429, code="too_fast", retry_after_s=3)
    async with ProviderServer([error]) as server:
        caught = await failure(model_on(server))
    assert (str(caught), caught.status_code, caught.is_retryable) == ("slow down", 429, True)
    assert (caught.retry_after_s, caught.code) == (3.0, "too_fast")


async def test_an_error_later_comes_inside_the_stream(model_on: ModelOn) -> None:
    """FR-100"""
    async with ProviderServer([["Par", APICallError("it broke", status_code=503)]]) as server:
        seen, caught = await until_failure(model_on(server))
    assert text_of(seen) == "Par"
    assert str(caught) == "it broke"
    assert caught.is_retryable


async def test_an_error_chunk_is_an_error_inside_the_stream(model_on: ModelOn) -> None:
    """FR-100"""
    chunk = {"type": "error", "payload": {"error": "it broke"}}
    async with ProviderServer([["Par", chunk]]) as server:
        assert str((await until_failure(model_on(server)))[1]) == "it broke"


@pytest.mark.parametrize("exception", [ValueError("no"), ValueError])
async def test_any_exception_is_a_failure_of_the_server(model_on: ModelOn, exception: Any) -> None:
    async with ProviderServer([exception]) as server:
        caught = await failure(model_on(server))
    assert caught.status_code == 500


@pytest.mark.parametrize("turn", [[hang_up()], ["Par", hang_up()]], ids=["at once", "in the middle"])
async def test_the_connection_may_break_off(model_on: ModelOn, turn: list[Any]) -> None:
    """FR-100"""
    async with ProviderServer([turn]) as server:
        caught = await failure(model_on(server))
    assert (caught.code, caught.is_retryable) == ("connection_error", True)


@pytest.mark.parametrize("turn", [[end_early()], ["Par", end_early()]], ids=["at once", "in the middle"])
async def test_the_reply_may_end_in_the_middle(model_on: ModelOn, turn: list[Any]) -> None:
    """FR-100"""
    async with ProviderServer([turn]) as server:
        caught = await failure(model_on(server))
    assert (caught.code, caught.is_retryable) == ("truncated_stream", True)


async def test_a_wrong_address_may_speak_html(model_on: ModelOn) -> None:
    async with ProviderServer([RawReply(body="<html>")]) as server:
        assert "check base_url" in str(await failure(model_on(server)))


async def test_a_slow_first_token_runs_into_the_time_limit() -> None:
    never = asyncio.Event()
    async with ProviderServer([[wait_for(never), "late"]]) as server:
        model = OpenAIModel("gpt-5", base_url=f"{server.url}/v1", read_timeout_s=0.05)
        assert (await failure(model)).code == "timeout"
        await server.until_idle()


async def test_a_stream_that_is_left_early_is_closed(model_on: ModelOn) -> None:
    """R12.28"""
    never = asyncio.Event()
    async with ProviderServer([["x", wait_for(never)]]) as server:
        async with closing(model_on(server)) as stream:
            await anext(stream)
            assert server.open_streams == 1
        await server.until_idle()
        assert server.open_streams == 0


async def test_waiting_for_open_streams_has_a_limit() -> None:
    never = asyncio.Event()
    async with ProviderServer([["x", wait_for(never)]]) as server, closing(MODELS["chat"](server)) as stream:
        await anext(stream)
        with pytest.raises(TimeoutError):
            await server.until_idle(0.01)


async def test_a_retry_gets_the_next_turn() -> None:
    """R7.13"""
    async with ProviderServer([APICallError("busy", status_code=503), [delay(0), "Hello"]]) as server:

        async def no_wait(seconds: float) -> None:
            return None

        stream = stream_with_retries(MODELS["responses"](server), HI, max_retries=2, sleep=no_wait)
        assert text_of(await drain(stream)) == "Hello"
        assert (len(server.requests), server.turns_left) == (2, 0)


async def test_a_script_that_is_at_its_end_says_so_and_is_not_asked_again(model_on: ModelOn) -> None:
    async with ProviderServer([]) as server:
        caught = await failure(model_on(server))
    assert "this is call 1, but the script has 0 turn(s)" in str(caught)
    assert not caught.is_retryable


async def test_what_a_protocol_cannot_say_is_an_error_that_says_so(model_on: ModelOn) -> None:
    source = Source(payload=SourcePayload(id="s", url="https://a.example"))
    async with ProviderServer([[source]]) as server:
        assert "cannot say a chunk of type 'source'" in str(await failure(model_on(server)))


async def test_a_turn_may_be_a_function_of_the_request() -> None:
    async def answer(request: ReceivedRequest) -> Any:
        return [f"You said {request.body['messages'][-1]['content']}."]

    async with ProviderServer(answer) as server:
        assert text_of(await drain(MODELS["chat"](server).stream(HI))) == "You said hi."


async def test_a_function_that_fails_is_seen_where_the_answer_is_read() -> None:
    def answer(request: ReceivedRequest) -> Any:
        raise KeyError("oops")

    async with ProviderServer([answer]) as server:
        assert "KeyError: 'oops'" in str(await failure(MODELS["chat"](server)))


async def test_a_function_in_a_turn_is_called_at_its_place() -> None:
    seen: list[str] = []

    def fails() -> None:
        raise ValueError("at its place")

    async with ProviderServer([["a", lambda: seen.append("called"), "b"], ["x", fails]]) as server:
        model = MODELS["responses"](server)
        assert text_of(await drain(model.stream(HI))) == "ab"
        assert "at its place" in str(await failure(model))
    assert seen == ["called"]


async def test_requests_are_kept_and_do_not_show_the_key() -> None:
    async with ProviderServer(["Hello"]) as server:
        await drain(OpenAIChatModel("gpt-5", api_key="sk-secret", base_url=f"{server.url}/v1").stream(HI))
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert request.body["model"] == "gpt-5"
    assert "sk-secret" not in repr(request)


async def test_the_environment_points_every_provider_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    names = ["openai/m", "openai-chat/m", "anthropic/m", "google/m", "azure/m", "azure-chat/m"]
    async with ProviderServer(lambda _: "Hello") as server:
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        for name in names:
            assert text_of(await drain(resolve_model(name).stream(HI))).strip() == "Hello"
    assert len(server.requests) == len(names)


async def test_many_agents_share_one_server() -> None:
    async def weather(city: str) -> str:
        """Tells the weather.

        Args:
            city: Where.
        """
        return f"sunny in {city}"

    def answer(request: ReceivedRequest) -> Any:
        last = request.body["input"][-1]
        return f"It is {last['output']}." if "output" in last else [tool_call("weather", {"city": "Oslo"})]

    async with ProviderServer(answer) as server:
        agent = Agent(id="a", model=MODELS["responses"](server), tools=[tool(weather)])
        results = await asyncio.gather(*(agent.generate("How is it?") for _ in range(20)))
        assert [result.text for result in results] == ["It is sunny in Oslo."] * 20
        await server.until_idle()


def test_a_test_without_an_event_loop_serves_from_a_thread() -> None:
    with ProviderServer(["Hello", "Again"]) as server:
        for expected in ("Hello", "Again"):
            model = MODELS["chat"](server)
            assert text_of(asyncio.run(drain(model.stream(HI)))) == expected


async def post(server: ProviderServer, path: str, content: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.post(f"{server.url}{path}", content=content)


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        ("/v1/nowhere", "{}", 404, "the provider server has no POST /v1/nowhere"),
        ("/v1/chat/completions", "{oops", 400, "the body is no JSON object"),
        ("/v1/messages", "[7]", 400, "the body is no JSON object"),
        ("/v1/responses", '{"model": "m"}', 400, "the provider server only streams"),
    ],
)
async def test_a_request_that_it_does_not_serve_is_refused(path: str, content: str, status: int, message: str) -> None:
    async with ProviderServer(["x"]) as server:
        reply = await post(server, path, content)
    assert reply.status_code == status
    assert message in reply.json()["error"]["message"]
    assert server.turns_left == 1


async def test_what_is_no_http_is_refused() -> None:
    async with ProviderServer(["x"]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


def test_a_script_of_something_else_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="turn 2 of the script: 7 is a int"):
        ProviderServer(["x", [7]])


def test_it_shows_where_it_is() -> None:
    with ProviderServer(["x"]) as server:
        assert repr(server) == f"ProviderServer({server.url!r}, requests=0, open_streams=0)"


# -- OpenAI's SDK ----------------------------------------------------------------------------------------------------

FULL = [reasoning("Hm."), "Let ", "me see.", tool_call("f", {"x": 1}, id="c1"), finish("tool-calls", 4, 5)]


def sdk(server: ProviderServer) -> AsyncOpenAI:
    transport = httpx2.AsyncClient(trust_env=False)
    return AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0, http_client=transport)


async def test_the_sdk_reads_its_chat_completions() -> None:
    asked: Any = {"messages": [{"role": "user", "content": "hi"}], "stream_options": {"include_usage": True}}
    async with ProviderServer([FULL]) as server, sdk(server) as client:
        chunks = [chunk async for chunk in await client.chat.completions.create(model="m", stream=True, **asked)]
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump())
        state.handle_chunk(chunk)
    completion = state.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "Let me see."
    assert message.tool_calls is not None
    assert json.loads(message.tool_calls[0].function.arguments) == {"x": 1}
    assert completion.usage is not None
    assert completion.usage.total_tokens == 9


async def test_the_sdk_reads_its_responses() -> None:
    kinds = {get_args(k.model_fields["type"].annotation)[0]: k for k in get_args(get_args(ResponseStreamEvent)[0])}
    async with ProviderServer([FULL]) as server, sdk(server) as client:
        events = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    for event in events:
        kinds[event.type].model_validate(event.model_dump())
    assert [event.sequence_number for event in events] == list(range(len(events)))
    response: Any = events[-1].response  # type: ignore[union-attr]  # the last event has one
    assert response.output_text == "Let me see."
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.usage.total_tokens == 9


async def test_the_strict_reader_of_the_sdk_takes_its_responses() -> None:
    async with ProviderServer([FULL]) as server, sdk(server) as client:
        stream = client.responses.stream(model="m", input="hi")
        async with stream as events:
            assert (await events.get_final_response()).output_text == "Let me see."


async def test_the_sdk_knows_its_refusals() -> None:
    async with ProviderServer([APICallError("slow down", status_code=429)]) as server, sdk(server) as client:
        with pytest.raises(RateLimitError, match="slow down"):
            await client.responses.create(model="m", input="hi", stream=True)


async def test_a_length_is_a_length_to_the_sdk() -> None:
    async with ProviderServer([["Once", finish(LENGTH)]]) as server, sdk(server) as client:
        events = [event async for event in await client.responses.create(model="m", input="hi", stream=True)]
    last: Any = events[-1]
    assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", "max_output_tokens")


def test_nothing_of_it_is_left_in_the_environment() -> None:
    assert "OPENAI_BASE_URL" not in os.environ
