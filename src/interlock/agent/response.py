"""Turns the chunks of one reply that survived output processing into message parts (R4.6, R4.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from interlock.chunks import (
    Chunk,
    DataChunk,
    File,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningSignature,
    ReasoningStart,
    RedactedReasoning,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
)
from interlock.errors import ModelError
from interlock.messages.parts import (
    DataPart,
    FilePart,
    Part,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)


class Span(msgspec.Struct, eq=False):
    """A text or reasoning span that is still being streamed."""

    pieces: list[str] = []
    metadata: dict[str, Any] | None = None
    signature: str | None = None
    redacted: list[str] = []


_NO_ID = object()
"""No span has it, whatever a model gives as ids."""


class ResponseAssembler(msgspec.Struct, eq=False):
    """Collects one attempt's reply. A part takes its place when it is finished (R9.7)."""

    parts: list[Part] = []
    """Finished parts that are not yet in the message list."""
    calls: list[ToolCall] = []
    reasoning: list[ReasoningPart] = []
    sources: list[Source] = []
    files: list[File] = []
    is_edited: Callable[[str], bool] | None = None
    """Whether a span of reasoning, by its id, says something else than the model did: its signature is no good then."""
    open_id: object = _NO_ID
    """Id of the text span that was written to last, as long as it is open."""
    append: Callable[[str], object] = len
    """Appends to that span: the loop does so itself, which is most of what a stream of text costs here."""
    _finished_texts: list[str] = []
    """Texts of closed spans, also of those that are in the message list already."""
    _texts: dict[str, Span] = {}
    _reasoning: dict[str, Span] = {}

    @property
    def text(self) -> str:
        """The attempt's text so far."""
        if not self._texts:
            return _joined(self._finished_texts)
        unfinished = [piece for span in self._texts.values() for piece in span.pieces]
        return _joined([*self._finished_texts, *unfinished])

    @property
    def has_content(self) -> bool:
        """Whether anything but empty spans arrived."""
        return bool(self.parts or self.calls or self.reasoning or self._reasoning or self.text)

    def record(self, chunk: Chunk) -> None:
        """Take one chunk; types that are no content are ignored."""
        take = _TAKERS.get(chunk.__class__)
        if take is not None:
            take(self, chunk)

    def take_parts(self) -> list[Part]:
        """Close what is open with what it has, and hand over the parts collected since the last time."""
        if self._reasoning:
            for key in list(self._reasoning):
                self._close_reasoning(key)
        if self._texts:
            for key in list(self._texts):
                self._close_text(key)
        parts, self.parts = self.parts, []
        return parts

    # -- text ----------------------------------------------------------------------------------------------------

    def _text_start(self, chunk: TextStart) -> None:
        payload = chunk.payload
        if payload.id in self._texts:
            self._close_text(payload.id)
        span = self._texts[payload.id] = Span()
        span.metadata = payload.provider_metadata

    def _text_delta(self, chunk: TextDelta) -> None:
        payload = chunk.payload
        span = self._texts.get(payload.id)
        if span is None:
            span = self._texts[payload.id] = Span()
        self.open_id, self.append = payload.id, span.pieces.append
        self.append(payload.text)
        if payload.provider_metadata is not None:
            span.metadata = payload.provider_metadata

    def _text_end(self, chunk: TextEnd) -> None:
        payload = chunk.payload
        span = self._texts.get(payload.id)
        if span is not None:
            span.metadata = payload.provider_metadata or span.metadata
            self._close_text(payload.id)

    def _close_text(self, key: str) -> None:
        span = self._texts.pop(key)
        self.open_id = _NO_ID
        text = _joined(span.pieces)
        self._finished_texts.append(text)
        if text or span.metadata is not None:
            self.parts.append(TextPart(text=text, provider_metadata=span.metadata))

    # -- reasoning -----------------------------------------------------------------------------------------------

    def _reasoning_span(self, key: str) -> Span:
        span = self._reasoning.get(key)
        if span is None:
            span = self._reasoning[key] = Span()
        return span

    def _reasoning_start(self, chunk: ReasoningStart) -> None:
        payload = chunk.payload
        if payload.id in self._reasoning:
            self._close_reasoning(payload.id)
        span = self._reasoning_span(payload.id)
        span.signature = payload.signature
        span.metadata = payload.provider_metadata

    def _reasoning_delta(self, chunk: ReasoningDelta) -> None:
        payload = chunk.payload
        span = self._reasoning_span(payload.id)
        span.pieces.append(payload.text)
        span.metadata = payload.provider_metadata or span.metadata

    def _reasoning_signature(self, chunk: ReasoningSignature) -> None:
        span = self._reasoning_span(chunk.payload.id)
        span.signature = chunk.payload.signature
        span.metadata = chunk.payload.provider_metadata or span.metadata

    def _redacted(self, chunk: RedactedReasoning) -> None:
        span = self._reasoning_span(chunk.payload.id)
        span.redacted.append(chunk.payload.data)
        span.metadata = chunk.payload.provider_metadata or span.metadata

    def _reasoning_end(self, chunk: ReasoningEnd) -> None:
        payload = chunk.payload
        span = self._reasoning.get(payload.id)
        if span is not None:
            span.signature = payload.signature or span.signature
            span.metadata = payload.provider_metadata or span.metadata
            self._close_reasoning(payload.id)

    def _close_reasoning(self, key: str) -> None:
        span = self._reasoning.pop(key)
        text = _joined(span.pieces)
        if self.is_edited is not None and self.is_edited(key):
            span.signature = span.metadata = None
        details: list[dict[str, Any]] = []
        if text or span.signature:
            details.append({"type": "text", "text": text, **({"signature": span.signature} if span.signature else {})})
        details += [{"type": "redacted", "data": data} for data in span.redacted]
        if details or span.metadata is not None:
            part = ReasoningPart(reasoning=text, details=details, provider_metadata=span.metadata)
            self.reasoning.append(part)
            self.parts.append(part)

    # -- everything else -----------------------------------------------------------------------------------------

    def _source(self, chunk: Source) -> None:
        self.sources.append(chunk)
        self.parts.append(source_part(chunk))

    def _file(self, chunk: File) -> None:
        self.files.append(chunk)
        self.parts.append(file_part(chunk))

    def call(self, chunk: ToolCall) -> None:
        """Take a whole tool call; the same as ``record``."""
        payload = chunk.payload
        self.calls.append(chunk)
        invocation = ToolInvocation(
            state="call", tool_call_id=payload.tool_call_id, tool_name=payload.tool_name, args=payload.args
        )
        self.parts.append(
            ToolInvocationPart(
                tool_invocation=invocation,
                provider_executed=payload.provider_executed,
                title=payload.title,
                provider_metadata=payload.provider_metadata,
            )
        )

    def _data(self, chunk: DataChunk) -> None:
        if not chunk.transient:
            self.parts.append(data_part(chunk))


