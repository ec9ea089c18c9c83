"""What a Chat Completions server answers; what is sent to it is written in ``chat_request``."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.chunks import (
    CONTENT_FILTER,
    ERROR,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    UNKNOWN,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    Source,
    SourcePayload,
    StepOutcome,
    StepOutput,
)
from interlock.models.base import ModelRequest
from interlock.models.counts import token_count
from interlock.models.openai.reasoning_details import ReasoningDetails
from interlock.models.prompt_parts import json_text
from interlock.models.reply import ReplyHead, moment
from interlock.models.spans import Spans
from interlock.models.streamed_calls import CallIds, StreamedCalls
from interlock.usage import Usage

_FINISH_REASONS = {
    "stop": STOP,
    "eos": STOP,
    "length": LENGTH,
    "max_tokens": LENGTH,
    "model_length": LENGTH,
    "content_filter": CONTENT_FILTER,
    "tool_calls": TOOL_CALLS,
    "function_call": TOOL_CALLS,
    "error": ERROR,
}
"""Raw reasons of OpenAI and of servers that have others: Mistral, Together (R5.5)."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: list[_Block] | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Block] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None
    function_call: _Function | None = None
    annotations: list[dict[str, Any]] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0
    logprobs: dict[str, Any] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: Any = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    total_tokens: Any = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: Any = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    created: float | None = None
    error: Any = None
    object: str | None = None


_decoder = msgspec.json.Decoder(_Event, strict=False)


class FromOpenAIChat:
    """Reads the events of one reply into chunks.

    Args:
        head: What is known of the reply.
        request: What was asked for.
        provider: Namespace of provider metadata.
    """

    def __init__(self, head: ReplyHead, request: ModelRequest, provider: str) -> None:
        self.is_done = False
        """Whether the server said that nothing follows."""
        self._head = head
        self._provider = provider
        self._has_raw = request.include_raw_chunks
        self._details = ReasoningDetails(provider)
        self._spans = Spans(sealed=self._details.take)
        self._calls = StreamedCalls(CallIds(request.prompt))
        self._has_metadata = False
        self._reason: str | None = None
        self._is_refused = False
        self._usage = _Usage()
        self._logprobs: list[Any] = []
        self._sources = 0
        self._stray = ""
        """The latest event that says nothing this protocol knows: an answer that ends behind it ends because of it."""

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if data == "[DONE]":
            self.is_done = True
            return out
        if not data:
            return out
        event = _decoder.decode(data)
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        if event.error or event.object == "error" or kind == "error":
            raise self._head.failure(data)
        if event.usage:
            self._usage = event.usage
        if event.choices:
            for choice in event.choices:
                # Only one answer was asked for.
                if not choice.index:
                    if not self._has_metadata:
                        self._has_metadata = True
                        out.append(self._head.metadata(event.id, event.model, moment(event.created)))
                    self._read_choice(choice, out)
        elif not (event.usage or event.id or event.object):
            self._stray = data
        return out

    def end(self, rest: str = "") -> list[Chunk]:
        """The chunks that close the reply.

        Args:
            rest: As for ``ReplyHead.broken_off``.

        Raises:
            APICallError: The stream ended before the answer did.
        """
        if self._reason is None and not self.is_done:
            raise self._head.broken_off(rest or self._stray)
        out: list[Chunk] = []
        self._spans.close(out)
        late = self._details.take()
        if late is not None:
            # Redacted reasoning has no text.
            self._spans.reasoning(out, "")
            self._spans.close(out, late)
        self._calls.finish(out)
        reason = self._finish_reason()
        outcome = StepOutcome(reason=reason, raw_reason=self._reason, logprobs=self._logprobs or None)
        out.append(
            Finish(payload=FinishPayload(step_result=outcome, output=StepOutput(usage=_from_usage(self._usage))))
        )
        return out

    def _read_choice(self, choice: _Choice, out: list[Chunk]) -> None:
        delta = choice.delta
        if delta is None and not (self._spans.have_begun or self._calls):
            # Some servers give the whole answer in the form of a reply that is not streamed.
            delta = choice.message
        if delta is not None:
            if isinstance(delta.content, list):
                self._read_blocks(delta.content, out)
            elif delta.content:
                self._spans.text(out, delta.content)
            thought = delta.reasoning_content or delta.reasoning
            if thought and isinstance(thought, str):
                self._spans.reasoning(out, thought)
            if delta.reasoning_details:
                self._details.add(delta.reasoning_details)
            if delta.refusal:
                self._is_refused = True
                self._spans.text(out, delta.refusal, {self._provider: {"refusal": True}}, kind="refusal")
            if delta.tool_calls:
                self._spans.close(out)
                for call in delta.tool_calls:
                    self._read_call(call, out)
            if delta.function_call:
                # The form of a call before there were several.
                self._spans.close(out)
                self._read_call(_CallDelta(function=delta.function_call), out)
            if delta.annotations:
                for annotation in delta.annotations:
                    self._read_annotation(annotation, out)
        if choice.logprobs and choice.logprobs.get("content"):
            self._logprobs.extend(choice.logprobs["content"])
        if choice.finish_reason is not None:
            self._reason = choice.finish_reason

    def _read_blocks(self, blocks: list[_Block], out: list[Chunk]) -> None:
        """Content as a list of blocks, which is how Mistral's reasoning models send it."""
        for block in blocks:
            if block.type == "text":
                self._spans.text(out, msgspec.convert(block.text, str))
            elif block.type == "thinking":
                for thought in block.thinking or ():
                    self._spans.reasoning(out, thought.text or "")

    def _read_call(self, call: _CallDelta, out: list[Chunk]) -> None:
        function = call.function or _Function()
        args = function.arguments
        args_text = json_text(args) if isinstance(args, dict) else args
        self._calls.piece(out, index=call.index, provider_id=call.id, name=function.name, args_text=args_text)

    def _read_annotation(self, annotation: dict[str, Any], out: list[Chunk]) -> None:
        citation = annotation.get("url_citation")
        if isinstance(citation, dict) and citation.get("url"):
            self._sources += 1
            source = SourcePayload(id=f"source-{self._sources}", url=citation["url"], title=citation.get("title"))
            out.append(Source(payload=source))

    def _finish_reason(self) -> str:
        if self._is_refused:
            return CONTENT_FILTER
        if self._reason is None:
            return TOOL_CALLS if self._calls else UNKNOWN
        return _FINISH_REASONS.get(self._reason, OTHER)


def _from_usage(usage: _Usage) -> Usage:
    cached = (usage.prompt_tokens_details or _PromptDetails()).cached_tokens
    return Usage(
        input_tokens=token_count(usage.prompt_tokens),
        output_tokens=token_count(usage.completion_tokens),
        total_tokens=token_count(usage.total_tokens),
        reasoning_tokens=token_count((usage.completion_tokens_details or _CompletionDetails()).reasoning_tokens),
        cached_input_tokens=token_count(usage.prompt_cache_hit_tokens if cached is None else cached),
    )
