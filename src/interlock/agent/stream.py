"""A run as its reader sees it: iterators over chunks, and values to await (R12.15, R12.17)."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing, suppress
from typing import Any, Generic, Self, TypeVar

from interlock.agent.elements import Elements
from interlock.agent.loop import RunLoop
from interlock.agent.result import AgentResult, ObjectT, Response, Status
from interlock.agent.run import Run
from interlock.chunks import (
    ABORTED,
    RETRY,
    Abort,
    AbortPayload,
    Chunk,
    File,
    ObjectChunk,
    ObjectResult,
    Source,
    StepFinish,
    TextDelta,
    ToolCall,
    ToolResult,
)
from interlock.messages import MessageList
from interlock.messages.parts import ReasoningPart
from interlock.processors import StepResult, TripwireInfo
from interlock.usage import Usage

T = TypeVar("T")


class Later(Generic[T]):
    """A value of a run; awaiting it drives the run to its end."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read

    def __await__(self) -> Generator[Any, None, T]:
        return self._read().__await__()

    def __repr__(self) -> str:
        return "<a value of the run that is still to come: await it>"


class AgentStream(Generic[ObjectT]):
    """One run that advances as it is read; ``Agent.stream`` makes it.

    Await it, enter it with ``async with``, or iterate it. Every iterator replays the run from its first chunk; several
    may be open. Leaving an iterator early neither cancels nor advances the run; ``aclose()`` or leaving ``async with``
    does cancel it, and what was written so far is kept as after any cancellation (R12.17, R12.28).

    A run belongs to the event loop in which it was begun. What was left in the middle is closed with that loop; reading
    on in another one raises ``RuntimeError``, while a run that has ended can be read anywhere.
    """

    def __init__(self, prepare: Callable[[], Awaitable[Run]]) -> None:
        self._prepare = prepare
        self._run: Run | None = None
        self._failure: Exception | None = None
        """Why there will be no run."""
        self._source: Any = None
        """The loop's generator; ``ag_running`` tells whether it is being pulled."""
        self._chunks: list[Chunk] = []
        self._is_done = False
        self._is_pulling = False
        self._is_preparing = False
        self._is_broken_off = False
        """Whether the run stopped without an outcome of its own."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the run belongs to."""
        self._keeper: asyncio.Task[None] | None = None
        """Closes the run with its loop, once a reader has left it."""
        self._changed: asyncio.Event | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Self]:
        return self._ready().__await__()

    async def __aenter__(self) -> Self:
        return await self._ready()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            await self._discard()
        else:
            await self.aclose()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self.full_stream

    async def _ready(self) -> Self:
        """Prepare the run, once: memory is loaded and ``process_input`` is done afterwards (R12.17).

        Raises:
            RuntimeError: The run belongs to another event loop, and did not come to its end there.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop and (self._is_broken_off or not self._is_done):
            raise RuntimeError(
                "this stream was begun in another event loop and did not come to its end there; its connections belong "
                "to that loop: read a stream to its end in the loop in which it was begun, or start a new one"
            )
        while self._run is None:
            if self._failure is not None:
                raise self._failure
            if self._is_done:
                raise RuntimeError("the run has not begun, and the stream is closed: there is nothing to wait for")
            if self._is_preparing:
                await self._wait()
                continue
            self._is_preparing = True
            try:
                run = await self._prepare()
                self._source = RunLoop(run).chunks()
                run.scope.is_waiting = self._is_running
                self._run = run
            except Exception as error:
                # There is no run, and no second try: hooks that ran have run (R1.5).
                self._failure = error
                raise
            finally:
                self._is_preparing = False
                if self._changed is not None:
                    self._changed.set()
        return self

    def _is_running(self) -> bool:
        return self._source is not None and bool(self._source.ag_running)

    async def aclose(self) -> None:
        """Cancel the provider call and running tools, and end the run as a cancelled one; nothing if it has ended."""
        if self._run is None:
            self._is_done = True
        if self._run is None or self._is_done:
            return
        self._run.scope.signal.abort("the stream was closed")
        await self._drive()

    async def _discard(self, reason: str = "a reader was cancelled") -> None:
        """Drop the run without saving anything: its task was cancelled (R12.29)."""
        if self._source is not None and not self._is_done:
            if self._source.ag_running and self._run is not None:
                # Another task is reading: its pull ends the run as a cancelled one.
                self._run.scope.signal.abort("the stream was closed")
                return
            await self._source.aclose()
            self._break_off(reason)

    def _end(self, reason: str | None = None) -> None:
        self._is_done = True
        if reason is not None and self._run is not None and self._run.state.finish_reason is None:
            self._run.state.finish_reason = reason
        if self._keeper is not None:
            self._keeper.cancel()
        if self._changed is not None:
            self._changed.set()

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def full_stream(self) -> AsyncIterator[Chunk]:
        """Every chunk of the run, from the first one on (R5.3)."""
        return self._iterate()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text as it is streamed; it is not taken back when an attempt is rejected (R7.10)."""
        return self._texts()

    @property
    def object_stream(self) -> AsyncIterator[Any]:
        """The structured object as JSON data while it grows, not validated; the last item is the final one.

        Its complete parts are shared by the items: copy what you want to change.
        """
        return self._objects()

    @property
    def element_stream(self) -> AsyncIterator[Any]:
        """The elements of a typed array, each complete, validated and of its type, as soon as it is.

        Those of an attempt that is rejected later are not taken back: the next attempt begins with its first one again.
        A ``fallback_value`` has none.
        """
        return self._elements()

    async def _iterate(self) -> AsyncGenerator[Chunk, None]:
        if self._run is None and self._is_done:
            return  # closed before it began
        await self._ready()
        run, read, chunks, position = self._run, self._source.__anext__, self._chunks, 0
        assert run is not None
        scope, loop, current_task = run.scope, asyncio.get_running_loop(), asyncio.current_task
        while True:
            if position < len(chunks):
                chunk = chunks[position]
            elif self._is_done:
                return
            elif self._is_pulling:
                await self._wait()
                continue
            else:
                # ``_pull`` in line: a coroutine a chunk would be the largest cost of reading a stream.
                self._is_pulling = True
                scope.driver = current_task(loop)
                try:
                    chunk = await read()
                    chunks.append(chunk)
                except BaseException as error:
                    self._stopped(error)
                    continue
                finally:
                    self._is_pulling = False
                    if self._changed is not None:
                        self._changed.set()
            position += 1
            try:
                yield chunk
            except (GeneratorExit, asyncio.CancelledError):
                await self._left_early()
                raise

    async def _left_early(self) -> None:
        """A reader went away in the middle: see to it that the run is closed before its event loop is.

        A loop that ends closes all async generators at once, which those of an HTTP client do not survive. Before that
        it cancels all tasks; one of them may be that in which this reader is closed.
        """
        task = asyncio.current_task()
        if self._is_done or task is None:
            return
        if task.cancelling():
            await _wait_for(task.get_loop().create_task(self._discard("its event loop ended")))
        elif self._keeper is None:
            keeping = _close_with_loop(weakref.ref(self))
            # A task that is cancelled before its first step would not get to close anything.
            keeping.send(None)
            self._keeper = task.get_loop().create_task(keeping)
            weakref.finalize(self, _let_go, self._keeper).atexit = False

    async def _pull(self) -> None:
        """Advance the run by one chunk, or wait for the reader that is doing so."""
        if self._is_pulling:
            await self._wait()
            return
        source, run = self._source, self._run
        assert run is not None
        self._is_pulling = True
        run.scope.driver = asyncio.current_task()
        try:
            self._chunks.append(await source.__anext__())
        except BaseException as error:
            self._stopped(error)
        finally:
            self._is_pulling = False
            if self._changed is not None:
                self._changed.set()

    async def _wait(self) -> None:
        """Wait until the reader that is preparing or pulling the run has done so."""
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.clear()
        await self._changed.wait()

    def _stopped(self, error: BaseException) -> None:
        """The run gave no chunk but ``error``: its regular end, or the reader's own cancellation, which goes on."""
        if isinstance(error, StopAsyncIteration):
            self._end()
            return
        self._break_off("a reader was cancelled")
        raise error

    def _break_off(self, reason: str) -> None:
        """The run has stopped and saved nothing (R12.29); readers are not to take that for its regular end."""
        if self._run is not None and not self._is_done:
            self._chunks.append(Abort(payload=AbortPayload(reason=reason), run_id=self._run.state.run_id))
        self._is_broken_off = True
        self._end(ABORTED)

    async def _drive(self) -> None:
        await self._ready()
        while not self._is_done:
            await self._pull()

    async def _texts(self) -> AsyncIterator[str]:
        async with aclosing(self._iterate()) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    yield chunk.payload.text

    async def _objects(self) -> AsyncIterator[Any]:
        async with aclosing(self._iterate()) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, (ObjectChunk, ObjectResult)):
                    yield chunk.object

    async def _elements(self) -> AsyncIterator[Any]:
        run = (await self._ready())._run
        assert run is not None
        elements = Elements(run.structured_output)
        async with aclosing(self._iterate()) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ObjectChunk):
                    for element in elements.of_partial(chunk.object):
                        yield element
                elif isinstance(chunk, ObjectResult) and run.state.parsed is not None:
                    for element in elements.of_result(run.state.parsed):
                        yield element
                elif isinstance(chunk, StepFinish) and chunk.payload.step_result.reason == RETRY:
                    elements = Elements(run.structured_output)

    async def consume_stream(self, on_error: Callable[[BaseException], Any] | None = None) -> None:
        """Drive the run to its end without looking at it.

        Args:
            on_error: Called with the error of a failed run.
        """
        await self._drive()
        if on_error is not None and self.error is not None:
            on_error(self.error)

    async def get_full_output(self) -> AgentResult[ObjectT]:
        """Drive the run to its end and return its outcome as plain values (R12.25)."""
        await self._drive()
        return self._outcome

    # -- values --------------------------------------------------------------------------------------------------

    @property
    def _outcome(self) -> AgentResult[ObjectT]:
        if self._run is None:
            raise RuntimeError("the run has not begun: await the stream, enter it with 'async with', or iterate it")
        return AgentResult(self._run)

    def _later(self, read: Callable[[AgentResult], T]) -> Later[T]:
        async def value() -> T:
            await self._drive()
            return read(self._outcome)

        return Later(value)

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._outcome.run_id

    @property
    def message_list(self) -> MessageList:
        """The run's message list."""
        return self._outcome.message_list

    @property
    def tripwire(self) -> TripwireInfo | None:
        """Why and by whom the run was stopped, as far as it has come."""
        return None if self._run is None else self._run.state.tripwire

    @property
    def error(self) -> BaseException | None:
        """What made the run fail, as far as it has come."""
        return self._failure if self._run is None else self._run.state.error

    @property
    def status(self) -> Status:
        """How the run stands."""
        if self._run is None:
            return "failed" if self._failure is not None else "canceled" if self._is_done else "running"
        return self._outcome.status

    @property
    def text(self) -> Later[str]:
        """The answer (R12.20)."""
        return self._later(lambda outcome: outcome.text)

    @property
    def object(self) -> Later[ObjectT]:
        """The structured object; awaiting it raises the error of a failed run (R12.18)."""

        async def value() -> ObjectT:
            await self._drive()
            if self.error is not None:
                raise self.error
            return self._outcome.object

        return Later(value)

    @property
    def finish_reason(self) -> Later[str]:
        """Why the run ended."""
        return self._later(lambda outcome: outcome.finish_reason)

    @property
    def steps(self) -> Later[list[StepResult]]:
        """Accepted steps, and rejected or blocked attempts that had a response."""
        return self._later(lambda outcome: outcome.steps)

    @property
    def usage(self) -> Later[Usage]:
        """Sum over all attempts of the run."""
        return self._later(lambda outcome: outcome.usage)

    @property
    def total_usage(self) -> Later[Usage]:
        """The same as ``usage``."""
        return self.usage

    @property
    def tool_calls(self) -> Later[list[ToolCall]]:
        """Calls of the accepted steps."""
        return self._later(lambda outcome: outcome.tool_calls)

    @property
    def tool_results(self) -> Later[list[ToolResult]]:
        """Results of the accepted steps."""
        return self._later(lambda outcome: outcome.tool_results)

    @property
    def reasoning(self) -> Later[list[ReasoningPart]]:
        """Reasoning of the accepted steps."""
        return self._later(lambda outcome: outcome.reasoning)

    @property
    def reasoning_text(self) -> Later[str | None]:
        """Text of the reasoning."""
        return self._later(lambda outcome: outcome.reasoning_text)

    @property
    def sources(self) -> Later[list[Source]]:
        """Sources of the accepted steps."""
        return self._later(lambda outcome: outcome.sources)

    @property
    def files(self) -> Later[list[File]]:
        """Files of the accepted steps."""
        return self._later(lambda outcome: outcome.files)

    @property
    def content(self) -> Later[list[dict[str, Any]]]:
        """Parts of the accepted steps."""
        return self._later(lambda outcome: outcome.content)

    @property
    def warnings(self) -> Later[list[Any]]:
        """The provider's warnings of the last step."""
        return self._later(lambda outcome: outcome.warnings)

    @property
    def request(self) -> Later[Any]:
        """What the last step sent."""
        return self._later(lambda outcome: outcome.request)

    @property
    def response(self) -> Later[Response]:
        """The messages that the run wrote."""
        return self._later(lambda outcome: outcome.response)

    @property
    def provider_metadata(self) -> Later[dict[str, Any] | None]:
        """The provider's metadata of the last step; ``None`` if a hook changed what the step said: it may quote it."""
        return self._later(lambda outcome: outcome.provider_metadata)

    @property
    def suspend_payload(self) -> Later[Any]:
        """What a suspended run waits for."""
        return self._later(lambda outcome: outcome.suspend_payload)

    def __repr__(self) -> str:
        run_id = None if self._run is None else self._run.state.run_id
        return f"AgentStream(run_id={run_id!r}, status={self.status!r}, chunks={len(self._chunks)})"


