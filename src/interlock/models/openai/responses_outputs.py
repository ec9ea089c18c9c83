"""The output items of a Responses reply, each as the chunks that it becomes while it is streamed."""

from __future__ import annotations

from typing import Any

import msgspec

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
    ReasoningStart,
    ReasoningStartPayload,
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
    ToolErrorChunk,
    ToolErrorPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
    ToolResult,
    ToolResultPayload,
)
from interlock.models.openai.server_tools import SERVER_TOOLS, failure_of
from interlock.models.prompt_parts import json_text
from interlock.models.streamed_calls import CallIds, parsed_args

Item = dict[str, Any]

_IMAGE_TYPES = {"jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif", "svg": "image/svg+xml"}
_CITATION_FIELDS = {
    "type": "type",
    "start_index": "startIndex",
    "end_index": "endIndex",
    "index": "index",
    "file_id": "fileId",
    "container_id": "containerId",
}


class _Part(msgspec.Struct):
    """A part of a message, or of a summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: list[dict[str, Any]] | None = None


def _parts(value: Any) -> list[_Part]:
    return msgspec.convert(value or [], list[_Part])


def _key_of(item: Item) -> Any:
    """What tells an item from the others of its reply; a call's own id is the surer one."""
    return item.get("call_id") or item.get("id") or None


class ReplyBooks(msgspec.Struct, kw_only=True):
    """What the items of one reply share."""

    provider: str
    """Namespace of provider metadata."""
    ids: CallIds
    reasoning_id: str | None = None
    """The latest reasoning, on which the items after it depend (FR-104)."""
    has_calls: bool = False
    is_refused: bool = False
    sources: int = 0


class Output:
    """One item. Each method appends the chunks it makes to ``out``.

    Args:
        item: As it was announced.
        books: What the items of the reply share.
    """

    __slots__ = ("_books", "_key", "_span", "is_finished", "own", "part")

    def __init__(self, item: Item, books: ReplyBooks) -> None:
        self._books = books
        self._key = _key_of(item)
        self.is_finished = False
        self._span: str | None = None
        """Id of the span that is open."""
        self.part = 0
        """Index of the part of the item that the span is."""
        facts = {"itemId": item.get("id"), "reasoningItemId": books.reasoning_id, "phase": item.get("phase")}
        self.own: dict[str, Any] = {name: value for name, value in facts.items() if value is not None}
        """What has to be known to give the item back."""

    def is_same(self, item: Item) -> bool:
        """Whether this is ``item``; without an id there is no telling."""
        return self._key is not None and self._key == _key_of(item)

    def begin(self, item: Item, out: list[Chunk]) -> None:
        """The item was announced."""

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """The item is complete."""

    def close(self, out: list[Chunk]) -> None:
        """Close the span that is open, if one is."""

    def metadata(self, **more: Any) -> dict[str, Any] | None:
        """Provider metadata for a chunk of its own."""
        own = {**self.own, **more}
        return {self._books.provider: own} if own else None


