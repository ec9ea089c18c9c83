"""What one run shares with its processors: its data, its outgoing chunks, its tripwire, its background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from copy import copy
from typing import Any, Protocol

import msgspec

from interlock.chunks import Chunk, Payload
from interlock.context import AbortSignal, RequestContext
from interlock.errors import ProcessorError, ProcessorWorkflowError, TripWire
from interlock.messages import MessageList
from interlock.processors.base import notify_violation
from interlock.processors.bound import WorkflowStep
from interlock.processors.observe import Observer
from interlock.processors.steps import StepResult

_log = logging.getLogger("interlock")


class RunData(Protocol):
    """The part of a run that can be stored; the agent's ``RunState`` implements it."""

    run_id: str
    message_list: MessageList
    steps: list[StepResult]
    step_number: int
    retry_count: int
    processor_states: dict[str, dict[str, Any]]


class RunBudget(msgspec.Struct, kw_only=True):
    """What the processors of one run have used together (R19.9)."""

    retries: int = 0
    """Retries granted, of both kinds."""
    guard_calls: int = 0
    """Model calls that processors made; they count them here."""
    cost: float = 0.0
    """Cost of these calls, in the unit that the processors agree on."""


class Trip(msgspec.Struct):
    """A recorded abort, before the loop has decided what it means (R6.3)."""

    tripwire: TripWire
    processor: Any
    hook: str
    is_reported: bool = False


class OutputChain(Protocol):
    """The stream hooks, as far as emissions need them."""

    async def send_through(self, chunk: Chunk, start: int) -> list[Chunk]:
        """Pass ``chunk`` through the stream hooks from position ``start`` on."""
        ...


