"""Replies over HTTP that nobody should send: each is an answer, or an ``APICallError`` with what is known (R7.5)."""

from __future__ import annotations

import gzip
import zlib

import httpx2
import pytest

from interlock.chunks import Chunk
from interlock.errors import APICallError
from interlock.models.http_errors import MAX_BODY_CHARS, refusal
from interlock.testing import text_of
from tests.models.reading import HI, until_failure
from tests.models.wire import DONE, HELLO, MockServer, Pieces, event, event_reply, sse

pytestmark = pytest.mark.anyio

KEY = "sk-secret/with+signs"
NESTED = '{"error":' + "[" * 5_000 + "]" * 5_000 + "}"


async def answer(reply: httpx2.Response) -> list[Chunk]:
    return [chunk async for chunk in MockServer(reply, api_key=KEY).model.stream(HI)]


async def failure(reply: httpx2.Response) -> APICallError:
    return (await until_failure(MockServer(reply, api_key=KEY).model.stream(HI)))[1]


def refused(body: bytes, content_type: str, **headers: str) -> httpx2.Response:
    return httpx2.Response(400, headers={"content-type": content_type, **headers}, stream=Pieces([body]))


@pytest.mark.parametrize("charset", ["rot13", "idna", "undefined", "utf-99", "utf-16", "hex", "zip", "a\x00b"])
async def test_the_charset_that_a_server_claims_never_hides_the_status(charset: str) -> None:
    error = await failure(refused(b"\xff<html>..a", f"text/html; charset={charset}"))
    assert error.status_code == 400
    assert "<html>..a" in str(error.response_body)


@pytest.mark.parametrize("content_type", ["application/json", "text/html", ""])
async def test_a_deeply_nested_refusal_keeps_its_status(content_type: str) -> None:
    error = await failure(refused(NESTED.encode(), content_type))
    assert (error.status_code, error.response_body) == (400, NESTED[:MAX_BODY_CHARS])


async def test_a_deeply_nested_error_event_fails_the_call() -> None:
    error = await failure(event_reply([b"event: error\ndata: " + NESTED.encode() + b"\n\n"]))
    assert error.url == "https://api.example/v1/chat/completions"


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(b'{"error":"no"}')[:-9]], ids=["none", "cut"])
async def test_a_refusal_whose_body_cannot_be_unpacked_keeps_its_status(body: bytes) -> None:
    error = await failure(refused(body, "application/json", **{"content-encoding": "gzip"}))
    assert error.status_code == 400


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_packed_answer_is_unpacked(encoding: str, pack: object) -> None:
    packed = pack(b"".join(HELLO))  # type: ignore[operator]
    pieces = [packed[start : start + 7] for start in range(0, len(packed), 7)]
    assert text_of(await answer(event_reply(pieces, **{"content-encoding": encoding}))) == "Hello"


async def test_an_answer_that_is_not_packed_as_it_says_fails_the_call() -> None:
    error = await failure(event_reply(HELLO, **{"content-encoding": "gzip"}))
    assert error.code == "connection_error"


@pytest.mark.parametrize("spelled", [KEY, "sk-secret%2Fwith%2Bsigns"])
@pytest.mark.parametrize("status", [302, 401])
async def test_a_key_that_a_refusal_carries_in_a_header_is_shown_nowhere(status: int, spelled: str) -> None:
    headers = {"location": f"https://elsewhere.example/?key={spelled}", "x-echo": f"Bearer {spelled}"}
    error = await failure(httpx2.Response(status, headers=headers, text=f"no {spelled}"))
    assert error.response_headers["location"] == "https://elsewhere.example/?key=***"
    assert spelled not in f"{error!r} {error} {vars(error)}"


async def test_a_key_that_an_answer_carries_in_a_header_is_not_in_its_metadata() -> None:
    chunks = await answer(event_reply(HELLO, **{"x-echo": f"Bearer {KEY}"}))
    assert KEY not in repr(chunks)
    assert "Bearer ***" in repr(chunks)


async def test_a_key_in_an_unreadable_event_is_not_shown() -> None:
    error = await failure(event_reply([b"event: " + KEY.encode() + b"\ndata: {" + KEY.encode() + b"\n\n"]))
    assert error.code == "malformed_stream"
    assert KEY not in f"{error} {vars(error)}"


async def test_a_key_at_the_end_of_what_an_error_keeps_is_not_shown_in_part() -> None:
    body = "x" * (MAX_BODY_CHARS - 6) + KEY + "y" * MAX_BODY_CHARS
    error = await failure(refused(body.encode(), "text/plain"))
    assert "sk-" not in str(error.response_body)


@pytest.mark.parametrize(
    "tail", [b'data: {"choi', b'data: {"choices":[]}\n', b"data: ", b"event: error\n", b"\xff\xfe", b": comment"]
)
async def test_half_an_event_behind_the_finish_changes_nothing(tail: bytes) -> None:
    assert (
        text_of(await answer(event_reply([event({"content": "Hello"}), event(finish_reason="stop"), tail]))) == "Hello"
    )


async def test_a_long_line_in_small_packets_is_one_event() -> None:
    text = "x" * 1_000_000
    data = sse({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}) + DONE
    pieces = [data[start : start + 4_000] for start in range(0, len(data), 4_000)]
    assert text_of(await answer(event_reply(pieces))) == text


@pytest.mark.parametrize(
    "when",
    [
        *(
            "Mon, 01 Jan 9999 99:99:99 GMT",
            "Mon, 01 Jan 0001 00:00:00 +2359",
            "Mon, 01 Jan 2024 00:00:00 +999999999999",
        ),
        *("99999999999999999999 Jan 1 1 1 1", "nan", "inf", "-1", "1e999", ""),
    ],
)
def test_a_wait_that_is_none_is_not_waited(when: str) -> None:
    """R7.5"""
    body = '{"error":{"message":"no","details":[{"retryDelay":"infs"}]}}'
    error = refusal(429, {"retry-after": when}, body, "https://api.example")
    assert error.retry_after_s in (None, 0.0)
