"""The server: which protocol a request speaks, which turn of the script answers it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from interlock.chunks import Chunk, ErrorChunk
from interlock.errors import APICallError
from interlock.testing.provider_server.anthropic_messages import AnthropicWire
from interlock.testing.provider_server.gemini import GeminiWire
from interlock.testing.provider_server.http import HttpRequest, StreamedReply, read_request, write_reply
from interlock.testing.provider_server.openai_chat import OpenAIChatWire
from interlock.testing.provider_server.openai_responses import OpenAIResponsesWire
from interlock.testing.provider_server.script import EndEarlyError, RawReply, ReceivedRequest, ServerTurn
from interlock.testing.provider_server.wire import Wire
from interlock.testing.turns import Event, Pause, events_of

_WIRES: dict[str, type[Wire]] = {
    "/chat/completions": OpenAIChatWire,
    "/responses": OpenAIResponsesWire,
    "/messages": AnthropicWire,
    ":streamGenerateContent": GeminiWire,
}
"""By the end of the path."""

_Prepared = list[Event] | RawReply | Callable[[ReceivedRequest], Any]

_NO_RETRY = {"x-should-retry": "false"}
"""For errors of the script, which another try would only repeat."""


class ProviderServer:
    """A server on this machine that speaks Chat Completions, Responses, Anthropic's Messages and Gemini.

    It answers each request with the next turn of its script, in the protocol in which it was asked. The turns are those
    of ``ScriptedModel``; beyond that, in a turn

    - an exception at the start is a refusal: an ``APICallError`` with its ``status_code`` (500 without one), ``code``
      and ``retry_after_s`` (as ``Retry-After``), any other with 500; later in the turn it is an error in the stream;
    - ``hang_up()`` drops the connection, ``end_early()`` ends the reply in the middle of the answer;
    - ``delay(…)`` and ``wait_for(…)`` make it slow, at the start before even its headers are sent;
    - a ``RawReply`` is sent as it is, such as the web page of a wrong address;
    - a function gets the ``ReceivedRequest``.

    Use it as a context: ``async with`` serves in the running event loop, ``with`` in a thread of its own.

    Args:
        turns: The script. A single function answers every request.
        packet_size: Cut every reply into packets of so many bytes, be it inside a character.

    Raises:
        TypeError: An item of a turn is of no known kind.
    """

    def __init__(
        self, turns: Sequence[ServerTurn] | Callable[[ReceivedRequest], Any], *, packet_size: int | None = None
    ) -> None:
        self.requests: list[ReceivedRequest] = []
        """Every request so far."""
        self.open_streams = 0
        """Replies that began and are neither at their end nor given up by the client."""
        self._answer = turns if callable(turns) else None
        script = [] if callable(turns) else [turns] if isinstance(turns, str) else list(turns)
        self._script = [_prepared(turn, f"turn {number} of the script") for number, turn in enumerate(script, 1)]
        self._packet_size = packet_size
        self._calls = 0
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread: _ServingThread | None = None

    @property
    def url(self) -> str:
        """The server's address, without a path."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point the providers' models here; none of them then needs a key."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_BASE_URL": f"{self.url}/v1",
            "GOOGLE_BASE_URL": f"{self.url}/v1beta",
            "AZURE_OPENAI_ENDPOINT": self.url,
        }

    @property
    def turns_left(self) -> int:
        """How many turns of the script were not played yet."""
        return max(0, len(self._script) - self._calls)

    async def until_idle(self, timeout_s: float = 5.0) -> None:
        """Wait until no stream is open.

        Raises:
            TimeoutError: Some still are.
        """
        async with asyncio.timeout(timeout_s):
            while self.open_streams:
                await asyncio.sleep(0.002)

    async def start(self) -> None:
        """Begin to serve, in the running event loop."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Drop all connections and end."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._thread = _ServingThread(self)
        self._thread.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.end()

    def __repr__(self) -> str:
        return f"ProviderServer({self.url!r}, requests={len(self.requests)}, open_streams={self.open_streams})"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        begun: bytes | None = b""
        try:
            while begun is not None:
                request = await read_request(reader, begun)
                if request is None:
                    return
                begun = await _unless_hung_up(self._reply(request, writer), reader)
        except ValueError as error:
            await write_reply(writer, 400, str(error).encode(), "text/plain", {"connection": "close"})
        except (ConnectionError, asyncio.CancelledError):
            # The client has left, or the server ends: nothing is left to be said.
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _reply(self, request: HttpRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection can go on."""
        path = urlsplit(request.path).path
        wire_class = next((wire for end, wire in _WIRES.items() if path.endswith(end)), None)
        if wire_class is None or request.method != "POST":
            message = f"the provider server has no {request.method} {path}"
            return await _refuse(writer, OpenAIChatWire, APICallError(message, status_code=404))
        try:
            body = msgspec.json.decode(request.content)
        except (msgspec.DecodeError, UnicodeError):
            body = None
        if not isinstance(body, dict):
            return await _refuse(writer, wire_class, APICallError("the body is no JSON object", status_code=400))
        received = ReceivedRequest(request.path, request.headers, body)
        self.requests.append(received)
        if wire_class is not GeminiWire and body.get("stream") is not True:
            return await _refuse(writer, wire_class, APICallError("the provider server only streams", status_code=400))
        try:
            turn = await self._turn(received)
        except Exception as error:
            # A turn is the test's own code; what is wrong with it should be seen where the answer is read.
            return await _refuse(writer, wire_class, APICallError(f"{type(error).__name__}: {error}"), _NO_RETRY)
        if isinstance(turn, RawReply):
            await write_reply(writer, turn.status, turn.body.encode(), turn.media_type, turn.headers)
            return True
        model = body.get("model") or path.rpartition("/")[2].partition(":")[0]
        return await self._play(turn, wire_class(model, body, len(self.requests)), writer)

    async def _turn(self, request: ReceivedRequest) -> list[Event] | RawReply:
        self._calls += 1
        turn = self._answer
        if turn is None:
            if self._calls > len(self._script):
                raise LookupError(f"this is call {self._calls}, but the script has {len(self._script)} turn(s)")
            prepared = self._script[self._calls - 1]
            if not callable(prepared):
                return prepared
            turn = prepared
        said = turn(request)
        if inspect.isawaitable(said):
            said = await said
        where = f"the turn that a function returned for call {self._calls}"
        return said if isinstance(said, RawReply) else events_of(said, where)

    async def _play(self, events: list[Event], wire: Wire, writer: asyncio.StreamWriter) -> bool:
        reply = StreamedReply(writer, self._packet_size)
        self.open_streams += 1
        try:
            for event in events:
                try:
                    said = await _said(event, wire, is_first=not reply.is_begun)
                except Exception as error:
                    # The script's own failures, what its functions raise, and chunks that the protocol cannot say.
                    return await _fail(error, wire, writer, reply)
                await reply.write(said)
            await reply.write(wire.closing())
            await reply.end()
            return True
        finally:
            self.open_streams -= 1


