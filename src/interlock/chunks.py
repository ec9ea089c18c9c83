"""Every chunk of a run's stream, typed, with its wire form (runtime-spec section 5).

A chunk is ``{type, runId, from, payload, metadata?}`` on the wire (R5.1). In memory ``payload`` is a typed object;
``object`` and ``object-result`` carry ``object`` instead, ``data-*`` carry ``data``. A type that interlock does not
know is kept as ``GenericChunk`` and written back unchanged (R5.2).
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, ClassVar

import msgspec

from interlock._json import Record, copy_json, to_json
from interlock.usage import Usage

# The finish reasons of R5.5.
STOP = "stop"
LENGTH = "length"
CONTENT_FILTER = "content-filter"
TOOL_CALLS = "tool-calls"
ERROR = "error"
OTHER = "other"
UNKNOWN = "unknown"
RETRY = "retry"
TRIPWIRE = "tripwire"
SUSPENDED = "suspended"
ABORTED = "aborted"


class Payload(Record, kw_only=True):
    """Base of the typed payloads."""


class Chunk(Record, kw_only=True):
    """Base of all chunks. ``run_id`` is filled in by the run that emits the chunk."""

    type: str
    run_id: str = ""
    from_: str = "AGENT"
    metadata: dict[str, Any] | None = None


class StepOutcome(Payload, kw_only=True):
    """How an attempt ended (``stepResult``)."""

    reason: str
    raw_reason: str | None = None
    warnings: list[Any] | None = None
    is_continued: bool | None = None
    logprobs: Any = None
    retry_reason: str | None = None
    retry_processor_id: str | None = None
    retry_metadata: Any = None


class StepOutput(Payload, kw_only=True):
    """What an attempt produced (``output``)."""

    text: str | None = None
    tool_calls: list[Any] | None = None
    usage: Usage | None = None
    steps: list[Any] | None = None
    object: Any = None

    _nested: ClassVar[dict[str, Any]] = {"usage": Usage.from_dict}


class StartPayload(Payload, kw_only=True):
    """Payload of ``start``."""

    id: str | None = None
    message_id: str | None = None


class Start(Chunk, kw_only=True):
    """The run begins."""

    payload: StartPayload
    type: str = "start"

    _nested: ClassVar[dict[str, Any]] = {"payload": StartPayload.from_dict}


class StepStartPayload(Payload, kw_only=True):
    """Payload of ``step-start``."""

    message_id: str | None = None
    request: Any = None
    warnings: list[Any] | None = None
    started_at: int | None = None


class StepStart(Chunk, kw_only=True):
    """A provider call begins."""

    payload: StepStartPayload
    type: str = "step-start"

    _nested: ClassVar[dict[str, Any]] = {"payload": StepStartPayload.from_dict}


class ResponseMetadataPayload(Payload, kw_only=True):
    """Payload of ``response-metadata``."""

    id: str | None = None
    model_id: str | None = None
    timestamp: datetime | None = None
    headers: dict[str, str] | None = None
    signature: str | None = None

    _times: ClassVar[frozenset[str]] = frozenset({"timestamp"})


class ResponseMetadata(Chunk, kw_only=True):
    """What the provider says about its reply; consumed, not forwarded (R5.3)."""

    payload: ResponseMetadataPayload
    type: str = "response-metadata"

    _nested: ClassVar[dict[str, Any]] = {"payload": ResponseMetadataPayload.from_dict}


class TextStartPayload(Payload, kw_only=True, gc=False):
    """Payload of ``text-start``."""

    id: str
    provider_metadata: dict[str, Any] | None = None


class TextStart(Chunk, kw_only=True, gc=False):
    """A text span opens."""

    payload: TextStartPayload
    type: str = "text-start"

    _nested: ClassVar[dict[str, Any]] = {"payload": TextStartPayload.from_dict}


class TextDeltaPayload(Payload, kw_only=True, gc=False):
    """Payload of ``text-delta``."""

    id: str
    text: str
    provider_metadata: dict[str, Any] | None = None


class TextDelta(Chunk, kw_only=True, gc=False):
    """A piece of a text span."""

    payload: TextDeltaPayload
    type: str = "text-delta"

    _nested: ClassVar[dict[str, Any]] = {"payload": TextDeltaPayload.from_dict}


class TextEndPayload(Payload, kw_only=True, gc=False):
    """Payload of ``text-end``."""

    id: str
    provider_metadata: dict[str, Any] | None = None


class TextEnd(Chunk, kw_only=True, gc=False):
    """A text span closes."""

    payload: TextEndPayload
    type: str = "text-end"

    _nested: ClassVar[dict[str, Any]] = {"payload": TextEndPayload.from_dict}


class ReasoningStartPayload(Payload, kw_only=True, gc=False):
    """Payload of ``reasoning-start``."""

    id: str
    signature: str | None = None
    provider_metadata: dict[str, Any] | None = None


class ReasoningStart(Chunk, kw_only=True, gc=False):
    """A reasoning span opens."""

    payload: ReasoningStartPayload
    type: str = "reasoning-start"

    _nested: ClassVar[dict[str, Any]] = {"payload": ReasoningStartPayload.from_dict}


class ReasoningDeltaPayload(Payload, kw_only=True, gc=False):
    """Payload of ``reasoning-delta``."""

    id: str
    text: str
    provider_metadata: dict[str, Any] | None = None


class ReasoningDelta(Chunk, kw_only=True, gc=False):
    """A piece of a reasoning span."""

    payload: ReasoningDeltaPayload
    type: str = "reasoning-delta"

    _nested: ClassVar[dict[str, Any]] = {"payload": ReasoningDeltaPayload.from_dict}


class ReasoningEndPayload(Payload, kw_only=True, gc=False):
    """Payload of ``reasoning-end``."""

    id: str
    signature: str | None = None
    provider_metadata: dict[str, Any] | None = None


class ReasoningEnd(Chunk, kw_only=True, gc=False):
    """A reasoning span closes."""

    payload: ReasoningEndPayload
    type: str = "reasoning-end"

    _nested: ClassVar[dict[str, Any]] = {"payload": ReasoningEndPayload.from_dict}


class ReasoningSignaturePayload(Payload, kw_only=True):
    """Payload of ``reasoning-signature``."""

    id: str
    signature: str
    provider_metadata: dict[str, Any] | None = None


class ReasoningSignature(Chunk, kw_only=True):
    """The provider's signature of a reasoning span."""

    payload: ReasoningSignaturePayload
    type: str = "reasoning-signature"

    _nested: ClassVar[dict[str, Any]] = {"payload": ReasoningSignaturePayload.from_dict}


