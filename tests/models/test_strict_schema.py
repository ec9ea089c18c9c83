from __future__ import annotations

from typing import Any, Literal

import pytest
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field

from interlock.models.openai.strict_schema import MAX_DEPTH, MAX_ENUM_VALUES, response_schema, strict_form


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
NUMBER_OR_NULL = {"anyOf": [{"type": "number"}, {"type": "null"}]}
OPEN = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": True}


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a=TEXT, b={"type": "array", "items": closed(c=TEXT)}),
        closed(required=TEXT, properties=TEXT, enum=TEXT),
        {"$defs": {"A": closed(a=TEXT)}, **closed(a={"$ref": "#/$defs/A"})},
        closed(a=NUMBER_OR_NULL, b={"enum": ["x", "y"]}, c={"type": "string", "format": "date-time"}),
    ],
)
def test_closed_objects_that_require_everything_are_strict_already(schema: dict[str, Any]) -> None:
    """R12.32"""
    assert strict_form(schema) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, closed(a=TEXT)),
        ({"type": "object", "properties": {"a": {**NUMBER_OR_NULL, "default": None}}}, closed(a=NUMBER_OR_NULL)),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, closed(a={"type": ["string", "null"]})),
        (closed(a={"oneOf": [TEXT, {"type": "null"}]}), closed(a={"anyOf": [TEXT, {"type": "null"}]})),
        (closed(a={"type": "string", "format": "uri", "examples": ["x"]}), closed(a=TEXT)),
        (closed(a={"$ref": "#/$defs/A", "description": "one"}), closed(a={"$ref": "#/$defs/A"})),
    ],
    ids=["closing", "nullable", "null type", "oneOf", "annotations", "reference"],
)
def test_a_schema_is_narrowed_to_what_strict_mode_takes(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """R12.32, FR-135"""
    assert strict_form(schema) == expected


def nested(depth: int) -> dict[str, Any]:
    schema = closed(a=TEXT)
    for _ in range(depth - 1):
        schema = closed(a=schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"type": "array", "items": closed(a=TEXT)},
        {"anyOf": [closed(a=TEXT)]},
        {"$ref": "#/$defs/A", "type": "object", "$defs": {"A": closed(a=TEXT)}},
        {"type": "object"},
        OPEN,
        closed(a=OPEN),
        closed(a={"type": "array", "items": OPEN}),
        closed(a={"type": "array"}),
        closed(a={"anyOf": [TEXT, OPEN]}),
        closed(a={}),
        closed(a=True),
        {**closed(a=TEXT), "required": []},
        closed(a={"allOf": [TEXT]}),
        closed(a={"type": "string", "minLength": 3}),
        nested(MAX_DEPTH + 1),
        closed(a={"enum": [str(number) for number in range(MAX_ENUM_VALUES + 1)]}),
    ],
    ids=lambda schema: str(schema)[:60],
)
def test_what_strict_mode_cannot_enforce_has_no_strict_form(schema: dict[str, Any]) -> None:
    """R12.32, FR-135"""
    assert strict_form(schema) is None


def test_a_schema_as_deep_as_allowed_is_strict() -> None:
    assert strict_form(nested(MAX_DEPTH)) is not None


class Line(BaseModel):
    """One line of an order."""

    article: str = Field(description="What was bought.")
    count: int = Field(ge=1)
    note: str | None = None


class Order(BaseModel):
    kind: Literal["new", "change"]
    lines: list[Line]
    first: Line
    total: float | None


def test_a_pydantic_model_becomes_what_the_sdk_makes_of_it() -> None:
    """R12.32"""
    assert strict_form(Order.model_json_schema()) == to_strict_json_schema(Order)


def test_the_given_schema_is_not_changed() -> None:
    schema = Order.model_json_schema()
    strict_form(schema)
    assert schema == Order.model_json_schema()


LOOSE = {"type": "object", "properties": {"a": NUMBER_OR_NULL}}


@pytest.mark.parametrize(
    ("is_strict", "schema", "expected"),
    [
        (None, LOOSE, {"name": "response", "schema": closed(a=NUMBER_OR_NULL), "strict": True}),
        (None, OPEN, {"name": "response", "schema": OPEN, "strict": False}),
        (False, LOOSE, {"name": "response", "schema": LOOSE, "strict": False}),
        (True, OPEN, {"name": "response", "schema": OPEN, "strict": True}),
    ],
)
def test_strict_mode_is_used_where_it_can_be_unless_told_otherwise(
    is_strict: bool | None, schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    """R12.32"""
    assert response_schema({"type": "json", "schema": schema}, is_strict) == expected


def test_name_and_description_of_the_object_are_sent() -> None:
    wanted = {"type": "json", "schema": LOOSE, "name": "order", "description": "An order."}
    described = response_schema(wanted, None)
    assert (described["name"], described["description"]) == ("order", "An order.")
