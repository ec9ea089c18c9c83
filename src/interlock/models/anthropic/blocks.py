"""The content blocks of an answer of Anthropic's, as they are streamed, read into chunks (R5.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from interlock._json import camel
from interlock.chunks import (
    Chunk,
    Custom,
    CustomPayload,
    File,
    FilePayload,
    ReasoningDelta,
    ReasoningDeltaPayload,
    ReasoningEnd,
    ReasoningEndPayload,
    ReasoningSignature,
    ReasoningSignaturePayload,
    ReasoningStart,
    ReasoningStartPayload,
    RedactedReasoning,
    RedactedReasoningPayload,
    Source,
    SourcePayload,
    TextDelta,
    TextDeltaPayload,
    TextEnd,
    TextEndPayload,
    TextStart,
    TextStartPayload,
    ToolCall,
    ToolCallPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
)
from interlock.models.anthropic.files import CitedDocument
from interlock.models.anthropic.options import NAMESPACE
from interlock.models.anthropic.server_tools import MCP_TOOL, SERVER_TOOL, from_server_call, from_server_result
from interlock.models.base import Prompt
from interlock.models.prompt_parts import json_text
from interlock.models.streamed_calls import CallIds, earlier_calls, parsed_args

_WEB_CITATION = "web_search_result_location"


class Delta(msgspec.Struct):
    """What a delta event adds to a block, or to the message as a whole; it has some of these fields."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class OpenBlock(Protocol):
    """A block that more may be said about."""

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        """Take a delta."""

    def close(self, out: list[Chunk]) -> None:
        """Take the end."""


