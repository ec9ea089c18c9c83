from __future__ import annotations

import asyncio
import json
import traceback
from contextlib import aclosing
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic

from interlock.errors import APICallError, ConfigurationError, ModelError
from interlock.models import AnthropicModel, ModelRequest, resolve_model
from interlock.models.context_overflow import is_context_overflow
from interlock.testing import drain, text_of
from tests.models.anthropic_server import AnthropicServer, fixture
from tests.models.mock_provider import MockProvider
from tests.models.reading import HI, content, until_failure
from tests.models.wire import Reply, event_reply, loopback

pytestmark = pytest.mark.anyio

KEY = "sk-ant-secret"


def refusal(status_code: int, code: str, message: str, **headers: str) -> httpx2.Response:
    error = {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}
    return httpx2.Response(status_code, headers=headers, json=error)


async def failure(reply: httpx2.Response | bytes) -> APICallError:
    _, error = await until_failure(AnthropicServer(reply).model.stream(HI))
    return error


async def test_a_request_has_key_and_version_in_its_headers() -> None:
    server = AnthropicServer(fixture("text"))
    await drain(server.model.stream(HI))
    [request] = server.requests
    assert str(request.url) == "https://api.anthropic.com/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert "anthropic-beta" not in request.headers
    assert "authorization" not in request.headers
    assert server.body["messages"] == HI.prompt


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://proxy.example", "https://proxy.example/v1/messages"),
        ("https://proxy.example/v1/", "https://proxy.example/v1/messages"),
        ("https://proxy.example/anthropic?team=a", "https://proxy.example/anthropic/v1/messages?team=a"),
    ],
)
async def test_an_address_is_given_with_or_without_the_version(base_url: str, url: str) -> None:
    server = AnthropicServer(fixture("text"), base_url=base_url)
    await drain(server.model.stream(HI))
    assert str(server.requests[0].url) == url


async def test_headers_of_the_model_the_settings_and_the_call_are_sent() -> None:
    server = AnthropicServer(fixture("text"), headers={"X-A": "1", "anthropic-beta": "b1"}, api_version="2023-06-01")
    request = ModelRequest(
        prompt=HI.prompt,
        settings={"headers": {"x-b": "2"}},
        headers={"x-c": "3"},
        provider_options={"anthropic": {"anthropicBeta": ["b2", "b1"]}},
    )
    await drain(server.model.stream(request))
    headers = server.requests[0].headers
    assert [headers[name] for name in ("x-a", "x-b", "x-c")] == ["1", "2", "3"]
    assert headers["anthropic-beta"] == "b1,b2"
    assert headers["anthropic-version"] == "2023-06-01"


async def test_the_request_and_its_warnings_are_told_first() -> None:
    server = AnthropicServer(fixture("text"))
    chunks = await drain(server.model.stream(ModelRequest(prompt=HI.prompt, settings={"seed": 1})))
    told = chunks[0].to_dict()["payload"]
    assert told["request"]["body"] == server.body
    assert [warning["setting"] for warning in told["warnings"]] == ["seed"]


@pytest.mark.parametrize(
    ("reply", "is_retryable", "advice"),
    [
        (refusal(401, "authentication_error", "invalid x-api-key"), False, "check the key in api_key"),
        (refusal(403, "permission_error", "not allowed"), False, "check what the key in api_key may do"),
        (refusal(404, "not_found_error", "model: claude-x"), False, "'anthropic/claude-sonnet-5-5' is the name"),
        (refusal(413, "request_too_large", "Request too large"), False, "send fewer or smaller files"),
        (refusal(400, "invalid_request_error", "image exceeds 5 MB maximum"), False, "image exceeds 5 MB maximum"),
        (refusal(429, "rate_limit_error", "slow down"), True, "slow down"),
        (refusal(500, "api_error", "Internal server error"), True, "Internal server error"),
        (refusal(529, "overloaded_error", "Overloaded"), True, "Overloaded"),
    ],
)
async def test_a_refusal_says_what_to_do(reply: httpx2.Response, is_retryable: bool, advice: str) -> None:
    """R7.13"""
    error = await failure(reply)
    assert error.status_code == reply.status_code
    assert error.code == reply.json()["error"]["type"]
    assert error.is_retryable is is_retryable
    assert advice in str(error)


