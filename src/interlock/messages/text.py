"""The text of messages, and text that every UTF-8 encoder accepts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from interlock._json import Record, iso
from interlock.messages.parts import Message, MessageContent, Part, ReasoningPart

_encoder = msgspec.msgpack.Encoder()

_SCALARS = frozenset({int, float, bool, type(None)})


def get_text(message: Message) -> str:
    """The concatenated text parts of ``message``, else its legacy ``content`` string, else ``""`` (R4.8).

    Nothing is put between two parts. Missing contents, missing parts and ``None`` among the parts are tolerated.
    """
    content = getattr(message, "content", None)
    text = "".join(texts_of(getattr(content, "parts", None) or ()))
    if text:
        return text
    legacy = getattr(content, "content", None)
    return legacy if isinstance(legacy, str) else ""


def texts_of(parts: Iterable[Part | None]) -> list[str]:
    """The strings of the text parts, in order."""
    texts = []
    for part in parts:
        if part is not None and part.type == "text":
            text = getattr(part, "text", None)
            if isinstance(text, str):
                texts.append(text)
    return texts


def well_formed(text: str) -> str:
    """``text`` as it can be encoded: halves of a surrogate pair are joined, lone ones become U+FFFD.

    A broken JSON escape, or a stream cut in the middle of a character, leaves a lone surrogate in a Python string; one
    of them makes every request and every save of the thread fail.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_data(value: Any) -> Any:
    """``value`` itself when all strings in it are well-formed, else a repaired copy of the JSON-like data."""
    if isinstance(value, str):
        return well_formed(value)
    try:
        _encoder.encode(value)
    except UnicodeEncodeError:
        return sendable(value)
    except (TypeError, ValueError, OverflowError):
        return sendable(value) if isinstance(value, (dict, list, tuple)) else value
    return value


def sendable(value: Any) -> Any:
    """A deep copy of ``value`` as plain JSON data with well-formed strings; other objects in it are shared."""
    kind = value.__class__
    if kind is str:
        return well_formed(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {well_formed(key) if key.__class__ is str else key: sendable(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [sendable(item) for item in value]
    if isinstance(value, Record):
        return sendable(value.to_dict())
    if kind is datetime:
        return iso(value)
    return value


def mirrored_text(content: MessageContent) -> str | None:
    """What ``content.content`` must say: the legacy mirror follows the parts, which are the truth (R4.2).

    A hook that edits text in place does not know of the mirror; what it took out must not stay there.
    """
    if content.content is None or not content.parts:
        return content.content
    texts = texts_of(content.parts)
    return "\n".join(texts) if texts else None


def follow_reasoning(part: Part) -> None:
    """Let the details of an edited reasoning part say what its text says; the signature of other words goes."""
    if not isinstance(part, ReasoningPart) or not part.details:
        return
    told = [detail for detail in part.details if detail.get("type") == "text"]
    if told and "".join(str(detail.get("text") or "") for detail in told) != part.reasoning:
        redacted = [detail for detail in part.details if detail.get("type") == "redacted"]
        part.details = [{"type": "text", "text": part.reasoning}, *redacted]
