"""Which JSON Schemas OpenAI's strict mode takes."""

from __future__ import annotations

from typing import Any


def fits_strict_mode(schema: Any) -> bool:
    """Whether every object in ``schema`` is closed and requires all its properties, as strict mode demands.

    A schema that does not fit is sent without ``strict``: OpenAI would refuse it.
    """
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties") or {}
    is_object = schema.get("type") == "object" or bool(properties)
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != set(properties)
    ):
        return False
    parts = [*properties.values(), schema.get("items")]
    for key in ("$defs", "definitions"):
        parts.extend((schema.get(key) or {}).values())
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        parts.extend(schema.get(key) or ())
    return all(fits_strict_mode(part) for part in parts)
