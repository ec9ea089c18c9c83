from __future__ import annotations

import gzip
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import APICallError
from interlock.models.http import event_stream
from interlock.models.sse import EventReader, EventTooLargeError
from tests.models.wire import event_reply


def read(*pieces: bytes) -> list[tuple[str, str]]:
    reader = EventReader(1_000)
    return [(event.event, event.data) for piece in pieces for event in reader.feed(piece)]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [("", "a")]),
        (b"data:a\n\n", [("", "a")]),
        (b"data:  a\n\n", [("", " a")]),
        (b"event: e\ndata: a\n\n", [("e", "a")]),
        (b"data: a\nevent:e\n\n", [("e", "a")]),
        (b"data: a\ndata: b\n\n", [("", "a\nb")]),
        (b"data: a\ndata:\ndata\n\n", [("", "a\n\n")]),
        (b"data: a\n\n\n\ndata: b\n\n", [("", "a"), ("", "b")]),
        (b"data: a\r\n\r\nevent: e\r\ndata: b\r\n\r\n", [("", "a"), ("e", "b")]),
        (b"data: a\r\rdata: b\r\r\n", [("", "a"), ("", "b")]),
        (b": a comment\ndata: a\nid: 1\nretry: 5\nother: x\n\n", [("", "a")]),
        (b": only a comment\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"event: e\n\n", [("e", "")]),
        (b"data: a: b\n\n", [("", "a: b")]),
        ("data: Grüße 🌦\n\n".encode(), [("", "Grüße 🌦")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"data: not at its end\n", []),
    ],
)
def test_events_are_read_as_the_standard_says(data: bytes, events: list[tuple[str, str]]) -> None:
    assert read(data) == events
    assert read(*[data[place : place + 1] for place in range(len(data))]) == events


lines = st.one_of(
    st.sampled_from(["", "", "data", "data:", "event: e", "event", "id: 1", "retry: x", ": c", "unknown: x"]),
    st.text(alphabet="aä🌦 :{", max_size=6).map(lambda text: f"data: {text}"),
)
streams = st.builds(
    # What begins a comment tells that a carriage return before it was a line's end.
    lambda chosen, end: ("".join(line + end for line in chosen) + ":").encode(),
    st.lists(lines, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
)


@given(streams, st.lists(st.integers(0, 80), max_size=4))
def test_the_reading_is_that_of_httpx2_however_the_packets_are_cut(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:stop] for start, stop in pairwise(places)]
    reply = httpx2.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=data)
    reply.request = httpx2.Request("GET", "https://x.example")
    theirs = [("" if event.event == "message" else event.event, event.data) for event in httpx2.EventSource(reply)]
    assert [one for one in read(*pieces) if one != ("", "")] == [one for one in theirs if one != ("", "")]


@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (b'data: a\n\n{\n  "error": 1\n}\n', '{\n  "error": 1\n}'),
        (b'data: a\n\n[{"error": 1}]', '[{"error": 1}]'),
        (b'data: a\r\n\r\n{\r\n  "error": 1\r\n}\r\n\r\n', '{\n  "error": 1\n}'),
        (b'{"error": 1}\n\ndata: a\n\n', ""),
        (b"data: a\n\ndata: {not at its end", ""),
        (b"data: a\n\n", ""),
        (b"<html>", ""),
    ],
)
def test_a_bare_error_behind_the_events_is_kept(data: bytes, rest: str) -> None:
    reader = EventReader(1_000)
    for place in range(len(data)):
        reader.feed(data[place : place + 1])
    assert reader.rest() == rest


@pytest.mark.parametrize("data", [b"data: " + b"x" * 1_100, b"data: x\n" * 200])
def test_an_event_without_end_is_refused(data: bytes) -> None:
    with pytest.raises(EventTooLargeError, match="more than 1000 bytes"):
        read(*[data[place : place + 100] for place in range(0, len(data), 100)])


@pytest.mark.parametrize("size", [1, 7, 40])
def test_comments_are_not_counted_as_a_part_of_an_event(size: int) -> None:
    """R7.5"""
    reader = EventReader(100)
    data = b": still working on it\n" * 50 + b"data: x\n\n"
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [event.data for piece in pieces for event in reader.feed(piece)] == ["x"]


def test_many_events_may_be_larger_together() -> None:
    assert len(read(*[b"data: " + b"x" * 300 + b"\n\n"] * 10, b"data: x\n\n" * 500)) == 510


async def data_of(reply: httpx2.Response) -> list[str]:
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: reply))
    async with event_stream(client, client.build_request("POST", "https://x.example")) as answer:
        return [event.data async for event in answer.events]


@pytest.mark.anyio
async def test_a_reply_that_is_compressed_is_read_too() -> None:
    packed = gzip.compress(b"data: a\n\ndata: b\n\n")
    assert await data_of(event_reply([packed[:9], packed[9:]], **{"content-encoding": "gzip"})) == ["a", "b"]


@pytest.mark.anyio
async def test_an_event_without_end_is_a_typed_error() -> None:
    with pytest.raises(APICallError, match="more than 67108864 bytes") as caught:
        await data_of(event_reply([b"data: " + b"x" * 1024 * 1024] * 70))
    assert (caught.value.code, caught.value.is_retryable) == ("malformed_stream", False)
