"""Typed answers: what the model is asked for, and how its text becomes the object (R12.31–R12.33)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from interlock.errors import ConfigurationError, StructuredOutputError
from interlock.tools import Schema, SchemaMismatch, as_schema

_log = logging.getLogger("interlock")

ErrorStrategy = Literal["strict", "warn", "fallback"]


class StructuredOutputOptions(msgspec.Struct, kw_only=True):
    """How an answer is to be typed."""

    schema: Any
    """A pydantic model, a dataclass, a ``TypedDict`` or a JSON Schema."""
    error_strategy: ErrorStrategy = "strict"
    """What an answer that does not fit means: a run error, a log line, or ``fallback_value``."""
    fallback_value: Any = None
    parsed: Schema | None = None
    """The schema, read once."""


def structured_output(given: Any) -> StructuredOutputOptions | None:
    """Read the call's ``structured_output``; a bare schema does as well (R12.31).

    Raises:
        ConfigurationError: no schema, an unknown option, or something that is no schema.
    """
    if given is None or isinstance(given, StructuredOutputOptions):
        options = given
    elif isinstance(given, Mapping) and "schema" in given:
        unknown = set(given) - {"schema", "error_strategy", "fallback_value"}
        if unknown:
            raise ConfigurationError(f"structured_output has unknown options: {', '.join(sorted(unknown))}")
        options = StructuredOutputOptions(**given)
    else:
        options = StructuredOutputOptions(schema=given)
    if options is not None and options.parsed is None:
        options.parsed = as_schema(options.schema, owner="structured_output")
    return options


def response_format(given: Any) -> dict[str, Any] | None:
    """The request's response format; ``None`` for plain text."""
    options = structured_output(given)
    if options is None or options.parsed is None:
        return None
    return {"type": "json", "schema": options.parsed.json_schema}


def parse_object(options: StructuredOutputOptions, text: str) -> Any:
    """The object that the processed text holds.

    Raises:
        StructuredOutputError: it does not fit and the strategy is ``strict``.
    """
    assert options.parsed is not None
    try:
        return options.parsed.validate(msgspec.json.decode(text))
    except (msgspec.DecodeError, SchemaMismatch) as error:
        if options.error_strategy == "warn":
            _log.warning("the answer does not fit the schema: %s", error)
            return None
        if options.error_strategy == "fallback":
            return options.fallback_value
        raise StructuredOutputError(f"the answer does not fit the requested schema: {error}") from error
