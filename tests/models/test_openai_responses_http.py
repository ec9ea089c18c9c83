from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from interlock.errors import APICallError, ConfigurationError, ModelError
from interlock.models import ModelRequest, OpenAIModel, allow_model_requests
from interlock.testing import drain, text_of
from tests.models.reading import HI
from tests.models.responses_server import ResponsesServer, fixture
from tests.models.wire import Reply, event_reply, loopback

pytestmark = pytest.mark.anyio

SECRET = "sk-secret"


async def failure(reply: httpx2.Response | Exception, **options: Any) -> APICallError:
    with pytest.raises(APICallError) as caught:
        await drain(ResponsesServer(reply, **options).model.stream(HI))
    return caught.value


async def test_a_reply_over_the_wire_reads_as_it_was_sent() -> None:
    data = fixture("text")
    async with loopback(lambda _: Reply([data[i : i + 5] for i in range(0, len(data), 5)])) as server:
        chunks = await drain(OpenAIModel("gpt-5", api_key=SECRET, base_url=f"{server.url}/v1").stream(HI))
    assert text_of(chunks) == "Grüße, 世界 👋🏽 from\n\u2028the other side."
    line, headers, body = server.requests[0]
    assert line == "POST /v1/responses HTTP/1.1"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert json.loads(body)["model"] == "gpt-5"


async def test_calls_one_after_the_other_use_one_connection() -> None:
    async with loopback(lambda _: Reply([fixture("text")])) as server:
        model = OpenAIModel("gpt-5", base_url=server.url)
        for _ in range(3):
            await drain(model.stream(HI))
    assert server.connections == 1


async def test_headers_of_the_model_the_settings_and_the_call_are_sent() -> None:
    server = ResponsesServer(event_reply([fixture("text")]), headers={"X-A": "1", "x-b": "1", "x-c": "1"})
    settings: Any = {"headers": {"x-b": "2", "x-c": "2"}}
    await drain(server.model.stream(ModelRequest(prompt=HI.prompt, settings=settings, headers={"x-c": "3"})))
    headers = server.requests[0].headers
    assert [headers[name] for name in ("x-a", "x-b", "x-c")] == ["1", "2", "3"]


async def test_a_refusal_is_typed_and_shows_no_key() -> None:
    """R17.7"""
    body = {"error": {"message": f"Incorrect API key provided: {SECRET}", "code": "invalid_api_key"}}
    error = await failure(httpx2.Response(401, json=body))
    assert str(error) == "Incorrect API key provided: *** (check the key in api_key)"
    assert (error.status_code, error.code, error.is_retryable) == (401, "invalid_api_key", False)
    assert SECRET not in f"{error.response_body} {error.url} {error!r}"


async def test_a_key_that_came_as_a_header_is_not_shown_either() -> None:
    """R17.7"""
    reply = httpx2.Response(401, json={"error": {"message": "bad token my-own-token"}})
    error = await failure(reply, api_key=None, headers={"Authorization": "Bearer my-own-token"})
    assert "my-own-token" not in f"{error} {error.response_body}"


async def test_an_error_inside_the_stream_shows_no_key() -> None:
    """R17.7"""
    event = {"type": "error", "code": "server_error", "message": f"{SECRET} is over its limit"}
    error = await failure(event_reply([f"data: {json.dumps(event)}\n\n".encode()]))
    assert str(error) == "*** is over its limit"
    assert SECRET not in f"{error.response_body}"


async def test_a_stand_in_for_a_key_garbles_no_message() -> None:
    error = await failure(httpx2.Response(400, json={"error": {"message": "kaputt"}}), api_key="k")
    assert str(error) == "kaputt"


async def test_a_connection_lost_in_the_middle_is_an_error() -> None:
    """FR-100"""
    async with loopback(lambda _: Reply([fixture("text")[:3000]], is_cut=True)) as server:
        with pytest.raises(APICallError) as caught:
            await drain(OpenAIModel("gpt-5", base_url=server.url).stream(HI))
    assert (caught.value.code, caught.value.is_retryable) == ("connection_error", True)


@pytest.mark.parametrize("sent_first", [b"", fixture("text")[:3000]], ids=["first token", "between tokens"])
async def test_silence_longer_than_allowed_is_an_error(sent_first: bytes) -> None:
    """R7.13"""
    async with loopback(lambda _: Reply([*([sent_first] if sent_first else []), asyncio.Event()])) as server:
        model = OpenAIModel("gpt-5", base_url=server.url, read_timeout_s=0.05)
        with pytest.raises(APICallError, match=r"no answer from .* in time") as caught:
            await drain(model.stream(HI))
        await server.all_closed.wait()
    assert (caught.value.code, caught.value.is_retryable) == ("timeout", True)


async def test_closing_the_stream_closes_the_connection() -> None:
    """R12.28"""
    async with loopback(lambda _: Reply([fixture("text")[:3000], asyncio.Event()])) as server:
        async with aclosing(OpenAIModel("gpt-5", base_url=server.url).stream(HI)) as stream:
            await anext(stream)
            assert server.open_replies == 1
        await server.all_closed.wait()
        assert server.open_replies == 0


async def test_a_switched_off_network_raises_before_anything_is_sent() -> None:
    with allow_model_requests(False), pytest.raises(ModelError, match=r"openai/gpt-5 was asked for"):
        await drain(OpenAIModel("gpt-5", api_key=SECRET).stream(HI))


def test_neither_repr_nor_attributes_show_the_key() -> None:
    model = OpenAIModel("gpt-5", api_key=SECRET, base_url="https://user:pass@api.example/v1?token=abc")
    assert repr(model) == "OpenAIModel('gpt-5', provider='openai', url='https://api.example/v1/responses')"
    assert SECRET not in repr(vars(model))


@pytest.mark.parametrize("url", ["api.example/v1", "ftp://api.example", "https://"])
def test_a_base_url_that_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        OpenAIModel("gpt-5", base_url=url)
