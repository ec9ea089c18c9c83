"""JSON Schemas in the form that Anthropic's output format takes."""

from __future__ import annotations

from typing import Any

import msgspec

_DEFINITIONS = ("$defs", "definitions")
_FORMATS = frozenset(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"])
_SILENT = ("$schema", "$id", "$comment")


class _Inexpressible(Exception):
    """A part of the schema allows what the output format cannot."""


def to_output_schema(schema: Any) -> dict[str, Any] | None:
    """``schema`` with closed objects and without limits on values, which move into the descriptions.

    Returns:
        ``None`` if the format cannot express it: recursion, objects with keys of any name, values of any type.
    """
    try:
        fitted = _fitted(schema)
    except _Inexpressible:
        return None
    return None if _is_recursive(fitted) else fitted


def _fitted(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _Inexpressible
    rest = {key: value for key, value in schema.items() if key not in _SILENT}
    fitted: dict[str, Any] = {}
    for key in _DEFINITIONS:
        if key in rest:
            fitted[key] = {name: _fitted(part) for name, part in rest.pop(key).items()}
    if "$ref" in rest:
        return {**fitted, "$ref": rest["$ref"]}
    for key in ("title", "description"):
        if key in rest:
            fitted[key] = rest.pop(key)
    fitted |= _fitted_kind(rest)
    if rest:
        limits = ", ".join(f"{key}: {msgspec.json.encode(value).decode()}" for key, value in rest.items())
        fitted["description"] = f"{fitted['description']}\n{limits}" if "description" in fitted else limits
    return fitted


def _fitted_kind(rest: dict[str, Any]) -> dict[str, Any]:
    """What says which values fit; it is taken out of ``rest``."""
    kind = rest.pop("type", None)
    for key in ("enum", "const"):
        if key in rest:
            values = rest.pop(key)
            if any(isinstance(value, (dict, list)) for value in (values if key == "enum" else [values])):
                raise _Inexpressible
            return {key: values}
    for key, name in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if key in rest:
            return {name: [_fitted(part) for part in rest.pop(key)]}
    if isinstance(kind, list):
        variants = [_fitted({**rest, "type": one} if one != "null" else {"type": one}) for one in kind]
        rest.clear()
        return {"anyOf": variants}
    match kind:
        case "object":
            return {"type": "object", **_fitted_object(rest)}
        case "array":
            return {"type": "array", **_fitted_array(rest)}
        case "string":
            wanted = rest.get("format")
            return {"type": "string", **({"format": rest.pop("format")} if wanted in _FORMATS else {})}
        case "integer" | "number" | "boolean" | "null":
            return {"type": kind}
    raise _Inexpressible


def _fitted_object(rest: dict[str, Any]) -> dict[str, Any]:
    properties = rest.pop("properties", None) or {}
    extra = rest.pop("additionalProperties", True)
    if "patternProperties" in rest or (not properties and extra is not False):
        raise _Inexpressible
    out = {"properties": {name: _fitted(part) for name, part in properties.items()}, "additionalProperties": False}
    if "required" in rest:
        out["required"] = list(rest.pop("required"))
    return out


def _fitted_array(rest: dict[str, Any]) -> dict[str, Any]:
    if "prefixItems" in rest or "items" not in rest:
        raise _Inexpressible
    out: dict[str, Any] = {"items": _fitted(rest.pop("items"))}
    if rest.get("minItems") in (0, 1):
        out["minItems"] = rest.pop("minItems")
    return out


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Whether a definition leads back to itself, or a reference to nothing that the schema defines."""
    known = {f"#/{key}/{name}": part for key in _DEFINITIONS for name, part in schema.get(key, {}).items()}
    done: set[str] = set()

    def leads_back(part: Any, trail: frozenset[str]) -> bool:
        if isinstance(part, list):
            return any(leads_back(item, trail) for item in part)
        if not isinstance(part, dict):
            return False
        target = part.get("$ref")
        if isinstance(target, str) and target not in done:
            if target in trail or target not in known or leads_back(known[target], trail | {target}):
                return True
            done.add(target)
        return any(leads_back(item, trail) for key, item in part.items() if key not in _DEFINITIONS)

    return leads_back(schema, frozenset())