async def test_a_refusal_carries_the_wait_that_was_asked_for() -> None:
    """R7.13"""
    headers = {"retry-after": "7", "anthropic-ratelimit-requests-remaining": "0"}
    error = await failure(refusal(429, "rate_limit_error", "slow down", **headers))
    assert error.retry_after_s == 7
    assert error.response_headers["anthropic-ratelimit-requests-remaining"] == "0"


async def test_a_prompt_that_is_too_long_is_recognised() -> None:
    """FR-102"""
    error = await failure(refusal(400, "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum"))
    assert is_context_overflow(error)


@pytest.mark.parametrize("status_code", [200, 404, 502])
async def test_a_web_page_is_not_an_answer(status_code: int) -> None:
    error = await failure(httpx2.Response(status_code, html="<html>"))
    assert "https://api.anthropic.com/v1/messages" in str(error)
    assert "base_url" in str(error)


async def test_the_key_is_shown_nowhere() -> None:
    server = AnthropicServer(
        refusal(401, "authentication_error", f"invalid key {KEY}"), base_url="https://u:pw@x.example"
    )
    _, error = await until_failure(server.model.stream(HI))
    shown = [str(error), repr(error), str(error.response_body), str(error.response_headers), str(error.url)]
    shown += [repr(server.model), "".join(traceback.format_exception(error))]
    assert "***" in str(error)
    assert not [text for text in shown if KEY in text or "pw" in text]


async def test_the_key_is_hidden_in_errors_inside_the_answer() -> None:
    data = json.dumps({"type": "error", "error": {"type": "api_error", "message": f"bad {KEY}"}})
    error = await failure(f"event: error\ndata: {data}\n\n".encode())
    assert str(error) == "bad ***"
    assert KEY not in str(error.response_body)


async def test_a_connection_lost_in_the_middle_is_an_error() -> None:
    """FR-100"""
    async with loopback(lambda _: Reply([fixture("truncated")], is_cut=True)) as server:
        seen, error = await until_failure(AnthropicModel("m", base_url=server.url).stream(HI))
    assert text_of(seen) == "Par"
    assert (error.code, error.is_retryable) == ("connection_error", True)


async def test_silence_longer_than_allowed_is_an_error() -> None:
    async with loopback(lambda _: Reply([fixture("truncated"), asyncio.Event()])) as server:
        model = AnthropicModel("m", base_url=server.url, read_timeout_s=0.02)
        _, error = await until_failure(model.stream(HI))
        await server.all_closed.wait()
    assert (error.code, error.is_retryable) == ("timeout", True)


async def test_closing_the_stream_closes_the_connection() -> None:
    """R12.28"""
    async with loopback(lambda _: Reply([fixture("truncated"), asyncio.Event()])) as server:
        async with aclosing(AnthropicModel("m", base_url=server.url).stream(HI)) as stream:
            await anext(stream)
            assert server.open_replies == 1
        await server.all_closed.wait()
        assert server.open_replies == 0


async def test_a_connection_is_used_again() -> None:
    async with loopback(lambda _: Reply([fixture("text")])) as server:
        model = AnthropicModel("m", base_url=server.url)
        for _ in range(2):
            await drain(model.stream(HI))
        assert server.connections == 1


async def test_real_calls_can_be_switched_off() -> None:
    with pytest.raises(ModelError, match="anthropic/claude-opus-5-5 was asked for while calls"):
        await drain(AnthropicModel("claude-opus-5-5", api_key="k").stream(HI))