async def run_to_end(run: Run) -> AgentResult[Any]:
    """Drive a run to its end without keeping its chunks; what ``generate`` does.

    Raises:
        Exception: the error of a failed run (R12.19).
    """
    source: Any = RunLoop(run).chunks()
    run.scope.is_waiting = lambda: bool(source.ag_running)
    run.scope.driver = asyncio.current_task()
    run.is_read = run.has_chunk_readers
    async for _ in source:
        pass
    if run.state.error is not None:
        raise run.state.error
    return AgentResult(run)


async def _close_with_loop(stream: weakref.ref[AgentStream[Any]]) -> None:
    """Wait until the event loop ends, or the run does, and drop what is left of the run."""
    try:
        await asyncio.sleep(0)
        await asyncio.get_running_loop().create_future()
    finally:
        left = stream()
        if left is not None:
            await left._discard("its event loop ended")


async def _wait_for(closing: asyncio.Task[None]) -> None:
    """Wait for the task, although the generator that does so is being closed."""
    while not closing.done():
        # Closing a generator, cancelled before it began, is begun once more at the first await.
        with suppress(GeneratorExit):
            await asyncio.wait({closing})


def _let_go(keeper: asyncio.Task[None]) -> None:
    """Nobody can read the stream any more: the collector closes it, in whatever thread that is."""
    if not keeper.done() and not keeper.get_loop().is_closed():
        keeper.get_loop().call_soon_threadsafe(keeper.cancel)
