"""Typed answers: what the model is asked for, and how its text becomes the object (R12.31–R12.34)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from interlock.errors import ConfigurationError, StructuredOutputError
from interlock.tools import Schema, SchemaMismatch, as_schema

_log = logging.getLogger("interlock")

ErrorStrategy = Literal["strict", "warn", "fallback"]
Injection = bool | Literal["system", "inline", "auto"]

_SCHEMA_WORDS = frozenset({"type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs"})
"""Keywords by which a mapping is known as a JSON Schema."""

_FENCED = re.compile(r"\s*```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)


class StructuredOutputOptions(msgspec.Struct, kw_only=True):
    """How an answer is to be typed (R12.31)."""

    schema: Any
    """A pydantic model, a dataclass, a ``TypedDict`` or a JSON Schema."""
    model: Any = None
    """A model that turns the finished answer into the object; without one the main model is asked for JSON."""
    instructions: str | None = None
    """Said to the model that writes the JSON, beside the schema."""
    json_prompt_injection: Injection = False
    """Put the schema into the prompt instead of asking for the provider's JSON mode: as a system message (``True`` or
    ``"system"``), behind the last user message (``"inline"``), or only for a model without such a mode (``"auto"``)."""
    error_strategy: ErrorStrategy = "strict"
    """What an answer that does not fit means: a run error, a log line, or ``fallback_value``."""
    fallback_value: Any = None
    provider_options: dict[str, Any] | None = None
    """For the call of ``model``."""
    parsed: Schema | None = None
    """The schema, read once."""


class ParsedObject(msgspec.Struct):
    """The object of an answer."""

    value: Any
    is_fallback: bool = False
    """Whether it is the ``fallback_value``."""


def structured_output(given: Any) -> StructuredOutputOptions | None:
    """Read the call's ``structured_output``; a bare schema does as well (R12.31).

    Raises:
        ConfigurationError: no schema, an unknown option, a wrong value, or something that is no schema.
    """
    if given is None:
        return None
    options = given if isinstance(given, StructuredOutputOptions) else _read(given)
    if options.error_strategy not in ("strict", "warn", "fallback"):
        raise ConfigurationError(
            f"structured_output.error_strategy is 'strict', 'warn' or 'fallback', not {options.error_strategy!r}"
        )
    if options.json_prompt_injection not in (False, True, "system", "inline", "auto"):
        raise ConfigurationError(
            "structured_output.json_prompt_injection is False, True, 'system', 'inline' or 'auto', "
            f"not {options.json_prompt_injection!r}"
        )
    if options.parsed is None:
        options.parsed = as_schema(options.schema, owner="structured_output")
    return options


def _read(given: Any) -> StructuredOutputOptions:
    if not isinstance(given, Mapping) or (given and _SCHEMA_WORDS.issuperset(given)):
        return StructuredOutputOptions(schema=given)
    if "schema" not in given:
        if _SCHEMA_WORDS.isdisjoint(given):
            raise ConfigurationError(
                f"structured_output has no 'schema', only {', '.join(sorted(map(str, given))) or 'nothing'}: "
                "give {'schema': …}, or a schema itself"
            )
        return StructuredOutputOptions(schema=given)
    known = set(StructuredOutputOptions.__struct_fields__) - {"parsed"}
    unknown = set(given) - known
    if unknown:
        raise ConfigurationError(
            f"structured_output has no option {', '.join(sorted(map(str, unknown)))}; it has {', '.join(sorted(known))}"
        )
    return StructuredOutputOptions(**given)


def is_native(options: StructuredOutputOptions, model: Any) -> bool:
    """Whether this model is asked through its own JSON mode."""
    if options.json_prompt_injection == "auto":
        return bool(getattr(model, "supports_structured_output", True))
    return options.json_prompt_injection is False


def response_format(options: StructuredOutputOptions) -> dict[str, Any]:
    """The request's response format."""
    assert options.parsed is not None
    return {"type": "json", "schema": options.parsed.json_schema}


def with_schema(prompt: list[dict[str, Any]], options: StructuredOutputOptions) -> list[dict[str, Any]]:
    """The prompt with the wish for JSON in it; the given one stays as it is (R12.31)."""
    wish = schema_text(options)
    if options.json_prompt_injection == "inline":
        for place in range(len(prompt) - 1, -1, -1):
            message = prompt[place]
            if message["role"] == "user":
                content = [*message["content"], {"type": "text", "text": wish}]
                return [*prompt[:place], {**message, "content": content}, *prompt[place + 1 :]]
    systems = next((place for place, message in enumerate(prompt) if message["role"] != "system"), len(prompt))
    return [*prompt[:systems], {"role": "system", "content": wish}, *prompt[systems:]]


def schema_text(options: StructuredOutputOptions) -> str:
    """What a model is told that has no JSON mode."""
    assert options.parsed is not None
    wish = "Answer with JSON only, without any text around it, that fits this JSON Schema:\n"
    told = wish + json.dumps(options.parsed.json_schema, ensure_ascii=False)
    return f"{options.instructions}\n{told}" if options.instructions else told


def parse_object(options: StructuredOutputOptions, text: str) -> ParsedObject:
    """The object that the processed text holds; one code fence around it does no harm.

    Raises:
        StructuredOutputError: it does not fit and the strategy is ``strict``.
    """
    assert options.parsed is not None
    fenced = _FENCED.fullmatch(text)
    try:
        return ParsedObject(options.parsed.validate(msgspec.json.decode(fenced.group(1) if fenced else text)))
    except (msgspec.DecodeError, SchemaMismatch) as error:
        if options.error_strategy == "warn":
            _log.warning("the answer does not fit the schema: %s", error)
            return ParsedObject(None)
        if options.error_strategy == "fallback":
            return ParsedObject(options.fallback_value, is_fallback=True)
        raise StructuredOutputError(f"the answer does not fit the requested schema:\n{error}") from error


class PartialObject:
    """The object of an answer that is still being written."""

    __slots__ = ("_last", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._last: Any = None

    def add(self, piece: str) -> Any:
        """The object as far as it can be read now; ``None`` when the piece brings nothing new."""
        self._pieces.append(piece)
        # pydantic-core is loaded already: the schema was read with it.
        from pydantic_core import from_json

        try:
            value = from_json("".join(self._pieces), allow_partial="trailing-strings")
        except ValueError:
            return None
        if not isinstance(value, (dict, list)) or value == self._last:
            return None
        self._last = value
        return value
