"""Replies of a Chat Completions server: as bytes, through a mock transport, and from a loopback server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from interlock.models.openai.chat import OpenAIChatModel
from tests.models.mock_provider import MockProvider

DONE = b"data: [DONE]\n\n"


def event(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **fields: Any) -> bytes:
    """One ``chat.completion.chunk`` event."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-5", **fields}
    return sse({"choices": [choice], **data})


def usage_event(**usage: Any) -> bytes:
    """The last event of a stream whose usage was asked for."""
    counts = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9, **usage}
    return sse({"id": "c1", "object": "chat.completion.chunk", "model": "gpt-5", "choices": [], "usage": counts})


def call(index: int | None, *, id: str | None = None, name: str | None = None, args: str | None = None) -> bytes:  # noqa: A002
    """An event with a piece of one tool call; fields that are ``None`` are left out."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    piece = {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}
    return event({"tool_calls": [piece]})


def sse(data: Any) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


HELLO = [event({"role": "assistant", "content": ""}), event({"content": "Hel"}), event({"content": "lo"})]
HELLO += [event(finish_reason="stop"), usage_event(), DONE]


class Pieces(httpx2.AsyncByteStream):
    """A body that arrives in exactly these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


def event_reply(pieces: Iterable[bytes], **headers: str) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "text/event-stream", **headers}, stream=Pieces(pieces))


class MockServer(MockProvider):
    """A Chat Completions server, and a model that calls it."""

    def __init__(self, *replies: httpx2.Response | Exception, **model_options: Any) -> None:
        super().__init__(*replies)
        options = {"api_key": "sk-secret", "base_url": "https://api.example/v1?version=2", **model_options}
        self.model = OpenAIChatModel("gpt-5", client=self.http, **options)


@dataclass
class Reply:
    """What the loopback server sends."""

    pieces: Sequence[bytes | asyncio.Event] = ()
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    is_cut: bool = False
    """Hang up instead of ending the body."""


@dataclass
class Loopback:
    """A running loopback server."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    connections: int = 0
    open_replies: int = 0
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def loopback(answer: Callable[[int], Reply]) -> AsyncIterator[Loopback]:
    """Serve ``answer(n)`` to the n-th request, each piece as an HTTP chunk of its own."""
    state = Loopback()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if line)}
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                state.requests.append((lines[0], headers, content))
                if not await respond(answer(len(state.requests)), reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def respond(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        state.open_replies += 1
        state.all_closed.clear()
        lines = [f"HTTP/1.1 {reply.status}", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        hung_up = (
            asyncio.ensure_future(reader.read(1)) if any(isinstance(p, asyncio.Event) for p in reply.pieces) else None
        )
        try:
            for piece in reply.pieces:
                if isinstance(piece, asyncio.Event):
                    released = asyncio.ensure_future(piece.wait())
                    await asyncio.wait({released, hung_up}, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
                    released.cancel()
                    if hung_up is not None and hung_up.done():
                        return False
                else:
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    await writer.drain()
            if not reply.is_cut:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
            return not reply.is_cut and hung_up is None
        finally:
            if hung_up is not None:
                hung_up.cancel()
            state.open_replies -= 1
            if state.open_replies == 0:
                state.all_closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
