"""One attempt of a step, as phases that the loop calls in order (R1.4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from operator import is_
from typing import Any

import msgspec

from interlock.agent.call import PreparedCall
from interlock.agent.reply import Reply
from interlock.agent.reply_source import open_source
from interlock.agent.request import prepare_call
from interlock.agent.run import Interrupted, Run
from interlock.agent.said import forget_quotes, quotable
from interlock.agent.step_parts import follow_parts, recorded
from interlock.agent.suspension import Resumption, SuspendedStep, note_waiting
from interlock.agent.tool_outcomes import fail_invocation
from interlock.agent.tool_phase import Execution, ToolPhase
from interlock.chunks import (
    CONTENT_FILTER,
    RETRY,
    Chunk,
    StepFinish,
    StepFinishPayload,
    StepOutcome,
    StepOutput,
    ToolCall,
)
from interlock.messages.parts import Message, Part, TextPart, ToolInvocationPart
from interlock.models import to_language_model
from interlock.processors import StepResult, ToolCallInfo
from interlock.processors.hooks import LLM_RESPONSE, OUTPUT_STEP
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import OutputStepStage, ResponseStage


class Attempt(msgspec.Struct, eq=False):
    """One pass through a step: ``prepare``, the ``reply``, ``judge``, the ``tools``.

    Every phase may raise ``TripWire``, ``ProcessorError``, ``ModelFailure`` or ``Interrupted``; the loop decides what
    that comes to. What the client is to see goes into the scope's outbox, unless a phase yields it.
    """

    run: Run
    reply: Reply | None = None
    """Set once the request is ready."""
    result: StepResult | None = None
    """Set once the reply is complete."""
    tools: ToolPhase | None = None
    """Set if the reply has calls to execute."""
    _has_snapshot: bool = False

    # -- phases --------------------------------------------------------------------------------------------------

    async def prepare(self) -> Reply:
        """Run the request side: the input-step hooks, the prompt, the request hooks."""
        run, state, scope = self.run, self.run.state, self.run.scope
        if scope.is_aborted:
            raise Interrupted
        early: list[tuple[Chunk, str | None]] = []
        scope.record = lambda chunk, message_id: early.append((chunk, message_id))
        run.attempts += 1
        if run.attempts > 1 or run.is_resumed:
            state.message_list.replace_all_system_messages(state.system_baseline)
        call = await prepare_call(run)
        if scope.is_aborted:
            raise Interrupted
        reply = self._begin(call)
        for chunk, message_id in early:
            reply.record_emission(chunk, message_id)
        if run.deadlines is not None:
            run.deadlines.begin_step()
        if run.is_read:
            await reply.start()
        else:
            reply.is_started = not reply.has_own_start
        return reply

    def _begin(self, call: PreparedCall) -> Reply:
        # What input hooks changed stays, whatever becomes of the attempt; what comes now may be taken back (R7.9).
        self.run.state.message_list.begin_attempt()
        self._has_snapshot = True
        self.reply = reply = Reply(self.run, call, open_source(call, self.run.scope))
        self.run.scope.record = reply.record_emission
        return reply

    async def close(self) -> None:
        """Close the provider's stream, if it is open."""
        if self.reply is not None:
            await self.reply.close()

    async def judge(self, reply: Reply) -> None:
        """Run the response and output-step hooks, and prepare the tool calls that are left (R1.10, R1.11, R2.30)."""
        run, result = self.run, reply.complete()
        self.result = result
        current = None if reply.finish_reason == CONTENT_FILTER else result
        processors = run.pipeline.by_hook["process_llm_response"]
        if processors:
            await run_hook(LLM_RESPONSE, processors, run.scope, _response_stage(reply, current))
            if run.scope.is_aborted:
                raise Interrupted
        refused: dict[str, Any] = {}
        if run.pipeline.by_hook["process_output_step"]:
            refused = await self._ask_output_hooks(reply, result, current)
        if result.tool_calls:
            calls = [
                Execution(part, part.tool_invocation)
                for part in result.parts
                if isinstance(part, ToolInvocationPart)
                and part.tool_invocation.state == "call"
                and not part.provider_executed
            ]
            if calls:
                self.tools = ToolPhase(run, reply.call.tools, result, calls, reply.invalid_calls, refused)

    async def _ask_output_hooks(self, reply: Reply, result: StepResult, current: StepResult | None) -> dict[str, Any]:
        """Run the output-step hooks and let the step follow what they did to its parts; the calls that they refused."""
        run, message_list = self.run, self.run.state.message_list
        stage = OutputStepStage(
            current=current,
            finish_reason=reply.finish_reason,
            provider_metadata=result.provider_metadata,
            text=result.text,
            tool_calls=[_call_info(chunk) for chunk in result.tool_calls],
            usage=result.usage,
        )
        held, responses = list(message_list.parts_of(run.state.message_id)), message_list.stage("response")
        was, revision = recorded(result.parts), message_list.revision
        quotes = quotable([result]) if result.provider_metadata is not None else []
        await run_hook(OUTPUT_STEP, run.pipeline.by_hook["process_output_step"], run.scope, stage)
        if not message_list.is_still(revision):
            own = set(map(id, result.parts))
            earlier = list(takewhile(lambda part: id(part) not in own, held))
            follow_parts(result, self._left_of(result, earlier, responses), was)
            forget_quotes(quotes)
        if run.scope.is_aborted:
            raise Interrupted
        return stage.refused

    def _left_of(self, result: StepResult, earlier: list[Part], responses: list[Message]) -> list[Part]:
        """What output-step hooks left of the reply's parts (R2.30, R2.31).

        Args:
            result: The step.
            earlier: The parts of earlier steps in the response message, as they were before the hooks.
            responses: The response messages before the hooks.
        """
        state = self.run.state
        if state.message_list.source_of(state.message_id) is None:
            # A hook put another message in place of the response.
            ids = {message.id for message in responses}
            made = [message for message in state.message_list.stage("response") if message.id not in ids]
            return [part for message in made for part in message.content.parts]
        held = state.message_list.parts_of(state.message_id)
        known = {id(part) for part in (*earlier, *result.parts)}
        is_copy = not any(id(part) in known for part in held)
        return held[_border(held, earlier, _says_the_same if is_copy else is_) :]

    def resume(self, suspended: SuspendedStep, resumption: Resumption) -> None:
        """Go on with a suspended step: its reply stands, one of its calls has been decided about (R12.37)."""
        run, result = self.run, suspended.step
        run.model_index = min(suspended.model_index, len(run.models) - 1)
        call = self._bare_call()
        self.reply = reply = Reply(run, call, open_source(call, run.scope))
        reply.restore(suspended)
        self.result = result
        self._has_snapshot = True
        run.scope.record = reply.record_emission
        call_id = resumption.tool_call_id
        assert call_id is not None
        note_waiting(run.state.message_list.get_by_id(run.state.message_id), None)
        part = run.state.message_list.find_tool_invocation(call_id)
        if part is not None and resumption.args is not None:
            part.tool_invocation.args = resumption.args
        calls = [] if part is None else [Execution(part, part.tool_invocation)]
        self.tools = ToolPhase(run, run.tools, result, calls, {}, {}, resumption)
        self.tools.resolved = suspended.resolved
        self.tools.waiting = {key: chunk for key, chunk in suspended.waiting.items() if key != call_id}

    def _bare_call(self) -> PreparedCall:
        """A call that is not made: the run goes on without one."""
        entry = self.run.models[self.run.model_index]
        return PreparedCall(entry, to_language_model(entry.model), self.run.structured_output)

    def suspended(self) -> SuspendedStep:
        """The step as it waits for somebody."""
        assert self.result is not None
        assert self.reply is not None
        assert self.tools is not None
        return SuspendedStep(
            step=self.result,
            finish_reason=self.reply.finish_reason,
            model_index=self.run.model_index,
            waiting=self.tools.waiting,
            resolved=self.tools.resolved,
        )

    # -- ends ----------------------------------------------------------------------------------------------------

    def step_finish(self, reply: Reply, result: StepResult, is_continued: bool) -> Chunk:
        """The accepted step's ``step-finish``."""
        metadata = None if result.provider_metadata is None else {"providerMetadata": result.provider_metadata}
        payload = StepFinishPayload(
            message_id=self.run.state.message_id,
            step_result=StepOutcome(
                reason=reply.finish_reason, warnings=reply.warnings or None, is_continued=is_continued
            ),
            output=StepOutput(text=result.text, usage=result.usage),
            metadata=metadata,
        )
        return StepFinish(payload=payload)

    def rejected_finish(self, reason: str, processor_id: str | None, metadata: Any) -> Chunk | None:
        """The ``step-finish`` of a rejected or failed attempt that is repeated; nothing if it never started (R7.10)."""
        reply = self.reply
        if reply is None or not reply.is_started:
            return None
        outcome = StepOutcome(
            reason=RETRY,
            is_continued=True,
            retry_reason=reason,
            retry_processor_id=processor_id,
            retry_metadata=metadata,
        )
        payload = StepFinishPayload(
            message_id=self.run.state.message_id, step_result=outcome, output=StepOutput(usage=reply.usage)
        )
        return StepFinish(payload=payload)

    async def flush(self, reason: str) -> None:
        """Flush the stream hooks if the attempt's stream has begun and was not flushed (R19.2)."""
        if self.reply is not None:
            await self.reply.flush(reason)

    def discard(self) -> None:
        """Take everything that the attempt added to response messages out again (R7.9)."""
        if self._has_snapshot:
            self.run.state.message_list.restore_response()

    def keep_partial(self, *extra: Part, unfinished: str) -> str:
        """Put what arrived of a failed or cancelled reply into the response (R12.28, R17.5).

        Args:
            extra: Parts to add behind it.
            unfinished: Error text of calls that were not carried out.

        Returns:
            The attempt's text.
        """
        reply = self.reply or self._begin(self._bare_call())
        if self.result is not None:
            for part in self.result.parts:
                _fail_if_pending(part, unfinished)
            reply.append(list(extra))
            return self.result.text
        text, parts = reply.give_up()
        for part in parts:
            _fail_if_pending(part, unfinished)
        if not text.strip():
            parts = [part for part in parts if not isinstance(part, TextPart)]
        reply.append([*parts, *extra])
        return text


