"""Checking arguments against JSON Schemas that come as data."""

from __future__ import annotations

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
        ({"const": 0}, False, ["(root): must be 0"]),
        ({"minimum": 2, "maximum": 3}, 1, ["(root): must be at least 2"]),
        ({"minimum": 2, "maximum": 3}, 4, ["(root): must be at most 3"]),
        ({"exclusiveMinimum": 2}, 2, ["(root): must be greater than 2"]),
        ({"exclusiveMaximum": 2}, 2, ["(root): must be less than 2"]),
        ({"minimum": 0, "exclusiveMinimum": True}, 0, []),
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
        ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, 1, ["(root): must be at least 2"]),
        ({"properties": {"a": False}}, {"a": 1}, ["a: not allowed"]),
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
        ({"pattern": "(", "format": "date"}, "anything", []),
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


def test_a_schema_that_never_ends_is_a_mismatch_and_no_crash() -> None:
    assert problems({"allOf": [{"$ref": "#"}]}, 1) == ["(root): nested too deeply to be checked"]


def test_the_given_schema_is_copied() -> None:
    given: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    schema = as_schema(given, owner="the schema")
    given["properties"]["a"]["type"] = "integer"
    assert schema.json_schema == {"properties": {"a": {"type": "string"}}}
