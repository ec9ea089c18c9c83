"""JSON Schemas as Gemini takes them, for the arguments of functions and for answers.

Gemini knows a part of JSON Schema and refuses or ignores the rest; the part is listed at ``responseJsonSchema`` in the
API's reference. A limit that it does not know is told in the description, and still checked by whoever asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

_KNOWN = frozenset(
    {
        *("type", "format", "title", "description", "required", "propertyOrdering"),
        *("minItems", "maxItems", "minimum", "maximum"),
    }
)
_SILENT = frozenset({"$schema", "$id", "$comment", "$anchor", "default", "examples", "deprecated", "discriminator"})
"""Keywords that say nothing about which values fit."""


def to_gemini_schema(schema: Any) -> dict[str, Any]:
    """``schema`` in Gemini's words; the given one is not changed."""
    if not isinstance(schema, dict):
        return {}
    out: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for keyword, value in schema.items():
        match keyword:
            case "properties" | "$defs" | "definitions":
                name = "$defs" if keyword == "definitions" else keyword
                out[name] = {**out.get(name, {}), **{key: to_gemini_schema(part) for key, part in value.items()}}
            case "items":
                out[keyword] = to_gemini_schema(value)
            case "anyOf" | "oneOf":
                out["anyOf"] = [to_gemini_schema(part) for part in value]
            case "prefixItems":
                out[keyword] = [to_gemini_schema(part) for part in value]
            case "additionalProperties":
                out[keyword] = value if isinstance(value, bool) else to_gemini_schema(value)
            case "const":
                _put_choice(out, limits, [value])
            case "enum":
                _put_choice(out, limits, value)
            case "$ref":
                out[keyword] = value.replace("#/definitions/", "#/$defs/")
            case "allOf":
                pass
            case _ if keyword in _KNOWN:
                out[keyword] = value
            case _ if keyword not in _SILENT:
                limits[keyword] = value
    for part in schema.get("allOf") or ():
        _merge(out, to_gemini_schema(part))
    if limits:
        told = ", ".join(f"{key}: {msgspec.json.encode(value).decode()}" for key, value in limits.items())
        out["description"] = f"{out['description']}\n{told}" if "description" in out else told
    return _with_lone_reference(out)


def is_endless(schema: dict[str, Any]) -> bool:
    """Whether a value that fits would have to hold another one of its kind, as far as Gemini can see.

    Gemini follows a schema's references to itself only through properties that are not required.
    """
    known: dict[str, Any] = {f"#/$defs/{name}": part for name, part in schema.get("$defs", {}).items()}
    known["#"] = schema
    done: set[str] = set()

    def leads_back(part: Any, trail: frozenset[str]) -> bool:
        if not isinstance(part, dict):
            return False
        target = part.get("$ref")
        if target in trail:
            return True
        if target in known and target not in done:
            if leads_back(known[target], trail | {target}):
                return True
            done.add(target)
        return _any_demanded(part, lambda inner: leads_back(inner, trail))

    return leads_back(schema, frozenset({"#"}))


def _any_demanded(part: dict[str, Any], test: Callable[[Any], bool]) -> bool:
    """Whether the test holds for a part of this schema that Gemini cannot leave out."""
    required = part.get("required") or ()
    inner = [schema for name, schema in part.get("properties", {}).items() if name in required]
    inner += [part.get("items"), part.get("additionalProperties")]
    inner += [*part.get("anyOf", ()), *part.get("prefixItems", ())]
    return any(test(one) for one in inner)


def _put_choice(out: dict[str, Any], limits: dict[str, Any], values: list[Any]) -> None:
    """One of some values. Gemini takes strings and numbers; ``null`` is a type."""
    choices = [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
    if len(choices) + (None in values) < len(values):
        limits["one of"] = values
        return
    if choices:
        out["enum"] = choices
    if None in values and "type" not in out:
        out["type"] = ["string", "null"] if choices else "null"


def _merge(out: dict[str, Any], part: dict[str, Any]) -> None:
    """Put one of the schemas that all have to fit into the schema which demands them."""
    for keyword, value in part.items():
        if keyword in ("properties", "$defs"):
            out[keyword] = {**value, **out.get(keyword, {})}
        elif keyword == "required":
            out[keyword] = [*out.get(keyword, ()), *(name for name in value if name not in out.get(keyword, ()))]
        else:
            out.setdefault(keyword, value)


def _with_lone_reference(out: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: beside it nothing may be said."""
    if "$ref" not in out or all(keyword.startswith("$") for keyword in out):
        return out
    return {**{key: value for key, value in out.items() if key != "$ref"}, "anyOf": [{"$ref": out["$ref"]}]}
