"""Typed answers: what the model is asked for, and how its text becomes the object (R12.31–R12.34)."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from interlock.agent.partial_json import PartialJson
from interlock.errors import ConfigurationError, StructuredOutputError, ToolError
from interlock.models import to_language_model
from interlock.tools import Schema, SchemaMismatch, as_schema, to_serializable

_log = logging.getLogger("interlock")

ErrorStrategy = Literal["strict", "warn", "fallback"]
Injection = bool | Literal["system", "inline", "auto"]

_SCHEMA_WORDS = frozenset({"type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs"})
"""Keywords by which a mapping is known as a JSON Schema."""

_DEFINITIONS = ("$defs", "definitions")
_OF_THE_ROOT = frozenset({*_DEFINITIONS, "$schema", "$id"})

_FENCED = re.compile(r"\s*```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)


class StructuredOutputOptions(msgspec.Struct, kw_only=True):
    """How an answer is to be typed (R12.31)."""

    schema: Any
    """A pydantic model, a dataclass, a ``TypedDict`` or another type; or a JSON Schema."""
    model: Any = None
    """A model that turns the finished answer into the object; without one the main model is asked for JSON."""
    instructions: str | None = None
    """Said to the model that writes the JSON, beside the schema."""
    json_prompt_injection: Injection = False
    """Put the schema into the prompt instead of asking for the provider's JSON mode: as a system message (``True`` or
    ``"system"``), behind the last user message (``"inline"``), or only for a model without such a mode (``"auto"``)."""
    error_strategy: ErrorStrategy = "strict"
    """What an answer that does not fit means, once no retry is left: a run error, a log line, or ``fallback_value``."""
    fallback_value: Any = None
    provider_options: dict[str, Any] | None = None
    """For the call of ``model``."""
    parsed: Schema | None = None
    """The schema, read once."""

    @property
    def data(self) -> dict[str, Any]:
        """The options as they were given; JSON where they hold neither a type nor a model."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "parsed"}

    @property
    def wrapper(self) -> str | None:
        """The member in which a JSON mode is asked for the value, as it can only write objects."""
        assert self.parsed is not None
        schema = self.parsed.json_schema
        kind = schema.get("type")
        if kind == "object" or (kind is None and "properties" in schema):
            return None
        return "elements" if kind == "array" else "result"


class ParsedObject(msgspec.Struct):
    """The object of an answer."""

    value: Any
    json: Any = None
    """The same as JSON data."""
    is_fallback: bool = False
    """Whether it is the ``fallback_value``."""


def structured_output(given: Any) -> StructuredOutputOptions | None:
    """Read the call's ``structured_output``; a bare schema does as well (R12.31).

    Raises:
        ConfigurationError: no schema, an unknown option, a wrong value, or something that is no schema or no model.
    """
    if given is None:
        return None
    options = given if isinstance(given, StructuredOutputOptions) else _read(given)
    if options.parsed is not None:
        return options
    if options.error_strategy not in ("strict", "warn", "fallback"):
        raise ConfigurationError(
            f"structured_output.error_strategy is 'strict', 'warn' or 'fallback', not {options.error_strategy!r}"
        )
    if options.json_prompt_injection not in (False, True, "system", "inline", "auto"):
        raise ConfigurationError(
            "structured_output.json_prompt_injection is False, True, 'system', 'inline' or 'auto', "
            f"not {options.json_prompt_injection!r}"
        )
    return msgspec.structs.replace(
        options,
        parsed=_schema(options.schema),
        model=None if options.model is None else to_language_model(options.model),
    )


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


def _schema(source: Any) -> Schema:
    if inspect.isroutine(source):
        raise ConfigurationError(
            f"structured_output is the function {source.__name__}, which is no schema; give a type or a JSON Schema"
        )
    try:
        return _schema_of_type(source)
    except TypeError:
        # It cannot be hashed, such as a JSON Schema, so it may change before the next call.
        return as_schema(source, owner="structured_output")


@lru_cache(maxsize=64)
def _schema_of_type(source: Any) -> Schema:
    # To read a type takes longer than the rest of a call.
    return as_schema(source, owner="structured_output")


# What the model is asked.


def is_native(options: StructuredOutputOptions, model: Any) -> bool:
    """Whether this model is asked through its own JSON mode."""
    if options.json_prompt_injection == "auto":
        return bool(getattr(model, "supports_structured_output", True))
    return options.json_prompt_injection is False