class RunScope:
    """The live side of one run; every args object refers to it."""

    # No struct: the driver is set for every chunk, and a struct takes more than twice as long to set a field.
    __slots__ = (
        "_cancelled",
        "_cancelling",
        "_signal",
        "agent",
        "attention",
        "budget",
        "chain",
        "data",
        "driver",
        "failure",
        "interruption",
        "is_aborted",
        "is_ended",
        "is_waiting",
        "observer",
        "outbox",
        "record",
        "request_context",
        "tasks",
        "trip",
        "wake",
    )

    def __init__(
        self,
        data: RunData,
        agent: Any,
        request_context: RequestContext,
        signal: AbortSignal | None,
        observer: Observer | None,
    ) -> None:
        self.data = data
        self.agent = agent
        self.request_context = request_context
        self.observer = observer
        self.budget: RunBudget | None = None
        self.chain: OutputChain | None = None
        self.trip: Trip | None = None
        self.failure: ProcessorError | None = None
        """What an unhandled exception in a background task became (R19.4)."""
        self.outbox: list[Chunk] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.record: Callable[[Chunk, str | None], None] | None = None
        """Puts an emitted chunk into the response."""
        self.wake: asyncio.Event | None = None
        """Set when something happened while the run waits for more than one thing."""
        self.driver: asyncio.Task[Any] | None = None
        """The task that pulls the run at this moment."""
        self.is_waiting: Callable[[], bool] = _never
        """Whether the run is inside a pull."""
        self.interruption: str | None = None
        """Why the run is to stop waiting: ``abort``, ``tripwire``, ``failure`` or a time limit."""
        self._cancelled: asyncio.Task[Any] | None = None
        self._cancelling = 0
        """How many cancellations of others the driver had pending before ours."""
        self.is_ended = False
        self.is_aborted = False
        """Whether the run was cancelled through its signal."""
        self.attention = False
        """Whether the chunk loop has more to look at than the next chunk: emissions, tasks, a cancellation."""
        self._signal = signal
        if signal is not None:
            signal.add_callback(self._on_signal)

    @property
    def signal(self) -> AbortSignal:
        """The run's cancellation signal; the caller's own if one was given."""
        if self._signal is None:
            self._signal = AbortSignal()
            self._signal.add_callback(self._on_signal)
        return self._signal

    def end(self) -> None:
        """No hook, no emission and no signal means anything to this run any more."""
        self.is_ended = True
        if self._cancelled is not None:
            # Whoever caught our cancellation must not leave the caller's task marked with it.
            self.take_back_cancellation()
        # What a finished run refers to is freed at once, not by the cycle collector.
        self.record = None
        self.chain = None
        self.is_waiting = _never
        if self._signal is not None:
            self._signal.remove_callback(self._on_signal)

    def use_budget(self) -> RunBudget:
        """The run's budget, made when it is first asked for (R19.9)."""
        if self.budget is None:
            self.budget = RunBudget()
        return self.budget

    def state_of(self, key: str) -> dict[str, Any]:
        """The state of one processor in this run (R8.1)."""
        states = self.data.processor_states
        state = states.get(key)
        if state is None:
            state = states[key] = {}
        return state

    # -- tripwires ---------------------------------------------------------------------------------------------

    def record_trip(self, tripwire: TripWire, processor: Any, hook: str) -> TripWire:
        """Record an abort; the first one stands, and is returned (R6.3)."""
        tripwire.attribute_to(processor.id)
        if self.trip is None and not self.is_ended:
            self.trip = Trip(tripwire, processor, hook)
        return self.trip.tripwire if self.trip is not None else tripwire

    async def check(self) -> None:
        """Raise a recorded abort, after telling its ``on_violation`` (R6.10), or the failure of a background task."""
        trip = self.trip
        if trip is None:
            if self.failure is not None:
                raise self.failure
            return
        if not trip.is_reported:
            trip.is_reported = True
            await notify_violation(trip.processor, trip.tripwire.reason, trip.tripwire.metadata)
        raise trip.tripwire

    # -- emissions ---------------------------------------------------------------------------------------------

    async def emit(self, chunk: Chunk, start: int, message_id: str | None = None) -> None:
        """Send ``chunk`` through the stream hooks from ``start`` on, into the response and to the client (R9.3)."""
        for ready in await self.show(chunk, start):
            self.keep(ready, message_id)

    async def show(self, chunk: Chunk, start: int) -> list[Chunk]:
        """Send ``chunk`` through the stream hooks from ``start`` on and to the client; what is left of it."""
        if self.is_ended or self.trip is not None:
            # After an abort nothing that somebody held back goes out (R6.9).
            _log.debug("run %s has ended; a %s chunk written to it is dropped", self.data.run_id, chunk.type)
            return []
        if not chunk.run_id:
            chunk = own_chunk(chunk, self.data.run_id)
        chunks = [chunk] if self.chain is None else await self.chain.send_through(chunk, start)
        self.outbox += chunks
        self.attention = True
        if self.wake is not None:
            self.wake.set()
        return chunks

    def keep(self, chunk: Chunk, message_id: str | None) -> None:
        """Put an emitted chunk into the response (R9.4, R9.6)."""
        if self.record is not None:
            self.record(chunk, message_id)

    def take(self) -> list[Chunk]:
        """The chunks that wait to be handed to the client; the outbox is empty afterwards."""
        chunks, self.outbox = self.outbox, []
        return chunks

    # -- interruption ------------------------------------------------------------------------------------------

    def interrupt(self, reason: str) -> None:
        """Make the run stop waiting for whatever it waits for; it finds out why by itself.

        Called from another task or from a callback. From inside the run's own code nothing needs to be interrupted: the
        run looks at the signal and the tripwire at its next boundary.
        """
        if self.is_ended or self.interruption is not None:
            return
        self.interruption = reason
        self.attention = True
        if self.wake is not None:
            self.wake.set()
            return
        if self.driver is not None and self.driver is _running_task():
            # The run's own code asked, and may still go on to wait for something.
            asyncio.get_running_loop().call_soon(self._cancel_driver)
        else:
            self._cancel_driver()

    def _cancel_driver(self) -> None:
        driver = self.driver
        if self.interruption is None or driver is None or driver.done() or not self.is_waiting():
            return
        self._cancelled = driver
        self._cancelling = driver.cancelling()
        driver.cancel()

    async def settle_interruption(self) -> str | None:
        """Why the run was interrupted, if it was; let what is still on its way arrive, so that it disturbs nothing."""
        interruption, self.interruption = self.interruption, None
        if self._cancelled is not None:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not self.take_back_cancellation():
                    raise
            else:
                self.take_back_cancellation()
        return interruption

    def take_back_cancellation(self) -> bool:
        """Whether the ``CancelledError`` that arrived is the one that ``interrupt`` asked for; if so it is undone."""
        driver, self._cancelled = self._cancelled, None
        return driver is not None and driver is _running_task() and driver.uncancel() <= self._cancelling

    def _on_signal(self) -> None:
        self.is_aborted = self.attention = True
        self.interrupt("abort")

    # -- background tasks --------------------------------------------------------------------------------------

    def create_task(self, coro: Coroutine[Any, Any, Any], processor: Any, hook: str) -> asyncio.Task[Any]:
        """Start a task that the run owns (R19.4)."""
        task = asyncio.get_running_loop().create_task(self._watch(coro, processor, hook))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        # A task that is cancelled before its first step never gets to the coroutine.
        task.add_done_callback(lambda _: coro.close())
        self.attention = True
        return task

    async def _watch(self, coro: Coroutine[Any, Any, Any], processor: Any, hook: str) -> Any:
        try:
            return await coro
        except TripWire as tripwire:
            self.record_trip(tripwire, processor, hook)
            self.interrupt("tripwire")
        except Exception as error:
            if self.is_ended:
                _log.warning("a background task of processor %r failed", processor.id, exc_info=True)
            elif self.failure is None:
                self.failure = hook_failure(processor.id, hook, error)
                self.interrupt("failure")
        return None

    async def drop_tasks(self) -> None:
        """Cancel the background tasks and wait until they are gone."""
        if not self.tasks:
            return
        tasks, self.tasks = self.tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def own_chunk(chunk: Chunk, run_id: str) -> Chunk:
    """The chunk as one of this run; a copy, because a processor may use the same object in any number of runs."""
    twin = copy(chunk)
    twin.run_id = run_id
    payload = getattr(twin, "payload", None)
    if isinstance(payload, Payload):
        twin.payload = copy(payload)  # type: ignore[attr-defined]  # it has one
    return twin


def hook_failure(processor_id: str, hook: str, error: Exception, step: WorkflowStep | None = None) -> ProcessorError:
    """The ``ProcessorError`` for an ordinary exception of a hook, with the original as its cause (R16.9, R17.2)."""
    if isinstance(error, ProcessorError):
        return error
    what = f"failed in {hook}: {type(error).__name__}: {error}"
    failure: ProcessorError
    if step is None:
        failure = ProcessorError(f"processor {processor_id!r} {what}", processor_id=processor_id, hook=hook)
    else:
        failure = ProcessorWorkflowError(
            f"step {step.step_id!r} of workflow {step.workflow_id!r} {what}",
            code="PROCESSOR_WORKFLOW_FAILED",
            workflow_id=step.workflow_id,
            step_id=step.step_id,
            processor_id=processor_id,
            hook=hook,
        )
    failure.__cause__ = error
    return failure


def _never() -> bool:
    return False


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        # No loop runs in this thread: the caller is no task at all.
        return None