class Blocks:
    """Opens the blocks of one answer.

    Args:
        prompt: What was asked; it has the calls that a result may belong to, and ids that are taken.
        documents: The prompt's documents, as citations count them.
        json_tool: Name of the tool whose input is the answer itself, if there is one.
    """

    def __init__(self, prompt: Prompt, documents: Sequence[CitedDocument], json_tool: str | None) -> None:
        self.has_calls = False
        """Whether the answer calls tools of the caller's."""
        self._ids = CallIds(prompt)
        self._names = {call["toolCallId"]: call["toolName"] for call in earlier_calls(prompt)}
        self._cite = _Citations(documents)
        self._json_tool = json_tool

    def open(self, index: int, block: dict[str, Any], out: list[Chunk]) -> OpenBlock:
        """The block that begins at ``index``; its first chunks are appended to ``out``."""
        match block.get("type"):
            case "text":
                return _Text(f"text-{index}", block, self._cite, out)
            case "thinking":
                return _Thinking(f"reasoning-{index}", block, out)
            case "tool_use" if block.get("name") == self._json_tool:
                return _JsonAnswer(f"text-{index}", block, out)
            case "tool_use":
                self.has_calls = True
                return _Call(self._ids.unique(block.get("id")), block, out)
            case "server_tool_use" | "mcp_tool_use":
                call_id = block.get("id") or ""
                self._names[call_id] = block.get("name") or ""
                return _Call(call_id, block, out)
            case kind:
                out += self._whole(f"reasoning-{index}", str(kind), block)
                return _NOTHING_MORE

    def _whole(self, span: str, kind: str, block: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of a block that is there at once."""
        if kind == "redacted_thinking":
            data = block.get("data") or ""
            yield ReasoningStart(payload=ReasoningStartPayload(id=span))
            metadata = {NAMESPACE: {"redactedData": data}}
            yield RedactedReasoning(payload=RedactedReasoningPayload(id=span, data=data, provider_metadata=metadata))
            yield ReasoningEnd(payload=ReasoningEndPayload(id=span))
        elif kind.endswith("_tool_result"):
            yield from_server_result(block, self._names.get(block.get("tool_use_id") or "", ""))
        elif kind == "container_upload":
            yield File(payload=FilePayload(data=block.get("file_id"), mime_type="application/octet-stream"))
        else:
            yield Custom(payload=CustomPayload(kind=f"{NAMESPACE}.{kind}", provider_metadata={NAMESPACE: block}))


class _Text:
    """Text, and what it cites."""

    __slots__ = ("_cite", "_kept", "id")

    def __init__(self, span: str, block: dict[str, Any], cite: _Citations, out: list[Chunk]) -> None:
        self.id = span
        self._cite = cite
        self._kept: list[dict[str, Any]] = []
        out.append(TextStart(payload=TextStartPayload(id=span)))
        if block.get("text"):
            self.add(msgspec.convert(block, Delta), out)
        for citation in block.get("citations") or ():
            self._take(citation, out)

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        if delta.text is not None:
            out.append(TextDelta(payload=TextDeltaPayload(id=self.id, text=delta.text)))
        elif delta.citation is not None:
            self._take(delta.citation, out)

    def close(self, out: list[Chunk]) -> None:
        metadata = {NAMESPACE: {"citations": self._kept}} if self._kept else None
        out.append(TextEnd(payload=TextEndPayload(id=self.id, provider_metadata=metadata)))

    def _take(self, citation: dict[str, Any], out: list[Chunk]) -> None:
        out.append(self._cite.source(citation))
        # The model finds a web page again by its encrypted index; citations of documents it can do without.
        if citation.get("type") == _WEB_CITATION:
            self._kept.append(citation)


class _JsonAnswer:
    """The input of the tool that stands for the answer: text to everyone else."""

    __slots__ = ("_input", "id")

    def __init__(self, span: str, block: dict[str, Any], out: list[Chunk]) -> None:
        self.id = span
        self._input = block.get("input")
        out.append(TextStart(payload=TextStartPayload(id=span)))

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        if delta.partial_json:
            self._input = None
            out.append(TextDelta(payload=TextDeltaPayload(id=self.id, text=delta.partial_json)))

    def close(self, out: list[Chunk]) -> None:
        if self._input is not None:
            text = json_text(self._input)
            out.append(TextDelta(payload=TextDeltaPayload(id=self.id, text=text)))
        out.append(TextEnd(payload=TextEndPayload(id=self.id)))


class _Thinking:
    """Thinking, and the signature without which the API does not take it back."""

    __slots__ = ("_signature", "id")

    def __init__(self, span: str, block: dict[str, Any], out: list[Chunk]) -> None:
        self.id = span
        begun = msgspec.convert(block, Delta)
        self._signature = begun.signature or ""
        out.append(ReasoningStart(payload=ReasoningStartPayload(id=span)))
        if begun.thinking:
            self.add(begun, out)

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        if delta.thinking is not None:
            out.append(ReasoningDelta(payload=ReasoningDeltaPayload(id=self.id, text=delta.thinking)))
        elif delta.signature is not None:
            self._signature += delta.signature

    def close(self, out: list[Chunk]) -> None:
        if self._signature:
            metadata = {NAMESPACE: {"signature": self._signature}}
            payload = ReasoningSignaturePayload(id=self.id, signature=self._signature, provider_metadata=metadata)
            out.append(ReasoningSignature(payload=payload))
        out.append(ReasoningEnd(payload=ReasoningEndPayload(id=self.id)))


class _Call:
    """A call of a tool of the caller's, or of one that the API executes."""

    __slots__ = ("_input", "_is_dynamic", "_is_server", "_metadata", "_name", "_pieces", "id")

    def __init__(self, call_id: str, block: dict[str, Any], out: list[Chunk]) -> None:
        self.id = call_id
        self._name = block.get("name") or ""
        self._input = block.get("input")
        self._pieces: list[str] = []
        self._is_server = True if block["type"] in (SERVER_TOOL, MCP_TOOL) else None
        self._is_dynamic = True if block["type"] == MCP_TOOL else None
        self._metadata = from_server_call(block)
        payload = ToolInputStartPayload(
            tool_call_id=call_id,
            tool_name=self._name,
            provider_executed=self._is_server,
            dynamic=self._is_dynamic,
            provider_metadata=self._metadata,
        )
        out.append(ToolInputStart(payload=payload))

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        # The first piece of a call without arguments is empty.
        if delta.partial_json:
            self._pieces.append(delta.partial_json)
            payload = ToolInputDeltaPayload(
                tool_call_id=self.id, tool_name=self._name, args_text_delta=delta.partial_json
            )
            out.append(ToolInputDelta(payload=payload))

    def close(self, out: list[Chunk]) -> None:
        out.append(ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=self.id)))
        payload = ToolCallPayload(
            tool_call_id=self.id,
            tool_name=self._name,
            args=parsed_args("".join(self._pieces) if self._pieces else self._input),
            provider_executed=self._is_server,
            dynamic=self._is_dynamic,
            provider_metadata=self._metadata,
        )
        out.append(ToolCall(payload=payload))


class _NothingMore:
    """A block that was complete when it began."""

    __slots__ = ()

    def add(self, delta: Delta, out: list[Chunk]) -> None:
        return

    def close(self, out: list[Chunk]) -> None:
        return


_NOTHING_MORE = _NothingMore()


class _Citations:
    """Makes a source of each citation."""

    def __init__(self, documents: Sequence[CitedDocument]) -> None:
        self._documents = documents
        self._count = 0

    def source(self, citation: dict[str, Any]) -> Source:
        """The page or document that ``citation`` names."""
        self._count += 1
        payload = self._page(citation) or self._document(citation)
        payload.id = f"source-{self._count}"
        payload.provider_metadata = {NAMESPACE: {camel(key): value for key, value in citation.items()}}
        return Source(payload=payload)

    @staticmethod
    def _page(citation: dict[str, Any]) -> SourcePayload | None:
        url = citation.get("url") or citation.get("source")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            return None
        return SourcePayload(source_type="url", url=url, title=citation.get("title"))

    def _document(self, citation: dict[str, Any]) -> SourcePayload:
        place = citation.get("document_index")
        if isinstance(place, int) and 0 <= place < len(self._documents):
            cited = self._documents[place]
        else:
            cited = CitedDocument(media_type="text/plain", title=citation.get("title"), filename=None)
        return SourcePayload(
            source_type="document",
            title=citation.get("document_title") or cited.title or "",
            mime_type=cited.media_type,
            filename=cited.filename,
        )
