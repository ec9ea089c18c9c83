"""What Gemini's ``streamGenerateContent`` answers; what is sent to it is written in ``request``.

What it tells beside the answer is in modules of their own: ``tools`` and ``grounding``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock._json import parse_time
from interlock.chunks import (
    CONTENT_FILTER,
    ERROR,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    UNKNOWN,
    Chunk,
    File,
    FilePayload,
    Finish,
    FinishPayload,
    GenericChunk,
    ReasoningFile,
    ReasoningFilePayload,
    StepOutcome,
    StepOutput,
    ToolCall,
    ToolCallPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
)
from interlock.errors import APICallError
from interlock.models.base import ModelRequest
from interlock.models.counts import token_count
from interlock.models.google.grounding import Grounding
from interlock.models.google.tools import FromGoogleTools
from interlock.models.prompt_parts import json_text
from interlock.models.reply import ReplyHead
from interlock.models.spans import Spans
from interlock.models.streamed_calls import CallIds
from interlock.usage import Usage

_FINISH_REASONS = {
    "FINISH_REASON_UNSPECIFIED": UNKNOWN,
    "STOP": STOP,
    "MAX_TOKENS": LENGTH,
    "SAFETY": CONTENT_FILTER,
    "RECITATION": CONTENT_FILTER,
    "BLOCKLIST": CONTENT_FILTER,
    "PROHIBITED_CONTENT": CONTENT_FILTER,
    "SPII": CONTENT_FILTER,
    "MODEL_ARMOR": CONTENT_FILTER,
    "IMAGE_SAFETY": CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": CONTENT_FILTER,
    "IMAGE_RECITATION": CONTENT_FILTER,
    "MALFORMED_FUNCTION_CALL": ERROR,
    "MALFORMED_RESPONSE": ERROR,
    "UNEXPECTED_TOOL_CALL": ERROR,
    "TOO_MANY_TOOL_CALLS": ERROR,
    "MISSING_THOUGHT_SIGNATURE": ERROR,
}
_HOPELESS_REASONS = frozenset({"MISSING_THOUGHT_SIGNATURE"})
"""Failures that the same request would meet again."""

_COUNTS = ("candidatesTokenCount", "thoughtsTokenCount", "promptTokenCount", "toolUsePromptTokenCount")


class _Blob(msgspec.Struct, rename="camel"):
    data: str = ""
    mime_type: str = ""


class _FunctionCall(msgspec.Struct):
    name: str = ""
    args: dict[str, Any] | None = None
    id: str | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None
    inline_data: _Blob | None = None
    file_data: dict[str, Any] | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = 0
    safety_ratings: list[Any] | None = None
    grounding_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None
    citation_metadata: dict[str, Any] | None = None
    logprobs_result: dict[str, Any] | None = None


class _Event(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: dict[str, Any] | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event, strict=False)


class FromGoogle:
    """Reads the events of one reply into chunks.

    Args:
        head: What is known of the reply.
        request: What was asked for.
        provider: Namespace of provider metadata.
    """

    is_done = False
    """Gemini never says that nothing follows: an answer may go on behind its finish reason."""

    def __init__(self, head: ReplyHead, request: ModelRequest, provider: str) -> None:
        self._head = head
        self._provider = provider
        self._has_raw = request.include_raw_chunks
        self._spans = Spans()
        self._ids = CallIds(request.prompt)
        self._tools = FromGoogleTools(provider, self._ids)
        self._grounding = Grounding()
        self._has_metadata = False
        self._has_calls = False
        self._reason: str | None = None
        self._message: str | None = None
        self._usage: dict[str, Any] = {}
        self._logprobs: list[Any] = []
        self._facts: dict[str, Any] = {}
        self._stray = ""
        """The latest event that says nothing this protocol knows: an answer that ends behind it ends because of it."""

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if not data or data == "[DONE]":
            return out
        event = _decoder.decode(data)
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        if event.error:
            raise self._head.failure(data)
        if not self._has_metadata:
            self._has_metadata = True
            made_at = _time(event.create_time)
            out.append(self._head.metadata(event.response_id, event.model_version, made_at))
        if event.usage_metadata:
            self._usage |= event.usage_metadata
        if event.prompt_feedback:
            self._facts["promptFeedback"] = event.prompt_feedback
            self._reason = event.prompt_feedback.get("blockReason") or self._reason
        if event.candidates:
            for candidate in event.candidates:
                # Only one answer was asked for.
                if not candidate.index:
                    self._read_candidate(candidate, out)
        elif kind == "error":
            raise self._head.failure(data)
        elif not (event.usage_metadata or event.prompt_feedback or event.response_id):
            self._stray = data
        return out

    def end(self, rest: str = "") -> list[Chunk]:
        """The chunks that close the reply.

        Args:
            rest: As for ``ReplyHead.broken_off``; the API breaks off an answer with a bare error.

        Raises:
            APICallError: The stream ended before the answer did, or the model made a mistake that ended it.
        """
        if self._reason is None:
            raise self._head.broken_off(rest or self._stray)
        reason = self._finish_reason()
        if reason == ERROR:
            raise APICallError(
                self._message or f"the model's answer ended with {self._reason}",
                is_retryable=self._reason not in _HOPELESS_REASONS,
                url=self._head.url,
                response_headers=self._head.headers,
                code=self._reason,
            )
        out: list[Chunk] = []
        self._spans.close(out)
        self._grounding.tell(out, self._tools)
        facts = {**self._facts, **self._grounding.metadata()}
        outcome = StepOutcome(reason=reason, raw_reason=self._reason, logprobs=self._logprobs or None)
        out.append(
            Finish(
                payload=FinishPayload(
                    step_result=outcome,
                    output=StepOutput(usage=_from_usage(self._usage)),
                    provider_metadata={self._provider: facts} if facts else None,
                )
            )
        )
        return out

    def _read_candidate(self, candidate: _Candidate, out: list[Chunk]) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._read_part(part, out)
        if candidate.grounding_metadata or candidate.url_context_metadata or candidate.citation_metadata:
            self._grounding.add(
                candidate.grounding_metadata, candidate.url_context_metadata, candidate.citation_metadata
            )
        if candidate.logprobs_result:
            self._logprobs.extend(candidate.logprobs_result.get("chosenCandidates") or ())
        if candidate.safety_ratings:
            self._facts["safetyRatings"] = candidate.safety_ratings
        if candidate.finish_reason is not None:
            self._reason = candidate.finish_reason
            self._message = candidate.finish_message
            if self._message:
                self._facts["finishMessage"] = self._message

    def _read_part(self, part: _Part, out: list[Chunk]) -> None:
        text = part.text
        if text is not None:
            if text:
                if part.thought:
                    self._spans.reasoning(out, text)
                else:
                    self._spans.text(out, text)
            if part.thought_signature:
                self._sign(part.thought_signature, out)
            return
        self._spans.close(out)
        if part.function_call is not None:
            self._read_call(part.function_call, self._signed(part), out)
        elif part.inline_data is not None:
            self._read_file(part.inline_data.data, part.inline_data.mime_type, part, out)
        elif part.file_data is not None:
            self._read_file(part.file_data.get("fileUri", ""), part.file_data.get("mimeType", ""), part, out)
        else:
            fields = {
                "executableCode": part.executable_code,
                "codeExecutionResult": part.code_execution_result,
                "toolCall": part.tool_call,
                "toolResponse": part.tool_response,
            }
            self._tools.read(fields, part.thought_signature, out)

    def _sign(self, signature: str, out: list[Chunk]) -> None:
        """Put a signature on the span it ends; it must be sent back with that text, and no other."""
        if not self._spans.is_open:
            # A part without text, behind a call: kept as reasoning, for a text that is empty would be dropped.
            self._spans.reasoning(out, "")
        self._spans.close(out, {self._provider: {"thoughtSignature": signature}})

    def _signed(self, part: _Part) -> dict[str, Any] | None:
        if part.thought_signature is None:
            return None
        return {self._provider: {"thoughtSignature": part.thought_signature}}

    def _read_call(self, call: _FunctionCall, metadata: dict[str, Any] | None, out: list[Chunk]) -> None:
        """A call comes in one piece; it is shown as if it came in several, as those of other providers do (R5.6)."""
        self._has_calls = True
        call_id, name = self._ids.unique(call.id), call.name
        args = call.args or {}
        text = json_text(args)
        out += (
            ToolInputStart(payload=ToolInputStartPayload(tool_call_id=call_id, tool_name=name)),
            ToolInputDelta(payload=ToolInputDeltaPayload(tool_call_id=call_id, tool_name=name, args_text_delta=text)),
            ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=call_id, provider_metadata=metadata)),
            ToolCall(
                payload=ToolCallPayload(tool_call_id=call_id, tool_name=name, args=args, provider_metadata=metadata)
            ),
        )

    def _read_file(self, data: str, media_type: str, part: _Part, out: list[Chunk]) -> None:
        metadata = self._signed(part)
        if part.thought:
            thought = ReasoningFilePayload(data=data, mime_type=media_type, provider_metadata=metadata)
            out.append(ReasoningFile(payload=thought))
        else:
            out.append(File(payload=FilePayload(data=data, mime_type=media_type, provider_metadata=metadata)))

    def _finish_reason(self) -> str:
        if "blockReason" in self._facts.get("promptFeedback", ()):
            return CONTENT_FILTER
        reason = _FINISH_REASONS.get(str(self._reason), OTHER)
        return TOOL_CALLS if reason == STOP and self._has_calls else reason


def _from_usage(usage: dict[str, Any]) -> Usage:
    """Counts in the sense of the other providers: thoughts are output, what tools brought in is input."""
    answer, thoughts, prompt, tools = (token_count(usage.get(name)) for name in _COUNTS)
    return Usage(
        input_tokens=None if prompt is None else prompt + (tools or 0),
        output_tokens=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        total_tokens=token_count(usage.get("totalTokenCount")),
        reasoning_tokens=thoughts,
        cached_input_tokens=token_count(usage.get("cachedContentTokenCount")),
    )


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
