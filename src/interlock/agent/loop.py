"""The agent loop: one async generator over the attempts of a run (R1.4, R1.12)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from interlock.agent.attempt import Attempt
from interlock.agent.deadlines import Deadlines
from interlock.agent.ending import RunEnd
from interlock.agent.reply import DELTAS, SPANS, Reply
from interlock.agent.reply_books import TERMINAL_REASONS
from interlock.agent.reply_source import NOTHING
from interlock.agent.run import Callback, Interrupted, Run
from interlock.agent.said import follow_finish
from interlock.agent.settling import Settlement
from interlock.agent.structured import ParsedObject, StructuredOutputOptions, parse_object, without_object
from interlock.agent.structuring import STRUCTURING, object_result
from interlock.agent.suspension import Resumption
from interlock.chunks import Chunk, Finish, Start, StartPayload, TextDelta, ToolCall
from interlock.errors import StructuredOutputError, TripWire
from interlock.processors import StepResult
from interlock.processors.hooks import OUTPUT_STEP


class RunLoop:
    """Drives one run from its first step to its last chunk.

    Every exception of an attempt comes to a ``Settlement``, which decides: another attempt, or the end of the run. What
    a phase has to say to the client it puts into the scope's outbox; the generator hands it on.
    """

    __slots__ = ("_end", "_run", "_scope", "_state")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._scope = run.scope
        self._state = run.state
        self._end = RunEnd(run)

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """The run's stream. Closing it cancels the provider call, running tools and background tasks.

        It reads the model itself: one more generator between a model and its reader would cost every chunk of every
        stream. All but text and reasoning, of which there is most, it leaves to the ``Reply``.
        """
        run, scope, state, end = self._run, self._scope, self._state, self._end
        run_id, chain, is_read, on_chunk = state.run_id, run.chain, run.is_read, run.callbacks.get("on_chunk")
        attempt: Attempt | None = None
        reply: Reply | None = None
        chunk: Any = None
        is_complete = False
        try:
            await self._begin()
            while not end.is_over:
                if scope.outbox:
                    for chunk in scope.take():
                        yield chunk
                attempt, reply, failure = Attempt(run), None, None
                try:
                    is_resumed = run.resumption is not None and self._resume(attempt, run.resumption)
                    reply = None if is_resumed else await attempt.prepare()
                    if reply is not None:
                        source, assembler, kept, is_typed = reply.source, reply.assembler, reply.kept, reply.is_typed
                        read = source.read
                    while reply is not None:
                        if scope.outbox:
                            for chunk in scope.take():
                                yield chunk
                        try:
                            chunk = await (source.read_attended() if scope.attention else read())
                        except StopAsyncIteration:
                            break
                        except Exception as error:
                            raise reply.failure(error)  # noqa: B904  (it has its cause)
                        if scope.is_aborted:
                            raise Interrupted
                        kind = chunk.__class__
                        if is_typed or (kind is not TextDelta and kind not in SPANS):
                            if kind is Finish:
                                reply.take_finish(chunk)
                            elif kind is ToolCall and reply.is_plain:
                                reply.take_call(chunk)
                            elif chunk is not NOTHING:
                                await reply.accept(chunk)
                            continue
                        if not chunk.run_id:
                            chunk.run_id = run_id
                        if chain is not None:
                            said = chunk.payload.text if kind in DELTAS else None
                            out: Any = await chain.process(chunk)
                            if out is not chunk:
                                await reply.take_replacement(chunk, said, out)
                                continue
                            if said is not None and chunk.payload.text is not said:
                                reply.note_edit(chunk, said)
                            if scope.outbox:
                                for emitted in scope.take():
                                    yield emitted
                        payload = chunk.payload
                        if kind is TextDelta and payload.id == assembler.open_id and payload.provider_metadata is None:
                            assembler.append(payload.text)
                        else:
                            assembler.record(chunk)
                        if kept is not None:
                            kept.append(chunk)
                        if on_chunk is not None and kind in DELTAS:
                            await run.tell("on_chunk", chunk)
                        if is_read:
                            yield chunk
                    if reply is not None:
                        await reply.end()
                        if scope.outbox:
                            for chunk in scope.take():
                                yield chunk
                        await attempt.judge(reply)
                    tools = attempt.tools
                    if tools is not None:
                        if scope.outbox:
                            for chunk in scope.take():
                                yield chunk
                        if tools.is_single:
                            await tools.run_single()
                            if scope.outbox:
                                for chunk in scope.take():
                                    yield chunk
                        else:
                            async with aclosing(tools.chunks()) as produced:
                                async for chunk in produced:
                                    yield chunk
                    await self._accept(attempt)
                except (Exception, asyncio.CancelledError) as error:
                    failure = self._own(error if reply is None else reply.blame(error, chunk))
                while failure is not None or end.is_finishing:
                    for chunk in scope.take():
                        yield chunk
                    try:
                        if failure is not None:
                            failure = await Settlement(run, end).settle(attempt, failure)
                        else:
                            await end.complete()
                    except (Exception, asyncio.CancelledError) as error:
                        failure = self._own(error)
            for chunk in scope.take():
                yield chunk
            is_complete = True
        finally:
            if run.deadlines is not None:
                run.deadlines.close()
            try:
                if not is_complete:
                    await self._abandon(attempt)
            finally:
                scope.end()

    async def _begin(self) -> None:
        """Tell that the run has begun, or that ``process_input`` aborted it: then nothing else follows (R6.8)."""
        run, state = self._run, self._state
        if run.deadlines is None and run.model_settings.get("timeout"):
            run.deadlines = Deadlines(self._scope, run.model_settings, state.used_ms)
        if state.tripwire is not None:
            await self._end.tell_tripwire(state.tripwire)
        elif run.is_read and not run.is_resumed:
            payload = StartPayload(id=state.agent_id, message_id=state.message_id)
            self._scope.outbox.insert(0, Start(payload=payload, run_id=state.run_id))

    def _resume(self, attempt: Attempt, resumption: Resumption) -> bool:
        """Let the attempt go on with the step that was suspended, once."""
        state = self._state
        if state.suspended is None:
            return False
        suspended, state.suspended = state.suspended, None
        attempt.resume(suspended, resumption)
        if self._scope.is_aborted:
            raise Interrupted
        return True

    def _own(self, error: BaseException) -> Exception:
        """The failure of an attempt; a cancellation that was not ours is raised again (R12.29)."""
        if isinstance(error, Exception):
            return error
        if not self._scope.take_back_cancellation():
            raise error
        return Interrupted()

    async def _abandon(self, attempt: Attempt | None) -> None:
        """The reader went away or its task was cancelled: stop everything, save nothing (R12.29)."""
        scope = self._scope
        try:
            if attempt is not None:
                await attempt.close()
        finally:
            scope.is_ended = True
            scope.signal.abort("the stream was closed")
            await scope.drop_tasks()

    # -- an attempt that completed ---------------------------------------------------------------------------------

    async def _accept(self, attempt: Attempt) -> None:
        """Accept the attempt as the step, and go on or finish the run."""
        run, state, result, reply = self._run, self._state, attempt.result, attempt.reply
        assert result is not None
        assert reply is not None
        if attempt.tools is not None and attempt.tools.waiting:
            await self._end.suspend(attempt)
            return
        goes_on = self._may_go_on(attempt, reply.finish_reason)
        if goes_on and run.stop_when:
            goes_on = not await _holds(run.stop_when, [*state.steps, result])
        asked = reply.call.asked
        if goes_on or (attempt.tools is not None and attempt.tools.is_waiting_for_client):
            asked = None  # while calls wait for the client to execute them there is no answer yet
        typed = None if asked is None or asked.model is not None else await self._typed(asked, attempt, result)
        shown: list[Chunk] = []
        if run.is_read:
            shown = await run.process(attempt.step_finish(reply, result, goes_on))
            follow_finish(result, shown)
        # Until here a stream hook may have rejected the attempt, and its object with it (R12.34).
        if typed is not None:
            state.parsed, told = typed
            shown = [*told, *shown]
        self._scope.outbox += shown
        state.asked = asked
        state.steps.append(result)
        state.listed_steps.append(result)
        for call in result.tool_calls:
            state.call_ids.add(call.payload.tool_call_id)
        if state.retry_count:
            state.message_list.clear_feedback()
        if run.callbacks:
            await run.tell("on_step_finish", result)
            goes_on = not await self._is_stopped(result, goes_on) and goes_on
        if not goes_on:
            state.finish_reason = reply.finish_reason
            self._end.is_finishing = True
            return
        state.step_number += 1
        run.model_index = 0
        run.model_override = None
        if run.pause_when and await _holds(run.pause_when, list(state.steps)):
            await self._end.pause()

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
