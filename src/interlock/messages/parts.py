"""The parts of a message and the message itself: plain, mutable, typed data (runtime-spec section 4).

What a history has thousands of, messages and texts, is kept from the cycle collector (``gc=False``): going through it
again and again was a fifth of what a long history cost. They are freed with their last reference, as long as nothing in
their data refers back to them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from interlock._json import Record, iso, to_json

Role = Literal["user", "assistant", "system", "signal"]
ToolState = Literal[
    "partial-call",
    "call",
    "approval-requested",
    "approval-responded",
    "result",
    "output-error",
    "output-denied",
]

PENDING_STATES = frozenset({"partial-call", "call", "approval-requested", "approval-responded"})
RESOLVED_STATES = frozenset({"result", "output-error", "output-denied"})


class Part(Record, kw_only=True):
    """Base of all parts.

    ``type`` is any string and may be changed in place (R4.3), so a type checker learns nothing from it:
    write ``if isinstance(part, TextPart)`` where a program without types has ``if part.type == "text"``.
    """

    type: str
    provider_metadata: dict[str, Any] | None = None
    created_at: int | None = None
    """Epoch milliseconds; never decides the order of messages (R3.14)."""


class TextPart(Part, kw_only=True, gc=False):
    """A piece of text."""

    text: str = ""
    type: str = "text"


class ReasoningPart(Part, kw_only=True):
    """A model's reasoning; ``details`` keeps signatures and redacted data."""

    reasoning: str = ""
    details: list[dict[str, Any]] | None = None
    type: str = "reasoning"


class ToolApproval(Record, kw_only=True):
    """A human's answer to a call that needed approval."""

    id: str = ""
    approved: bool | None = None
    reason: str | None = None


class ToolInvocation(Record, kw_only=True):
    """One tool call and, once there is one, its outcome (R4.4)."""

    state: str = "call"
    tool_call_id: str = ""
    tool_name: str = ""
    args: Any = None
    step: int | None = None
    result: Any = None
    is_error: bool | None = None
    error_text: str | None = None
    raw_input: Any = None
    approval: ToolApproval | None = None

    _nested: ClassVar[dict[str, Any]] = {"approval": ToolApproval.from_dict}

    @property
    def is_pending(self) -> bool:
        """Whether the call has no outcome yet."""
        return self.state in PENDING_STATES

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; ``args`` is always there, ``result`` once there is one, even if it is ``null``."""
        out = super().to_dict()
        out.setdefault("args", None)
        if self.state == "result":
            out.setdefault("result", None)
        return out


class ToolInvocationPart(Part, kw_only=True):
    """A tool call inside an assistant message."""

    tool_invocation: ToolInvocation
    provider_executed: bool | None = None
    title: str | None = None
    preliminary: bool | None = None
    type: str = "tool-invocation"

    _nested: ClassVar[dict[str, Any]] = {"tool_invocation": ToolInvocation.from_dict}


class FilePart(Part, kw_only=True):
    """A file: base64 data, a data URI, a URL or a provider's file id."""

    mime_type: str = ""
    data: str = ""
    filename: str | None = None
    type: str = "file"


class SourcePart(Part, kw_only=True):
    """A web page that the model cites."""

    source: dict[str, Any]
    type: str = "source"


class SourceDocumentPart(Part, kw_only=True):
    """A document that the model cites."""

    source_id: str = ""
    media_type: str = ""
    title: str = ""
    filename: str | None = None
    type: str = "source-document"


class StepStartPart(Part, kw_only=True):
    """Where a new step of the loop begins inside one assistant message."""

    model: str | None = None
    type: str = "step-start"


class DataPart(Part, kw_only=True):
    """Application data (``data-*``) that a processor or a tool wrote; never sent to a model (R9.11)."""

    type: str
    data: Any = None
    id: str | None = None

    _keep_null: ClassVar[frozenset[str]] = frozenset({"data"})


class ErrorPart(Part, kw_only=True):
    """A terminal failure kept for history; never sent to a model."""

    error: dict[str, Any]
    type: str = "error"


class UnknownPart(Part, kw_only=True):
    """A part of a type that interlock does not know, kept verbatim in ``extra`` (R4.3)."""


