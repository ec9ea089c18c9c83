"""The agent loop: one async generator over the attempts of a run (R1.4, R1.12), and what each end of it means."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from interlock._ids import new_id
from interlock.agent.attempt import Attempt
from interlock.agent.deadlines import STEP_TIMEOUT, TOTAL_TIMEOUT, Deadlines
from interlock.agent.reply import TERMINAL_REASONS
from interlock.agent.run import Callback, Interrupted, ModelFailure, Run
from interlock.agent.said import follow_finish, forget_quotes, quotable
from interlock.agent.step_parts import emptied, follow_response, recorded
from interlock.agent.structured import ParsedObject, StructuredOutputOptions, parse_object, without_object
from interlock.agent.structuring import STRUCTURING, object_result
from interlock.agent.suspension import Resumption, SuspendedStep, note_waiting
from interlock.chunks import (
    ABORTED,
    ERROR,
    OTHER,
    RETRY,
    SUSPENDED,
    TRIPWIRE,
    Abort,
    AbortPayload,
    Chunk,
    ErrorChunk,
    ErrorPayload,
    Finish,
    FinishPayload,
    Start,
    StartPayload,
    StepFinish,
    StepFinishPayload,
    StepOutcome,
    StepOutput,
    Tripwire,
    TripwirePayload,
)
from interlock.errors import ProcessorError, StructuredOutputError, TripWire
from interlock.messages.parts import ErrorPart
from interlock.models import to_language_model
from interlock.processors import OutputResult, StepResult, TripwireInfo
from interlock.processors.bound import BoundProcessor
from interlock.processors.hooks import API_ERROR, OUTPUT_RESULT, OUTPUT_STEP, RETRY_HOOKS, TOOL_RESULT
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import ErrorStage, ResultStage

_log = logging.getLogger("interlock")

CANCELLED = "The call was cancelled before it finished"
NOT_EXECUTED = "The call was not executed because the reply failed"


class RunLoop:
    """Drives one run from its first step to its last chunk.

    Every exception of an attempt comes to ``_settle``, which decides: another attempt, or the end of the run. What the
    deciding methods have to say to the client they put into the scope's outbox; the generator hands it on.
    """

    __slots__ = ("_is_finishing", "_is_over", "_run", "_scope", "_state")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._scope = run.scope
        self._state = run.state
        self._is_finishing = False
        """Whether the last step is done and only the result hooks are left."""
        self._is_over = False

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """The run's stream. Closing it cancels the provider call, running tools and background tasks."""
        is_complete = False
        run, scope = self._run, self._scope
        if run.deadlines is None and run.model_settings.get("timeout"):
            run.deadlines = Deadlines(self._scope, run.model_settings, self._state.used_ms)
        try:
            if self._state.tripwire is not None:
                # ``process_input`` aborted: there is no stream but for the tripwire (R6.8).
                await self._tell_tripwire(self._state.tripwire)
            elif run.is_read and not run.is_resumed:
                yield self._start()
            for chunk in scope.take():
                yield chunk
            while not self._is_over:
                attempt = Attempt(self._run)
                failure: Exception | None = None
                try:
                    if self._state.suspended is not None and self._run.resumption is not None:
                        self._resume(attempt, self._state.suspended, self._run.resumption)
                    else:
                        reply = await attempt.prepare()
                        for chunk in scope.take():
                            yield chunk
                        try:
                            async for chunk in reply.chunks():
                                yield chunk
                        finally:
                            await reply.close()
                        await reply.end()
                        for chunk in scope.take():
                            yield chunk
                        await attempt.judge(reply)
                    if attempt.tools is not None:
                        for chunk in scope.take():
                            yield chunk
                        if attempt.tools.is_single:
                            await attempt.tools.run_single()
                            for chunk in scope.take():
                                yield chunk
                        else:
                            async with aclosing(attempt.tools.chunks()) as produced:
                                async for chunk in produced:
                                    yield chunk
                    await self._accept(attempt)
                except (Exception, asyncio.CancelledError) as error:
                    failure = self._own(error)
                while True:
                    for chunk in scope.take():
                        yield chunk
                    if failure is None and not self._is_finishing:
                        break
                    try:
                        if failure is not None:
                            failure = await self._settle(attempt, failure)
                        else:
                            await self._complete()
                    except (Exception, asyncio.CancelledError) as error:
                        failure = self._own(error)
            is_complete = True
        finally:
            if run.deadlines is not None:
                run.deadlines.close()
            if not is_complete:
                await self._abandon()
            self._scope.end()

    def _resume(self, attempt: Attempt, suspended: SuspendedStep, resumption: Resumption) -> None:
        self._state.suspended = None
        attempt.resume(suspended, resumption)
        if self._scope.is_aborted:
            raise Interrupted

    def _start(self) -> Chunk:
        payload = StartPayload(id=self._state.agent_id, message_id=self._state.message_id)
        return Start(payload=payload, run_id=self._state.run_id)

    def _send(self, *chunks: Chunk) -> None:
        """Hand chunks to the client, behind what hooks have written meanwhile."""
        self._scope.outbox += chunks

    def _own(self, error: BaseException) -> Exception:
        """The failure of an attempt; a cancellation that was not ours is raised again (R12.29)."""
        if isinstance(error, Exception):
            return error
        if not self._scope.take_back_cancellation():
            raise error
        return Interrupted()

    async def _abandon(self) -> None:
        """The reader went away or its task was cancelled: stop everything, save nothing (R12.29)."""
        self._scope.is_ended = True
        self._scope.signal.abort("the stream was closed")
        await self._scope.drop_tasks()

    # -- an attempt that completed ---------------------------------------------------------------------------------

    async def _accept(self, attempt: Attempt) -> None:
        """Accept the attempt as the step, and go on or finish the run."""
        run, state, result, reply = self._run, self._state, attempt.result, attempt.reply
        assert result is not None
        assert reply is not None
        if attempt.tools is not None and attempt.tools.waiting:
            await self._suspend(attempt)
            return
        goes_on = self._may_go_on(attempt, reply.finish_reason)
        if goes_on and run.stop_when:
            goes_on = not await _holds(run.stop_when, [*state.steps, result])
        # While calls wait for the client to execute them there is no answer yet.
        is_answer = not goes_on and not (attempt.tools is not None and attempt.tools.is_waiting_for_client)
        asked = reply.call.asked if is_answer else None
        typed = None if asked is None or asked.model is not None else await self._typed(asked, attempt, result)
        shown = await run.process(attempt.step_finish(reply, result, goes_on)) if run.is_read else []
        follow_finish(result, shown)
        # Until here a stream hook may have rejected the attempt, and its object with it (R12.34).
        if typed is not None:
            state.parsed, told = typed
            shown = [*told, *shown]
        self._send(*shown)
        state.asked = asked
        state.steps.append(result)
        state.listed_steps.append(result)
        if result.tool_calls:
            state.call_ids.update([call.payload.tool_call_id for call in result.tool_calls])
        if state.retry_count:
            state.message_list.clear_feedback()
        if run.callbacks:
            await run.tell("on_step_finish", result)
            goes_on = not await self._is_stopped(result, goes_on) and goes_on
        if not goes_on:
            state.finish_reason = reply.finish_reason
            self._is_finishing = True
            return
        state.step_number += 1
        run.model_index = 0
        run.model_override = None
        if run.pause_when and await _holds(run.pause_when, list(state.steps)):
            await self._pause()

    async def _typed(
        self, asked: StructuredOutputOptions, attempt: Attempt, result: StepResult
    ) -> tuple[ParsedObject, list[Chunk]]:
        """The object of the last step, with what the client sees of it.

        Raises:
            TripWire: the text does not fit, and the model may try again: it is told what is wrong (R7.4, R12.33).
            StructuredOutputError: it does not fit, no retry is left, and the strategy is ``strict``.
        """
        run = self._run
        try:
            parsed = parse_object(asked, result.text)
        except StructuredOutputError as error:
            # An attempt whose tools have run is not repeated: their effects would be, too.
            if attempt.tools is None and run.may_retry():
                tripwire = TripWire(str(error), retry=True, metadata={"problems": error.problems})
                raise run.scope.record_trip(tripwire, STRUCTURING, OUTPUT_STEP.name) from error
            parsed = without_object(asked, error)
        return parsed, await run.process(object_result(parsed))

    def _may_go_on(self, attempt: Attempt, finish_reason: str) -> bool:
        """Whether another step may follow (R1.12, R1.13), as far as ``max_steps`` allows (R12.12)."""
        tools = attempt.tools
        if tools is None or not tools.resolved or tools.is_waiting_for_client or finish_reason in TERMINAL_REASONS:
            return False
        limit = self._run.max_steps
        return limit is None or len(self._state.steps) + 1 < limit

    async def _is_stopped(self, result: StepResult, goes_on: bool) -> bool:
        """Ask ``on_iteration_complete`` (R12.14); whether it ends the run."""
        run, state = self._run, self._state
        if "on_iteration_complete" not in run.callbacks:
            return False
        context = IterationContext(
            iteration=len(state.steps),
            max_iterations=run.max_steps,
            text=result.text,
            tool_calls=result.tool_calls,
            tool_results=result.tool_results,
            is_final=not goes_on,
            finish_reason=result.finish_reason,
            messages=state.message_list.get.all.db(),
        )
        answer = await run.tell("on_iteration_complete", context)
        if not isinstance(answer, dict):
            return False
        if goes_on and answer.get("feedback"):
            state.message_list.add({"role": "user", "content": str(answer["feedback"])}, "context")
        return answer.get("continue") is False

    async def _suspend(self, attempt: Attempt) -> None:
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
        self._send(*waiting)

    async def _pause(self) -> None:
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
        self._is_over = True
        await self._tell_finish()

    # -- an attempt that did not -------------------------------------------------------------------------------------

    async def _settle(self, attempt: Attempt, failure: Exception) -> Exception | None:
        """Decide what an exception means: ``None`` when that is done, or the failure that it turned out to be."""
        scope = self._scope
        interruption = await scope.settle_interruption()
        has_failed = self._is_finishing and self._state.error is not None
        if interruption == TOTAL_TIMEOUT and not self._is_over:
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
        elif scope.is_aborted and not (self._is_over or has_failed):
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
        self._is_finishing = self._is_over = False
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
        self._send(*passed)
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
        await self._tell_tripwire(TripwireInfo.of(tripwire, cause))

    async def _tell_tripwire(self, info: TripwireInfo) -> None:
        """End the run with its ``tripwire`` chunk (R6.4, R6.5)."""
        state = self._state
        state.tripwire = info
        state.error = None
        state.finish_reason = OTHER
        state.parsed = None
        await self._close_run()
        await self._tell_finish()
        payload = TripwirePayload(
            reason=info.reason,
            processor_id=info.processor_id,
            retry=True if info.retry else None,
            metadata=info.metadata,
        )
        self._send(Tripwire(payload=payload, run_id=state.run_id))

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
        self._is_finishing = True
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
        self._send(*passed)
        outcome = StepOutcome(reason=ERROR, is_continued=False)
        payload = StepFinishPayload(message_id=state.message_id, step_result=outcome)
        self._send(*await run.process(StepFinish(payload=payload)))
        await self._tell_unaccepted(attempt, ERROR)

    async def _cancel(self, attempt: Attempt) -> None:
        """The run was cancelled through its signal: keep the text so far and save (R12.28)."""
        state, scope = self._state, self._scope
        self._is_over = True
        self._is_finishing = False
        await attempt.flush("cancel")
        text = attempt.keep_partial(unfinished=CANCELLED)
        if text and not (state.steps and state.steps[-1] is attempt.result):
            state.text_override = state.text + text
        state.finish_reason = ABORTED
        state.error = None
        await scope.drop_tasks()
        await self._run_result_hooks()
        await self._tell_abort()

    async def _tell_abort(self) -> None:
        """End the run with its ``abort`` chunk."""
        state = self._state
        await self._run.tell("on_abort", {"steps": list(state.steps), "text": state.text})
        await self._tell_finish()
        self._send(Abort(payload=AbortPayload(reason=_plain(self._scope.signal.reason)), run_id=state.run_id))

    async def _fail(self, attempt: Attempt, error: Exception) -> None:
        """A run error: the ``error`` chunk is the last, nothing is saved (R17.2)."""
        state = self._state
        await attempt.flush("cancel")
        attempt.discard()
        state.error = error
        state.finish_reason = ERROR
        state.parsed = None
        await self._close_run()
        await self._run.tell("on_error", {"error": error})
        await self._tell_finish()
        self._send(ErrorChunk(payload=ErrorPayload(error=error), run_id=state.run_id))

    # -- the end -------------------------------------------------------------------------------------------------

    async def _complete(self) -> None:
        """The regular end: result hooks, then ``finish``."""
        state = self._state
        if self._scope.attention:
            await self._scope.check()
            await self._scope.drop_tasks()
        self._is_over = True
        self._is_finishing = False
        if state.asked is not None or self._run.pipeline.by_hook["process_output_result"]:
            await self._run_result_hooks()
            if state.finish_reason == ABORTED:
                # Cancelled while another model turned the answer into an object.
                await self._tell_abort()
                return
        if state.error is not None:
            await self._run.tell("on_error", {"error": state.error})
        await self._tell_finish()
        if not self._run.is_read:
            return
        payload = FinishPayload(
            step_result=StepOutcome(reason=state.finish_reason or "unknown"), output=StepOutput(usage=state.usage)
        )
        self._send(Finish(payload=payload, run_id=state.run_id))

    async def _run_result_hooks(self) -> None:
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

    async def _close_run(self) -> None:
        """From here on no hook runs, and what background tasks write goes nowhere."""
        self._is_over = True
        self._is_finishing = False
        self._scope.is_ended = True
        await self._scope.drop_tasks()

    async def _tell_finish(self) -> None:
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