class RedactedReasoningPayload(Payload, kw_only=True):
    """Payload of ``redacted-reasoning``."""

    id: str
    data: str
    provider_metadata: dict[str, Any] | None = None


class RedactedReasoning(Chunk, kw_only=True):
    """Reasoning that only the provider can read."""

    payload: RedactedReasoningPayload
    type: str = "redacted-reasoning"

    _nested: ClassVar[dict[str, Any]] = {"payload": RedactedReasoningPayload.from_dict}


class ToolInputStartPayload(Payload, kw_only=True):
    """Payload of ``tool-call-input-streaming-start``."""

    tool_call_id: str
    tool_name: str
    title: str | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: dict[str, Any] | None = None


class ToolInputStart(Chunk, kw_only=True):
    """The arguments of a call begin to stream."""

    payload: ToolInputStartPayload
    type: str = "tool-call-input-streaming-start"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolInputStartPayload.from_dict}


class ToolInputDeltaPayload(Payload, kw_only=True):
    """Payload of ``tool-call-delta``."""

    tool_call_id: str
    args_text_delta: str
    tool_name: str | None = None
    provider_metadata: dict[str, Any] | None = None


class ToolInputDelta(Chunk, kw_only=True):
    """A piece of a call's arguments, as JSON text."""

    payload: ToolInputDeltaPayload
    type: str = "tool-call-delta"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolInputDeltaPayload.from_dict}


class ToolInputEndPayload(Payload, kw_only=True):
    """Payload of ``tool-call-input-streaming-end``."""

    tool_call_id: str
    provider_metadata: dict[str, Any] | None = None


class ToolInputEnd(Chunk, kw_only=True):
    """The arguments of a call are complete."""

    payload: ToolInputEndPayload
    type: str = "tool-call-input-streaming-end"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolInputEndPayload.from_dict}


class ToolCallPayload(Payload, kw_only=True):
    """Payload of ``tool-call``."""

    tool_call_id: str
    tool_name: str
    args: Any = None
    title: str | None = None
    provider_executed: bool | None = None
    output: Any = None
    dynamic: bool | None = None
    provider_metadata: dict[str, Any] | None = None

    _keep_null: ClassVar[frozenset[str]] = frozenset({"args"})


