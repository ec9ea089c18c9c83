from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from interlock.models.google.schema import is_endless, to_gemini_schema


@pytest.mark.parametrize(
    ("schema", "fitted"),
    [
        ({"type": "string", "title": "Name", "default": "x", "$schema": "s"}, {"type": "string", "title": "Name"}),
        ({"const": "cat"}, {"enum": ["cat"]}),
        ({"type": "string", "const": "cat"}, {"type": "string", "enum": ["cat"]}),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a"]}),
        ({"const": None}, {"type": "null"}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"items": {"const": 1}, "minItems": 1}, {"items": {"enum": [1]}, "minItems": 1}),
        ({"type": "array", "prefixItems": [{"const": 1}]}, {"type": "array", "prefixItems": [{"enum": [1]}]}),
        ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ({"additionalProperties": {"const": "a"}}, {"additionalProperties": {"enum": ["a"]}}),
        (True, {}),
    ],
)
def test_keywords_are_reworded_or_left_out(schema: Any, fitted: dict[str, Any]) -> None:
    """R12.32"""
    assert to_gemini_schema(schema) == fitted


@pytest.mark.parametrize(
    ("schema", "description"),
    [
        ({"type": "string", "pattern": "^a"}, 'pattern: "^a"'),
        ({"description": "A code.", "minLength": 2, "maxLength": 4}, "A code.\nminLength: 2, maxLength: 4"),
        ({"enum": [True, "x"]}, 'one of: [true,"x"]'),
    ],
)
def test_a_limit_that_gemini_does_not_know_is_told_in_the_description(schema: Any, description: str) -> None:
    """R12.32"""
    assert to_gemini_schema(schema)["description"] == description


def test_nothing_is_said_beside_a_reference() -> None:
    """R12.32"""
    assert to_gemini_schema({"$ref": "#/$defs/A"}) == {"$ref": "#/$defs/A"}
    described = to_gemini_schema({"$ref": "#/definitions/A", "description": "The first."})
    assert described == {"description": "The first.", "anyOf": [{"$ref": "#/$defs/A"}]}


def test_definitions_have_one_name() -> None:
    schema = {"$ref": "#/definitions/A", "definitions": {"A": {"const": 1}}}
    assert to_gemini_schema(schema) == {"$ref": "#/$defs/A", "$defs": {"A": {"enum": [1]}}}


def test_schemas_that_all_have_to_fit_become_one() -> None:
    first = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    second = {"properties": {"b": {"type": "string"}}, "required": ["a", "b"]}
    assert to_gemini_schema({"type": "object", "allOf": [first, second]}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    assert to_gemini_schema({"description": "x", "allOf": [{"$ref": "#/$defs/A"}]}) == {
        "description": "x",
        "anyOf": [{"$ref": "#/$defs/A"}],
    }


def test_the_given_schema_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "allOf": [{"properties": {"b": {}}}]}
    to_gemini_schema(schema)
    assert schema == {"type": "object", "properties": {"a": {"const": 1}}, "allOf": [{"properties": {"b": {}}}]}


class Leaf(BaseModel):
    kind: Literal["leaf"]
    size: int = Field(ge=0, multiple_of=2)


class Tree(BaseModel):
    name: str
    leaves: list[Leaf]
    first: Tree | None = None


class Chain(BaseModel):
    links: list[Chain]


class Pair(BaseModel):
    left: Leaf
    right: Leaf


@pytest.mark.parametrize(("model", "endless"), [(Tree, False), (Chain, True), (Pair, False)])
def test_only_what_is_required_makes_a_schema_endless(model: type[BaseModel], endless: bool) -> None:
    """R12.32"""
    assert is_endless(to_gemini_schema(model.model_json_schema())) is endless


def test_a_schema_that_refers_to_all_of_itself_is_endless() -> None:
    assert is_endless({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})
    assert not is_endless({"type": "object", "properties": {"a": {"$ref": "#"}}})
