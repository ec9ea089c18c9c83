from __future__ import annotations

from typing import Any, Literal

import pytest
from anthropic import transform_schema
from pydantic import BaseModel, Field

from interlock.models.anthropic.schema import to_output_schema


class Address(BaseModel):
    street: str
    zip: str | None = Field(None, min_length=4, description="Postal code")


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0, le=150)
    kind: Literal["a", "b"]
    home: Address | None
    others: list[Address] = Field(min_length=2)
    born: str = Field(json_schema_extra={"format": "date"})


@pytest.mark.parametrize("model", [Address, Person])
def test_schemas_of_pydantic_models_have_the_shape_that_the_sdk_gives_them(model: type[BaseModel]) -> None:
    ours = to_output_schema(model.model_json_schema())
    assert without_words(ours) == without_words(transform_schema(model))


def without_words(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_words(value) for key, value in schema.items() if key != "description"}
    return [without_words(item) for item in schema] if isinstance(schema, list) else schema


def test_limits_on_values_move_into_the_description() -> None:
    schema = {"type": "integer", "minimum": 1, "maximum": 9, "description": "A digit."}
    assert to_output_schema(schema) == {"type": "integer", "description": "A digit.\nminimum: 1, maximum: 9"}


@pytest.mark.parametrize(
    ("schema", "fitted"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "string"}, {"const": 1}]}, {"anyOf": [{"type": "string"}, {"const": 1}]}),
        ({"type": "string", "enum": ["a"]}, {"enum": ["a"]}),
        ({"type": "string", "format": "email"}, {"type": "string", "format": "email"}),
        ({"type": "string", "format": "odd"}, {"type": "string", "description": 'format: "odd"'}),
        ({"type": "array", "items": {"type": "null"}, "minItems": 1}, None),
        ({"$schema": "x", "type": "boolean"}, {"type": "boolean"}),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
    ],
)
def test_what_the_format_knows_is_kept(schema: dict[str, Any], fitted: dict[str, Any] | None) -> None:
    assert to_output_schema(schema) == (fitted or schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"enum": [{"a": 1}]},
        {"type": "elephant"},
        {"$ref": "https://x.example/schema"},
        {"$defs": {"N": {"type": "array", "items": {"$ref": "#/$defs/N"}}}, "$ref": "#/$defs/N"},
        {
            "$defs": {
                "A": {"type": "array", "items": {"$ref": "#/$defs/B"}},
                "B": {"type": "array", "items": {"$ref": "#/$defs/A"}},
            },
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
        },
        True,
    ],
)
def test_what_the_format_cannot_express_is_recognised(schema: Any) -> None:
    """FR-135"""
    assert to_output_schema(schema) is None


def test_a_definition_may_be_used_twice() -> None:
    schema = {
        "$defs": {"A": {"type": "string"}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}},
    }
    assert to_output_schema(schema) == {**schema, "additionalProperties": False}