class ToolCall(Chunk, kw_only=True):
    """The model calls a tool. ``args`` is parsed; a string is JSON text still to be parsed (R5.6)."""

    payload: ToolCallPayload
    type: str = "tool-call"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolCallPayload.from_dict}


class ToolResultPayload(Payload, kw_only=True):
    """Payload of ``tool-result``."""

    tool_call_id: str
    tool_name: str
    result: Any = None
    args: Any = None
    is_error: bool | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: dict[str, Any] | None = None

    _keep_null: ClassVar[frozenset[str]] = frozenset({"result"})


class ToolResult(Chunk, kw_only=True):
    """A call succeeded; ``result`` is what output processors left of it (R10.7)."""

    payload: ToolResultPayload
    type: str = "tool-result"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolResultPayload.from_dict}


class FailurePayload(Payload, kw_only=True):
    """Base of the payloads that carry an exception, which becomes ``{name, message}`` in JSON (R0.1)."""

    error: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; of an exception what a client may be told, without its stack."""
        out = super().to_dict()
        error = self.error
        if isinstance(error, BaseException):
            out["error"] = {"name": type(error).__name__, "message": getattr(error, "public_message", str(error))}
        return out


class ToolErrorPayload(FailurePayload, kw_only=True):
    """Payload of ``tool-error``."""

    tool_call_id: str
    tool_name: str
    args: Any = None
    id: str | None = None
    provider_executed: bool | None = None
    provider_metadata: dict[str, Any] | None = None


class ToolErrorChunk(Chunk, kw_only=True):
    """A call failed; ``error`` is an exception or its message."""

    payload: ToolErrorPayload
    type: str = "tool-error"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolErrorPayload.from_dict}


class ToolOutputPayload(Payload, kw_only=True):
    """Payload of ``tool-output``."""

    tool_call_id: str
    output: Any = None
    tool_name: str | None = None

    _keep_null: ClassVar[frozenset[str]] = frozenset({"output"})


class ToolOutput(Chunk, kw_only=True):
    """Something a tool wrote while it ran: a nested chunk or a value."""

    payload: ToolOutputPayload
    type: str = "tool-output"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolOutputPayload.from_dict}


class ToolOutputDeniedPayload(Payload, kw_only=True):
    """Payload of ``tool-output-denied``."""

    tool_call_id: str
    tool_name: str
    args: Any = None
    approval: dict[str, Any] | None = None


class ToolOutputDenied(Chunk, kw_only=True):
    """A call was declined."""

    payload: ToolOutputDeniedPayload
    type: str = "tool-output-denied"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolOutputDeniedPayload.from_dict}


class ToolCallApprovalPayload(Payload, kw_only=True):
    """Payload of ``tool-call-approval``."""

    tool_call_id: str
    tool_name: str
    args: Any = None
    resume_schema: str | None = None


class ToolCallApproval(Chunk, kw_only=True):
    """A call waits for approval; the run is suspended."""

    payload: ToolCallApprovalPayload
    type: str = "tool-call-approval"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolCallApprovalPayload.from_dict}


class ToolCallSuspendedPayload(Payload, kw_only=True):
    """Payload of ``tool-call-suspended``."""

    tool_call_id: str
    tool_name: str
    args: Any = None
    suspend_payload: Any = None
    resume_schema: str | None = None


class ToolCallSuspended(Chunk, kw_only=True):
    """A tool suspended itself; the run is suspended."""

    payload: ToolCallSuspendedPayload
    type: str = "tool-call-suspended"

    _nested: ClassVar[dict[str, Any]] = {"payload": ToolCallSuspendedPayload.from_dict}


class SourcePayload(Payload, kw_only=True):
    """Payload of ``source``."""

    id: str | None = None
    source_type: str = "url"
    title: str | None = None
    url: str | None = None
    mime_type: str | None = None
    filename: str | None = None
    provider_metadata: dict[str, Any] | None = None


class Source(Chunk, kw_only=True):
    """A source that the model cites."""

    payload: SourcePayload
    type: str = "source"

    _nested: ClassVar[dict[str, Any]] = {"payload": SourcePayload.from_dict}


class FilePayload(Payload, kw_only=True):
    """Payload of ``file``."""

    data: Any = None
    mime_type: str = ""
    base64: str | None = None
    filename: str | None = None
    provider_metadata: dict[str, Any] | None = None


class File(Chunk, kw_only=True):
    """A file that the model made; ``data`` is base64 or a URL."""

    payload: FilePayload
    type: str = "file"

    _nested: ClassVar[dict[str, Any]] = {"payload": FilePayload.from_dict}


class ReasoningFilePayload(Payload, kw_only=True):
    """Payload of ``reasoning-file``."""

    data: Any = None
    mime_type: str = ""
    base64: str | None = None
    provider_metadata: dict[str, Any] | None = None


class ReasoningFile(Chunk, kw_only=True):
    """A file that is part of the reasoning."""

    payload: ReasoningFilePayload
    type: str = "reasoning-file"

    _nested: ClassVar[dict[str, Any]] = {"payload": ReasoningFilePayload.from_dict}


class CustomPayload(Payload, kw_only=True):
    """Payload of ``custom``."""

    kind: str = ""
    provider_metadata: dict[str, Any] | None = None


class Custom(Chunk, kw_only=True):
    """A provider's own event; ``kind`` is ``provider.type``."""

    payload: CustomPayload
    type: str = "custom"

    _nested: ClassVar[dict[str, Any]] = {"payload": CustomPayload.from_dict}


