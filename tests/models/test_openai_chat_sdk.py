"""What OpenAI's own SDK reads in the recorded replies, beside what we read, and calls that go through its client."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import APIError, AsyncAzureOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from interlock.chunks import Chunk, Finish, Source, ToolCall, chunk_to_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest, OpenAIChatModel
from interlock.testing import drain, text_of
from tests.models.mock_provider import MockProvider
from tests.models.openai_sdk import openai_client
from tests.models.reading import content
from tests.models.wire import HELLO, MockServer, event_reply

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parent / "fixtures" / "openai_chat"
BROKEN = ("error_in_stream", "truncated")
COMPLETE = sorted(path.stem for path in FIXTURES.glob("*.sse") if path.stem not in BROKEN)
OTHER_SERVERS = ("signed_reasoning", "azure", "deepseek_reasoner", "openrouter", "search")
"""Replies with fields that the SDK's types do not have."""

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


async def read(*pieces: bytes) -> list[Chunk]:
    return await drain(MockServer(event_reply(pieces)).model.stream(HI))


async def sdk_chunks(name: str) -> list[ChatCompletionChunk]:
    client = openai_client(MockProvider(event_reply([fixture(name)])))
    stream = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
    return [chunk async for chunk in stream]


async def sdk_reading(name: str) -> ChatCompletion:
    """The completion as the SDK puts it together."""
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for chunk in await sdk_chunks(name):
        if chunk.choices or chunk.usage:
            state.handle_chunk(chunk)
    return state.current_completion_snapshot


@pytest.mark.parametrize("name", sorted(set(COMPLETE) - set(OTHER_SERVERS)))
def test_the_recorded_events_have_the_shape_that_the_sdk_knows(name: str) -> None:
    for line in fixture(name).decode().split("\n"):
        if line.startswith("data: {"):
            ChatCompletionChunk.model_validate_json(line.removeprefix("data: "))


@pytest.mark.parametrize("name", COMPLETE)
async def test_the_sdk_reads_the_same_text_calls_and_usage(name: str) -> None:
    theirs, ours = await sdk_reading(name), await read(fixture(name))
    message, usage = theirs.choices[0].message, theirs.usage
    assert text_of(ours) == f"{message.content or ''}{message.refusal or ''}"
    calls = [(c.payload.tool_call_id, c.payload.tool_name, c.payload.args) for c in ours if isinstance(c, ToolCall)]
    assert calls == [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
    finish = ours[-1]
    assert isinstance(finish, Finish)
    assert finish.payload.step_result.raw_reason == theirs.choices[0].finish_reason
    assert usage is not None
    assert finish.payload.output is not None
    counted = finish.payload.output.usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens, counted.total_tokens) == (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
    )
    assert usage.prompt_tokens_details is not None
    assert usage.completion_tokens_details is not None
    assert counted.cached_input_tokens == usage.prompt_tokens_details.cached_tokens
    assert counted.reasoning_tokens == usage.completion_tokens_details.reasoning_tokens


@pytest.mark.parametrize("name", COMPLETE)
async def test_every_cut_between_packets_gives_the_same_chunks(name: str) -> None:
    """R5.6"""
    data = fixture(name)
    whole = content(await read(data))
    for size in (1, 7, 61):
        assert content(await read(*(data[start : start + size] for start in range(0, len(data), size)))) == whole


@pytest.mark.parametrize(
    ("name", "expected"), [("deepseek_reasoner", "The user greets."), ("openrouter", "Hm."), ("text", "")]
)
async def test_reasoning_of_other_servers_is_read(name: str, expected: str) -> None:
    """R4.15"""
    thoughts = [
        chunk_to_dict(chunk)["payload"]["text"]
        for chunk in await read(fixture(name))
        if "reasoning-delta" in chunk.type
    ]
    assert "".join(thoughts) == expected


async def test_a_citation_is_a_source() -> None:
    (source,) = [chunk for chunk in await read(fixture("search")) if isinstance(chunk, Source)]
    assert (source.payload.url, source.payload.title) == ("https://towers.example/list", "All towers")


@pytest.mark.parametrize(("name", "code"), [("error_in_stream", "server_error"), ("truncated", "truncated_stream")])
async def test_what_broke_off_is_an_error(name: str, code: str) -> None:
    """FR-100"""
    with pytest.raises(APICallError) as caught:
        await read(fixture(name))
    assert (caught.value.code, caught.value.is_retryable) == (code, True)


async def test_the_sdk_too_takes_an_error_event_for_an_error() -> None:
    """FR-100"""
    with pytest.raises(APIError, match="The server had an error"):
        await sdk_chunks("error_in_stream")


# -- calls that go through an SDK's client ---------------------------------------------------------------------------


async def test_a_client_of_the_sdk_sends_the_request_and_we_read_the_reply() -> None:
    provider = MockProvider(event_reply(HELLO))
    client = openai_client(provider, base_url="https://proxy.example/v1")
    model = OpenAIChatModel("gpt-4.1", client=client)
    assert text_of(await drain(model.stream(HI))) == "Hello"
    assert str(provider.requests[0].url) == "https://proxy.example/v1/chat/completions"
    assert provider.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert json.loads(provider.requests[0].content)["stream_options"] == {"include_usage": True}
    assert "https://proxy.example/v1/chat/completions" in repr(model)


async def test_an_azure_client_of_the_sdk_puts_the_deployment_into_the_path() -> None:
    provider = MockProvider(event_reply([fixture("azure")]))
    client = AsyncAzureOpenAI(
        api_key="sk-secret",
        azure_endpoint="https://acme.openai.azure.com",
        api_version="2024-10-21",
        http_client=provider.http,
    )
    chunks = await drain(OpenAIChatModel("my-gpt", client=client, provider="azure").stream(HI))
    assert text_of(chunks) == "Azure here."
    assert provider.requests[0].url.raw_path == b"/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"


async def test_a_refusal_through_the_sdk_is_the_same_error_without_the_key() -> None:
    """R17.7"""
    client = openai_client(
        MockProvider(httpx2.Response(429, headers={"retry-after": "3"}, json={"error": {"message": "sk-secret!"}}))
    )
    with pytest.raises(APICallError, match=r"^\*\*\*!$") as caught:
        await drain(OpenAIChatModel("gpt-4.1", client=client).stream(HI))
    assert (caught.value.status_code, caught.value.is_retryable, caught.value.retry_after_s) == (429, True, 3.0)


async def test_a_refusal_through_the_sdk_shows_no_key_in_its_traceback() -> None:
    """R17.7"""
    client = openai_client(MockProvider(httpx2.Response(401, json={"error": {"message": "bad: sk-secret"}})))
    with pytest.raises(APICallError) as caught:
        await drain(OpenAIChatModel("gpt-4.1", client=client).stream(HI))
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value)) + str(vars(caught.value))
