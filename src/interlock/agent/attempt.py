"""One attempt of a step: request, reply, judgement, tools (R1.4). The loop decides what an attempt comes to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from interlock._json import copy_json
from interlock.agent.calls import CallReader
from interlock.agent.request import PreparedCall, prepare_call, replayed_chunks
from interlock.agent.response import ResponseAssembler, data_part
from interlock.agent.run import Interrupted, ModelFailure, Run
from interlock.agent.suspension import Resumption, SuspendedStep
from interlock.agent.tool_phase import ToolPhase, fail_invocation, handle_provider_outcome, observe_input
from interlock.chunks import (
    CONTENT_FILTER,
    ERROR,
    LENGTH,
    OTHER,
    RETRY,
    STOP,
    TOOL_CALLS,
    Chunk,
    DataChunk,
    ErrorChunk,
    Finish,
    FinishPayload,
    ResponseMetadata,
    StepFinish,
    StepFinishPayload,
    StepOutcome,
    StepOutput,
    StepStart,
    StepStartPayload,
    TextDelta,
    ToolCall,
    ToolErrorChunk,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    chunk_to_dict,
)
from interlock.errors import APICallError, ModelError, TripWire
from interlock.messages.parts import Part, TextPart, ToolInvocationPart
from interlock.models import to_language_model
from interlock.models.retry import close_stream, stream_with_retries
from interlock.processors import StepResult, ToolCallInfo
from interlock.processors.hooks import LLM_RESPONSE, OUTPUT_STEP
from interlock.processors.pipeline import run_hook
from interlock.processors.results import CachedStepChunk
from interlock.processors.stages import OutputStepStage, ResponseStage
from interlock.processors.stream import as_list
from interlock.usage import Usage

TERMINAL_REASONS = frozenset({ERROR, LENGTH, CONTENT_FILTER})
"""Finish reasons after which the loop never goes on (R1.12)."""

_TOOL_INPUT = (ToolCall, ToolInputStart, ToolInputDelta, ToolInputEnd)


class Attempt:
    """One pass through a step."""

    __slots__ = (
        "_assembler",
        "_base_parts",
        "_calls",
        "_finish",
        "_has_snapshot",
        "_is_assembled",
        "_is_flushed",
        "_is_started",
        "_kept",
        "_own_parts",
        "_raw",
        "_reading",
        "_request_body",
        "_warnings",
        "call",
        "finish_reason",
        "from_cache",
        "has_response",
        "provider_results",
        "result",
        "retry_count",
        "run",
        "tools",
        "usage",
    )

    def __init__(self, run: Run) -> None:
        self.run = run
        self.call: PreparedCall | None = None
        self.result: StepResult | None = None
        """Set once the reply is complete."""
        self.usage = Usage()
        self.finish_reason = "unknown"
        self.has_response = False
        """Whether the model-level ``finish`` arrived (R0.6)."""
        self.from_cache = False
        self.retry_count = run.state.retry_count
        self.tools: ToolPhase | None = None
        self._assembler = ResponseAssembler()
        self._calls = CallReader(run.state.call_ids)
        self._finish: Finish | None = None
        self._has_snapshot = False
        """Whether the message list remembers what was before this attempt."""
        self._kept: list[Chunk] | None = [] if run.pipeline.has("process_llm_response") else None
        self._raw: dict[str, Any] = {}
        self._warnings: list[Any] = []
        self._own_parts: list[Part] = []
        """Parts of this attempt, as they were put into the response message."""
        self._base_parts = 0
        """How many parts the response message had before them."""
        self._reading: asyncio.Task[Chunk] | None = None
        """The read that goes on while background tasks emit."""
        self._request_body: Any = None
        self.provider_results: list[ToolResult] = []
        """Results of calls that the provider executed."""
        self._is_started = False
        self._is_flushed = run.chain is None
        self._is_assembled = False

    # -- the phases --------------------------------------------------------------------------------------------

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Run the attempt up to its last tool result, yielding what the client sees.

        Raises:
            TripWire: a processor aborted.
            ProcessorError: a hook failed.
            ModelFailure: the provider call failed for good.
            Interrupted: the run was cancelled or a background task ended it.
        """
        run = self.run
        scope = run.scope
        self._stop_if_aborted()
        scope.record = self._record_emission
        run.state.message_list.replace_all_system_messages(run.state.system_baseline)
        self.call = call = await prepare_call(run)
        for chunk in scope.take():
            yield chunk
        self._stop_if_aborted()
        run.state.message_list.response_snapshot()
        self._has_snapshot = True
        source = self._open(call)
        assert run.deadlines is not None
        run.deadlines.begin_step()
        try:
            for chunk in await self._start(call):
                yield chunk
            async with aclosing(self._reply(source)) as reply:
                async for chunk in reply:
                    yield chunk
        finally:
            run.deadlines.end_step()
            await self._close(source)
        for chunk in await self._finish_stream():
            yield chunk
        self._assemble()
        await self._judge()
        for chunk in scope.take():
            yield chunk
        self._stop_if_aborted()
        if self.tools is not None:
            async with aclosing(self.tools.chunks()) as produced:
                async for chunk in produced:
                    yield chunk

    async def resumed_chunks(self, suspended: SuspendedStep, resumption: Resumption) -> AsyncGenerator[Chunk, None]:
        """Go on with a suspended step: its reply stands, one of its calls has been decided about (R12.37).

        Raises:
            As ``chunks``.
        """
        run = self.run
        run.scope.record = self._record_emission
        self.call = PreparedCall(run.models[run.model_index], to_language_model(run.models[run.model_index].model))
        self.result = result = suspended.step
        self.finish_reason = suspended.finish_reason
        self.usage = result.usage
        self._base_parts = suspended.base_parts
        self.has_response = self._has_snapshot = self._is_started = self._is_assembled = self._is_flushed = True
        call_id = resumption.tool_call_id
        assert call_id is not None
        part = run.state.message_list.find_tool_invocation(call_id)
        if part is not None:
            if resumption.args is not None:
                part.tool_invocation.args = resumption.args
            self.tools = ToolPhase(run, run.tools, result, [part], {}, {}, resumption)
            async with aclosing(self.tools.chunks()) as produced:
                async for chunk in produced:
                    yield chunk
        else:
            self.tools = ToolPhase(run, run.tools, result, [], {}, {})
        self.tools.resolved += suspended.resolved
        self.tools.waiting.update({key: one for key, one in suspended.waiting.items() if key != call_id})

    def suspended(self) -> SuspendedStep:
        """The step as it waits for somebody."""
        assert self.result is not None
        assert self.tools is not None
        return SuspendedStep(
            step=self.result,
            finish_reason=self.finish_reason,
            waiting=self.tools.waiting,
            resolved=self.tools.resolved,
            base_parts=self._base_parts,
        )

    async def step_finish(self, is_continued: bool) -> list[Chunk]:
        """The attempt's ``step-finish``, after the stream hooks."""
        assert self.result is not None
        return await self.run.process(
            StepFinish(
                payload=StepFinishPayload(
                    message_id=self.run.state.message_id,
                    step_result=StepOutcome(
                        reason=self.finish_reason, warnings=self._warnings, is_continued=is_continued
                    ),
                    output=StepOutput(text=self.result.text, usage=self.usage),
                    metadata={"providerMetadata": self.result.provider_metadata, "request": self.result.request},
                )
            )
        )

    async def rejected_finish(self, reason: str, processor_id: str | None, metadata: Any) -> list[Chunk]:
        """The ``step-finish`` of a rejected or failed attempt that is repeated; nothing if it never started (R7.10)."""
        if not self._is_started:
            return []
        outcome = StepOutcome(
            reason=RETRY,
            is_continued=True,
            retry_reason=reason,
            retry_processor_id=processor_id,
            retry_metadata=metadata,
        )
        payload = StepFinishPayload(
            message_id=self.run.state.message_id, step_result=outcome, output=StepOutput(usage=self.usage)
        )
        return await self.run.process(StepFinish(payload=payload))

    async def flush(self, reason: str) -> list[Chunk]:
        """Flush the stream hooks, once an attempt (R19.2), and record what they release."""
        chain = self.run.chain
        if self._is_flushed or chain is None:
            return []
        self._is_flushed = True
        released = await chain.flush(reason)
        for chunk in released:
            self._record(chunk)
        return [*self.run.scope.take(), *released]

    def discard(self) -> None:
        """Take everything that the attempt added to response messages out again (R7.9)."""
        if self._has_snapshot:
            self.run.state.message_list.restore_response()
        self._assembler = ResponseAssembler()

    def keep_partial(self, *extra: Part, unfinished: str) -> str:
        """Put what arrived of a failed or cancelled reply into the response (R12.28, R17.5).

        Args:
            extra: Parts to add behind it.
            unfinished: Error text of calls that were not carried out.

        Returns:
            The attempt's text.
        """
        text = self.result.text if self.result is not None else self._assembler.text
        if not self._is_assembled:
            parts = self._assembler.take_parts()
            for part in parts:
                if isinstance(part, ToolInvocationPart) and part.tool_invocation.is_pending:
                    fail_invocation(part, unfinished)
            if not text.strip():
                parts = [part for part in parts if not isinstance(part, TextPart)]
            self._append([*parts, *extra])
        else:
            self._fail_pending(unfinished)
            self._append(list(extra))
        return text

    # -- the reply ---------------------------------------------------------------------------------------------

    def _open(self, call: PreparedCall) -> AsyncIterator[Chunk]:
        if call.response is not None:
            self.from_cache = True
            self._warnings = list(call.response.warnings or [])
            return _replay(replayed_chunks(call.response))
        request = call.request
        assert request is not None
        retries = call.entry.max_retries
        if retries is None:
            retries = self.run.max_retries
        if retries is None:
            retries = request.settings.get("max_retries", 0)
        return stream_with_retries(call.model, request, max_retries=retries) if retries else call.model.stream(request)

    async def _start(self, call: PreparedCall) -> list[Chunk]:
        if self.run.chain is not None:
            self.run.chain.set_from_cache(self.from_cache)
        if call.response is not None and any(_type_of(item) == "step-start" for item in call.response.chunks):
            return []
        payload = StepStartPayload(
            message_id=self.run.state.message_id,
            request={"body": call.prompt},
            warnings=self._warnings,
            started_at=int(time.time() * 1000),
        )
        self._is_started = True
        return self._keep(await self.run.process(StepStart(payload=payload)))

    async def _reply(self, source: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
        """The hot loop: every chunk of the provider's stream."""
        run, scope, chain, assembler = self.run, self.run.scope, self.run.chain, self._assembler
        run_id, kept, on_chunk = run.state.run_id, self._kept, run.callbacks.get("on_chunk")
        read = source.__anext__
        while True:
            try:
                if scope.attention:
                    for emitted in scope.take():
                        yield emitted
                    chunk_or_none = await self._read_attended(read)
                    if chunk_or_none is None:
                        continue
                    chunk = chunk_or_none
                else:
                    chunk = await read()
            except StopAsyncIteration:
                return
            except (Interrupted, TripWire):
                raise
            except Exception as error:
                if scope.failure is error:
                    raise
                raise ModelFailure(error) from error
            if chunk.__class__ is TextDelta:
                if not chunk.run_id:
                    chunk.run_id = run_id
                if chain is not None:
                    out = await (chain.process_in_turn(chunk) if scope.tasks else chain.process(chunk))
                    if scope.outbox:
                        for emitted in scope.take():
                            yield emitted
                    if out is not chunk:
                        for other in as_list(out):
                            self._record(other)
                            await self._tell_chunk(other)
                            yield other
                        continue
                assembler._text_delta(chunk)  # type: ignore[arg-type]  # checked by its class above
                if kept is not None:
                    kept.append(chunk)
                if on_chunk is not None:
                    await run.tell("on_chunk", chunk)
                yield chunk
            else:
                for other in await self._accept(chunk):
                    yield other

    async def _read_attended(self, read: Callable[[], Awaitable[Chunk]]) -> Chunk | None:
        """Read the next chunk while background tasks may emit or end the run; ``None`` if something else happened."""
        scope = self.run.scope
        await scope.check()
        if scope.interruption is not None or scope.is_aborted:
            raise Interrupted
        if not scope.tasks and self._reading is None:
            scope.attention = False
            return await read()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(_next(read))
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
            return None
        reading, self._reading = self._reading, None
        return reading.result()

    async def _close(self, source: AsyncIterator[Chunk]) -> None:
        if self._reading is not None:
            # A stream cannot be closed while somebody reads it.
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        await close_stream(source)

    async def _accept(self, chunk: Chunk) -> list[Chunk]:
        """Take one chunk that is no text delta: screen it, record what is left, and return what the client sees."""
        kind = chunk.__class__
        if kind is Finish:
            self._take_finish(chunk)  # type: ignore[arg-type]  # checked by its class
            return []
        if kind is ErrorChunk:
            raise ModelFailure(_as_exception(chunk.payload.error))  # type: ignore[attr-defined]  # checked by its class
        if chunk.type == "stream-start":
            self._take_stream_start(chunk)
            return []
        if chunk.type == "raw" and not self.run.include_raw_chunks:
            return []
        if isinstance(chunk, ResponseMetadata):
            self._raw |= chunk.payload.to_dict()
        out: list[Chunk] = []
        for one in self._calls.read(chunk) if isinstance(chunk, _TOOL_INPUT) else (chunk,):
            if isinstance(one, (ToolResult, ToolErrorChunk)):
                self._commit()
                ready = await handle_provider_outcome(self.run, self.result_so_far(), one)
                out += self.run.scope.take()
                if ready is None:
                    continue
                one = ready
                if isinstance(one, ToolResult):
                    self.provider_results.append(one)
            out += await self._screen(one)
            await observe_input(self.run, self.call, self._calls, one)
        return out

    async def _screen(self, chunk: Chunk) -> list[Chunk]:
        """Pass a chunk through the stream hooks and record what is left of it."""
        passed = await self.run.process(chunk)
        out = self.run.scope.take()
        for one in passed:
            self._record(one)
            if not isinstance(one, ResponseMetadata):
                await self._tell_chunk(one)
                out.append(one)
        return out

    async def _tell_chunk(self, chunk: Chunk) -> None:
        if chunk.type in CONTENT_TYPES:
            await self.run.tell("on_chunk", chunk)

    def _record(self, chunk: Chunk) -> None:
        self._assembler.record(chunk)
        self._keep([chunk])

    def _record_emission(self, chunk: Chunk, message_id: str | None) -> None:
        """Put what a hook or a tool wrote where it belongs (R9.6, R9.7)."""
        state = self.run.state
        if not isinstance(chunk, DataChunk):
            if not self._is_assembled:
                self._record(chunk)
        elif chunk.transient:
            return
        elif message_id is not None and message_id != state.message_id:
            state.message_list.append_data_part(data_part(chunk), message_id=message_id)
        elif self._is_assembled:
            state.message_list.append_data_part(data_part(chunk), message_id=state.message_id)
        else:
            self._assembler.record(chunk)

    def _keep(self, chunks: list[Chunk]) -> list[Chunk]:
        if self._kept is not None:
            self._kept += chunks
        return chunks

    def _take_stream_start(self, chunk: Chunk) -> None:
        payload = getattr(chunk, "payload", None) or {}
        self._warnings = list(payload.get("warnings") or [])
        self._request_body = payload.get("request")

    def _take_finish(self, finish: Finish) -> None:
        self._finish = finish
        outcome, output = finish.payload.step_result, finish.payload.output
        self.finish_reason = outcome.reason
        self._warnings = [*self._warnings, *(outcome.warnings or [])]
        if output is not None and output.usage is not None:
            self.usage = output.usage
        self.run.state.usage.add(self.usage)
        self.has_response = True

    # -- after the stream ----------------------------------------------------------------------------------------

    async def _finish_stream(self) -> list[Chunk]:
        """Flush, and show the model-level ``finish`` to the hooks if no tool call will continue the loop (R5.9)."""
        if self._finish is None:
            if not self.from_cache:
                raise ModelFailure(APICallError("the model's stream broke off before its finish", is_retryable=True))
            self._take_finish(self._synthetic_finish())
        finish = self._finish
        assert finish is not None
        if self.finish_reason == ERROR or (self.finish_reason == OTHER and not self._assembler.has_content):
            raise ModelFailure(ModelError(f"the model finished with reason {self.finish_reason!r} (R5.7)"))
        out = await self.flush("finish")
        if not self._calls_continue():
            finish.run_id = self.run.state.run_id
            for chunk in await self.run.process(finish):
                if isinstance(chunk, Finish):
                    finish = chunk
                else:
                    self._record(chunk)
                    out.append(chunk)
            out = [*self.run.scope.take(), *out]
        self._keep([finish])
        return out

    def _synthetic_finish(self) -> Finish:
        reason = TOOL_CALLS if self._assembler.calls else STOP
        usage = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
        return Finish(
            payload=FinishPayload(step_result=StepOutcome(reason=reason), output=StepOutput(usage=usage)),
            run_id=self.run.state.run_id,
        )

    def _calls_continue(self) -> bool:
        """Whether the calls that survived, as far as one can tell before they run, will continue the loop (R1.12)."""
        assert self.call is not None
        if self.finish_reason in TERMINAL_REASONS:
            return False
        tools = self.call.tools
        return any(
            not call.payload.provider_executed
            and not (call.payload.tool_name in tools and tools[call.payload.tool_name].is_client_side)
            for call in self._assembler.calls
        )

    def _commit(self) -> None:
        """Put what is finished so far into the message list, so that a result finds its call (R10.12)."""
        self._append(self._assembler.take_parts())

    def _append(self, parts: list[Part]) -> None:
        state = self.run.state
        assert self.call is not None
        message = state.message_list.append_response(parts, message_id=state.message_id, model=self.call.model.model_id)
        if message is None:
            return
        state.message_id = message.id
        if not self._own_parts and parts:
            self._base_parts = next(i for i, part in enumerate(message.content.parts) if part is parts[0])
        self._own_parts += parts

    def result_so_far(self) -> StepResult:
        """The step as it stands; ``process_tool_result`` of a provider's own tool sees it while it is streamed."""
        assert self.call is not None
        return StepResult(
            step_number=self.run.state.step_number,
            step_type="tool-result" if self.run.state.step_number else "initial",
            text=self._assembler.text,
            reasoning=self._assembler.reasoning,
            sources=self._assembler.sources,
            files=self._assembler.files,
            tool_calls=self._assembler.calls,
            parts=self._own_parts,
            finish_reason=self.finish_reason,
            usage=self.usage,
            warnings=self._warnings,
            request=self._request_body,
            response=self._raw,
            model_id=self.call.model.model_id,
            provider_metadata=_provider_metadata(self._finish),
        )

    def _assemble(self) -> None:
        self._append(self._assembler.take_parts())
        self._is_assembled = True
        self.result = self.result_so_far()
        self.result.tool_results = self.provider_results

    async def _judge(self) -> None:
        """Run the response and output-step hooks, and prepare the tool calls that are left (R1.10, R1.11, R2.30)."""
        run, result, call = self.run, self.result, self.call
        assert result is not None
        assert call is not None
        current = None if self.finish_reason == CONTENT_FILTER else result
        processors = run.pipeline.get("process_llm_response")
        if processors:
            await run_hook(LLM_RESPONSE, processors, run.scope, self._response_stage(call, current))
            self._stop_if_aborted()
        refused: dict[str, Any] = {}
        processors = run.pipeline.get("process_output_step")
        if processors:
            stage = OutputStepStage(
                current=current,
                finish_reason=self.finish_reason,
                provider_metadata=result.provider_metadata,
                text=result.text,
                tool_calls=[_call_info(chunk) for chunk in result.tool_calls],
                usage=self.usage,
            )
            await run_hook(OUTPUT_STEP, processors, run.scope, stage)
            self._reread(result)
            refused = stage.refused
        calls = [part for part in result.parts if isinstance(part, ToolInvocationPart) and _is_local_call(part)]
        if calls:
            self.tools = ToolPhase(run, call.tools, result, calls, self._calls.invalid, refused)

    def _response_stage(self, call: PreparedCall, current: StepResult | None) -> ResponseStage:
        cached = call.response if self.from_cache else None
        return ResponseStage(
            chunks=self._cached_chunks,
            model=call.model,
            from_cache=self.from_cache,
            warnings=self._warnings,
            request=cached.request if cached is not None else self._request_body,
            raw_response=cached.raw_response if cached is not None else dict(self._raw),
            current=current,
        )

    def _cached_chunks(self) -> list[CachedStepChunk]:
        chunks = []
        for chunk in self._kept or ():
            data = chunk_to_dict(chunk)
            chunks.append(CachedStepChunk(type=data["type"], payload=copy_json(data.get("payload"))))
        return chunks

    def _reread(self, result: StepResult) -> None:
        """Take over what output-step hooks made of the reply (R2.30, R2.31)."""
        message = self.run.state.message_list.get_by_id(self.run.state.message_id)
        parts = [] if message is None else message.content.parts[self._base_parts :]
        result.parts = parts
        result.text = "".join(part.text for part in parts if isinstance(part, TextPart) and part.type == "text")
        args = {
            part.tool_invocation.tool_call_id: part.tool_invocation.args
            for part in parts
            if isinstance(part, ToolInvocationPart)
        }
        result.tool_calls = [chunk for chunk in result.tool_calls if chunk.payload.tool_call_id in args]
        for chunk in result.tool_calls:
            chunk.payload.args = args[chunk.payload.tool_call_id]

    def _fail_pending(self, error_text: str) -> None:
        for part in self.result.parts if self.result is not None else ():
            if isinstance(part, ToolInvocationPart) and _is_local_call(part):
                fail_invocation(part, error_text)

    def _stop_if_aborted(self) -> None:
        if self.run.scope.is_aborted:
            raise Interrupted


CONTENT_TYPES = frozenset(
    {
        "text-delta",
        "reasoning-delta",
        "source",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call",
        "tool-result",
        "raw",
    }
)
"""Chunk types that ``on_chunk`` is told of (R12.26)."""


async def _next(read: Callable[[], Awaitable[Chunk]]) -> Chunk:
    return await read()


async def _replay(chunks: list[Chunk]) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk


def _type_of(item: Any) -> Any:
    return item.get("type") if isinstance(item, dict) else item.type


def _as_exception(error: Any) -> BaseException:
    if isinstance(error, BaseException):
        return error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return APICallError(error["message"], is_retryable=bool(error.get("isRetryable", False)))
    return APICallError(str(error), is_retryable=False)


def _provider_metadata(finish: Finish | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    return finish.payload.provider_metadata or (finish.payload.metadata or {}).get("providerMetadata")


def _call_info(chunk: ToolCall) -> ToolCallInfo:
    payload = chunk.payload
    return ToolCallInfo(tool_name=payload.tool_name, tool_call_id=payload.tool_call_id, args=payload.args)


def _is_local_call(part: ToolInvocationPart) -> bool:
    return part.tool_invocation.state == "call" and not part.provider_executed
