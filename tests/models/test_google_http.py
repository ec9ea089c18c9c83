from __future__ import annotations

from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from interlock import Agent
from interlock.errors import ConfigurationError, ModelError
from interlock.models import GoogleModel, allow_model_requests, resolve_model
from interlock.models.context_overflow import is_context_overflow
from interlock.testing import drain, text_of
from tests.models.google_server import GoogleServer, event, fixture, read, refusal
from tests.models.reading import HI, until_failure
from tests.models.wire import Pieces, Reply, event_reply, loopback

pytestmark = pytest.mark.anyio

SECRET = "AIza-secret"


async def test_the_key_is_a_header_and_never_in_the_address() -> None:
    server = GoogleServer(event_reply([fixture("text")]))
    await drain(server.model.stream(HI))
    (request,) = server.requests
    assert request.headers["x-goog-api-key"] == SECRET
    assert str(request.url) == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"
    )
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("model_id", "base_url", "address"),
    [
        ("tunedModels/a-1", "https://x.example/v1beta/", "https://x.example/v1beta/tunedModels/a-1"),
        ("gemini-3-flash", "https://x.example/gemini?tenant=1", "https://x.example/gemini/models/gemini-3-flash"),
    ],
)
async def test_models_have_an_address_of_their_own(model_id: str, base_url: str, address: str) -> None:
    server = GoogleServer(event_reply([fixture("text")]), model_id=model_id, base_url=base_url)
    await drain(server.model.stream(HI))
    url = server.requests[0].url
    assert str(url.copy_with(query=None)) == f"{address}:streamGenerateContent"
    assert url.params["alt"] == "sse"
    assert ("tenant" in url.params) == ("tenant" in base_url)


async def test_headers_of_the_call_replace_those_of_the_model() -> None:
    server = GoogleServer(event_reply([fixture("text")]), headers={"X-A": "model", "x-b": "model"})
    agent = Agent(id="a", model=server.model)
    await agent.generate("hi", model_settings={"headers": {"x-a": "call"}})
    assert (server.requests[0].headers["x-a"], server.requests[0].headers["x-b"]) == ("call", "model")


@pytest.mark.parametrize(
    ("name", "status", "code", "is_retryable", "says"),
    [
        ("error_400", 400, "INVALID_ARGUMENT", False, "process input image"),
        ("error_401", 401, "UNAUTHENTICATED", False, r"check the key in api_key"),
        ("error_key", 400, "INVALID_ARGUMENT", False, r"check the key in api_key"),
        ("error_404", 404, "NOT_FOUND", False, "check that 'google/gemini-3-flash' is the name of a model"),
        ("error_429", 429, "RESOURCE_EXHAUSTED", True, "exceeded your current quota"),
        ("error_500", 500, "INTERNAL", True, "internal error"),
        ("error_503", 503, "UNAVAILABLE", True, "overloaded"),
        ("error_overflow", 400, "INVALID_ARGUMENT", False, "leave out old messages"),
    ],
)
async def test_a_refusal_is_a_typed_error(name: str, status: int, code: str, is_retryable: bool, says: str) -> None:
    """R17.7, R7.13; the body may be an array"""
    seen, error = await until_failure(GoogleServer(refusal(name, status, **{"x-request": "r1"})).model.stream(HI))
    assert seen == []
    assert (error.status_code, error.code, error.is_retryable) == (status, code, is_retryable)
    assert says in str(error)
    assert error.response_headers["x-request"] == "r1"


async def test_the_wanted_pause_is_read_from_the_body() -> None:
    """R7.13; Google sends no Retry-After"""
    _, error = await until_failure(GoogleServer(refusal("error_429", 429)).model.stream(HI))
    assert error.retry_after_s == 34.07
    _, error = await until_failure(GoogleServer(refusal("error_429", 429, **{"retry-after": "2"})).model.stream(HI))
    assert error.retry_after_s == 2


async def test_a_prompt_that_is_too_long_is_recognised() -> None:
    """FR-102"""
    _, error = await until_failure(GoogleServer(refusal("error_overflow", 400)).model.stream(HI))
    assert is_context_overflow(error)


