"""Where the chunks of a reply come from: a model, or a cache that answers in its place (R1.8, R11.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import AsyncGeneratorType

import msgspec

from interlock.agent.call import PreparedCall
from interlock.agent.run import Interrupted
from interlock.chunks import Chunk
from interlock.models.retry import close_stream, open_stream, stream_with_retries
from interlock.processors.scope import RunScope

NOTHING = Chunk(type="nothing")
"""Stands for a chunk where something else happened than that one came."""


class ReplySource(msgspec.Struct, eq=False):
    """The stream of one reply; nothing is sent before its first chunk is asked for."""

    _scope: RunScope
    _stream: AsyncIterator[Chunk]
    read: Callable[[], Awaitable[Chunk]]
    """Gives the next chunk; for a run to which nothing else happens meanwhile."""
    _is_open: bool = True
    _reading: asyncio.Task[Chunk] | None = None
    """The read that goes on while background tasks emit."""

    async def read_attended(self) -> Chunk:
        """Read the next chunk while background tasks may emit or end the run; ``NOTHING`` if they emitted before.

        Raises:
            Interrupted: the run was cancelled, or a background task ended it.
            TripWire: a background task aborted.
            ProcessorError: a background task failed.
        """
        scope = self._scope
        await scope.check()
        if scope.interruption is not None or scope.is_aborted:
            raise Interrupted
        if not scope.tasks and self._reading is None:
            scope.attention = False
            return await self.read()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(_next(self.read))
        scope.wake = asyncio.Event()
        waking = asyncio.get_running_loop().create_task(scope.wake.wait())
        try:
            await asyncio.wait((self._reading, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            scope.wake = None
            waking.cancel()
        await scope.check()
        if scope.interruption is not None or scope.is_aborted:
            raise Interrupted
        if not self._reading.done():
            return NOTHING
        reading, self._reading = self._reading, None
        return reading.result()

    def has_ended(self) -> bool:
        """Whether the stream, read to its end, leaves nothing to close: a generator has closed itself."""
        self._is_open = self._stream.__class__ is not AsyncGeneratorType
        return not self._is_open

    async def close(self) -> None:
        """Close the stream, however far it was read."""
        if self._reading is not None:
            # A stream cannot be closed while somebody reads it.
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        if self._is_open:
            self._is_open = False
            await close_stream(self._stream)


def open_source(call: PreparedCall, scope: RunScope) -> ReplySource:
    """The reply to ``call``: what the model sends, or the cached one that a request hook gave."""
    stream: AsyncIterator[Chunk]
    if call.response is not None:
        stream = _replay(call.replayed)
    elif call.request is None:
        stream = _replay([])  # a step that was suspended has its reply already
    else:
        try:
            if call.max_retries:
                stream = stream_with_retries(call.model, call.request, max_retries=call.max_retries)
            else:
                stream = open_stream(call.model, call.request)
        except Exception as error:
            # A model that refuses before its first chunk is asked for fails like one that refuses then (R7.14).
            stream = _refused(error)
    return ReplySource(scope, stream, stream.__anext__)


async def _next(read: Callable[[], Awaitable[Chunk]]) -> Chunk:
    return await read()


async def _refused(error: Exception) -> AsyncIterator[Chunk]:
    raise error
    yield


async def _replay(chunks: list[Chunk]) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk
