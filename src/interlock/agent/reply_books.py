"""The books of one reply: what has arrived of it, what is kept, what is in the response message (R1.9, R12.23)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from interlock._json import copy_json
from interlock.agent.call import PreparedCall
from interlock.agent.calls import CallReader
from interlock.agent.reply_source import ReplySource
from interlock.agent.response import ResponseAssembler, data_part
from interlock.agent.run import Run
from interlock.agent.said import Alterations
from interlock.chunks import (
    CONTENT_FILTER,
    ERROR,
    LENGTH,
    STOP,
    TOOL_CALLS,
    Chunk,
    DataChunk,
    Finish,
    FinishPayload,
    StepOutcome,
    StepOutput,
    StepStart,
    ToolResult,
    chunk_to_dict,
)
from interlock.messages.parts import Part
from interlock.models.retry import name_of
from interlock.processors import StepResult
from interlock.processors.results import CachedStepChunk
from interlock.usage import Usage

_log = logging.getLogger("interlock")

TERMINAL_REASONS = frozenset({ERROR, LENGTH, CONTENT_FILTER})
"""Finish reasons after which the loop never goes on (R1.12)."""


class ReplyBooks(msgspec.Struct, eq=False):
    """What is known of one reply so far."""

    _run: Run
    call: PreparedCall
    source: ReplySource
    """Where its chunks come from."""
    assembler: ResponseAssembler = msgspec.field(default_factory=ResponseAssembler)
    usage: Usage | None = None
    finish_reason: str = "unknown"
    has_response: bool = False
    """Whether the model-level ``finish`` arrived (R0.6)."""
    from_cache: bool = False
    warnings: list[Any] = []
    request: Any = None
    """What was sent, as the model tells it."""
    provider_results: list[ToolResult] = []
    """Results of calls that the provider executed."""
    _own_parts: list[Part] = []
    """Parts of this reply that are in the response message."""
    _calls: CallReader | None = None
    _finish: Finish | None = None
    kept: list[Chunk] | None = None
    """The chunks that survived, for ``process_llm_response``."""
    _alterations: Alterations | None = None
    """What stream hooks changed of it, if there are any."""
    _metadata: dict[str, Any] = {}
    """What the provider says about its reply."""
    _is_assembled: bool = False

    @property
    def _model(self) -> str:
        return name_of(self.call.model)

    def _enter(self, chunk: Chunk) -> None:
        self.assembler.record(chunk)
        if self.kept is not None:
            self.kept.append(chunk)

    def _record(self, chunk: Chunk) -> None:
        """Enter what a hook made by itself, or held back before."""
        if self._alterations is not None:
            self._alterations.left.hear(chunk)
        self._enter(chunk)

    def record_emission(self, chunk: Chunk, message_id: str | None) -> None:
        """Put what a hook or a tool wrote where it belongs (R9.6, R9.7)."""
        state = self._run.state
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
            self.assembler.record(chunk)

    def _keep(self, chunks: list[Chunk]) -> None:
        if self.kept is not None:
            self.kept += chunks

    def _take_stream_start(self, chunk: Chunk) -> None:
        payload = getattr(chunk, "payload", None) or {}
        self.warnings = list(payload.get("warnings") or [])
        self.request = payload.get("request")

    def take_finish(self, finish: Finish) -> None:
        """Take the model-level ``finish``; it is shown when the stream has ended (R5.9)."""
        if self.has_response:
            _log.warning("the model finished its reply twice; the second finish is ignored")
            return
        self._finish = finish
        outcome, output = finish.payload.step_result, finish.payload.output
        self.finish_reason = outcome.reason or "unknown"
        if outcome.warnings:
            self.warnings = [*self.warnings, *outcome.warnings]
        if output is not None and output.usage is not None:
            self.usage = output.usage
            self._run.state.usage.add(self.usage)
        self.has_response = True

    def _synthetic_finish(self) -> Finish:
        reason = TOOL_CALLS if self.assembler.calls else STOP
        usage = Usage(input_tokens=0, output_tokens=0, total_tokens=0)
        return Finish(payload=FinishPayload(step_result=StepOutcome(reason=reason), output=StepOutput(usage=usage)))

    def _calls_continue(self) -> bool:
        """Whether the calls that survived, as far as one can tell before they run, will continue the loop (R1.12)."""
        if self.finish_reason in TERMINAL_REASONS:
            return False
        tools, has_local = self.call.tools, False
        for call in self.assembler.calls:
            if not call.payload.provider_executed:
                has_local = True
                tool = tools.get(call.payload.tool_name)
                if tool is not None and tool.is_client_side:
                    return False
        return has_local

    def commit(self) -> None:
        """Put what is finished so far into the message list."""
        parts = self.assembler.take_parts()
        if parts:
            self.append(parts)

    def append(self, parts: list[Part]) -> None:
        """Put parts of this reply into the response message."""
        state = self._run.state
        message = state.message_list.append_response(parts, message_id=state.message_id, model=self.call.model.model_id)
        if message is None:
            return
        state.message_id = message.id
        self._own_parts += parts

    def complete(self) -> StepResult:
        """Put the rest into the message list; the step as it stands."""
        self.commit()
        self._is_assembled = True
        return self.step_result()

    def give_up(self) -> tuple[str, list[Part]]:
        """Text and parts of a reply that will not be completed; what is emitted from now on goes behind them."""
        self._is_assembled = True
        return self.assembler.text, self.assembler.take_parts()

    @property
    def invalid_calls(self) -> dict[str, str]:
        """Call id → why the call's arguments could not be read."""
        return {} if self._calls is None else self._calls.invalid

    @property
    def response(self) -> dict[str, Any]:
        """What the provider says about its reply."""
        return self._metadata

    def step_result(self) -> StepResult:
        """The step as it stands; ``process_tool_result`` of a provider's own tool sees it while it is streamed."""
        assembler, step_number = self.assembler, self._run.state.step_number
        return StepResult(
            step_number=step_number,
            step_type="tool-result" if step_number else "initial",
            text=assembler.text,
            reasoning=assembler.reasoning,
            sources=assembler.sources,
            files=assembler.files,
            tool_calls=assembler.calls,
            parts=self._own_parts,
            finish_reason=self.finish_reason,
            tool_results=self.provider_results,
            usage=self.usage or Usage(),
            warnings=self.warnings,
            request=self.request,
            response=self._metadata,
            model_id=self.call.model.model_id,
            provider_metadata=_provider_metadata(self._finish),
        )

    def surviving_chunks(self) -> list[CachedStepChunk]:
        """The chunks that survived output processing, detached and in JSON form (R11.6)."""
        chunks = []
        for chunk in self.kept or ():
            data = chunk_to_dict(chunk)
            if chunk.__class__ is StepStart:
                # A cache must not hand one run's prompt to another.
                data["payload"].pop("request", None)
            chunks.append(CachedStepChunk(type=data["type"], payload=copy_json(data.get("payload"))))
        return chunks


def _provider_metadata(finish: Finish | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    return finish.payload.provider_metadata or (finish.payload.metadata or {}).get("providerMetadata")
