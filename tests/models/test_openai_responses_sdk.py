"""What OpenAI's own SDK reads in the recorded replies, beside what we read, and calls that go through its client."""

from __future__ import annotations

import json
import traceback
from typing import Any, get_args

import httpx2
import pytest
from openai import APIError, AsyncAzureOpenAI, OpenAI
from openai.types.responses import Response, ResponseStreamEvent

from interlock.chunks import Chunk, Finish
from interlock.errors import APICallError, ConfigurationError
from interlock.models import ModelRequest, OpenAIModel
from interlock.testing import drain, text_of
from tests.models.mock_provider import MockProvider
from tests.models.openai_sdk import openai_client
from tests.models.reading import HI, calls_of, finish_of, payloads
from tests.models.responses_server import BROKEN, COMPLETE, events_of, fixture, read
from tests.models.wire import event_reply

pytestmark = pytest.mark.anyio

EVENT_TYPES = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}


@pytest.mark.parametrize("name", [*COMPLETE, *BROKEN])
def test_the_recorded_events_have_the_shape_that_the_sdk_knows(name: str) -> None:
    for event in events_of(name):
        kind = EVENT_TYPES.get(event["type"])
        is_bare_search = event.get("item", {}).get("type") == "web_search_call" and "action" not in event["item"]
        # The API sends these two, whatever its description says.
        if kind is None or is_bare_search or (event["type"] == "error" and "error" in event):
            assert name in ("unknown", "web_search", "context_overflow")
            continue
        kind.model_validate(event)


async def sdk_reading(name: str) -> Response:
    """The response as the SDK has it at the end of the stream."""
    client = openai_client(MockProvider(event_reply([fixture(name)])))
    last: Any = None
    async for event in await client.responses.create(model="gpt-5", input="hi", stream=True):
        last = event
    assert isinstance(last.response, Response)
    return last.response


def parts_of(response: Response, kind: str) -> list[Any]:
    return [part for item in response.output if item.type == "message" for part in item.content if part.type == kind]


@pytest.mark.parametrize("name", COMPLETE)
async def test_the_sdk_reads_the_same_text_refusals_and_usage(name: str) -> None:
    theirs, ours = await sdk_reading(name), await read(fixture(name))
    refusals = "".join(part.refusal for part in parts_of(theirs, "refusal"))
    assert text_of(ours) == theirs.output_text + refusals
    usage = theirs.usage
    assert usage is not None
    assert finish_of(ours)["output"]["usage"] == {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "reasoningTokens": usage.output_tokens_details.reasoning_tokens,
        "cachedInputTokens": usage.input_tokens_details.cached_tokens,
    }
    (metadata,) = payloads(ours, "response-metadata")
    assert (metadata["id"], metadata["modelId"]) == (theirs.id, theirs.model)


@pytest.mark.parametrize("name", COMPLETE)
async def test_the_sdk_reads_the_same_calls(name: str) -> None:
    theirs, ours = await sdk_reading(name), await read(fixture(name))
    expected: list[Any] = []
    for item in theirs.output:
        match item.type:
            case "function_call":
                expected.append((item.call_id, item.name, json.loads(item.arguments)))
            case "mcp_call":
                expected.append((item.id, item.name, json.loads(item.arguments)))
            case "web_search_call":
                action = item.action.model_dump(exclude_none=True)
                expected.append((item.id, "web_search", {k: v for k, v in action.items() if k != "sources"}))
            case "file_search_call":
                expected.append((item.id, "file_search", {"queries": item.queries}))
            case "code_interpreter_call":
                expected.append((item.id, "code_interpreter", {"container_id": item.container_id, "code": item.code}))
    assert calls_of(ours) == expected


@pytest.mark.parametrize("name", COMPLETE)
async def test_the_sdk_reads_the_same_reasoning(name: str) -> None:
    theirs, ours = await sdk_reading(name), await read(fixture(name))
    items = [item for item in theirs.output if item.type == "reasoning"]
    texts = ["".join(part.text for part in [*item.summary, *(item.content or ())]) for item in items]
    assert "".join(payload["text"] for payload in payloads(ours, "reasoning-delta")) == "".join(texts)
    sealed = [
        (own["itemId"], own["reasoningEncryptedContent"])
        for own in (payload["providerMetadata"]["openai"] for payload in payloads(ours, "reasoning-end"))
        if "reasoningEncryptedContent" in own
    ]
    assert sealed == [(item.id, item.encrypted_content) for item in items if item.encrypted_content]


@pytest.mark.parametrize("name", COMPLETE)
async def test_the_sdk_reads_the_same_citations(name: str) -> None:
    theirs, ours = await sdk_reading(name), await read(fixture(name))
    annotations = [one for part in parts_of(theirs, "output_text") for one in part.annotations]
    expected = [getattr(one, "url", None) or one.filename for one in annotations]
    assert [source.get("url") or source["filename"] for source in payloads(ours, "source")] == expected


@pytest.mark.parametrize("name", ["rate_limited", "context_overflow"])
async def test_the_sdk_too_takes_an_error_event_for_an_error(name: str) -> None:
    """FR-100"""
    client = openai_client(MockProvider(event_reply([fixture(name)])))
    events = await client.responses.create(model="gpt-5", input="hi", stream=True)
    seen: list[Any] = []
    try:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what came before the failure counts
    except APIError:
        return
    assert seen[-1].type == "error"


