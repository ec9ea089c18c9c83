"""Deep copies of messages and of the data in them, without the generality and the cost of ``copy.deepcopy``."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from interlock._json import Record
from interlock.messages.parts import Message, TextPart

_Record = TypeVar("_Record", bound=Record)

_ATOMS = frozenset({str, int, float, bool, bytes, datetime, type(None)})


def copy_message(message: Message) -> Message:
    """A copy that shares nothing mutable with ``message``; objects that are no JSON data are shared."""
    return copy_given((message,))[0]  # type: ignore[no-any-return]


def copy_given(given: Any) -> Any:
    """A deep copy of messages of any shape, nested in lists or not; tuples become lists."""
    if not isinstance(given, (list, tuple)):
        return copy_data(given)
    copies: list[Any] = []
    # Most messages of a history are a text and nothing else. No functions: this is most of what a long one costs.
    for one in given:
        kind = one.__class__
        if kind is not Message:
            copies.append(one if kind is str else copy_given(one))
            continue
        content = one.content
        parts = content.parts
        part = parts[0] if len(parts) == 1 else None
        if (
            part.__class__ is not TextPart
            or part.provider_metadata is not None
            or part.extra is not None
            or one.extra is not None
            or content.metadata is not None
            or content.provider_metadata is not None
            or content.tool_invocations is not None
            or content.annotations is not None
            or content.experimental_attachments is not None
            or content.extra is not None
        ):
            copies.append(_copy_record(one))
            continue
        twin = one.__copy__()
        twin.content = content = content.__copy__()
        content.parts = [part.__copy__()]
        copies.append(twin)
    return copies


def copy_data(value: Any) -> Any:
    """A deep copy of JSON-like data that may hold records; other objects in it are shared."""
    kind = value.__class__
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: copy_data(item) for key, item in value.items()}
    if kind is list:
        return [copy_data(item) for item in value]
    if isinstance(value, Record):
        return _copy_record(value)
    return value


def _copy_record(record: _Record) -> _Record:
    twin: _Record = record.__copy__()
    for name in record.__struct_fields__:
        value = getattr(twin, name)
        if value.__class__ not in _ATOMS:
            setattr(twin, name, copy_data(value))
    return twin