PART_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "thinking": ReasoningPart,
    "tool-invocation": ToolInvocationPart,
    "file": FilePart,
    "source": SourcePart,
    "source-document": SourceDocumentPart,
    "step-start": StepStartPart,
    "error": ErrorPart,
}
"""The typed parts by their type; every other one is a ``DataPart`` (``data-*``) or an ``UnknownPart``."""


def part_from_dict(data: dict[str, Any]) -> Part:
    """Read one part from its JSON form. A part that does not have its type's shape is kept as ``UnknownPart``."""
    kind = data.get("type")
    cls: type[Part] = UnknownPart
    if isinstance(kind, str):
        cls = DataPart if kind.startswith("data-") else PART_TYPES.get(kind, UnknownPart)
    try:
        return cls.from_dict(data)
    except (TypeError, AttributeError):
        fields = {key: value for key, value in data.items() if key != "type"}
        return UnknownPart(type=kind if isinstance(kind, str) else "", extra=fields)


class MessageContent(Record, kw_only=True, gc=False):
    """What a message says: ``parts`` is the truth, the other fields are legacy mirrors (R4.2)."""

    parts: list[Part]
    format: int = 2
    content: str | None = None
    tool_invocations: list[dict[str, Any]] | None = None
    reasoning: str | None = None
    experimental_attachments: list[dict[str, Any]] | None = None
    annotations: list[Any] | None = None
    metadata: dict[str, Any] | None = None
    provider_metadata: dict[str, Any] | None = None

    _nested: ClassVar[dict[str, Any]] = {"parts": lambda parts: [part_from_dict(part) for part in parts]}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        out = super().to_dict()
        # The one key of the stored shape that keeps its underscore.
        attachments = out.pop("experimentalAttachments", None)
        if attachments is not None:
            out["experimental_attachments"] = attachments
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MessageContent:
        """Read the JSON form; ``parts`` may be missing, ``format`` becomes 2 (R3.5)."""
        data = {**data, "parts": data.get("parts") or [], "format": 2}
        if "experimental_attachments" in data:
            data["experimentalAttachments"] = data.pop("experimental_attachments")
        return super().from_dict(data)


class Message(Record, kw_only=True, gc=False):
    """One message of a conversation (R4.1).

    ``id``, ``created_at``, ``thread_id`` and ``resource_id`` may be left out; the list that the message is added to
    fills them in (R3.5, R3.12, R3.13).

    Raises:
        TypeError: ``content`` is not a ``MessageContent``.
    """

    role: str
    content: MessageContent
    id: str = ""
    created_at: datetime | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    type: str | None = None

    _nested: ClassVar[dict[str, Any]] = {"content": MessageContent.from_dict}
    _times: ClassVar[frozenset[str]] = frozenset({"created_at"})

    def __post_init__(self) -> None:
        if self.content.__class__ is not MessageContent:
            raise TypeError(
                f"Message.content must be a MessageContent, not {type(self.content).__name__}: "
                "write MessageContent(parts=[TextPart('…')]), or Message.from_dict(…) for the short forms"
            )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Message:
        """Read the stored form; a string ``content`` is the older short form of one text part (R4.1).

        Raises:
            TypeError: ``content`` is neither a dict nor a string.
            ValueError: ``createdAt`` is not a time.
        """
        content = data.get("content")
        if isinstance(content, str):
            data = {**data, "content": {"parts": [{"type": "text", "text": content}], "content": content}}
        elif not isinstance(content, dict):
            raise TypeError(
                f"a stored message has a dict or a string as content, not {type(content).__name__}: "
                "other shapes are read by MessageList.add(…)"
            )
        return super().from_dict(data)

    def to_dict(self) -> dict[str, Any]:
        """The stored form (R4.1)."""
        out: dict[str, Any] = {"id": self.id, "role": self.role}
        if self.created_at is not None:
            out["createdAt"] = iso(self.created_at)
        out["content"] = self.content.to_dict()
        context = {"threadId": self.thread_id, "resourceId": self.resource_id, "type": self.type}
        out |= {key: value for key, value in context.items() if value is not None}
        for key, value in (self.extra or {}).items():
            out.setdefault(key, to_json(value))
        return out
