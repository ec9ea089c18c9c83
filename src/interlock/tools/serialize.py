"""Turning what a tool returns into JSON-ready data (R10.6)."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections import deque
from collections.abc import Mapping, ValuesView
from collections.abc import Set as AbstractSet
from datetime import date, time
from enum import Enum
from functools import singledispatch
from numbers import Integral, Rational, Real
from typing import Any

import msgspec

from interlock._json import Record
from interlock._text import well_formed
from interlock.errors import ToolError

MAX_DEPTH = 200
"""Containers within containers; well below what JSON encoders and Python's own stack can take."""


def to_serializable(value: Any) -> Any:
    """``value`` as JSON-ready data that shares no container with it (R10.6).

    ===========================================  ==================================================================
    value                                        becomes
    ===========================================  ==================================================================
    ``None``, bool, int, finite float, str       itself, so that ``False``, ``0`` and ``""`` reach the model
    nan, ±infinity, which JSON does not have     ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
    a lone surrogate in a string                 U+FFFD; a split pair becomes its character
    pydantic model, dataclass, msgspec struct    dict
    mapping                                      dict with string keys
    list, tuple, set, deque, dict view           list; a set is sorted where its items can be compared
    ``Enum``                                     its value
    datetime, date, time                         ISO-8601, with the offset that it has
    bytes, bytearray, memoryview                 base64 string
    any other object                             ``str(value)``
    ===========================================  ==================================================================

    Raises:
        ToolError: the value contains itself, is nested more than ``MAX_DEPTH`` deep, two of its keys become the same
            string, or one of its objects cannot be read.
    """
    return well_formed(value) if value.__class__ is str else _convert(value, set())


_PLAIN = frozenset({type(None), bool, int, float, str, dict, list})


def _convert(value: Any, path: set[int]) -> Any:
    original = value
    kind = type(value)
    while kind not in _PLAIN:
        value = _unwrap(value)
        kind = type(value)
    if kind is str:
        return well_formed(value)
    if kind is float:
        return value if math.isfinite(value) else _non_finite(value)
    if kind is not dict and kind is not list:
        return value
    if id(original) in path:
        raise ToolError(
            f"The tool returned a {type(original).__name__} that contains itself, which JSON cannot express"
        )
    if len(path) == MAX_DEPTH:
        raise ToolError(f"The tool returned data that is nested more than {MAX_DEPTH} levels deep")
    path.add(id(original))
    out = _members(value, path) if kind is dict else [_convert(item, path) for item in value]
    path.discard(id(original))
    return out


def _members(value: dict[Any, Any], path: set[int]) -> dict[str, Any]:
    out = {
        (well_formed(key) if type(key) is str else _key(key, path)): _convert(item, path) for key, item in value.items()
    }
    if len(out) != len(value):
        raise ToolError(f"The tool returned a mapping in which two keys become the same text: {list(value)!r}")
    return out


def _key(key: Any, path: set[int]) -> str:
    if key.__class__ is str:
        return well_formed(key)
    converted = _convert(key, path)
    if isinstance(converted, str):
        return converted
    if converted is None or isinstance(converted, bool):
        return json.dumps(converted)
    return str(converted)


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _unwrap(value: Any) -> Any:
    """``value`` one step closer to plain data."""
    try:
        return _plainer(value)
    except Exception as error:
        # The object's own code: __str__, model_dump, properties behind fields.
        raise ToolError(
            f"The tool returned a {type(value).__name__} that cannot be turned into JSON: {error}"
        ) from error


@singledispatch
def _plainer(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # Asking for the method spares the import of pydantic, which a process without pydantic models never needs.
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump()
    return str(value)


@_plainer.register
def _(value: Enum) -> Any:
    return value.value


@_plainer.register
def _(value: str) -> str:
    return str.__str__(value)


@_plainer.register
def _(value: Integral) -> int:
    return int(value)


@_plainer.register
def _(value: Real) -> float:
    return float(value)


@_plainer.register
def _(value: Rational) -> str:
    return str(value)


@_plainer.register(bytes)
@_plainer.register(bytearray)
@_plainer.register(memoryview)
def _(value: Any) -> str:
    return base64.b64encode(value).decode()


@_plainer.register(date)
@_plainer.register(time)
def _(value: Any) -> Any:
    return value.isoformat()


@_plainer.register(list)
@_plainer.register(tuple)
@_plainer.register(deque)
@_plainer.register(ValuesView)
@_plainer.register(AbstractSet)
def _(value: Any) -> list[Any]:
    return list(value)


@_plainer.register(set)
@_plainer.register(frozenset)
def _(value: Any) -> list[Any]:
    try:
        # The order of a set of strings differs from process to process; a prompt cache or a recording would miss.
        return sorted(value)
    except TypeError:
        return list(value)


@_plainer.register(Mapping)
def _(value: Any) -> dict[Any, Any]:
    return dict(value)


@_plainer.register
def _(value: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(value)


@_plainer.register
def _(value: Record) -> dict[str, Any]:
    return value.to_dict()
