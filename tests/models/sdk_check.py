"""Checks against an official SDK's own types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def validated(kind: Any, value: Any) -> Any:
    """``value`` as the type ``kind`` takes it: fields that the type does not know are gone.

    Raises:
        pydantic.ValidationError: It does not fit.
    """
    return _exhausted(_adapter(kind).validate_python(value))


def _exhausted(value: Any) -> Any:
    """Pydantic checks an ``Iterable`` only while it is read."""
    if isinstance(value, dict):
        return {key: _exhausted(item) for key, item in value.items()}
    if isinstance(value, list) or (isinstance(value, Iterator) or type(value).__name__ == "ValidatorIterator"):
        return [_exhausted(item) for item in value]
    return value
