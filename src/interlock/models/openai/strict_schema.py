"""JSON Schemas as OpenAI's strict mode takes them: it refuses a request whose schema goes beyond what it enforces."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 10
MAX_PROPERTIES = 5000
MAX_ENUM_VALUES = 1000
"""Limits of one schema, from OpenAI's guide to structured outputs."""

_ANNOTATIONS = frozenset({"default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"})
"""Keywords that strict mode refuses although they demand nothing."""

_KEPT = frozenset(
    {
        *("type", "title", "description", "enum", "const", "$ref", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
    }
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_SHAPES = frozenset({"type", "enum", "const", "$ref", "anyOf"})
"""A schema without any of these allows anything, which strict mode does not."""


def strict_form(schema: Any) -> dict[str, Any] | None:
    """``schema`` in a form that strict mode takes, or ``None`` if it has none; the given one is not changed.

    Objects are closed, a property that may be null becomes required, ``oneOf`` becomes ``anyOf``, and annotations that
    strict mode refuses go. A schema with open objects, with properties that may only be absent, with keywords that
    strict mode does not enforce, or beyond its limits has no strict form: it is sent as it is, without ``strict``.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object" or "$ref" in schema:
        return None
    try:
        return _Rewriting().rewrite(schema, depth=1)
    except _NotStrictError:
        return None


def response_schema(wanted: dict[str, Any], is_strict: bool | None) -> dict[str, Any]:
    """Name, schema, ``strict`` and description of a response format, as both of OpenAI's protocols have them.

    Args:
        wanted: A request's ``response_format`` with a schema.
        is_strict: Whether the caller wants strict mode; ``None`` where the schema has a strict form.
    """
    schema = wanted["schema"]
    strict = None if is_strict is False else strict_form(schema)
    described = {
        "name": wanted.get("name") or "response",
        "schema": schema if strict is None else strict,
        "strict": is_strict is True or strict is not None,
    }
    if wanted.get("description"):
        described["description"] = wanted["description"]
    return described


class _NotStrictError(Exception):
    """The schema has no strict form."""


class _Rewriting:
    def __init__(self) -> None:
        self._properties = 0
        self._enum_values = 0

    def rewrite(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict):
            raise _NotStrictError
        if "$ref" in schema and "$defs" not in schema:
            # Nothing may stand beside a reference.
            return {"$ref": schema["$ref"]}
        out: dict[str, Any] = {}
        for keyword, value in schema.items():
            match keyword:
                case "properties":
                    self._count_properties(value, depth)
                    out[keyword] = {name: self.rewrite(part, depth + 1) for name, part in value.items()}
                case "items":
                    out[keyword] = self.rewrite(value, depth + 1)
                case "anyOf" | "oneOf":
                    out["anyOf"] = [self.rewrite(part, depth) for part in value]
                case "$defs" | "definitions":
                    out[keyword] = {name: self.rewrite(part, 1) for name, part in value.items()}
                case "enum":
                    self._enum_values += len(value)
                    out[keyword] = value
                case "format" if value in _FORMATS:
                    out[keyword] = value
                case "required" | "additionalProperties" | "format" | "discriminator":
                    pass
                case _ if keyword in _KEPT:
                    out[keyword] = value
                case _ if keyword not in _ANNOTATIONS:
                    raise _NotStrictError
        if not _SHAPES & out.keys() or self._enum_values > MAX_ENUM_VALUES:
            raise _NotStrictError
        if schema.get("type") == "array" and "items" not in out:
            raise _NotStrictError
        if _is_object(schema):
            _close(schema, out)
        return out

    def _count_properties(self, properties: dict[str, Any], depth: int) -> None:
        self._properties += len(properties)
        if self._properties > MAX_PROPERTIES or depth > MAX_DEPTH:
            raise _NotStrictError


def _close(schema: dict[str, Any], out: dict[str, Any]) -> None:
    if schema.get("additionalProperties", False) is not False or "properties" not in schema:
        raise _NotStrictError
    optional = set(schema["properties"]) - set(schema.get("required") or ())
    if not all(_takes_null(schema["properties"][name]) for name in optional):
        raise _NotStrictError
    out["required"] = list(schema["properties"])
    out["additionalProperties"] = False


def _is_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _takes_null(schema: Any) -> bool:
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(_takes_null(part) for key in ("anyOf", "oneOf") for part in schema.get(key) or ())