class MessageOutput(Output):
    """Text for the user: a span for each part of the message."""

    __slots__ = ("_annotations", "_streamed")

    def __init__(self, item: Item, books: ReplyBooks) -> None:
        super().__init__(item, books)
        self._streamed: set[int] = set()
        self._annotations = 0

    def text(self, part: int, piece: str, out: list[Chunk], *, is_refusal: bool = False) -> None:
        """A piece of a part's text."""
        if self._span is None or self.part != part:
            self._open(part, out, is_refusal=is_refusal)
        out.append(TextDelta(payload=TextDeltaPayload(id=self._span, text=piece)))  # type: ignore[arg-type]  # it is open

    def annotate(self, annotation: dict[str, Any], out: list[Chunk]) -> None:
        """A citation of a page or a file; where in the text it stands is in its metadata."""
        self._annotations += 1
        self._books.sources += 1
        facts = {ours: annotation[theirs] for theirs, ours in _CITATION_FIELDS.items() if theirs in annotation}
        payload = SourcePayload(id=f"source-{self._books.sources}", provider_metadata={self._books.provider: facts})
        if annotation.get("url"):
            payload.url, payload.title = annotation["url"], annotation.get("title")
        else:
            payload.source_type, payload.mime_type = "document", "application/octet-stream"
            payload.filename = annotation.get("filename")
            payload.title = payload.filename or annotation.get("file_id")
        out.append(Source(payload=payload))

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """Close the message, with what its server did not stream."""
        annotations: list[dict[str, Any]] = []
        for part, content in enumerate(_parts(item.get("content"))):
            annotations += content.annotations or ()
            is_refusal = content.type == "refusal"
            text = content.refusal if is_refusal else content.text
            if text and part not in self._streamed:
                self.text(part, text, out, is_refusal=is_refusal)
        self.close(out)
        for annotation in annotations[self._annotations :]:
            self.annotate(annotation, out)

    def close(self, out: list[Chunk]) -> None:
        """Close the span that is open, if one is."""
        if self._span is not None:
            out.append(TextEnd(payload=TextEndPayload(id=self._span)))
            self._span = None

    def _open(self, part: int, out: list[Chunk], *, is_refusal: bool) -> None:
        self.close(out)
        self.part = part
        self._streamed.add(part)
        self._span = f"{self.own.get('itemId') or 'text'}:{part}"
        self._books.is_refused = self._books.is_refused or is_refusal
        metadata = self.metadata(refusal=True) if is_refusal else self.metadata()
        out.append(TextStart(payload=TextStartPayload(id=self._span, provider_metadata=metadata)))


class ReasoningOutput(Output):
    """Reasoning: a span for each part of its summary, and one at least, since secret reasoning is given back too."""

    __slots__ = ("_streamed",)

    def __init__(self, item: Item, books: ReplyBooks) -> None:
        super().__init__(item, books)
        self.own.pop("reasoningItemId", None)
        books.reasoning_id = item.get("id")
        self._streamed: set[int] = set()

    def begin(self, item: Item, out: list[Chunk]) -> None:
        """The model thinks."""
        self._open(0, out)

    def text(self, part: int, piece: str, out: list[Chunk], *, is_summary: bool = True) -> None:
        """A piece of a part of the summary, or of the reasoning itself."""
        if not is_summary:
            self.own["contentType"] = "reasoning_text"
        self._streamed.add(part)
        if self._span is None or self.part != part:
            self._open(part, out)
        out.append(ReasoningDelta(payload=ReasoningDeltaPayload(id=self._span, text=piece)))  # type: ignore[arg-type]  # it is open

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """Close the reasoning. Only now its encrypted form is whole; the last of its spans carries it."""
        for part, summary in enumerate(_parts(item.get("summary"))):
            if summary.text and part not in self._streamed:
                self.text(part, summary.text, out)
        if item.get("encrypted_content"):
            self.own["reasoningEncryptedContent"] = item["encrypted_content"]
        self.close(out)

    def close(self, out: list[Chunk]) -> None:
        """Close the span that is open, if one is."""
        if self._span is not None:
            out.append(ReasoningEnd(payload=ReasoningEndPayload(id=self._span, provider_metadata=self.metadata())))
            self._span = None

    def _open(self, part: int, out: list[Chunk]) -> None:
        self.close(out)
        self.part = part
        self._span = f"{self.own.get('itemId') or 'reasoning'}:{part}"
        out.append(ReasoningStart(payload=ReasoningStartPayload(id=self._span, provider_metadata=self.metadata())))