class StepFinishPayload(Payload, kw_only=True):
    """Payload of ``step-finish``."""

    step_result: StepOutcome
    id: str | None = None
    message_id: str | None = None
    output: StepOutput | None = None
    metadata: dict[str, Any] | None = None
    total_usage: Usage | None = None
    response: Any = None
    messages: Any = None

    _nested: ClassVar[dict[str, Any]] = {
        "step_result": StepOutcome.from_dict,
        "output": StepOutput.from_dict,
        "total_usage": Usage.from_dict,
    }


class StepFinish(Chunk, kw_only=True):
    """A step ended; ``step_result.reason`` is ``retry`` for a rejected attempt."""

    payload: StepFinishPayload
    type: str = "step-finish"

    _nested: ClassVar[dict[str, Any]] = {"payload": StepFinishPayload.from_dict}


class FinishPayload(Payload, kw_only=True):
    """Payload of ``finish``."""

    step_result: StepOutcome
    output: StepOutput | None = None
    metadata: dict[str, Any] | None = None
    messages: Any = None
    response: Any = None
    provider_metadata: dict[str, Any] | None = None

    _nested: ClassVar[dict[str, Any]] = {
        "step_result": StepOutcome.from_dict,
        "output": StepOutput.from_dict,
    }


class Finish(Chunk, kw_only=True):
    """From a model: its reply is complete. From a run: the run is complete (R5.4)."""

    payload: FinishPayload
    type: str = "finish"

    _nested: ClassVar[dict[str, Any]] = {"payload": FinishPayload.from_dict}


class ErrorPayload(FailurePayload, kw_only=True):
    """Payload of ``error``."""


class ErrorChunk(Chunk, kw_only=True):
    """Something failed; ``error`` is the exception."""

    payload: ErrorPayload
    type: str = "error"

    _nested: ClassVar[dict[str, Any]] = {"payload": ErrorPayload.from_dict}


class AbortPayload(Payload, kw_only=True):
    """Payload of ``abort``."""

    reason: Any = None


class Abort(Chunk, kw_only=True):
    """The run was cancelled; the last chunk."""

    payload: AbortPayload
    type: str = "abort"

    _nested: ClassVar[dict[str, Any]] = {"payload": AbortPayload.from_dict}


class TripwirePayload(Payload, kw_only=True):
    """Payload of ``tripwire``."""

    reason: str = ""
    processor_id: str = ""
    retry: bool | None = None
    metadata: Any = None


class Tripwire(Chunk, kw_only=True):
    """A processor stopped the run; the last chunk (R6.4)."""

    payload: TripwirePayload
    type: str = "tripwire"

    _nested: ClassVar[dict[str, Any]] = {"payload": TripwirePayload.from_dict}


class ObjectChunk(Chunk, kw_only=True):
    """A partial structured object."""

    object: Any = None
    type: str = "object"

    _keep_null: ClassVar[frozenset[str]] = frozenset({"object"})


class ObjectResult(Chunk, kw_only=True):
    """The final structured object."""

    object: Any = None
    type: str = "object-result"

    _keep_null: ClassVar[frozenset[str]] = frozenset({"object"})


