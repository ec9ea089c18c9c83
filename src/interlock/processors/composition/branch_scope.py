"""Branches of a workflow step that work side by side, each on a fork of the message list (R16.6, R16.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, cast

from interlock.chunks import Chunk
from interlock.errors import ProcessorError, TripWire
from interlock.messages import MessageList
from interlock.processors.scope import RunData, RunScope, Trip

Work = Callable[[], Coroutine[Any, Any, None]]


class BranchScope:
    """A ``RunScope`` for one branch: a message list and a tripwire of its own; all the rest is that of the run.

    What the branch writes reaches the client at once, but the response only when the branches are done: until then
    nothing but the forks may change.

    Args:
        outer: The scope of the step.
        writing: Held while the branch writes, since the branches of one step share the stream hooks behind it.
    """

    def __init__(self, outer: RunScope, writing: asyncio.Lock) -> None:
        self.data = _BranchData(outer.data)
        self.trip: Trip | None = None
        self.failure: ProcessorError | None = None
        self._outer = outer
        self._writing = writing
        self._written: list[tuple[Chunk, str | None]] = []
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outer, name)

    @property
    def as_scope(self) -> RunScope:
        """Itself, as hooks, chains and args take it."""
        return cast(RunScope, self)

    def begin(self) -> None:
        """The branch starts, once more if it is one that runs for every chunk."""
        self.trip = self.failure = None
        self._is_over = False
        self.data.fork = None

    def end(self) -> None:
        """The branch is done: what it wrote goes into the response, and what it does from here on is the run's."""
        self._is_over = True
        written, self._written = self._written, []
        for chunk, message_id in written:
            self._outer.keep(chunk, message_id)

    def record_trip(self, tripwire: TripWire, processor: Any, hook: str) -> TripWire:
        """Record an abort of the branch; which one counts for the run is decided when all branches stand still."""
        if self._is_over:
            return self._outer.record_trip(tripwire, processor, hook)
        tripwire.attribute_to(processor.id)
        if self.trip is None:
            self.trip = Trip(tripwire, processor, hook)
        return self.trip.tripwire

    async def check(self) -> None:
        """Raise what ends the branch."""
        if self._is_over:
            await self._outer.check()
        elif self.trip is not None:
            raise self.trip.tripwire
        elif self.failure is not None:
            raise self.failure

    def interrupt(self, reason: str) -> None:
        """Make the run stop waiting; an abort that caused it counts for the run at once (R19.4)."""
        if self.trip is not None:
            self._outer.record_trip(self.trip.tripwire, self.trip.processor, self.trip.hook)
        self._outer.interrupt(reason)

    async def emit(self, chunk: Chunk, start: int, message_id: str | None = None) -> None:
        """Send a chunk to the client now, and into the response when the branches are done."""
        if self._is_over:
            await self._outer.emit(chunk, start, message_id)
            return
        for ready in await self.show(chunk, start):
            self.keep(ready, message_id)

    async def show(self, chunk: Chunk, start: int) -> list[Chunk]:
        """Send a chunk through the stream hooks from ``start`` on and to the client, not at the same time as others."""
        if asyncio.current_task() in self._outer.tasks:
            # It waits until the run is between two chunks; a branch that is to end before must not wait for it.
            return await self._outer.show(chunk, start)
        async with self._writing:
            return await self._outer.show(chunk, start)

    def keep(self, chunk: Chunk, message_id: str | None) -> None:
        """Put a chunk into the response when the branches are done."""
        self._written.append((chunk, message_id))


class _BranchData:
    """The run's data with a fork of its message list, made when it is first needed."""

    def __init__(self, outer: RunData) -> None:
        self._outer = outer
        self.fork: MessageList | None = None

    @property
    def message_list(self) -> MessageList:
        if self.fork is None:
            self.fork = self._outer.message_list.fork()
        return self.fork

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outer, name)


def branch_scopes(outer: RunScope, count: int) -> list[BranchScope]:
    """Scopes for the branches of one step."""
    writing = asyncio.Lock()
    return [BranchScope(outer, writing) for _ in range(count)]


async def run_branches(outer: RunScope, scopes: Sequence[BranchScope], work: Sequence[Work], *, at_once: bool) -> None:
    """Run the branches of one step, one after the other or at once, until all are done or one has failed.

    A branch that aborts or fails ends the others. If several aborted, the first in order counts (R16.9).

    Args:
        outer: The scope of the step.
        scopes: The scopes of the branches, begun; the caller ends them when it has applied what it wants of them.
        work: What each branch does.
        at_once: Run them at the same time, because one of them may wait for something.

    Raises:
        TripWire: a branch aborted.
        Exception: a branch failed, and none aborted.
    """
    failures = await (_run_at_once(work) if at_once and len(work) > 1 else _run_in_order(work))
    for scope in scopes:
        if scope.trip is not None:
            outer.record_trip(scope.trip.tripwire, scope.trip.processor, scope.trip.hook)
            await outer.check()
    for failure in failures:
        raise failure


async def _run_in_order(work: Sequence[Work]) -> list[Exception]:
    for run in work:
        try:
            await run()
        except Exception as failure:
            return [failure]
    return []


async def _run_at_once(work: Sequence[Work]) -> list[Exception]:
    tasks = [asyncio.get_running_loop().create_task(run()) for run in work]
    unfinished: Collection[asyncio.Task[None]] = tasks
    try:
        _, unfinished = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        if unfinished:
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
    failures = [task.exception() for task in tasks if not task.cancelled()]
    return [failure for failure in failures if isinstance(failure, Exception)]