class _ServingThread:
    """A provider server in a thread, for tests that have no event loop of their own."""

    def __init__(self, server: ProviderServer) -> None:
        self._server = server
        self._ready = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="provider-server", daemon=True)

    def begin(self) -> None:
        self._thread.start()
        self._ready.wait()

    def end(self) -> None:
        self._stop()
        self._thread.join()

    async def _run(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        try:
            async with self._server:
                self._ready.set()
                await stopped.wait()
        finally:
            self._ready.set()


def _prepared(turn: Any, where: str) -> _Prepared:
    if isinstance(turn, RawReply) or (callable(turn) and not isinstance(turn, type)):
        return turn
    return events_of(turn, where)


async def _said(event: Event, wire: Wire, *, is_first: bool) -> bytes:
    """What one event of a turn puts on the wire.

    Raises:
        Exception: The event is one, or a function of the script raised it.
        TypeError: The protocol has no words for the chunk.
    """
    if isinstance(event, Pause):
        outcome = event.act()
        if inspect.isawaitable(outcome):
            await outcome
        return b""
    if isinstance(event, ErrorChunk):
        error = event.payload.error
        raise error if isinstance(error, Exception) else APICallError(str(error))
    if not isinstance(event, Chunk):
        raise event
    return b"".join(map(wire.encode, [*(wire.begin() if is_first else ()), *wire.say(event)]))


async def _unless_hung_up(reply: Coroutine[Any, Any, bool], reader: asyncio.StreamReader) -> bytes | None:
    """What the client has sent of its next request when the reply is complete; ``None`` if there will be none."""
    replying = asyncio.ensure_future(reply)
    # A client that waits for its reply says nothing, except that it waits no longer.
    listening = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({replying, listening}, return_when=asyncio.FIRST_COMPLETED)
        heard = listening.result() if listening.done() else b""
        if listening.done() and not heard:
            return None
        return heard if await replying else None
    finally:
        replying.cancel()
        listening.cancel()
        await asyncio.gather(replying, listening, return_exceptions=True)


async def _refuse(
    writer: asyncio.StreamWriter, wire_class: type[Wire], error: APICallError, headers: Mapping[str, str] | None = None
) -> bool:
    status = error.status_code or 500
    body = msgspec.json.encode(wire_class.refusal(status, str(error), error.code))
    wait = {} if error.retry_after_s is None else {"retry-after": f"{error.retry_after_s:g}"}
    await write_reply(writer, status, body, "application/json", {**wait, **(headers or {})})
    return True


async def _fail(error: BaseException, wire: Wire, writer: asyncio.StreamWriter, reply: StreamedReply) -> bool:
    """Let the reply fail: by a refusal if it has not begun."""
    if isinstance(error, ConnectionError):
        writer.transport.abort()
        return False
    if isinstance(error, EndEarlyError):
        await reply.end()
        return True
    failure = error if isinstance(error, APICallError) else APICallError(str(error) or type(error).__name__)
    if not reply.is_begun:
        return await _refuse(writer, type(wire), failure)
    said = wire.failure(failure.status_code or 500, str(failure), failure.code)
    await reply.write(b"".join(map(wire.encode, said)))
    await reply.end()
    return True