def _response_stage(reply: Reply, current: StepResult | None) -> ResponseStage:
    cached = reply.call.response
    return ResponseStage(
        chunks=reply.surviving_chunks,
        model=reply.call.model,
        from_cache=reply.from_cache,
        warnings=reply.warnings,
        request=cached.request if cached is not None else reply.request,
        raw_response=cached.raw_response if cached is not None else dict(reply.response),
        current=current,
    )


def _call_info(chunk: ToolCall) -> ToolCallInfo:
    payload = chunk.payload
    return ToolCallInfo(tool_name=payload.tool_name, tool_call_id=payload.tool_call_id, args=payload.args)


def _border(held: list[Part], earlier: list[Part], is_same: Callable[[Part, Part], bool]) -> int:
    """Where in a response message the parts of earlier steps end, some of which a hook may have removed."""
    left, border = earlier, 0
    for place, part in enumerate(held, 1):
        found = next((index for index, known in enumerate(left) if is_same(part, known)), None)
        if found is not None:
            left, border = left[found + 1 :], place
    return border


def _says_the_same(part: Part, known: Part) -> bool:
    """Whether ``part`` is a copy of ``known``; of a tool call also an edited one."""
    if isinstance(part, ToolInvocationPart) and isinstance(known, ToolInvocationPart):
        return part.tool_invocation.tool_call_id == known.tool_invocation.tool_call_id
    return part == known


def _fail_if_pending(part: Part, error_text: str) -> None:
    if isinstance(part, ToolInvocationPart) and part.tool_invocation.is_pending and not part.provider_executed:
        fail_invocation(part, error_text)