def _joined(pieces: Sequence[str]) -> str:
    try:
        return "".join(pieces)
    except TypeError as error:
        raise ModelError(f"a piece of text that is no text: {error}") from error


def source_part(chunk: Source) -> SourcePart | SourceDocumentPart:
    """The message part of a ``source`` chunk."""
    payload = chunk.payload
    metadata = payload.provider_metadata
    if payload.source_type == "document":
        return SourceDocumentPart(
            source_id=payload.id or "",
            media_type=payload.mime_type or "",
            title=payload.title or "",
            filename=payload.filename,
            provider_metadata=metadata,
        )
    source: dict[str, Any] = {"sourceType": "url", "id": payload.id, "url": payload.url}
    if payload.title is not None:
        source["title"] = payload.title
    if metadata is not None:
        source["providerMetadata"] = metadata
    return SourcePart(source=source)


def file_part(chunk: File) -> FilePart:
    """The message part of a ``file`` chunk."""
    payload = chunk.payload
    return FilePart(
        mime_type=payload.mime_type,
        data=payload.data if isinstance(payload.data, str) else payload.base64 or "",
        filename=payload.filename,
        provider_metadata=payload.provider_metadata,
    )


def data_part(chunk: DataChunk) -> DataPart:
    """The message part of a ``data-*`` chunk (R9.4)."""
    return DataPart(type=chunk.type, data=chunk.data, id=chunk.id)


_TAKERS: dict[type[Chunk], Callable[[ResponseAssembler, Any], None]] = {
    TextStart: ResponseAssembler._text_start,
    TextDelta: ResponseAssembler._text_delta,
    TextEnd: ResponseAssembler._text_end,
    ReasoningStart: ResponseAssembler._reasoning_start,
    ReasoningDelta: ResponseAssembler._reasoning_delta,
    ReasoningSignature: ResponseAssembler._reasoning_signature,
    RedactedReasoning: ResponseAssembler._redacted,
    ReasoningEnd: ResponseAssembler._reasoning_end,
    Source: ResponseAssembler._source,
    File: ResponseAssembler._file,
    ToolCall: ResponseAssembler.call,
    DataChunk: ResponseAssembler._data,
}