def response_format(options: StructuredOutputOptions) -> dict[str, Any]:
    """The request's response format; a value that is no object is a member of one (``wrapper``)."""
    assert options.parsed is not None
    schema, key = options.parsed.json_schema, options.wrapper
    return {"type": "json", "schema": schema if key is None else _wrapped(schema, key)}


def _wrapped(schema: dict[str, Any], key: str) -> dict[str, Any]:
    place = f"#/properties/{key}"
    inner = {name: part for name, part in schema.items() if name not in _OF_THE_ROOT}
    definitions = {name: schema[name] for name in _DEFINITIONS if name in schema}
    return {
        "type": "object",
        "properties": {key: _moved(inner, place)},
        "required": [key],
        "additionalProperties": False,
        **_moved(definitions, place),
    }


def _moved(node: Any, place: str) -> Any:
    """A part of a schema whose root has moved to ``place``, while its definitions have not."""
    if isinstance(node, list):
        return [_moved(part, place) for part in node]
    if not isinstance(node, dict):
        return node
    out = {name: _moved(part, place) for name, part in node.items()}
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#") and not ref.startswith(("#/$defs/", "#/definitions/")):
        out["$ref"] = place + ref[1:]
    return out


def asking_prompt(prompt: list[dict[str, Any]], options: StructuredOutputOptions, model: Any) -> list[dict[str, Any]]:
    """The prompt with the wish for JSON in it; the given one stays as it is (R12.31)."""
    is_injected = not is_native(options, model)
    wish = schema_text(options) if is_injected else options.instructions
    if not wish:
        return prompt
    if is_injected and options.json_prompt_injection == "inline":
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


# What the model says.


def parse_object(options: StructuredOutputOptions, text: str) -> ParsedObject:
    """The object that the processed text holds; one code fence around it does no harm.

    Raises:
        StructuredOutputError: it does not fit.
    """
    assert options.parsed is not None
    fenced = _FENCED.fullmatch(text)
    try:
        value = options.parsed.validate_json(_unwrapped(options, fenced.group(1) if fenced else text))
        return ParsedObject(value, to_serializable(options.parsed.dump(value)))
    except SchemaMismatch as error:
        raise StructuredOutputError(error.problems) from error
    except UnicodeEncodeError as error:
        raise StructuredOutputError(["(root): half of a surrogate pair is no text"]) from error
    except ToolError as error:
        raise StructuredOutputError([f"(root): {error}"]) from error


def _unwrapped(options: StructuredOutputOptions, text: str) -> str:
    key = options.wrapper
    if key is None:
        return text
    try:
        members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return text
    return bytes(members[key]).decode() if members.keys() == {key} else text


def without_object(options: StructuredOutputOptions, error: BaseException) -> ParsedObject:
    """What there is in place of an object, once it is certain that there is none (R12.33).

    Raises:
        Exception: ``error``, where the strategy is ``strict``.
    """
    if options.error_strategy == "strict":
        raise error
    if options.error_strategy == "fallback":
        return ParsedObject(options.fallback_value, to_serializable(options.fallback_value), is_fallback=True)
    _log.warning("there is no object: %s", error)
    return ParsedObject(None)


_COPIED_PER_CHARACTER = 128
"""Bytes of partial objects for each character of the text: enough for one at nearly every piece of a usual object, and
a bound that grows with the text and not with its square."""

_COPIED_AT_LEAST = 100_000
"""Bytes of partial objects that every text may have."""


class PartialObject:
    """The object of an answer that is still being written."""

    __slots__ = ("_allowance", "_is_new", "_json", "_wrapper")

    def __init__(self, options: StructuredOutputOptions) -> None:
        self._wrapper = options.wrapper
        self._json = PartialJson()
        self._allowance = _COPIED_AT_LEAST
        self._is_new = False

    def add(self, piece: str) -> Any:
        """The object as far as it can be read now; ``None`` when there is nothing new that is worth its copy."""
        self._is_new |= self._json.add(piece)
        self._allowance += _COPIED_PER_CHARACTER * len(piece)
        if not self._is_new:
            return None
        size = self._json.size
        if size > self._allowance and not self._json.is_over:
            return None
        self._is_new = False
        self._allowance -= size
        value = self._json.value
        return value.get(self._wrapper) if self._wrapper is not None and isinstance(value, dict) else value
