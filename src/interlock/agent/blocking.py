"""Blocking doors for scripts and notebooks: one event loop in a thread of its own for each call."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from interlock.agent.result import AgentResult, ObjectT
from interlock.agent.stream import AgentStream
from interlock.chunks import Chunk, TextDelta

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a caller may block even where a loop is running."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), name="interlock", daemon=True)
        self._thread.start()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine there and wait for it; interrupting the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        """Close what is left in the loop, then the loop."""
        self.let_go()
        self._thread.join()

    def let_go(self) -> None:
        """``close`` without waiting for it, so that it may be called from any thread."""
        if not self._loop.is_closed():
            # A loop that is closed this very moment has nothing left to wind up.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then wind it up and close it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_wind_up())
    finally:
        loop.close()


async def _wind_up() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def run_blocking(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run what ``start`` makes to its end and return its result."""
    thread = LoopThread()
    try:
        return thread.run(start())
    finally:
        thread.close()


class SyncStream(Generic[ObjectT]):
    """A stream for code that blocks: a context manager, and an iterator over the chunks."""

    def __init__(self, start: Callable[[], AgentStream[ObjectT]]) -> None:
        self._start = start
        self._thread: LoopThread | None = None
        self._stream: AgentStream[ObjectT] | None = None
        self._outcome: AgentResult[ObjectT] | None = None
        """What the run had come to when the stream was closed."""

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> tuple[LoopThread, AgentStream[ObjectT]]:
        if self._thread is None or self._stream is None:
            self._thread = LoopThread()
            try:
                self._stream = self._thread.run(_awaited(self._start()))
            except BaseException:
                self._thread.close()
                raise
            # Whoever leaves the iteration and forgets the stream has no way to close it any more.
            weakref.finalize(self, self._thread.let_go).atexit = False
        return self._thread, self._stream

    def __iter__(self) -> Iterator[Chunk]:
        thread, stream = self._open()
        chunks = stream.full_stream
        while True:
            chunk = thread.run(_next(chunks.__anext__))
            if chunk is None:
                return
            yield chunk

    @property
    def text_stream(self) -> Iterator[str]:
        """The text as it is streamed."""
        return (chunk.payload.text for chunk in self if isinstance(chunk, TextDelta))

    def result(self) -> AgentResult[ObjectT]:
        """Drive the run to its end and return its outcome; after ``close`` the outcome as it was then."""
        if self._outcome is None:
            thread, stream = self._open()
            return thread.run(stream.get_full_output())
        return self._outcome

    def close(self) -> None:
        """Cancel the run if it has not ended, and stop the thread."""
        if self._thread is not None and self._stream is not None:
            if self._outcome is not None:
                return
            try:
                self._thread.run(self._stream.aclose())
                self._outcome = self._thread.run(self._stream.get_full_output())
            finally:
                self._thread.close()


async def _awaited(stream: AgentStream[ObjectT]) -> AgentStream[ObjectT]:
    return await stream


async def _next(read: Callable[[], Awaitable[Chunk]]) -> Chunk | None:
    try:
        return await read()
    except StopAsyncIteration:
        return None