# -- calls that go through an SDK's client ---------------------------------------------------------------------------


async def test_a_client_of_the_sdk_sends_the_request_and_we_read_the_reply() -> None:
    provider = MockProvider(event_reply([fixture("reasoning_tool")]))
    client = openai_client(provider, organization="org-1")
    model = OpenAIModel("gpt-5", client=client)
    chunks = await drain(model.stream(ModelRequest(prompt=HI.prompt, headers={"x-a": "1"})))
    assert calls_of(chunks) == calls_of(await read(fixture("reasoning_tool")))
    (request,) = provider.requests
    assert str(request.url) == "https://api.openai.com/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert (request.headers["openai-organization"], request.headers["x-a"]) == ("org-1", "1")
    assert json.loads(request.content)["input"] == [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]


async def test_a_client_of_the_sdk_retries_as_it_is_set_up() -> None:
    refused = httpx2.Response(503, headers={"retry-after-ms": "1"}, json={"error": {"message": "busy"}})
    provider = MockProvider(refused, event_reply([fixture("text")]))
    client = openai_client(provider, max_retries=1)
    chunks = await drain(OpenAIModel("gpt-5", client=client).stream(HI))
    assert isinstance(chunks[-1], Finish)
    assert len(provider.requests) == 2


async def test_an_azure_client_of_the_sdk_finds_its_resource() -> None:
    provider = MockProvider(event_reply([fixture("text")]))
    client = AsyncAzureOpenAI(
        api_key="sk-secret",
        azure_endpoint="https://acme.openai.azure.com",
        api_version="2025-04-01-preview",
        http_client=provider.http,
    )
    await drain(OpenAIModel("my-gpt", client=client, provider="azure").stream(HI))
    assert (
        str(provider.requests[0].url) == "https://acme.openai.azure.com/openai/responses?api-version=2025-04-01-preview"
    )
    assert provider.requests[0].headers["api-key"] == "sk-secret"


async def failure(*replies: httpx2.Response | Exception) -> APICallError:
    client = openai_client(MockProvider(*replies))
    with pytest.raises(APICallError) as caught:
        await drain(OpenAIModel("gpt-5", client=client).stream(HI))
    return caught.value


async def test_a_refusal_through_the_sdk_is_the_same_error_without_the_key() -> None:
    """R17.7"""
    body = {"error": {"message": "Incorrect API key provided: sk-secret.", "code": "invalid_api_key"}}
    error = await failure(httpx2.Response(401, headers={"x-request-id": "r1"}, json=body))
    assert str(error) == "Incorrect API key provided: ***. (check the key in the SDK's client)"
    assert (error.status_code, error.code, error.is_retryable) == (401, "invalid_api_key", False)
    assert error.response_headers["x-request-id"] == "r1"
    assert error.url == "https://api.openai.com/v1/responses"
    assert "sk-secret" not in f"{error.response_body}"
    assert "sk-secret" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("problem", "code"),
    [(httpx2.ReadTimeout("slow"), "timeout"), (httpx2.ConnectError("refused"), "connection_error")],
)
async def test_a_connection_that_the_sdk_loses_is_a_retryable_error(problem: Exception, code: str) -> None:
    """R7.13"""
    error = await failure(problem)
    assert (error.code, error.status_code, error.is_retryable) == (code, None, True)


async def test_a_web_page_through_the_sdk_says_to_check_the_base_url() -> None:
    page = httpx2.Response(200, headers={"content-type": "text/html"}, content="<html>")
    assert "check base_url" in str(await failure(page))


async def test_leaving_early_closes_the_reply_of_the_sdk() -> None:
    """R12.28"""
    reply = event_reply([fixture("text")])
    client = openai_client(MockProvider(reply))
    stream = OpenAIModel("gpt-5", client=client).stream(HI)
    first: Chunk = await anext(stream)
    assert first.type == "stream-start"
    await stream.aclose()
    assert reply.is_closed


class BrokenClient:
    base_url = "https://api.example/v1"

    async def post(self, path: str, **options: Any) -> Any:
        raise RuntimeError("a mistake in the client")


async def test_an_error_that_is_none_of_the_providers_is_left_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="a mistake in the client"):
        await drain(OpenAIModel("gpt-5", client=BrokenClient()).stream(HI))


def test_neither_repr_nor_attributes_show_the_key_of_the_client() -> None:
    client = openai_client(MockProvider())
    model = OpenAIModel("gpt-5", client=client)
    assert repr(model) == "OpenAIModel('gpt-5', provider='openai', url='https://api.openai.com/v1/responses')"


def test_a_client_of_the_sdk_and_a_key_conflict() -> None:
    client = openai_client(MockProvider())
    with pytest.raises(ConfigurationError, match="the SDK's client has a key and an address of its own"):
        OpenAIModel("gpt-5", client=client, api_key="k")


def test_a_client_that_blocks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"client is of type OpenAI: give .* such as AsyncOpenAI"):
        OpenAIModel("gpt-5", client=OpenAI(api_key="k"))
