"""Models that answer in one piece, made to stream, so that there is one loop for both (R1.18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.chunks import (
    Chunk,
    File,
    FilePayload,
    Finish,
    FinishPayload,
    GenericChunk,
    ReasoningDelta,
    ReasoningDeltaPayload,
    ReasoningEnd,
    ReasoningEndPayload,
    ReasoningStart,
    ReasoningStartPayload,
    ResponseMetadata,
    ResponseMetadataPayload,
    Source,
    SourcePayload,
    StepOutcome,
    StepOutput,
    TextDelta,
    TextDeltaPayload,
    TextEnd,
    TextEndPayload,
    TextStart,
    TextStartPayload,
    ToolCall,
    ToolCallPayload,
)
from interlock.errors import ModelError
from interlock.models.base import GenerateModel, LanguageModel, ModelReply, ModelRequest
from interlock.models.retry import name_of
from interlock.models.streamed_calls import parsed_args
from interlock.usage import Usage


def as_streaming(model: GenerateModel) -> LanguageModel:
    """``model`` as a ``LanguageModel``: each part of its reply becomes one span with one delta."""
    return _StreamingModel(model)


class _StreamingModel:
    def __init__(self, model: GenerateModel) -> None:
        self._model = model
        self.supported_urls: Mapping[str, Sequence[str]] = getattr(model, "supported_urls", None) or {}

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def model_id(self) -> str:
        return self._model.model_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        reply = await self._model.generate(request)
        _check(self._model, reply)
        for chunk in chunks_of(reply):
            yield chunk

    def __repr__(self) -> str:
        return f"as_streaming({self._model!r})"


def _check(model: GenerateModel, reply: Any) -> None:
    flaw = None if isinstance(reply, ModelReply) else f"not {type(reply).__name__}"
    try:
        if flaw is None:
            msgspec.convert(msgspec.structs.asdict(reply), ModelReply)
    except msgspec.ValidationError as error:
        flaw = str(error)
    if flaw is not None:
        raise ModelError(f"generate() of {name_of(model)} must return an interlock.models.ModelReply: {flaw}")


def chunks_of(reply: ModelReply) -> Iterator[Chunk]:
    """The chunks of a whole reply; a part of a type that has no chunk becomes a ``GenericChunk``."""
    yield GenericChunk(type="stream-start", payload={"warnings": reply.warnings, "request": reply.request})
    if reply.response is not None:
        yield ResponseMetadata(payload=ResponseMetadataPayload.from_dict(reply.response))
    for number, part in enumerate(reply.content):
        yield from _part_chunks(part, str(number))
    yield Finish(
        payload=FinishPayload(
            step_result=StepOutcome(reason=reply.finish_reason),
            output=StepOutput(usage=Usage.from_dict(reply.usage or {})),
            provider_metadata=reply.provider_metadata,
        )
    )


def _part_chunks(part: dict[str, Any], span: str) -> Iterator[Chunk]:
    metadata = part.get("providerMetadata")
    match part.get("type"):
        case "text":
            yield TextStart(payload=TextStartPayload(id=span, provider_metadata=metadata))
            yield TextDelta(payload=TextDeltaPayload(id=span, text=part["text"]))
            yield TextEnd(payload=TextEndPayload(id=span))
        case "reasoning":
            yield ReasoningStart(payload=ReasoningStartPayload(id=span, provider_metadata=metadata))
            yield ReasoningDelta(payload=ReasoningDeltaPayload(id=span, text=part["text"]))
            yield ReasoningEnd(payload=ReasoningEndPayload(id=span, provider_metadata=metadata))
        case "tool-call":
            yield ToolCall(
                payload=ToolCallPayload(
                    tool_call_id=part["toolCallId"],
                    tool_name=part["toolName"],
                    args=parsed_args(part.get("input")),
                    provider_executed=part.get("providerExecuted"),
                    provider_metadata=metadata,
                )
            )
        case "file":
            yield File(payload=FilePayload(data=part["data"], mime_type=part["mediaType"], provider_metadata=metadata))
        case "source":
            fields = {"mimeType" if key == "mediaType" else key: part[key] for key in part if key != "type"}
            yield Source(payload=SourcePayload.from_dict(fields))
        case kind:
            fields = {key: part[key] for key in part if key != "type"}
            yield GenericChunk(type=str(kind), payload=fields)