async def test_the_router_speaks_this_protocol_to_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    model = resolve_model("anthropic/claude-opus-5-5")
    assert isinstance(model, AnthropicModel)
    assert repr(model) == (
        "AnthropicModel('claude-opus-5-5', provider='anthropic', url='https://api.anthropic.com/v1/messages')"
    )
    async with loopback(lambda _: Reply([fixture("text")])) as server:
        # Anthropic's own tools give this variable without the version.
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        await drain(resolve_model("anthropic/claude-opus-5-5", headers={"x-a": "1"}).stream(HI))
    line, headers, _ = server.requests[0]
    assert line == "POST /v1/messages HTTP/1.1"
    assert (headers["x-api-key"], headers["x-a"]) == (KEY, "1")


class Sdk(MockProvider):
    """A model on the official client, and the requests that this sent."""

    def __init__(self, *replies: httpx2.Response | Exception, **options: Any) -> None:
        super().__init__(*replies)
        self.client = AsyncAnthropic(api_key=KEY, http_client=self.http, max_retries=0)
        self.model = AnthropicModel("claude-sonnet-5-5", client=self.client, **options)


async def test_the_sdks_client_sends_the_request_and_we_read_the_reply() -> None:
    sdk = Sdk(event_reply([fixture("thinking")]), headers={"x-a": "1"})
    request = ModelRequest(prompt=HI.prompt, provider_options={"anthropic": {"anthropicBeta": ["b1"]}})
    chunks = await drain(sdk.model.stream(request))
    assert content(chunks) == content(await drain(AnthropicServer(fixture("thinking")).model.stream(HI)))
    [sent] = sdk.requests
    assert str(sent.url) == "https://api.anthropic.com/v1/messages"
    assert KEY in (sent.headers.get("authorization", "") + sent.headers.get("x-api-key", ""))
    assert (sent.headers["anthropic-beta"], sent.headers["x-a"]) == ("b1", "1")
    assert json.loads(sent.content)["stream"] is True


async def test_the_sdks_client_speaks_its_own_version_unless_told() -> None:
    own, told = Sdk(event_reply([fixture("text")])), Sdk(event_reply([fixture("text")]), api_version="2023-06-01")
    for sdk in (own, told):
        await drain(sdk.model.stream(HI))
    assert own.requests[0].headers["anthropic-version"] == own.client.default_headers["anthropic-version"]
    assert told.requests[0].headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize(
    ("reply", "status_code", "code"),
    [
        (refusal(429, "rate_limit_error", f"slow down, {KEY}"), 429, "rate_limit_error"),
        (httpx2.ReadTimeout("too slow"), None, "timeout"),
        (httpx2.ConnectError("no route"), None, "connection_error"),
        (event_reply([fixture("overloaded")]), 529, "overloaded_error"),
    ],
)
async def test_failures_of_the_sdks_client_are_call_errors(
    reply: httpx2.Response | Exception, status_code: int | None, code: str
) -> None:
    _, error = await until_failure(Sdk(reply).model.stream(HI))
    assert (error.status_code, error.code, error.is_retryable) == (status_code, code, True)
    assert KEY not in f"{error} {error.response_body}"


def test_a_client_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"an SDK.s asynchronous client"):
        AnthropicModel("m", client=Anthropic(api_key=KEY))


def test_the_sdks_client_has_its_own_key_and_address() -> None:
    with pytest.raises(ConfigurationError, match="give them to it"):
        AnthropicModel("m", client=AsyncAnthropic(api_key=KEY), api_key="k")


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        AnthropicModel("m", base_url="localhost:8000")


async def test_a_refusal_through_the_sdk_shows_no_key_in_its_traceback() -> None:
    """R17.7"""
    _, error = await until_failure(Sdk(refusal(401, "authentication_error", f"bad: {KEY}")).model.stream(HI))
    assert KEY not in "".join(traceback.format_exception(error)) + str(vars(error))
