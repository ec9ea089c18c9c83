"""What an attempt comes to that did not complete: another one, or the end of the run (R7.4, R7.13, R17.2)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from interlock.agent.attempt import Attempt
from interlock.agent.deadlines import STEP_TIMEOUT, TOTAL_TIMEOUT
from interlock.agent.ending import RunEnd
from interlock.agent.run import Interrupted, ModelFailure, Run
from interlock.agent.step_parts import emptied
from interlock.chunks import (
    ABORTED,
    ERROR,
    RETRY,
    TRIPWIRE,
    ErrorChunk,
    ErrorPayload,
    StepFinish,
    StepFinishPayload,
    StepOutcome,
)
from interlock.errors import TripWire
from interlock.messages.parts import ErrorPart
from interlock.models import to_language_model
from interlock.processors import TripwireInfo
from interlock.processors.hooks import API_ERROR, OUTPUT_RESULT, RETRY_HOOKS, TOOL_RESULT
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import ErrorStage

_log = logging.getLogger("interlock")

CANCELLED = "The call was cancelled before it finished"
NOT_EXECUTED = "The call was not executed because the reply failed"


class Settlement:
    """Decides what the exception means that ended an attempt.

    Args:
        run: The run.
        end: Its end, if it comes to that.
    """

    __slots__ = ("_end", "_run", "_scope", "_state")

    def __init__(self, run: Run, end: RunEnd) -> None:
        self._run = run
        self._scope = run.scope
        self._state = run.state
        self._end = end

    async def settle(self, attempt: Attempt, failure: Exception) -> Exception | None:
        """Decide what an exception means: ``None`` when that is done, or the failure that it turned out to be."""
        scope = self._scope
        await attempt.close()
        interruption = await scope.settle_interruption()
        has_failed = self._end.is_finishing and self._state.error is not None
        if interruption == TOTAL_TIMEOUT and not self._end.is_over:
            return TimeoutError(f"the run took longer than {self._timeout('total_ms')} ms")
        if isinstance(failure, Interrupted):
            if scope.trip is not None or scope.failure is not None:
                await scope.check()
            if has_failed:
                return None  # a cancellation comes too late
            if interruption == STEP_TIMEOUT:
                return ModelFailure(TimeoutError(f"the provider call took longer than {self._timeout('step_ms')} ms"))
            await self._cancel(attempt)
        elif isinstance(failure, TripWire) and scope.trip is not None:
            await self._trip(attempt, failure, scope.trip.hook)
        elif isinstance(failure, ModelFailure):
            await self._recover(attempt, failure.error)
        elif scope.is_aborted and not (self._end.is_over or has_failed):
            # R12.30: a hook that failed because of the cancellation is part of it; one that fails afterwards is not.
            scope.failure = None
            await self._cancel(attempt)
        else:
            await self._fail(attempt, failure)
        return None

    def _timeout(self, name: str) -> Any:
        return self._run.model_settings["timeout"][name]

    async def _trip(self, attempt: Attempt, tripwire: TripWire, hook: str) -> None:
        """A processor aborted: another attempt if it asked for one and may have it, else the end (R6.5, R7.5)."""
        run, state, scope = self._run, self._state, self._scope
        scope.interruption = None
        await attempt.flush("tripwire")
        if not (tripwire.retry and hook in RETRY_HOOKS and run.may_retry()):
            if tripwire.retry:
                self._warn_not_granted(tripwire, hook)
            await self._end_tripped(attempt, tripwire, hook)
            return
        self._list_attempt(attempt, RETRY, tripwire)
        attempt.discard()
        scope.trip = None
        state.message_list.set_feedback(tripwire.reason)
        self._end.is_finishing = self._end.is_over = False
        state.error = state.finish_reason = state.text_override = None
        await self._finish_rejected(attempt, tripwire.reason, tripwire.processor_id, tripwire.metadata)
        run.count_retry()

    async def _finish_rejected(self, attempt: Attempt, reason: str, processor_id: str | None, metadata: Any) -> None:
        """Show the ``step-finish`` of an attempt that is repeated; nothing if it never started (R7.10)."""
        chunk = attempt.rejected_finish(reason, processor_id, metadata)
        # What is written from now on has no response to go into (R7.9).
        self._scope.record = None
        if chunk is None:
            return
        try:
            passed = await self._run.process(chunk)
        except TripWire as tripwire:
            if not tripwire.retry:
                raise
            # A stream hook asks for the repetition that is under way.
            self._scope.trip = None
            passed = [chunk]
        self._end.send(*passed)
        await self._tell_unaccepted(attempt, RETRY)

    async def _tell_unaccepted(self, attempt: Attempt, reason: str) -> None:
        """Tell ``on_step_finish`` of an attempt that had a ``step-finish`` but came to nothing (R12.26)."""
        result, reply = attempt.result, attempt.reply
        if "on_step_finish" not in self._run.callbacks or reply is None:
            return
        if result is None or result.finish_reason != reason:
            result = emptied(reply.step_result(), reason)
        await self._run.tell("on_step_finish", result)

    def _warn_not_granted(self, tripwire: TripWire, hook: str) -> None:
        limit = self._state.retry_limit
        if hook not in RETRY_HOOKS:
            why = f"{hook} cannot be retried"
        elif limit is None:
            why = "max_processor_retries is not set"
        else:
            why = f"the limit of {limit} retries is exhausted"
        _log.warning("processor %r asked for a retry, but %s; the run stops", tripwire.processor_id, why)

    async def _end_tripped(
        self, attempt: Attempt, tripwire: TripWire, hook: str, cause: BaseException | None = None
    ) -> None:
        state = self._state
        self._list_attempt(attempt, TRIPWIRE, tripwire)
        state.text_override = None
        if hook == OUTPUT_RESULT.name:
            # Nothing of the answer is left in the result; the steps keep their texts (R6.6).
            state.text_override = ""
            state.message_list.clear.response.db()
        elif hook != TOOL_RESULT.name:
            attempt.discard()
        await self._end.tell_tripwire(TripwireInfo.of(tripwire, cause))

    def _list_attempt(self, attempt: Attempt, reason: str, tripwire: TripWire) -> None:
        """List a rejected or blocked attempt that had a response, without what it said (R6.7)."""
        listed_steps, reply = self._state.listed_steps, attempt.reply
        if reply is None or not reply.has_response or (listed_steps and listed_steps[-1] is attempt.result):
            return
        result = attempt.result if attempt.result is not None else reply.step_result()
        attempt.result = emptied(result, reason, TripwireInfo.of(tripwire))
        listed_steps.append(attempt.result)

    async def _recover(self, attempt: Attempt, error: BaseException) -> None:
        """A provider call failed: error processors, then the next model, then the end (R7.13)."""
        run, state, scope = self._run, self._state, self._scope
        await attempt.flush("error")
        stage = ErrorStage(error, state.message_id, to_language_model)
        try:
            await run_hook(API_ERROR, run.pipeline.by_hook["process_api_error"], scope, stage)
        except TripWire as tripwire:
            await scope.settle_interruption()
            if tripwire.retry:
                self._warn_not_granted(tripwire, API_ERROR.name)
            await self._end_tripped(attempt, tripwire, API_ERROR.name, cause=error)
            return
        if scope.is_aborted:
            await scope.settle_interruption()
            await self._cancel(attempt)
        elif stage.retry and run.may_retry():
            if stage.model is not None:
                run.model_override = stage.model
            await self._repeat(attempt, error)
            run.count_retry()
            await asyncio.sleep(stage.delay)
        elif run.model_index + 1 < len(run.models):
            run.model_index += 1
            run.model_override = None
            await self._repeat(attempt, error)
        else:
            await self._surface(attempt, error)

    async def _repeat(self, attempt: Attempt, error: BaseException) -> None:
        attempt.discard()
        await self._finish_rejected(attempt, str(error), None, None)

    async def _surface(self, attempt: Attempt, error: BaseException) -> None:
        """Nothing recovered the call: show the error and end the run with what it has (R17.4)."""
        state, run = self._state, self._run
        state.error = error
        state.finish_reason = ERROR
        self._end.is_finishing = True
        # The outcome stands: a cancellation comes too late.
        self._scope.driver = None
        passed = await run.process(ErrorChunk(payload=ErrorPayload(error=error)))
        shown = next((chunk for chunk in passed if isinstance(chunk, ErrorChunk)), None)
        if shown is None:
            shown = ErrorChunk(payload=ErrorPayload(error=error), run_id=state.run_id)
            passed.append(shown)
        # What stream hooks took out of the error is not stored either.
        text = attempt.keep_partial(ErrorPart(error=_described(shown.payload.error)), unfinished=NOT_EXECUTED)
        if text:
            state.text_override = state.text + text
        self._end.send(*passed)
        outcome = StepOutcome(reason=ERROR, is_continued=False)
        payload = StepFinishPayload(message_id=state.message_id, step_result=outcome)
        self._end.send(*await run.process(StepFinish(payload=payload)))
        await self._tell_unaccepted(attempt, ERROR)

    async def _cancel(self, attempt: Attempt) -> None:
        """The run was cancelled through its signal: keep the text so far and save (R12.28)."""
        state, scope = self._state, self._scope
        self._end.is_over = True
        self._end.is_finishing = False
        await attempt.flush("cancel")
        text = attempt.keep_partial(unfinished=CANCELLED)
        if text and not (state.steps and state.steps[-1] is attempt.result):
            state.text_override = state.text + text
        state.finish_reason = ABORTED
        state.error = None
        await scope.drop_tasks()
        await self._end.run_result_hooks()
        await self._end.tell_abort()

    async def _fail(self, attempt: Attempt, error: Exception) -> None:
        """A run error: the ``error`` chunk is the last, nothing is saved (R17.2)."""
        state = self._state
        await attempt.flush("cancel")
        attempt.discard()
        state.error = error
        state.finish_reason = ERROR
        state.parsed = None
        await self._end.close()
        await self._run.tell("on_error", {"error": error})
        await self._end.tell_finish()
        self._end.send(ErrorChunk(payload=ErrorPayload(error=error), run_id=state.run_id))


def _described(error: Any) -> dict[str, Any]:
    """``{"name", "message"}`` of an error (R13.10)."""
    if isinstance(error, dict):
        return {"name": str(error.get("name", "Error")), "message": str(error.get("message", ""))}
    return {"name": type(error).__name__ if isinstance(error, BaseException) else "Error", "message": str(error)}
