"""Checking plain JSON data against a JSON Schema that comes without code: client tools, MCP tools, raw schemas.

The check covers what a model gets wrong: types, missing and unknown members, enumerations, alternatives and limits.
Other keywords (``pattern``, ``format``, ``if``, …) are shown to the model and not checked here, and a ``$ref`` out of
the schema is not followed; whoever executes the call knows its own rules best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from interlock._json import copy_json
from interlock.errors import ConfigurationError
from interlock.tools.schema import Schema, SchemaMismatch, path_text, unknown_member

Path = tuple[str | int, ...]


class JsonSchema(Schema):
    """A JSON Schema given as data.

    Args:
        schema: The schema; copied.
        owner: Whose schema it is, for the error message.

    Raises:
        ConfigurationError: a ``$ref`` in it points to nothing.
    """

    __slots__ = ()

    def __init__(self, schema: Mapping[str, Any], *, owner: str = "the schema") -> None:
        super().__init__(copy_json(dict(schema)))
        for name in _unknown_types(self.json_schema):
            raise ConfigurationError(
                f"{owner} is no JSON Schema: {name!r} is no type; the types are {', '.join(_IS_TYPE)}"
            )
        for ref in _refs(self.json_schema):
            if ref.startswith("#") and _target(self.json_schema, ref) is None:
                raise ConfigurationError(f"{owner} refers to {ref!r}, which it does not contain")

    def validate(self, value: Any) -> Any:
        """``value`` itself, if it fits.

        Raises:
            SchemaMismatch: it does not fit.
        """
        try:
            problems = list(_problems(self.json_schema, value, (), self.json_schema))
        except RecursionError:
            problems = ["(root): nested too deeply to be checked"]
        if problems:
            raise SchemaMismatch(problems)
        return value


def _problems(schema: Any, value: Any, path: Path, root: dict[str, Any]) -> Iterator[str]:
    if schema is False:
        yield f"{path_text(path)}: not allowed"
    if not isinstance(schema, dict):
        return
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#"):
        yield from _problems(_target(root, ref), value, path, root)
    wrong_type = _type_problem(schema, value, path)
    if wrong_type is not None:
        # Every other complaint about a value of the wrong type would only repeat this one.
        yield wrong_type
        return
    yield from _choice_problems(schema, value, path, root)
    yield from _limit_problems(schema, value, path)
    if isinstance(value, dict):
        yield from _object_problems(schema, value, path, root)
    elif isinstance(value, list):
        yield from _array_problems(schema, value, path, root)


_IS_TYPE: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == value // 1,
    "number": lambda value: _is_number(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _type_problem(schema: dict[str, Any], value: Any, path: Path) -> str | None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted
    if not names or any(_IS_TYPE.get(name, _anything)(value) for name in names):
        return None
    return f"{path_text(path)}: must be {' or '.join(names)}, is {_json_type(value)}"


def _anything(value: Any) -> bool:
    return True


def _json_type(value: Any) -> str:
    """The JSON Schema name of a value's type."""
    return next((name for name, is_type in _IS_TYPE.items() if is_type(value)), type(value).__name__)


def _choice_problems(schema: dict[str, Any], value: Any, path: Path, root: dict[str, Any]) -> Iterator[str]:
    if "const" in schema and not _same(schema["const"], value):
        yield f"{path_text(path)}: must be {schema['const']!r}"
    if "enum" in schema and not any(_same(item, value) for item in schema["enum"]):
        yield f"{path_text(path)}: must be one of {', '.join(map(repr, schema['enum']))}"
    for part in schema.get("allOf", ()):
        yield from _problems(part, value, path, root)
    for keyword in ("anyOf", "oneOf"):
        if keyword not in schema:
            continue
        outcomes = [list(_problems(part, value, path, root)) for part in schema[keyword]]
        fits = sum(not outcome for outcome in outcomes)
        if fits == 0:
            # The alternative with the fewest complaints is the one that was most likely meant.
            yield from min(outcomes, key=len, default=[f"{path_text(path)}: not allowed"])
        elif fits > 1 and keyword == "oneOf":
            yield f"{path_text(path)}: fits more than one of the alternatives"


def _same(a: Any, b: Any) -> bool:
    # In JSON true is not 1; in Python True == 1.
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool], str]] = {
    "minimum": ("number", lambda value, limit: value >= limit, "must be at least {}"),
    "maximum": ("number", lambda value, limit: value <= limit, "must be at most {}"),
    "exclusiveMinimum": ("number", lambda value, limit: value > limit, "must be greater than {}"),
    "exclusiveMaximum": ("number", lambda value, limit: value < limit, "must be less than {}"),
    "minLength": ("string", lambda value, limit: len(value) >= limit, "must have at least {} characters"),
    "maxLength": ("string", lambda value, limit: len(value) <= limit, "must have at most {} characters"),
    "minItems": ("array", lambda value, limit: len(value) >= limit, "must have at least {} items"),
    "maxItems": ("array", lambda value, limit: len(value) <= limit, "must have at most {} items"),
}


def _limit_problems(schema: dict[str, Any], value: Any, path: Path) -> Iterator[str]:
    for keyword in _LIMITS.keys() & schema.keys():
        kind, holds, text = _LIMITS[keyword]
        limit = schema[keyword]
        # Draft 4 wrote a boolean for the exclusive limits.
        if _IS_TYPE[kind](value) and _IS_TYPE["number"](limit) and not holds(value, limit):
            yield f"{path_text(path)}: {text.format(limit)}"


def _object_problems(schema: dict[str, Any], value: dict[str, Any], path: Path, root: dict[str, Any]) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path_text((*path, name))}: required, but missing"
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from _problems(known[name], item, (*path, name), root)
        elif rest is False and "patternProperties" not in schema:
            yield unknown_member((*path, name), known)
        elif isinstance(rest, dict):
            yield from _problems(rest, item, (*path, name), root)


def _array_problems(schema: dict[str, Any], value: list[Any], path: Path, root: dict[str, Any]) -> Iterator[str]:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", True)
    for index, item in enumerate(value):
        yield from _problems(first[index] if index < len(first) else rest, item, (*path, index), root)


def _unknown_types(schema: Any) -> Iterator[Any]:
    """Every value of ``type`` that is none, where a ``type`` keyword can stand."""
    if not isinstance(schema, dict):
        return
    names = schema.get("type", [])
    for name in names if isinstance(names, list) else [names]:
        if not isinstance(name, str) or name not in _IS_TYPE:
            yield name
    for keyword in ("properties", "$defs", "definitions", "patternProperties"):
        members = schema.get(keyword)
        for member in members.values() if isinstance(members, dict) else ():
            yield from _unknown_types(member)
    for keyword in ("items", "additionalProperties", "not"):
        yield from _unknown_types(schema.get(keyword))
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        choices = schema.get(keyword)
        for choice in choices if isinstance(choices, list) else ():
            yield from _unknown_types(choice)


def _refs(schema: Any) -> Iterator[str]:
    """Every ``$ref`` of a schema."""
    if isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield ref
        for item in schema.values():
            yield from _refs(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from _refs(item)


def _target(root: Any, ref: str) -> Any:
    """What a local ``$ref`` (``#/$defs/x``) points to; ``None`` if there is nothing."""
    node = root
    for key in ref.removeprefix("#").split("/")[1:]:
        key = unquote(key).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict):
            node = node.get(key)
        else:
            return None
    return node
