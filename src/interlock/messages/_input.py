"""Reads a message in any of the shapes that callers, clients and stores have (R3.3 to R3.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock._json import parse_time
from interlock._text import well_formed
from interlock.errors import InvalidMessageError
from interlock.messages._core import parts_of_content
from interlock.messages._openai_chat import NEEDS_CALL_ID, is_chat_message, parts_beside_content
from interlock.messages._ui import part_of_ui
from interlock.messages.parts import FilePart, Message, MessageContent, Part, TextPart, part_from_dict

INVALID_CONTENT = "INVALID_MESSAGE_CONTENT"
INVALID_ROLE = "INVALID_MESSAGE_ROLE"

_ROLES = ("user", "assistant", "system", "tool", "signal")
_CONTEXT_KEYS = ("createdAt", "threadId", "resourceId")
_READ_KEYS = frozenset(
    {
        "annotations",
        "content",
        "createdAt",
        "experimental_attachments",
        "id",
        "metadata",
        "parts",
        "providerMetadata",
        "providerOptions",
        "resourceId",
        "revisionId",
        "role",
        "threadId",
        "toolInvocations",
        "tool_call_id",
        "tool_calls",
        "type",
    }
)


def read_messages(messages: Any, first: int = 0) -> Iterator[Message]:
    """Every message of a string, a message, or a nested list of these; nothing for ``None``, ``""`` and ``[]``.

    A message may have the role ``system`` or ``tool``: the list knows what to do with these.

    Args:
        messages: What was given.
        first: Index of the first one, if ``messages`` is the rest of a list.

    Raises:
        InvalidMessageError: something is no message; ``code`` says why, and the text begins with its index.
    """
    if messages is None or (isinstance(messages, str) and not messages):
        return
    if isinstance(messages, (list, tuple)):
        index = 0
        try:
            for index, message in enumerate(messages, first):  # noqa: B007  (read when one of them is refused)
                yield from read_messages(message)
        except InvalidMessageError as error:
            raise InvalidMessageError(f"messages[{index}]: {error}", code=error.code) from error.__cause__
    else:
        yield read_message(messages)


def read_message(item: Any) -> Message:
    """One message from a string (a user's), a ``Message`` or a dict of any shape.

    Raises:
        InvalidMessageError: it is no message, or has an unknown role, or neither content nor parts.
    """
    if isinstance(item, str):
        return Message(role="user", content=text_content(item))
    if isinstance(item, Message):
        _check_role(item.role)
        return item
    if not isinstance(item, Mapping):
        raise InvalidMessageError(
            f"{type(item).__name__} is no message: give a string, a Message or a dict with role and content",
            code=INVALID_CONTENT,
        )
    role: Any = item.get("role")
    content = item.get("content")
    _check_role(role)
    if len(item) == 2 and content.__class__ is str and role != "tool":
        return Message(role=role, content=text_content(content))
    try:
        return _read_stored(item) if isinstance(content, Mapping) else _read_wire(item)
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise InvalidMessageError(
            f"message {item.get('id')!r} cannot be read: {error}", code=INVALID_CONTENT
        ) from error


def text_content(text: str) -> MessageContent:
    """The content of a message that is a text and nothing else."""
    text = well_formed(text)
    return MessageContent(parts=[TextPart(text=text)], content=text)


def _check_role(role: Any) -> None:
    if role not in _ROLES:
        raise InvalidMessageError(
            f"a message has one of the roles {', '.join(_ROLES)}, not {role!r}", code=INVALID_ROLE
        )


def _read_stored(item: Mapping[str, Any]) -> Message:
    content = item["content"]
    if not isinstance(content.get("parts"), (list, tuple)) and not isinstance(content.get("content"), str):
        raise _without_content(item)
    data = dict(item)
    if isinstance(content.get("parts"), (list, tuple)):
        data["content"] = {**content, "parts": [_plain(part) for part in content["parts"]]}
    return Message.from_dict(data)


def _plain(part: Any) -> Any:
    return part.to_dict() if isinstance(part, Part) else part


def _read_wire(item: Mapping[str, Any]) -> Message:
    """A UI message (``parts``), or a core or model message (``content``: text or parts)."""
    role, content, parts = item["role"], item.get("content"), item.get("parts")
    metadata = dict(item.get("metadata") or {})
    read = MessageContent(
        parts=_read_parts(item, content, parts),
        annotations=item.get("annotations"),
        experimental_attachments=item.get("experimental_attachments"),
        tool_invocations=item.get("toolInvocations"),
        provider_metadata=item.get("providerOptions") or item.get("providerMetadata"),
    )
    text = _legacy_text(read.parts)
    if text is not None:
        read.content = text
    elif isinstance(content, str):
        read.content = well_formed(content)
    context = {key: item.get(key) or metadata.pop(key, None) for key in _CONTEXT_KEYS}
    for key in _CONTEXT_KEYS:
        metadata.pop(key, None)
    read.metadata = metadata or None
    created_at = context["createdAt"]
    extra = {key: value for key, value in item.items() if key not in _READ_KEYS}
    return Message(
        role=role,
        content=read,
        id=str(item.get("id") or ""),
        created_at=None if created_at is None else parse_time(created_at),
        thread_id=context["threadId"],
        resource_id=context["resourceId"],
        type=item.get("type"),
        extra=extra or None,
    )


def _read_parts(item: Mapping[str, Any], content: Any, parts: Any) -> list[Part]:
    if isinstance(parts, (list, tuple)):
        return [part if isinstance(part, Part) else _read_ui_part(part) for part in parts]
    if is_chat_message(item):
        calls = parts_beside_content(item)
        said = [] if item["role"] == "tool" or not content else _read_content(item, content)
        return [*said, *calls]
    return _read_content(item, content)


def _read_content(item: Mapping[str, Any], content: Any) -> list[Part]:
    if isinstance(content, (list, tuple)):
        parts = parts_of_content(content)
        if item["role"] == "tool" and any(part.type == "text" for part in parts):
            raise ValueError(NEEDS_CALL_ID)
        return parts
    if not isinstance(content, str):
        raise _without_content(item)
    if item["role"] == "tool":
        # Its words would be put into the model's mouth.
        raise ValueError(NEEDS_CALL_ID)
    return [*_read_text_and_calls(item, content), *_read_attachments(item.get("experimental_attachments"))]


def _read_ui_part(part: Any) -> Part:
    if not isinstance(part, Mapping):
        raise TypeError(f"a message part is a dict with a type, not {type(part).__name__}")
    return part_of_ui(part)


def _read_text_and_calls(item: Mapping[str, Any], content: str) -> list[Part]:
    """Text and, in the oldest UI shape, the calls that are listed beside it."""
    calls = [
        part_from_dict({"type": "tool-invocation", "toolInvocation": call})
        for call in item.get("toolInvocations") or ()
    ]
    return [*([TextPart(text=well_formed(content))] if content or not calls else []), *calls]


def _read_attachments(attachments: Sequence[Mapping[str, Any]] | None) -> list[Part]:
    return [
        FilePart(mime_type=str(one.get("contentType") or ""), data=str(one.get("url") or ""), filename=one.get("name"))
        for one in attachments or ()
    ]


def _legacy_text(parts: Sequence[Part]) -> str | None:
    """The text of a message that has nothing but text (R3.5)."""
    if parts and all(part.__class__ is TextPart for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return None


def _without_content(item: Mapping[str, Any]) -> InvalidMessageError:
    return InvalidMessageError(
        f"message {item.get('id')!r} of role {item['role']!r} has neither content nor parts", code=INVALID_CONTENT
    )