@pytest.mark.parametrize(
    ("name", "status", "code"), [("error_in_stream", 503, "UNAVAILABLE"), ("bare_error", 429, "RESOURCE_EXHAUSTED")]
)
@pytest.mark.parametrize("size", [1, 40, 100_000])
async def test_an_error_inside_the_answer_is_a_typed_error(name: str, status: int, code: str, size: int) -> None:
    """R7.14, FR-100; as an event or bare, however the packets are cut"""
    data = fixture(name)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    seen, error = await until_failure(GoogleServer(event_reply(pieces)).model.stream(HI))
    assert text_of(seen) == "Par"
    assert (error.status_code, error.code, error.is_retryable) == (status, code, True)


async def test_an_answer_that_ends_in_the_middle_is_an_error() -> None:
    """R7.14, FR-100"""
    seen, error = await until_failure(GoogleServer(event_reply([fixture("truncated")])).model.stream(HI))
    assert text_of(seen) == "Paris"
    assert (error.code, error.is_retryable) == ("truncated_stream", True)


async def test_an_event_that_is_no_json_is_an_error_without_the_key() -> None:
    """R7.14"""
    broken = f'data: {{"candidates": "{SECRET}\n\n'.encode()
    seen, error = await until_failure(GoogleServer(event_reply([event({"text": "Par"}), broken])).model.stream(HI))
    assert text_of(seen) == "Par"
    assert (error.code, error.is_retryable) == ("malformed_stream", True)
    assert SECRET not in f"{error} {error.response_body}"


async def test_a_reply_that_is_no_event_stream_says_to_check_the_address() -> None:
    page = httpx2.Response(200, headers={"content-type": "text/html"}, content="<html>")
    _, error = await until_failure(GoogleServer(page).model.stream(HI))
    assert "check base_url" in str(error)
    assert not error.is_retryable


async def test_neither_repr_nor_errors_show_the_key() -> None:
    body = httpx2.Response(401, json={"error": {"code": 401, "message": f"bad key {SECRET}"}})
    server = GoogleServer(body, base_url="https://user:pass@x.example/v1?key=abc")
    _, error = await until_failure(server.model.stream(HI))
    shown = f"{error} {error!r} {error.url} {error.response_body} {server.model!r} {vars(server.model)}"
    assert "bad key ***" in str(error)
    assert repr(server.model) == (
        "GoogleModel('gemini-3-flash', provider='google', "
        "url='https://x.example/v1/models/gemini-3-flash:streamGenerateContent')"
    )
    assert SECRET not in shown


async def test_a_switched_off_network_raises_before_anything_is_sent() -> None:
    with allow_model_requests(False), pytest.raises(ModelError, match=r"google/gemini-3-flash was asked for"):
        await drain(GoogleModel("gemini-3-flash", api_key="k").stream(HI))


async def test_leaving_the_stream_closes_the_reply() -> None:
    body = Pieces([fixture("text"), fixture("text")])
    reply = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)
    async with aclosing(GoogleServer(reply).model.stream(HI)) as stream:
        async for chunk in stream:
            if chunk.type == "text-delta":
                break
    assert body.is_closed


async def test_the_router_speaks_to_gemini_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    async with loopback(lambda _: Reply([fixture("text")])) as server:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GEMINI_API_KEY", SECRET)
        model = resolve_model("google/gemini-3-flash")
        assert isinstance(model, GoogleModel)
        assert text_of(await drain(model.stream(HI))) == "Grüße aus Oslo 🌦, 日本"
    line, headers, _ = server.requests[0]
    assert line == "POST /models/gemini-3-flash:streamGenerateContent?alt=sse HTTP/1.1"
    assert headers["x-goog-api-key"] == SECRET


@pytest.mark.parametrize("options", [{"base_url": "ftp://x"}, {"api_key": "\n"}, {"client": object()}])
def test_what_cannot_work_is_refused_at_once(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        GoogleModel("gemini-3-flash", **options)


async def test_a_lost_connection_is_a_retryable_error() -> None:
    _, error = await until_failure(GoogleServer(httpx2.ConnectError("refused")).model.stream(HI))
    assert (error.code, error.is_retryable) == ("connection_error", True)


async def test_a_model_may_be_known_by_another_name() -> None:
    call = event({"functionCall": {"name": "f", "id": "c1"}, "thoughtSignature": "c2ln"}, finish="STOP")
    told = [chunk for chunk in await read(call, provider="vertex") if chunk.type == "tool-call"]
    assert told[0].to_dict()["payload"]["providerMetadata"] == {"vertex": {"thoughtSignature": "c2ln"}}
