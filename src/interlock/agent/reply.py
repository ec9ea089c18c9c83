"""One reply of a model: its chunks are screened, and what is left of them goes into the books (R1.9)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.agent.call import SentRequest
from interlock.agent.calls import CallReader
from interlock.agent.input_observers import observe_input
from interlock.agent.reply_books import ReplyBooks
from interlock.agent.run import Interrupted, ModelFailure
from interlock.agent.said import Alterations, content_of, without_quotes
from interlock.agent.structured import PartialObject
from interlock.agent.suspension import SuspendedStep
from interlock.agent.tool_outcomes import handle_provider_outcome
from interlock.chunks import (
    ERROR,
    OTHER,
    RUN_TYPES,
    Chunk,
    ErrorChunk,
    Finish,
    ObjectChunk,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StepStart,
    StepStartPayload,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolErrorChunk,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    flaw_of,
)
from interlock.errors import APICallError, ModelError, TripWire
from interlock.processors.stream import as_list

_log = logging.getLogger("interlock")


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

_TOOL_INPUT = frozenset({ToolCall, ToolInputStart, ToolInputDelta, ToolInputEnd})

SPANS = frozenset({TextStart, TextDelta, TextEnd, ReasoningStart, ReasoningDelta, ReasoningEnd})
"""Chunk types of text and reasoning; of no other kind are there so many, so the loop takes them itself."""

DELTAS = frozenset({TextDelta, ReasoningDelta})
"""Those of them that say something."""


class Reply(ReplyBooks):
    """One reply, live or replayed, while it is read."""

    is_started: bool = False
    """Whether the attempt's ``step-start`` was emitted."""
    _partial: PartialObject | None = None
    """The typed answer, as far as its text has come."""
    _withheld_calls: set[str] = msgspec.field(default_factory=set)
    """Calls of the provider's own tools that no stream hook has let through."""
    _waiting_outcomes: list[ToolResult | ToolErrorChunk] = msgspec.field(default_factory=list)
    """What such calls came to; it is of no use unless the call is released in the end."""
    is_plain: bool = False
    """Whether nobody screens or watches its chunks."""
    _is_flushed: bool = False

    def __post_init__(self) -> None:
        run, asked = self._run, self.call.asked
        if self.call.response is not None:
            self.from_cache = True
            self.warnings = list(self.call.response.warnings or [])
        self._is_flushed = run.chain is None
        if run.chain is not None:
            self._alterations = Alterations()
            self.assembler.is_edited = self._alterations.has_thought
        if run.pipeline.by_hook["process_llm_response"]:
            self.kept = []
        self.is_plain = run.chain is None and self.kept is None and "on_chunk" not in run.callbacks
        if asked is not None and asked.model is None:
            self._partial = PartialObject(asked)

    # -- reading -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin the attempt's stream with ``step-start`` (R5.3); nothing is sent to the model yet."""
        run, call = self._run, self.call
        if run.chain is not None:
            run.chain.set_from_cache(self.from_cache)
        if self.has_own_start:
            return
        payload = StepStartPayload(
            message_id=run.state.message_id,
            request=SentRequest(prompt=call.prompt),
            warnings=self.warnings,
            started_at=int(time.time() * 1000),
        )
        started = await run.process(StepStart(payload=payload))
        self.is_started = True
        self._keep(started)
        run.scope.outbox += started

    @property
    def has_own_start(self) -> bool:
        """Whether the reply is a cached one with a ``step-start`` in it: the run adds none then."""
        return self.from_cache and any(item.type == "step-start" for item in self.call.replayed)

    async def close(self) -> None:
        """Close the provider's stream, however far it was read."""
        if self._run.deadlines is not None:
            self._run.deadlines.end_step()
        try:
            await self.source.close()
        except Exception:
            # What the reply comes to must not be lost over this.
            _log.exception("the stream of %s could not be closed", self._model)

    @property
    def is_typed(self) -> bool:
        """Whether the text is to become an object."""
        return self._partial is not None

    def failure(self, error: Exception) -> Exception:
        """What an exception of the stream means: the provider failed, unless the run itself ended the read."""
        if isinstance(error, (Interrupted, TripWire)) or self._run.scope.failure is error:
            return error
        failure = ModelFailure(error)
        failure.__cause__ = error
        return failure

    def blame(self, error: BaseException, chunk: Any) -> BaseException:
        """``error``, or the failure of the model if it comes of the last chunk, which has not the shape of its type."""
        if isinstance(error, ModelError):
            return ModelFailure(ModelError(f"{self._model} sent {error}"))
        if not isinstance(error, (AttributeError, TypeError)) or not isinstance(chunk, Chunk):
            return error
        flaw = flaw_of(chunk)
        if flaw is None:
            return error
        failure = ModelFailure(ModelError(f"{self._model} yielded a {chunk.type!r} chunk that is none: {flaw}"))
        failure.__cause__ = error
        return failure

    async def accept(self, chunk: Chunk) -> None:
        """Take one chunk: screen it, record what is left, and put what the client sees into the outbox.

        Raises:
            TripWire: a stream hook aborted.
            ProcessorError: a stream hook failed.
            ModelFailure: the chunk tells of a failure, or is none.
        """
        kind = chunk.__class__
        if kind is Finish:
            self.take_finish(chunk)  # type: ignore[arg-type]  # checked by its class
        elif kind in _TOOL_INPUT:
            await self._accept_call(chunk)
        elif kind in SPANS:
            await self._hear_and_screen(chunk)
        elif kind is ToolResult or kind is ToolErrorChunk:
            await self._accept_outcome(chunk)  # type: ignore[arg-type]  # checked by its class
        elif not isinstance(chunk, Chunk):
            raise ModelFailure(ModelError(f"{self._model} must yield chunks of interlock.chunks, not {chunk!r}"))
        elif kind is ErrorChunk:
            raise ModelFailure(_as_exception(chunk.payload.error))  # type: ignore[attr-defined]  # checked by its class
        elif chunk.type == "stream-start":
            self._take_stream_start(chunk)
        elif chunk.type in RUN_TYPES and not (self.from_cache and kind is StepStart):
            _log.warning(
                "%s yielded a %r chunk, which only the run itself sends; it is left out", self._model, chunk.type
            )
        elif chunk.type != "raw" or self._run.include_raw_chunks:
            self.is_started = self.is_started or kind is StepStart
            await self._hear_and_screen(chunk)

    def _is_withheld(self, outcome: ToolResult | ToolErrorChunk) -> bool:
        """Whether the call was dropped, or is still held back, by a stream hook (R2.27)."""
        call_id = outcome.payload.tool_call_id
        return call_id in self._withheld_calls and all(
            call.payload.tool_call_id != call_id for call in self.assembler.calls
        )

    async def _accept_outcome(self, chunk: ToolResult | ToolErrorChunk) -> None:
        if self._alterations is not None:
            self._alterations.heard.hear(chunk)
        if self._is_withheld(chunk):
            self._waiting_outcomes.append(chunk)
        else:
            await self._take_outcome(chunk)

    async def _take_outcome(self, chunk: ToolResult | ToolErrorChunk) -> None:
        # A call from the same stream must be in the list before its result is (R10.12).
        self.commit()
        ready = await handle_provider_outcome(self._run, self.step_result(), chunk)
        if ready is None:
            return
        if isinstance(ready, ToolResult):
            self.provider_results.append(ready)
        await self._screen(ready)

    async def _accept_call(self, chunk: Chunk) -> None:
        if self._calls is None:
            self._calls = CallReader(self._run.state.call_ids)
        for one in self._calls.read(chunk):
            passed = await self._hear_and_screen(one)
            if isinstance(one, ToolCall):
                if one.payload.provider_executed and one not in passed:
                    self._withheld_calls.add(one.payload.tool_call_id)
            else:
                for left in passed:
                    await observe_input(self._run, self.call, self._calls, left)

    def take_call(self, chunk: ToolCall) -> None:
        """``accept`` for a call that nobody screens or watches."""
        if self._calls is None:
            self._calls = CallReader(self._run.state.call_ids)
        run = self._run
        for call in self._calls.read_call(chunk):
            call.run_id = run.state.run_id
            self.assembler.call(call)
            if run.is_read:
                run.scope.outbox.append(call)

    async def _hear_and_screen(self, chunk: Chunk) -> list[Chunk]:
        """``_screen`` for a chunk as it came: what the hooks change of it is noted."""
        alterations = self._alterations
        content = None if alterations is None else content_of(chunk)
        passed = await self._run.process(chunk)
        if alterations is not None:
            alterations.note(chunk, content, passed)
        await self._take(passed)
        return passed

    async def _screen(self, chunk: Chunk) -> None:
        """Pass a chunk through the stream hooks, record what is left of it and put that into the outbox."""
        passed = await self._run.process(chunk)
        if self._alterations is not None:
            for one in passed:
                self._alterations.left.hear(one)
        await self._take(passed)

    async def _take(self, passed: Sequence[Chunk]) -> None:
        for one in passed:
            self._enter(one)
        for one in passed:
            if isinstance(one, ResponseMetadata):
                self._metadata |= one.payload.to_dict()
            else:
                await self._show(one)

    async def _show(self, chunk: Chunk) -> None:
        """Put a chunk that was recorded into the outbox, and behind it what it adds to a typed answer (R12.32)."""
        run = self._run
        if "on_chunk" in run.callbacks and chunk.type in CONTENT_TYPES:
            await run.tell("on_chunk", chunk)
        run.scope.outbox.append(chunk)
        if self._partial is not None and isinstance(chunk, TextDelta):
            value = self._partial.add(chunk.payload.text)
            if value is not None:
                shown = await run.process(ObjectChunk(object=value))
                run.scope.outbox += shown

    async def take_replacement(self, chunk: Chunk, said: str | None, out: Chunk | list[Chunk] | None) -> None:
        """Take what stream hooks put in the place of a piece of a span, which said ``said``."""
        passed = as_list(out)
        assert self._alterations is not None
        self._alterations.note(chunk, said, passed)
        for one in passed:
            self._enter(one)
            await self._show(one)

    def note_edit(self, chunk: Chunk, said: str) -> None:
        """A hook edited a piece of text in place, which said ``said``."""
        assert self._alterations is not None
        self._alterations.note(chunk, said, (chunk,))

    # -- the end of the stream -------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Flush, and show the model-level ``finish`` to the hooks if no tool call will continue the loop (R5.9).

        Raises:
            ModelFailure: the stream broke off, or its finish is a failure (R5.7).
        """
        if self._run.deadlines is not None:
            self._run.deadlines.end_step()
        if not self.source.has_ended():
            await self.close()
        finish = self._finish
        if finish is None:
            if not self.from_cache:
                raise ModelFailure(APICallError("the model's stream broke off before its finish", is_retryable=True))
            finish = self._synthetic_finish()
            self.take_finish(finish)
        if self.finish_reason == ERROR or (self.finish_reason == OTHER and not self.assembler.has_content):
            raise ModelFailure(ModelError(f"the model finished with reason {self.finish_reason!r} and no answer"))
        if self._run.chain is not None:
            await self.flush("finish")
            for outcome in self._waiting_outcomes:
                if not self._is_withheld(outcome):
                    await self._take_outcome(outcome)
            assert self._alterations is not None
            if not self._alterations.is_nothing:
                finish = self._finish = without_quotes(finish)
            if not self._calls_continue():
                finish = self._finish = await self._show_finish(finish)
            # What follows, results of tools and the step's end, is not replayed (R11.4).
            self._run.chain.set_from_cache(False)
        if self.kept is not None:
            self.kept.append(finish)

    async def _show_finish(self, finish: Finish) -> Finish:
        """Pass the model-level finish through the stream hooks; dropping it changes nothing (R2.27)."""
        outbox = self._run.scope.outbox
        for chunk in await self._run.process(finish):
            if isinstance(chunk, Finish):
                finish = chunk
            else:
                self._record(chunk)
                outbox.append(chunk)
        return finish

    async def flush(self, reason: str) -> None:
        """Flush the stream hooks, once an attempt (R19.2); what they release is recorded and emitted."""
        chain = self._run.chain
        if self._is_flushed or chain is None:
            return
        self._is_flushed = True
        for chunk in await chain.flush(reason):
            self._record(chunk)
            await self._show(chunk)

    def restore(self, suspended: SuspendedStep) -> None:
        """Be the complete reply of a step that was suspended."""
        self.finish_reason = suspended.finish_reason
        self.usage = suspended.step.usage
        self.warnings = suspended.step.warnings
        self.has_response = self.is_started = self._is_assembled = self._is_flushed = True


def _as_exception(error: Any) -> BaseException:
    if isinstance(error, BaseException):
        return error
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return APICallError(error["message"], is_retryable=bool(error.get("isRetryable", False)))
    return APICallError(str(error), is_retryable=False)
