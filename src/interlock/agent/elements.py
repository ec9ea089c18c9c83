"""The elements of a typed array, one by one (R12.15)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from typing import Annotated, Any, get_args, get_origin

from interlock.agent.structured import ParsedObject, StructuredOutputOptions
from interlock.errors import ConfigurationError
from interlock.tools import Schema, SchemaMismatch, as_schema

_ARRAYS = (list, Sequence, MutableSequence)


class Elements:
    """Takes the elements out of one attempt's array while it is written, each when it is complete.

    Where the type says what an element is, each is validated by itself. Otherwise, and behind one that does not fit,
    elements come when the whole array has been validated.

    Args:
        asked: How the answer is typed.
    """

    def __init__(self, asked: StructuredOutputOptions | None) -> None:
        self._schema = None if asked is None else _element_schema(asked.schema)
        self._given = 0

    def of_partial(self, array: Any) -> Iterator[Any]:
        """The elements that are new in a partial array; its last one may still grow."""
        if not isinstance(array, list) or self._schema is None:
            return
        for element in array[self._given : -1]:
            try:
                value = self._schema.validate_json(json.dumps(element))
            except SchemaMismatch:
                self._schema = None
                return
            self._given += 1
            yield value

    def of_result(self, parsed: ParsedObject) -> Iterator[Any]:
        """The elements that are left in the whole array."""
        if parsed.is_fallback or not isinstance(parsed.value, (list, tuple, set, frozenset)):
            return
        yield from list(parsed.value)[self._given :]


def _element_schema(source: Any) -> Schema | None:
    element = _element_of(source)
    if element is None:
        return None
    try:
        return as_schema(element, owner="an element of structured_output")
    except ConfigurationError:
        # It refers to something that is only in the whole schema.
        return None


def _element_of(source: Any) -> Any:
    """What each element of an array has to be; ``None`` where that is not one schema."""
    if isinstance(source, Mapping):
        return _items_of(source)
    origin, arguments = get_origin(source), get_args(source)
    if origin is Annotated:
        return _element_of(arguments[0])
    if origin in _ARRAYS or (origin is tuple and arguments[1:] == (...,)):
        return arguments[0]
    return None


def _items_of(schema: Mapping[str, Any]) -> Any:
    items = schema.get("items")
    if "prefixItems" in schema or not isinstance(items, Mapping):
        return None
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {**items, **definitions}
