from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from interlock.errors import APICallError, ConfigurationError, ModelError
from interlock.models import ModelRequest, OpenAIChatModel, allow_model_requests
from interlock.testing import drain, text_of
from tests.models.wire import DONE, HELLO, MockServer, Reply, event, event_reply, loopback, sse

pytestmark = pytest.mark.anyio

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
SECRET = "sk-secret"


async def refusal(status: int, body: Any, **headers: str) -> APICallError:
    content = body if isinstance(body, str) else json.dumps(body)
    reply = httpx2.Response(status, headers={"content-type": "application/json", **headers}, content=content)
    return await failure(reply)


async def failure(reply: httpx2.Response | Exception, **options: Any) -> APICallError:
    with pytest.raises(APICallError) as caught:
        await drain(MockServer(reply, **options).model.stream(HI))
    return caught.value


async def test_a_refusal_has_status_code_message_body_and_headers() -> None:
    """R17.7"""
    body = {"error": {"message": "No such model.", "type": "invalid_request_error", "code": "model_not_found"}}
    error = await refusal(404, body, **{"x-request-id": "r1"})
    assert str(error) == "No such model. (check that 'openai/gpt-5' is the name of a model there)"
    assert error.status_code == 404
    assert error.code == "model_not_found"
    assert error.response_body == json.dumps(body)
    assert error.response_headers["x-request-id"] == "r1"
    assert not error.is_retryable


async def test_an_error_shows_neither_key_nor_credentials_nor_query() -> None:
    """R17.7"""
    body = {"error": {"message": f"Incorrect API key provided: {SECRET}"}}
    reply = httpx2.Response(401, headers={"content-type": "application/json"}, content=json.dumps(body))
    error = await failure(reply, base_url="https://user:pass@api.example/v1?token=abc")
    assert error.url == "https://api.example/v1/chat/completions"
    shown = f"{error} {error.response_body} {error.url} {error!r}"
    for hidden in (SECRET, "pass", "abc"):
        assert hidden not in shown


@pytest.mark.parametrize(
    ("statuses", "is_retryable"), [((400, 401, 404, 413, 422), False), ((408, 409, 429, 500, 503, 529), True)]
)
async def test_what_may_pass_is_retryable(statuses: tuple[int, ...], is_retryable: bool) -> None:
    """R7.13"""
    for status in statuses:
        error = await refusal(status, {"error": {"message": "x"}})
        assert (error.status_code, error.is_retryable) == (status, is_retryable)


async def test_a_used_up_quota_is_not_retryable() -> None:
    """R7.13"""
    assert not (await refusal(429, {"error": {"message": "x", "code": "insufficient_quota"}})).is_retryable


@pytest.mark.parametrize("value", ["true", "false"])
async def test_a_provider_may_say_itself_whether_to_retry(value: str) -> None:
    """R7.13"""
    error = await refusal(500, {"error": {"message": "x"}}, **{"x-should-retry": value})
    assert error.is_retryable is (value == "true")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "3"}, 3.0), ({"retry-after-ms": "250", "retry-after": "3"}, 0.25), ({"retry-after": "?"}, None)],
)
async def test_the_wanted_pause_is_read(headers: dict[str, str], seconds: float | None) -> None:
    """R7.13"""
    assert (await refusal(429, {"error": {"message": "x"}}, **headers)).retry_after_s == seconds


async def test_a_pause_until_a_date_is_read() -> None:
    """R7.13"""
    error = await refusal(503, {}, **{"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert error.retry_after_s == 0.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "plain"}, "plain"),
        ({"message": "Try again.", "__type": "X"}, "Try again."),
        ([{"error": {"code": 400, "message": "listed"}}], "listed"),
        ({"detail": [{"loc": ["body"], "msg": "bad"}]}, '[{"loc":["body"],"msg":"bad"}]'),
        ("upstream is down", "HTTP 500 from https://api.example/v1/chat/completions: upstream is down"),
        ("", "HTTP 500 from https://api.example/v1/chat/completions"),
    ],
)
async def test_the_message_is_found_wherever_it_is(body: Any, message: str) -> None:
    """FR-102"""
    assert str(await refusal(500, body)) == message