async def _holds(predicates: Sequence[Callback], steps: list[StepResult]) -> bool:
    """Whether one of the predicates over the steps says yes (R12.12)."""
    for predicate in predicates:
        verdict = predicate(steps)
        if await verdict if inspect.isawaitable(verdict) else verdict:
            return True
    return False


class IterationContext(msgspec.Struct, kw_only=True):
    """What ``on_iteration_complete`` is told (R12.14)."""

    iteration: int
    """1-based."""
    max_iterations: int | None
    text: str
    tool_calls: list[Any]
    tool_results: list[Any]
    is_final: bool
    finish_reason: str
    messages: list[Any]


class FinishInfo(msgspec.Struct, kw_only=True):
    """What ``on_finish`` is told, once a run, whatever its outcome (R12.26)."""

    run_id: str
    text: str
    finish_reason: str
    usage: Any
    steps: list[Any]
    tripwire: TripwireInfo | None = None
    error: BaseException | None = None


def _described(error: Any) -> dict[str, Any]:
    """``{"name", "message"}`` of an error (R13.10)."""
    if isinstance(error, dict):
        return {"name": str(error.get("name", "Error")), "message": str(error.get("message", ""))}
    return {"name": type(error).__name__ if isinstance(error, BaseException) else "Error", "message": str(error)}


def _plain(reason: Any) -> Any:
    return reason if reason is None or isinstance(reason, (str, int, float, bool)) else str(reason)