class DataChunk(Chunk, kw_only=True):
    """Application data from ``writer.custom`` (R9.1); ``type`` begins with ``data-``."""

    data: Any = None
    id: str | None = None
    transient: bool | None = None

    _keep_null: ClassVar[frozenset[str]] = frozenset({"data"})


class GenericChunk(Chunk, kw_only=True):
    """A chunk of any other type; fields beside ``payload`` are kept in ``extra`` (R5.2)."""

    payload: Any = None


CHUNK_TYPES: dict[str, type[Chunk]] = {
    "start": Start,
    "step-start": StepStart,
    "response-metadata": ResponseMetadata,
    "text-start": TextStart,
    "text-delta": TextDelta,
    "text-end": TextEnd,
    "reasoning-start": ReasoningStart,
    "reasoning-delta": ReasoningDelta,
    "reasoning-end": ReasoningEnd,
    "reasoning-signature": ReasoningSignature,
    "redacted-reasoning": RedactedReasoning,
    "tool-call-input-streaming-start": ToolInputStart,
    "tool-call-delta": ToolInputDelta,
    "tool-call-input-streaming-end": ToolInputEnd,
    "tool-call": ToolCall,
    "tool-result": ToolResult,
    "tool-error": ToolErrorChunk,
    "tool-output": ToolOutput,
    "tool-output-denied": ToolOutputDenied,
    "tool-call-approval": ToolCallApproval,
    "tool-call-suspended": ToolCallSuspended,
    "source": Source,
    "file": File,
    "reasoning-file": ReasoningFile,
    "custom": Custom,
    "step-finish": StepFinish,
    "finish": Finish,
    "error": ErrorChunk,
    "abort": Abort,
    "tripwire": Tripwire,
    "object": ObjectChunk,
    "object-result": ObjectResult,
}
"""The typed chunks by their wire type; every other type is a ``DataChunk`` (``data-*``) or a ``GenericChunk``."""


RUN_TYPES = frozenset(
    {
        "start",
        "step-start",
        "step-finish",
        "finish",
        "error",
        "abort",
        "tripwire",
        "tool-call-approval",
        "tool-call-suspended",
    }
)
"""Chunk types by which a run tells of itself; nobody else's chunk may pass for one of these (R5.4, R6.5)."""


def chunk_from_dict(data: dict[str, Any]) -> Chunk:
    """Read a chunk from its wire form; the given data is not kept or changed.

    A chunk whose payload does not have its type's shape becomes a ``GenericChunk``, so that nothing is lost (R5.2).

    Raises:
        ValueError: ``data`` has no string ``type``.
    """
    kind = data.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"a chunk needs a non-empty string 'type', got {kind!r}")
    data = copy_json(data)
    if kind.startswith("data-"):
        return DataChunk.from_dict(data)
    cls = CHUNK_TYPES.get(kind, GenericChunk)
    try:
        return cls.from_dict(data)
    except (TypeError, AttributeError):
        return GenericChunk.from_dict(data)


def chunk_to_dict(chunk: Chunk) -> dict[str, Any]:
    """The wire form of a chunk, which is ``chunk.to_dict()``; the counterpart of ``chunk_from_dict``."""
    return chunk.to_dict()


def flaw_of(chunk: Chunk) -> str | None:
    """What keeps a chunk of somebody else's from having the shape of its type; ``None`` if it has it."""
    if chunk.__class__ is GenericChunk:
        known = CHUNK_TYPES.get(chunk.type)
        return None if known is None else f"its payload has not the fields of {known.__name__}"
    payload_type = _payload_type(chunk.__class__)
    if payload_type is None:
        return None
    payload = getattr(chunk, "payload", None)
    if payload.__class__ is not payload_type:
        return f"its payload must be a {payload_type.__name__}, not {type(payload).__name__}"
    try:
        msgspec.convert(msgspec.structs.asdict(payload), payload_type)
    except msgspec.ValidationError as error:
        return f"in its payload: {error}"
    return None


@cache
def _payload_type(chunk_type: type[Chunk]) -> type[Payload] | None:
    found = next((field.type for field in msgspec.structs.fields(chunk_type) if field.name == "payload"), None)
    return found if isinstance(found, type) and issubclass(found, Payload) else None


def detached(chunk: Chunk) -> Chunk:
    """A deep copy of the chunk's JSON-like content (R11.6)."""
    return chunk_from_dict(to_json(chunk))
