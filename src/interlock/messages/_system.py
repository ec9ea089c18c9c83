"""The system messages of a list: an untagged store and tagged buckets (R3.28 to R3.30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock._json import copy_json
from interlock._text import well_formed
from interlock.errors import InvalidMessageError
from interlock.messages.parts import Message
from interlock.messages.text import texts_of

SystemMessage = dict[str, Any]
"""``{"role": "system", "content": text}``, with ``providerOptions`` if there are any."""

FEEDBACK_TAG = "processor-retry-feedback"
FEEDBACK_PREFIX = "[Processor Feedback]"

_INVALID = "INVALID_SYSTEM_MESSAGE_FORMAT"


class SystemMessages:
    """System messages in the order in which the prompt has them; feedback on an attempt is always last (R7.8)."""

    __slots__ = ("_feedback", "_tagged", "_untagged")

    def __init__(self) -> None:
        self._untagged: list[SystemMessage] = []
        self._tagged: dict[str, list[SystemMessage]] = {}
        self._feedback: SystemMessage | None = None

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._untagged or self._tagged or self._feedback)

    def add(self, messages: Any, tag: str | None = None) -> None:
        """Add what is not yet in the bucket; a message counts by its content."""
        if messages is None or messages == "":
            return
        for message in read_system_messages(messages):
            if tag == FEEDBACK_TAG:
                self._feedback = message
                continue
            bucket = self._untagged if tag is None else self._tagged.setdefault(tag, [])
            if all(message["content"] != known["content"] for known in bucket):
                bucket.append(message)

    def get(self, tag: str | None = None) -> list[SystemMessage]:
        """Copies of the untagged messages, or of one bucket."""
        if tag is None and not self._untagged:
            return []
        return _copies(self._bucket(tag))

    def get_all(self) -> list[SystemMessage]:
        """Copies of all: untagged, then the buckets in the order of their creation."""
        everything = [*self._untagged]
        for bucket in self._tagged.values():
            everything += bucket
        return _copies([*everything, *self._bucket(FEEDBACK_TAG)])

    def clear(self, tag: str | None = None) -> None:
        """Remove the untagged messages, or one bucket."""
        if tag is None:
            self._untagged = []
        elif tag == FEEDBACK_TAG:
            self._feedback = None
        else:
            self._tagged.pop(tag, None)

    def replace_untagged(self, messages: Iterable[Any]) -> None:
        """Make these the untagged messages; entries that are no system messages are skipped."""
        if not messages:
            self._untagged = []
            return
        kept = [message for message in messages if _role_of(message) in (None, "system")]
        self._untagged = list(read_system_messages(kept))

    def set_feedback(self, reason: str) -> None:
        """Tell the model why its last attempt was rejected; replaces earlier feedback (R7.8)."""
        text = reason
        if not reason.startswith(FEEDBACK_PREFIX):
            text = (
                f"{FEEDBACK_PREFIX} Your last reply was rejected: {reason}\nAnswer again, and mend what is named here."
            )
        self._feedback = {"role": "system", "content": well_formed(text)}

    def to_dict(self) -> dict[str, Any]:
        """JSON form, for ``from_dict``."""
        out: dict[str, Any] = {"untagged": _copies(self._untagged), "tagged": copy_json(self._tagged)}
        if self._feedback is not None:
            out["feedback"] = dict(self._feedback)
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SystemMessages:
        """Read the JSON form."""
        system = cls()
        system._untagged = copy_json(data.get("untagged") or [])
        system._tagged = copy_json(data.get("tagged") or {})
        system._feedback = copy_json(data.get("feedback"))
        return system

    def _bucket(self, tag: str | None) -> list[SystemMessage]:
        if tag is None:
            return self._untagged
        if tag == FEEDBACK_TAG:
            return [] if self._feedback is None else [self._feedback]
        return self._tagged.get(tag, [])


def read_system_messages(messages: Any) -> Iterable[SystemMessage]:
    """System messages from a string, a message, or a list of these.

    Raises:
        InvalidMessageError: one has another role, or content that is not text (R3.4, R3.28).
    """
    if isinstance(messages, (list, tuple)):
        return [read_system_message(message) for message in messages]
    return [read_system_message(messages)]


def read_system_message(message: Any) -> SystemMessage:
    """One system message from a string, a ``Message`` or a dict of any shape; the legacy text comes first (R2.9)."""
    if isinstance(message, str):
        return {"role": "system", "content": well_formed(message)}
    role = _role_of(message)
    if role != "system":
        said = f"its role is {role!r}" if role is not None else f"it is a {type(message).__name__}"
        raise InvalidMessageError(
            f"no system message, {said}: give a string or {{'role': 'system', 'content': …}}", code=_INVALID
        )
    if isinstance(message, Message):
        return _system(_text_of(message.content.content, message.content.parts), message.content.provider_metadata)
    content = message.get("content")
    options = message.get("providerOptions") or message.get("providerMetadata")
    parts = message.get("parts")
    if isinstance(content, Mapping):
        options = options or content.get("providerMetadata")
        parts, content = content.get("parts"), content.get("content")
    if isinstance(content, (list, tuple)):
        parts, content = content, None
    return _system(_text_of(content, parts), options)


def _system(text: str, options: Any) -> SystemMessage:
    message: SystemMessage = {"role": "system", "content": well_formed(text)}
    if options:
        message["providerOptions"] = copy_json(options)
    return message


def _text_of(content: Any, parts: Any) -> str:
    """The legacy text, else the text parts joined with newlines (R2.9)."""
    if isinstance(content, str) and (content or not parts):
        return content
    if isinstance(parts, (list, tuple)) and parts:
        texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
        texts = texts or texts_of(part for part in parts if not isinstance(part, Mapping))  # type: ignore[assignment]
        if len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
            return "\n".join(texts)  # type: ignore[arg-type]  # checked above
    raise InvalidMessageError(
        "the content of a system message must be text: a string, or a list of text parts only", code=_INVALID
    )


def _role_of(message: Any) -> Any:
    if isinstance(message, str):
        return None
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)


def _copies(messages: list[SystemMessage]) -> list[SystemMessage]:
    return [dict(message) if len(message) == 2 else copy_json(message) for message in messages]