class CallOutput(Output):
    """A call of one of the caller's tools."""

    __slots__ = ("_call_id", "_name", "_pieces")

    is_executed: bool | None = None
    """Whether the provider executes it."""

    def __init__(self, item: Item, books: ReplyBooks) -> None:
        super().__init__(item, books)
        self._call_id = books.ids.unique(self._id_of(item))
        self._name = self._name_of(item)
        self._pieces: list[str] = []

    def begin(self, item: Item, out: list[Chunk]) -> None:
        """The call was announced."""
        self._books.has_calls = self._books.has_calls or not self.is_executed
        payload = ToolInputStartPayload(
            tool_call_id=self._call_id, tool_name=self._name, provider_executed=self.is_executed
        )
        out.append(ToolInputStart(payload=payload))

    @property
    def has_arguments(self) -> bool:
        """Whether a piece of them came."""
        return bool(self._pieces)

    def arguments(self, piece: str, out: list[Chunk]) -> None:
        """A piece of the arguments."""
        self._pieces.append(piece)
        payload = ToolInputDeltaPayload(tool_call_id=self._call_id, args_text_delta=piece, tool_name=self._name)
        out.append(ToolInputDelta(payload=payload))

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """The arguments are whole."""
        args = msgspec.convert(item.get("arguments"), str | None)
        if args and not self._pieces:
            self.arguments(args, out)
        self._end_input(parsed_args(args or "".join(self._pieces)), out)

    def close(self, out: list[Chunk]) -> None:
        """The arguments are whole, if its server did not say so."""
        if not self.is_finished:
            self._end_input(parsed_args("".join(self._pieces)), out)

    def _end_input(self, args: Any, out: list[Chunk]) -> None:
        out.append(
            ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=self._call_id, provider_metadata=self.metadata()))
        )
        call = ToolCallPayload(
            tool_call_id=self._call_id,
            tool_name=self._name,
            args=args,
            provider_executed=self.is_executed,
            provider_metadata=self.metadata(),
        )
        out.append(ToolCall(payload=call))

    @staticmethod
    def _id_of(item: Item) -> str | None:
        return item.get("call_id")

    @staticmethod
    def _name_of(item: Item) -> str:
        return str(item.get("name") or "")


class ServerCallOutput(CallOutput):
    """A call of one of the provider's own tools, with its result."""

    __slots__ = ("_tool",)

    is_executed = True

    def __init__(self, item: Item, books: ReplyBooks) -> None:
        super().__init__(item, books)
        self._tool = SERVER_TOOLS[item["type"]]
        self.own["itemType"] = item["type"]
        if item.get("server_label"):
            self.own["serverLabel"] = item["server_label"]

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """The call was carried out."""
        args = self._tool.args(item)
        if not self._pieces:
            self.arguments(json_text(args), out)
        self._end_input(args, out)
        failure = failure_of(item)
        if failure is not None:
            failed = ToolErrorPayload(
                tool_call_id=self._call_id, tool_name=self._name, error=failure, provider_executed=True
            )
            out.append(ToolErrorChunk(payload=failed))
            return
        result = ToolResultPayload(
            tool_call_id=self._call_id, tool_name=self._name, result=self._tool.result(item), provider_executed=True
        )
        out.append(ToolResult(payload=result))

    def close(self, out: list[Chunk]) -> None:
        """A call whose result never came is none."""

    @staticmethod
    def _id_of(item: Item) -> str | None:
        return item.get("id")

    @staticmethod
    def _name_of(item: Item) -> str:
        return SERVER_TOOLS[item["type"]].name or str(item.get("name") or "")


class ImageOutput(Output):
    """An image that the provider made."""

    __slots__ = ()

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """The image is there."""
        if item.get("result"):
            media_type = _IMAGE_TYPES.get(item.get("output_format") or "", "image/png")
            payload = FilePayload(data=item["result"], mime_type=media_type, provider_metadata=self.metadata())
            out.append(File(payload=payload))


class OtherOutput(Output):
    """An item of a kind that has no chunk of its own."""

    __slots__ = ()

    def finish(self, item: Item, out: list[Chunk]) -> None:
        """The item is complete: it is passed on as it is."""
        payload = CustomPayload(
            kind=f"{self._books.provider}.{item.get('type')}", provider_metadata={self._books.provider: item}
        )
        out.append(Custom(payload=payload))


OUTPUTS: dict[str, type[Output]] = {
    "message": MessageOutput,
    "reasoning": ReasoningOutput,
    "function_call": CallOutput,
    "image_generation_call": ImageOutput,
    **dict.fromkeys(SERVER_TOOLS, ServerCallOutput),
}
"""By the type of the item; all others are ``OtherOutput``."""
