"""How a run ends: regularly, in a tripwire, or for now, until somebody goes on with it (R6.4, R12.28, R12.36)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock._ids import new_id
from interlock.agent.attempt import Attempt
from interlock.agent.run import Run
from interlock.agent.said import forget_quotes, quotable
from interlock.agent.step_parts import follow_response, recorded
from interlock.agent.structuring import STRUCTURING
from interlock.agent.suspension import note_waiting
from interlock.chunks import (
    ABORTED,
    OTHER,
    SUSPENDED,
    Abort,
    AbortPayload,
    Chunk,
    Finish,
    FinishPayload,
    StepOutcome,
    StepOutput,
    Tripwire,
    TripwirePayload,
)
from interlock.errors import ProcessorError
from interlock.processors import OutputResult, TripwireInfo
from interlock.processors.bound import BoundProcessor
from interlock.processors.hooks import OUTPUT_RESULT
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import ResultStage

_log = logging.getLogger("interlock")


class RunEnd:
    """Brings one run to its end. What the client is to see of that goes into the scope's outbox."""

    __slots__ = ("_run", "_scope", "_state", "is_finishing", "is_over")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._scope = run.scope
        self._state = run.state
        self.is_finishing = False
        """Whether the last step is done and only the result hooks are left."""
        self.is_over = False
        """Whether no attempt follows."""

    def send(self, *chunks: Chunk) -> None:
        """Hand chunks to the client, behind what hooks have written meanwhile."""
        self._scope.outbox += chunks

    async def suspend(self, attempt: Attempt) -> None:
        """Some calls wait for somebody: the run is stored and ends here for now (R12.36)."""
        state = self._state
        await self._scope.drop_tasks()
        await self._scope.check()
        suspended = state.suspended = attempt.suspended()
        note_waiting(state.message_list.get_by_id(state.message_id), suspended)
        waiting = list(suspended.waiting.values())
        payload = getattr(waiting[0], "payload", None)
        state.suspend_payload = None if payload is None else payload.to_dict()
        await self._store()
        self.send(*waiting)

    async def pause(self) -> None:
        """The run is stored between two steps and ends here for now, unless the next attempt will end it anyway."""
        scope = self._scope
        await scope.drop_tasks()
        if not scope.is_aborted and scope.trip is None and scope.failure is None:
            await self._store()

    async def _store(self) -> None:
        """Put the run into the store, and end it for now."""
        run, state, scope = self._run, self._state, self._scope
        # From here on a cancellation comes too late: a run must not be cancelled and wait in a store as well.
        scope.driver = None
        state.request_context = scope.request_context.to_dict()
        state.budget = scope.budget
        if run.deadlines is not None:
            state.used_ms = run.deadlines.used_ms
        state.suspension_id = new_id()
        await run.agent.run_store.save(state.run_id, state.to_dict())
        run.agent.keep_states(state.suspension_id, state.processor_states)
        state.finish_reason = SUSPENDED
        self.is_over = True
        await self.tell_finish()

    async def tell_tripwire(self, info: TripwireInfo) -> None:
        """End the run with its ``tripwire`` chunk (R6.4, R6.5)."""
        state = self._state
        state.tripwire = info
        state.error = None
        state.finish_reason = OTHER
        state.parsed = None
        await self.close()
        await self.tell_finish()
        payload = TripwirePayload(
            reason=info.reason,
            processor_id=info.processor_id,
            retry=True if info.retry else None,
            metadata=info.metadata,
        )
        self.send(Tripwire(payload=payload, run_id=state.run_id))

    async def tell_abort(self) -> None:
        """End the run with its ``abort`` chunk."""
        state = self._state
        await self._run.tell("on_abort", {"steps": list(state.steps), "text": state.text})
        await self.tell_finish()
        self.send(Abort(payload=AbortPayload(reason=_plain(self._scope.signal.reason)), run_id=state.run_id))

    async def complete(self) -> None:
        """The regular end: result hooks, then ``finish``."""
        state = self._state
        if self._scope.attention:
            await self._scope.check()
            await self._scope.drop_tasks()
        self.is_over = True
        self.is_finishing = False
        if state.asked is not None or self._run.pipeline.by_hook["process_output_result"]:
            await self.run_result_hooks()
            if state.finish_reason == ABORTED:
                # Cancelled while another model turned the answer into an object.
                await self.tell_abort()
                return
        if state.error is not None:
            await self._run.tell("on_error", {"error": state.error})
        await self.tell_finish()
        if not self._run.is_read:
            return
        payload = FinishPayload(
            step_result=StepOutcome(reason=state.finish_reason or "unknown"), output=StepOutput(usage=state.usage)
        )
        self.send(Finish(payload=payload, run_id=state.run_id))

    async def run_result_hooks(self) -> None:
        """Run ``process_output_result``, and take over the text if the hooks changed it (R2.35)."""
        state = self._state
        # From here on a cancellation comes too late: what the run has is processed and saved (R12.28).
        self._scope.driver = None
        processors = self._result_hooks()
        message_list = state.message_list
        before, parts, revision = message_list.response_text(), message_list.response_parts(), message_list.revision
        was, quotes = recorded(parts), quotable(state.steps)
        result = OutputResult(
            text=state.accepted_text,
            usage=state.usage,
            finish_reason=state.finish_reason or "unknown",
            steps=list(state.steps),
        )
        try:
            await run_hook(OUTPUT_RESULT, processors, self._scope, ResultStage(result))
        except ProcessorError as error:
            if error.processor_id == STRUCTURING.id and isinstance(error.__cause__, Exception):
                # No processor of the caller's failed: what went wrong with the object is the error of the run.
                raise error.__cause__ from None
            raise
        # Nothing that they started may outlive the run (R19.4).
        await self._scope.drop_tasks()
        if message_list.is_still(revision):
            return
        after = message_list.response_text()
        follow_response(state.steps, parts, message_list.response_parts(), was)
        forget_quotes(quotes)
        if after != before:
            state.text_override = after
            if state.steps:
                state.steps[-1].text = after

    def _result_hooks(self) -> Sequence[BoundProcessor]:
        pipeline, name = self._run.pipeline, OUTPUT_RESULT.name
        known = pipeline.by_hook[name]
        if self._state.asked is None or any(bound.processor.id == STRUCTURING.id for bound in known):
            return known
        # Only the step asked for a type.
        return pipeline.extended(name, BoundProcessor(STRUCTURING, name, len(pipeline.output), STRUCTURING.id))

    async def close(self) -> None:
        """From here on no hook runs, and what background tasks write goes nowhere."""
        self.is_over = True
        self.is_finishing = False
        self._scope.is_ended = True
        await self._scope.drop_tasks()

    async def tell_finish(self) -> None:
        """Tell ``on_finish``, and forget what was stored of a run that has come to its end (R12.26)."""
        state = self._state
        if self._run.is_resumed and state.error is None and state.finish_reason != SUSPENDED:
            await self._forget()
        if "on_finish" not in self._run.callbacks:
            return
        info = FinishInfo(
            run_id=state.run_id,
            text=state.text,
            finish_reason=state.finish_reason or "unknown",
            usage=state.usage,
            steps=list(state.listed_steps),
            tripwire=state.tripwire,
            error=state.error,
        )
        await self._run.tell("on_finish", info)

    async def _forget(self) -> None:
        """Nobody will go on with the run any more. One that failed is kept: somebody may give it another chance."""
        try:
            await self._run.agent.run_store.finish(self._state.run_id)
        except Exception:
            # The run has come to its end; what it came to must not be lost over an old file.
            _log.exception("the stored state of run %s could not be thrown away", self._state.run_id)


class FinishInfo(msgspec.Struct, kw_only=True):
    """What ``on_finish`` is told, once a run, whatever its outcome (R12.26)."""

    run_id: str
    text: str
    finish_reason: str
    usage: Any
    steps: list[Any]
    tripwire: TripwireInfo | None = None
    error: BaseException | None = None


def _plain(reason: Any) -> Any:
    return reason if reason is None or isinstance(reason, (str, int, float, bool)) else str(reason)
