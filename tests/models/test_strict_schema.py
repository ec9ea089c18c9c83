from __future__ import annotations

from typing import Any

import pytest

from interlock.models.strict_schema import fits_strict_mode


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
OPEN = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        closed(),
        closed(a=TEXT, b={"type": "array", "items": closed(c=TEXT)}),
        closed(required=TEXT, properties=TEXT, enum=TEXT),
        {"$defs": {"A": closed(a=TEXT)}, **closed(a={"$ref": "#/$defs/A"})},
        closed(a={"anyOf": [TEXT, {"type": "null"}]}),
    ],
)
def test_closed_objects_that_require_everything_fit(schema: dict[str, Any]) -> None:
    """R12.32"""
    assert fits_strict_mode(schema)


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        {**closed(a=TEXT), "required": []},
        {"type": "object"},
        closed(a=OPEN),
        closed(a={"type": "array", "items": OPEN}),
        closed(a={"anyOf": [TEXT, OPEN]}),
        {"$defs": {"A": OPEN}, **closed(a={"$ref": "#/$defs/A"})},
    ],
)
def test_an_open_object_anywhere_does_not_fit(schema: dict[str, Any]) -> None:
    """R12.32"""
    assert not fits_strict_mode(schema)