async def test_a_long_body_is_cut() -> None:
    error = await refusal(500, "x" * 20_000)
    assert error.response_body == "x" * 10_000


async def test_a_web_page_says_to_check_the_base_url() -> None:
    page = httpx2.Response(200, headers={"content-type": "text/html"}, content="<html>")
    error = await failure(page)
    assert "answered with text/html instead of an event stream: check base_url" in str(error)
    assert not error.is_retryable


async def test_an_error_in_a_json_reply_with_status_200_is_an_error() -> None:
    """FR-100"""
    error = await refusal(200, {"error": {"message": "Overloaded", "type": "overloaded_error"}})
    assert str(error) == "Overloaded"
    assert error.is_retryable


async def test_a_redirect_is_not_followed() -> None:
    reply = httpx2.Response(307, headers={"location": "https://elsewhere.example/"})
    assert "points to another address" in str(await failure(reply))


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (httpx2.ConnectTimeout("slow"), "timeout"),
        (httpx2.ReadTimeout("slow"), "timeout"),
        (httpx2.ConnectError("refused"), "connection_error"),
        (httpx2.RemoteProtocolError("peer closed"), "connection_error"),
    ],
)
async def test_a_lost_connection_is_a_retryable_error(problem: Exception, code: str) -> None:
    """R7.13"""
    error = await failure(problem)
    assert (error.code, error.status_code, error.is_retryable) == (code, None, True)
    assert error.__cause__ is problem


async def test_a_header_that_cannot_be_sent_does_not_show_the_key() -> None:
    error = await failure(httpx2.LocalProtocolError(f"Illegal header value b'Bearer {SECRET}'"))
    assert SECRET not in f"{error}"
    assert error.__cause__ is None
    assert not error.is_retryable


