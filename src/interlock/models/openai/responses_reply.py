"""What a Responses server answers; what is sent to it is written in ``responses_request``.

The items of an answer are in a module of their own: ``responses_outputs``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from interlock.chunks import (
    CONTENT_FILTER,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    StepOutcome,
    StepOutput,
)
from interlock.models.base import ModelRequest
from interlock.models.counts import token_count
from interlock.models.openai.responses_outputs import (
    OUTPUTS,
    CallOutput,
    MessageOutput,
    OtherOutput,
    Output,
    ReasoningOutput,
    ReplyBooks,
)
from interlock.models.prompt_parts import json_text
from interlock.models.reply import ReplyHead, moment
from interlock.models.streamed_calls import CallIds
from interlock.usage import Usage

_LENGTH_REASONS = frozenset({"max_output_tokens", "max_tokens"})


class _InputDetails(msgspec.Struct):
    cached_tokens: Any = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: Any = None


class _Usage(msgspec.Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    total_tokens: Any = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None
    output: msgspec.Raw = msgspec.Raw(b"[]")
    """Left unread until the response is over."""


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int | None = 0
    content_index: int | None = 0
    summary_index: int | None = 0
    delta: Any = None
    arguments: str | None = None
    item: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    logprobs: list[Any] | None = None
    response: _Response | None = None
    error: Any = None


_items = msgspec.json.Decoder(list[dict[str, Any]] | None)
_decoder = msgspec.json.Decoder(_Event, strict=False)


class FromOpenAIResponses:
    """Reads the events of one reply into chunks.

    Args:
        head: What is known of the reply.
        request: What was asked for.
        provider: Namespace of provider metadata.
    """

    def __init__(self, head: ReplyHead, request: ModelRequest, provider: str) -> None:
        self.is_done = False
        """Whether the response is over."""
        self._head = head
        self._provider = provider
        self._has_raw = request.include_raw_chunks
        self._books = ReplyBooks(provider=provider, ids=CallIds(request.prompt))
        self._outputs: dict[int | None, Output] = {}
        """The latest at each index."""
        self._all: list[Output] = []
        self._response = _Response()
        self._has_metadata = False
        self._logprobs: list[Any] = []

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes; events that it does not know make none.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if not data or data == "[DONE]":
            return out
        event = _decoder.decode(data)
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        read = _READERS.get(event.type)
        if read is not None:
            read(self, event, out)
        elif event.type == "error" or kind == "error" or event.error:
            raise self._head.failure(data)
        elif not event.type:
            raise self._head.unreadable(data, f"it is no event of the Responses API: {data[:200]}", is_retryable=False)
        return out

    def end(self, rest: str = "") -> list[Chunk]:
        """The chunks that close the reply.

        Args:
            rest: As for ``ReplyHead.broken_off``.

        Raises:
            APICallError: The stream ended before the response did.
        """
        if not self.is_done:
            raise self._head.broken_off(rest)
        out: list[Chunk] = []
        for output in self._all:
            output.close(out)
        reason, raw_reason = self._finish_reason()
        outcome = StepOutcome(reason=reason, raw_reason=raw_reason, logprobs=self._logprobs or None)
        facts = {"responseId": self._response.id, "serviceTier": self._response.service_tier}
        own = {name: value for name, value in facts.items() if value is not None}
        payload = FinishPayload(
            step_result=outcome,
            output=StepOutput(usage=_from_usage(self._response.usage or _Usage())),
            provider_metadata={self._provider: own} if own else None,
        )
        out.append(Finish(payload=payload))
        return out

    def _read_created(self, event: _Event, out: list[Chunk]) -> None:
        response = event.response
        if response is None or self._has_metadata:
            return
        self._has_metadata = True
        out.append(self._head.metadata(response.id, response.model, moment(response.created_at)))

    def _read_added(self, event: _Event, out: list[Chunk]) -> None:
        self._begin(event.output_index, event.item or {}, out)

    def _read_item_done(self, event: _Event, out: list[Chunk]) -> None:
        item = event.item or {}
        output = self._announced(event.output_index, item)
        if output is None or (output.is_finished and not output.is_same(item)):
            output = self._begin(event.output_index, item, out)
        self._finish(output, item, out)

    def _read_text(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if output is None:
            # Some servers announce no items.
            output = self._begin(event.output_index, {"type": "message"}, out)
        if isinstance(output, MessageOutput):
            is_refusal = event.type == "response.refusal.delta"
            output.text(event.content_index or 0, _piece(event), out, is_refusal=is_refusal)
        if event.logprobs:
            self._logprobs += event.logprobs

    def _read_annotation(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if event.annotation and isinstance(output, MessageOutput):
            output.annotate(event.annotation, out)

    def _read_summary(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, ReasoningOutput):
            output.text(event.summary_index or 0, _piece(event), out)

    def _read_reasoning(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, ReasoningOutput):
            output.text(event.content_index or 0, _piece(event), out, is_summary=False)

    def _read_arguments(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, CallOutput):
            output.arguments(_piece(event), out)

    def _read_arguments_done(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if event.arguments and isinstance(output, CallOutput) and not output.has_arguments:
            output.arguments(event.arguments, out)

    def _read_end(self, event: _Event, out: list[Chunk]) -> None:
        self._read_created(event, out)
        self._response = event.response or _Response()
        self.is_done = True
        items = _items.decode(self._response.output) or ()
        has_more = len(items) > len(self._all)
        for index, item in enumerate(items):
            output = self._announced(index, item)
            if output is None and has_more and not any(known.is_same(item) for known in self._all):
                # Some servers give the whole answer here, or a part of it.
                output = self._begin(index, item, out)
            if output is not None:
                self._finish(output, item, out)

    def _read_failed(self, event: _Event, out: list[Chunk]) -> None:
        error = event.response.error if event.response is not None else None
        status = event.type.removeprefix("response.")
        body = {"error": error or {"message": f"the response was {status}", "code": f"response_{status}"}}
        raise self._head.failure(json_text(body))

    def _begin(self, index: int | None, item: dict[str, Any], out: list[Chunk]) -> Output:
        output = self._outputs[index] = OUTPUTS.get(str(item.get("type")), OtherOutput)(item, self._books)
        self._all.append(output)
        output.begin(item, out)
        return output

    def _announced(self, index: int | None, item: dict[str, Any]) -> Output | None:
        """The output that ``item`` completes; ids tell more than places, but some servers change them on the way."""
        here = self._outputs.get(index)
        if here is not None and here.is_same(item):
            return here
        return next((output for output in self._all if not output.is_finished and output.is_same(item)), here)

    def _finish(self, output: Output, item: dict[str, Any], out: list[Chunk]) -> None:
        """Complete an output, which servers may tell more than once."""
        if not output.is_finished:
            output.is_finished = True
            output.finish(item, out)

    def _finish_reason(self) -> tuple[str, str | None]:
        raw = (self._response.incomplete_details or _Incomplete()).reason
        if self._books.is_refused or raw == "content_filter":
            return CONTENT_FILTER, raw or "refusal"
        if raw in _LENGTH_REASONS:
            return LENGTH, raw
        if raw is not None or self._response.status == "incomplete":
            return OTHER, raw or "incomplete"
        return (TOOL_CALLS if self._books.has_calls else STOP), self._response.status


_READERS: dict[str, Callable[[FromOpenAIResponses, _Event, list[Chunk]], None]] = {
    "response.created": FromOpenAIResponses._read_created,
    "response.output_item.added": FromOpenAIResponses._read_added,
    "response.output_item.done": FromOpenAIResponses._read_item_done,
    "response.output_text.delta": FromOpenAIResponses._read_text,
    "response.refusal.delta": FromOpenAIResponses._read_text,
    "response.output_text.annotation.added": FromOpenAIResponses._read_annotation,
    "response.reasoning_summary_text.delta": FromOpenAIResponses._read_summary,
    "response.reasoning_text.delta": FromOpenAIResponses._read_reasoning,
    "response.function_call_arguments.delta": FromOpenAIResponses._read_arguments,
    "response.mcp_call_arguments.delta": FromOpenAIResponses._read_arguments,
    "response.function_call_arguments.done": FromOpenAIResponses._read_arguments_done,
    "response.completed": FromOpenAIResponses._read_end,
    "response.incomplete": FromOpenAIResponses._read_end,
    "response.failed": FromOpenAIResponses._read_failed,
    "response.cancelled": FromOpenAIResponses._read_failed,
}
"""What each event says; the others repeat what these say, or tell of progress."""


def _piece(event: _Event) -> str:
    """The delta of an event that has text; other events have others."""
    if not isinstance(event.delta, str):
        raise TypeError(f"the delta of {event.type} is no text")
    return event.delta


def _from_usage(usage: _Usage) -> Usage:
    return Usage(
        input_tokens=token_count(usage.input_tokens),
        output_tokens=token_count(usage.output_tokens),
        total_tokens=token_count(usage.total_tokens),
        reasoning_tokens=token_count((usage.output_tokens_details or _OutputDetails()).reasoning_tokens),
        cached_input_tokens=token_count((usage.input_tokens_details or _InputDetails()).cached_tokens),
    )
