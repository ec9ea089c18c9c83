"""Checking arguments against JSON Schemas that come as data."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.errors import ConfigurationError
from interlock.tools import SchemaMismatch, as_schema


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    try:
        as_schema(schema, owner="the schema").validate(value)
    except SchemaMismatch as mismatch:
        return mismatch.problems
    return []


TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}
DEFS = {"$defs": {"a/b": {"enum": ["x"]}}, "type": "object", "properties": {"p": {"$ref": "#/$defs/a~1b"}}}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 3, []),
        ({"type": "integer"}, 3.0, []),
        ({"type": "integer"}, 3.5, ["(root): must be integer, is number"]),
        ({"type": "integer"}, True, ["(root): must be integer, is boolean"]),
        ({"type": "number"}, 3, []),
        ({"type": "number"}, False, ["(root): must be number, is boolean"]),
        ({"type": "boolean"}, 0, ["(root): must be boolean, is integer"]),
        ({"type": ["string", "null"]}, None, []),
        ({"type": ["string", "null"]}, 1, ["(root): must be string or null, is integer"]),
        ({"type": "object"}, [], ["(root): must be object, is array"]),
        ({"enum": ["a", 1]}, 1, []),
        ({"enum": ["a", 1]}, True, ["(root): must be one of 'a', 1"]),
        ({"const": 0}, False, ["(root): 0 was expected"]),
        ({"minimum": 2, "maximum": 3}, 1, ["(root): 1 is less than the minimum of 2"]),
        ({"minimum": 2, "maximum": 3}, 4, ["(root): 4 is greater than the maximum of 3"]),
        ({"exclusiveMinimum": 2}, 2, ["(root): 2 is less than or equal to the minimum of 2"]),
        ({"exclusiveMaximum": 2}, 2, ["(root): 2 is greater than or equal to the maximum of 2"]),
        ({"minimum": 0, "exclusiveMinimum": True}, 1, []),
        ({"minimum": 0, "exclusiveMinimum": True}, 0, ["(root): 0 is less than or equal to the minimum of 0"]),
        ({"minLength": 2}, "a", ["(root): must have at least 2 characters"]),
        ({"maxLength": 2}, "abc", ["(root): must have at most 2 characters"]),
        ({"minItems": 1}, [], ["(root): must have at least 1 items"]),
        ({"maxItems": 1}, [1, 2], ["(root): must have at most 1 items"]),
        ({"maxItems": 1}, "not a list", []),
        ({"items": {"type": "string"}}, ["a", 1], ["[1]: must be string, is integer"]),
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            ["a", "b"],
            ["[1]: must be integer, is string"],
        ),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3, []),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, ["(root): fits more than one of the alternatives"]),
        ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, 1, ["(root): 1 is less than the minimum of 2"]),
        ({"properties": {"a": False}}, {"a": 1}, ["(root): False schema does not allow 1"]),
        ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, ["a: must be integer, is string"]),
        ({"additionalProperties": False, "properties": {"b": {}}}, {"a": 1}, ["a: unknown; the known ones are b"]),
        ({"additionalProperties": False, "patternProperties": {"^a": {}}}, {"a": 1}, []),
        (
            TREE,
            {"name": "r", "children": [{"name": "c", "children": [{}]}]},
            ["children[0].children[0].name: required, but missing"],
        ),
        (DEFS, {"p": "y"}, ["p: must be one of 'x'"]),
        ({"$ref": "https://example.org/other.json"}, 1, []),
        ({"pattern": "^[0-9]+$"}, "12", []),
        ({"pattern": "^[0-9]+$"}, "x", ["(root): must match '^[0-9]+$'"]),
        ({"pattern": "(", "format": "date"}, "anything", []),
        ({"items": [{"type": "string"}]}, [1], ["[0]: must be string, is integer"]),
        ({"if": {"minimum": 5}, "then": {"multipleOf": 5}}, 6, ["(root): 6 is not a multiple of 5"]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ["(root): 'b' is a dependency of 'a'"]),
        ({"not": {"type": "string"}}, 1, []),
        ({"uniqueItems": True}, [1, 1], ["(root): [1, 1] has non-unique elements"]),
    ],
)
def test_values_are_checked_for_what_a_model_gets_wrong(
    schema: dict[str, Any], value: Any, expected: list[str]
) -> None:
    assert problems(schema, value) == expected


def test_the_alternative_that_fits_best_is_explained() -> None:
    shape = {"type": "object", "required": ["kind", "size"], "properties": {"kind": {"const": "b"}, "size": {}}}
    assert problems({"anyOf": [{"type": "string"}, {"type": "null"}, shape]}, {"kind": "b"}) == [
        "(root): must be string, is object"
    ]
    assert problems({"anyOf": [{**shape, "required": ["x", "y"]}, shape]}, {"kind": "b"}) == [
        "size: required, but missing"
    ]


def test_a_reference_to_nothing_is_found_when_the_schema_is_given() -> None:
    with pytest.raises(ConfigurationError, match="the schema refers to '#/\\$defs/gone', which it does not contain"):
        as_schema({"properties": {"a": {"$ref": "#/$defs/gone"}}}, owner="the schema")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strnig"}, "'strnig' is no type; the types are null, boolean"),
        ({"properties": {"a": {"type": "text"}}}, "'text' is no type"),
        ({"properties": {"a": 3}}, "properties.a: 3 is not of type 'object', 'boolean'"),
        ({"required": "a"}, "required: 'a' is not of type 'array'"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 3}, "exclusiveMinimum: 3 is not"),
    ],
)
def test_what_is_no_schema_is_refused_when_it_is_given(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"the schema is no JSON Schema: {problem}")):
        as_schema(schema, owner="the schema")


def test_a_problem_does_not_quote_a_whole_document() -> None:
    (problem,) = problems({"not": {"type": "string"}}, "x" * 10_000)
    assert len(problem) < 400


def test_a_schema_that_never_ends_is_a_mismatch_and_no_crash() -> None:
    assert problems({"allOf": [{"$ref": "#"}]}, 1) == ["(root): nested too deeply to be checked"]


def test_the_given_schema_is_copied() -> None:
    given: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    schema = as_schema(given, owner="the schema")
    given["properties"]["a"]["type"] = "integer"
    assert schema.json_schema == {"properties": {"a": {"type": "string"}}}