@pytest.mark.parametrize("key", ["", "  ", "sk-\u201cquoted\u201d", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    with pytest.raises(ConfigurationError, match="copy the key again") as caught:
        OpenAIChatModel("gpt-5", api_key=key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.parametrize("url", ["api.example/v1", "ftp://api.example", "https://"])
def test_a_base_url_that_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        OpenAIChatModel("gpt-5", base_url=url)


def test_neither_repr_nor_attributes_show_the_key() -> None:
    model = OpenAIChatModel("gpt-5", api_key=SECRET, base_url="https://user:pass@api.example/v1?token=abc")
    assert repr(model) == "OpenAIChatModel('gpt-5', provider='openai', url='https://api.example/v1/chat/completions')"
    assert SECRET not in repr(vars(model))


async def test_a_switched_off_network_raises_before_anything_is_sent() -> None:
    with (
        allow_model_requests(False),
        pytest.raises(ModelError, match=r"openai/gpt-5 was asked for while .* switched off"),
    ):
        await drain(OpenAIChatModel("gpt-5", api_key=SECRET).stream(HI))


async def test_a_reply_over_the_wire_reads_as_it_was_sent() -> None:
    async with loopback(lambda _: Reply(HELLO)) as server:
        chunks = await drain(OpenAIChatModel("gpt-5", api_key=SECRET, base_url=f"{server.url}/v1").stream(HI))
    assert text_of(chunks) == "Hello"
    line, headers, body = server.requests[0]
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert json.loads(body)["model"] == "gpt-5"


async def test_characters_cut_between_packets_are_whole_again() -> None:
    data = b"".join([event({"content": "Grüße 世界 👋"}), event(finish_reason="stop"), DONE])
    async with loopback(lambda _: Reply([data[i : i + 1] for i in range(len(data))])) as server:
        chunks = await drain(OpenAIChatModel("gpt-5", base_url=server.url).stream(HI))
    assert text_of(chunks) == "Grüße 世界 👋"


async def test_calls_one_after_the_other_use_one_connection() -> None:
    async with loopback(lambda _: Reply(HELLO)) as server:
        model = OpenAIChatModel("gpt-5", base_url=server.url)
        for _ in range(3):
            await drain(model.stream(HI))
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_server_that_lingers_after_the_end_does_not_hold_up_the_answer() -> None:
    async with loopback(lambda _: Reply([*HELLO, asyncio.Event()])) as server:
        chunks = await drain(OpenAIChatModel("gpt-5", base_url=server.url).stream(HI))
        await server.all_closed.wait()
    assert text_of(chunks) == "Hello"


async def test_a_connection_lost_in_the_middle_is_an_error() -> None:
    """FR-100"""
    async with loopback(lambda _: Reply([event({"content": "Par"})], is_cut=True)) as server:
        with pytest.raises(APICallError) as caught:
            await drain(OpenAIChatModel("gpt-5", base_url=server.url).stream(HI))
    assert caught.value.code == "connection_error"
    assert caught.value.is_retryable


async def test_silence_longer_than_allowed_is_an_error() -> None:
    async with loopback(lambda _: Reply([event({"content": "Par"}), asyncio.Event()])) as server:
        model = OpenAIChatModel("gpt-5", base_url=server.url, read_timeout_s=0.02)
        with pytest.raises(APICallError, match=r"no answer from .* in time") as caught:
            await drain(model.stream(HI))
        await server.all_closed.wait()
    assert caught.value.code == "timeout"


async def test_closing_the_stream_closes_the_connection() -> None:
    """R12.28"""
    async with loopback(lambda _: Reply([event({"content": "x"}), asyncio.Event()])) as server:
        async with aclosing(OpenAIChatModel("gpt-5", base_url=server.url).stream(HI)) as stream:
            await anext(stream)
            assert server.open_replies == 1
        await server.all_closed.wait()
        assert server.open_replies == 0


async def test_cancelling_the_reader_closes_the_connection() -> None:
    """R12.28"""
    async with loopback(lambda _: Reply([event({"content": "x"}), asyncio.Event()])) as server:
        stream = OpenAIChatModel("gpt-5", base_url=server.url).stream(HI)
        async with aclosing(stream):
            for _ in range(4):
                await anext(stream)
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await server.all_closed.wait()


async def test_many_calls_at_once_do_not_wait_for_one_another() -> None:
    gate = asyncio.Event()
    count = 120
    async with loopback(lambda _: Reply([HELLO[0], gate, *HELLO[1:]])) as server:
        model = OpenAIChatModel("gpt-5", base_url=server.url)
        tasks = [asyncio.create_task(drain(model.stream(HI))) for _ in range(count)]
        while server.open_replies < count:
            await asyncio.sleep(0.001)
        gate.set()
        replies = await asyncio.gather(*tasks)
    assert [text_of(reply) for reply in replies] == ["Hello"] * count


async def test_a_given_client_stays_open() -> None:
    server = MockServer(event_reply(HELLO), event_reply([sse({"choices": []}), *HELLO]))
    for _ in range(2):
        assert text_of(await drain(server.model.stream(HI))) == "Hello"


def test_each_event_loop_has_its_own_connections_and_closes_them() -> None:
    # An unclosed connection is a ResourceWarning, and warnings are errors here.
    model: OpenAIChatModel | None = None

    async def one_call() -> str:
        nonlocal model
        async with loopback(lambda _: Reply(HELLO)) as server:
            model = OpenAIChatModel("gpt-5", base_url=server.url)
            return text_of(await drain(model.stream(HI)))

    assert [asyncio.run(one_call()) for _ in range(2)] == ["Hello", "Hello"]
    gc.collect()


@pytest.mark.anyio
async def test_a_key_that_the_server_echoes_in_a_header_is_not_shown() -> None:
    """R17.7"""
    server = MockServer(httpx2.Response(401, headers={"x-echo": "Bearer sk-secret"}, json={"error": {"message": "no"}}))
    with pytest.raises(APICallError) as caught:
        await drain(server.model.stream(HI))
    assert caught.value.response_headers["x-echo"] == "Bearer ***"
