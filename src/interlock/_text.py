"""Text that every UTF-8 encoder accepts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock._json import Record, iso

_encoder = msgspec.msgpack.Encoder()

_SCALARS = frozenset({int, float, bool, type(None)})


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
        return value if value.isascii() else well_formed(value)
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
        return {
            key if key.__class__ is not str or key.isascii() else well_formed(key): (
                item if item.__class__ in _SCALARS else sendable(item)
            )
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [sendable(item) for item in value]
    if isinstance(value, Record):
        return sendable(value.to_dict())
    if kind is datetime:
        return iso(value)
    return value
