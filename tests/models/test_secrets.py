"""Credentials of a request are shown nowhere, wherever in the request they are."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest

from interlock.models import ModelFallback, OpenAIChatModel
from interlock.models.secrets import secrets_hidden
from interlock.testing import text_of
from tests.models.reading import HI, until_failure
from tests.models.wire import HELLO, MockServer, Reply, event_reply, loopback

pytestmark = pytest.mark.anyio

SECRET = "s3cret/of+mine"
IN_URL = "s3cret%2Fof%2Bmine"
WAYS: list[dict[str, Any]] = [
    {"api_key": SECRET},
    {"headers": {"Authorization": f"Bearer {SECRET}"}},
    {"headers": {"x-gateway-token": SECRET}},
    {"headers": {"x-anything": SECRET}},
    {"headers": {"x-auth": f"Token {SECRET}"}},
    {"headers": {"cookie": f"lang=en; session={SECRET}; theme=dark"}},
    {"base_url": f"https://api.example/v1?key={IN_URL}"},
    {"base_url": f"https://user:{IN_URL}@api.example/v1"},
    {"base_url": f"https://{IN_URL}@api.example/v1"},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("spelled", [SECRET, IN_URL])
async def test_a_credential_that_a_server_quotes_is_not_shown(way: dict[str, Any], spelled: str) -> None:
    echo = {"error": {"message": f"no access with {spelled}"}}
    reply = httpx2.Response(401, json=echo, headers={"x-echo": spelled})
    _, error = await until_failure(MockServer(reply, **way).model.stream(HI))
    assert "no access with ***" in str(error)
    assert spelled not in f"{error!r} {error} {vars(error)}"


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_credential_in_an_error_event_is_not_shown(way: dict[str, Any]) -> None:
    reply = event_reply([f'data: {{"error":{{"message":"not {SECRET}"}}}}\n\n'.encode()])
    _, error = await until_failure(MockServer(reply, **way).model.stream(HI))
    assert "not ***" in str(error)
    assert SECRET not in f"{error!r} {error} {vars(error)}"


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_credential_is_not_logged(way: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = MockServer(event_reply(HELLO), **way)
    assert text_of([chunk async for chunk in server.model.stream(HI)]) == "Hello"
    assert "HTTP Request: POST https://api.example/v1/chat/completions" in caplog.text
    assert SECRET not in caplog.text
    assert IN_URL not in caplog.text


async def test_the_log_of_other_requests_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200))) as client:
        await client.get("https://other.example/?page=2")
    assert "https://other.example/?page=2" in caplog.text


async def test_a_credential_in_the_address_is_sent() -> None:
    async with loopback(lambda _: Reply(HELLO)) as server:
        address = server.url.replace("//", f"//user:{IN_URL}@") + f"?key={IN_URL}"
        model = OpenAIChatModel("gpt-5", base_url=address)
        assert text_of([chunk async for chunk in model.stream(HI)]) == "Hello"
        assert SECRET not in repr(model)
    line, headers, _ = server.requests[0]
    assert f"?key={IN_URL}" in line
    assert headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-type", "application/json"),
        ("anthropic-beta", "interleaved-thinking"),
        ("openai-organization", "org-interlock"),
        ("x-request-id", "request-17"),
        ("user-agent", "interlock"),
        ("http-referer", "https://interlock.example"),
    ],
)
def test_what_is_no_secret_stays_readable(name: str, value: str) -> None:
    hide = secrets_hidden({name: value}, url="https://user@api.example/v1?api-version=2024-10-21")
    assert hide(f"{value} 2024-10-21") == f"{value} 2024-10-21"


def test_a_part_of_another_secret_is_hidden_with_it() -> None:
    hide = secrets_hidden({"x-a": "abcdef", "x-b": "abcdefgh"})
    assert hide("abcdefgh abcdef") == "*** ***"


@pytest.mark.parametrize("option", ["headers", "model_settings", "provider_options"])
def test_the_repr_of_a_fallback_shows_no_credentials(option: str) -> None:
    given: dict[str, Any] = {
        "headers": {"authorization": SECRET},
        "model_settings": {"headers": {"authorization": SECRET}},
        "provider_options": {"openai": {"key": SECRET}},
    }
    entry = ModelFallback("openai/gpt-5", **{option: given[option]})
    assert SECRET not in repr(entry)
    assert "openai/gpt-5" in repr(entry)
