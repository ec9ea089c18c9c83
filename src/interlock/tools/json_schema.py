"""JSON Schemas that come as data, such as those of client tools and MCP tools; importing this module loads jsonschema.

``jsonschema`` does the checking; what is here puts its findings into the words of a tool error. Two things are left
to whoever executes the call: ``format``, a note to the reader, and a ``pattern`` that Python's ``re`` cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft4Validator, Draft7Validator, Draft202012Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from interlock._json import copy_json
from interlock.errors import ConfigurationError
from interlock.tools.schema import Schema, SchemaMismatch, path_text, unknown_member

_DRAFTS = (Draft202012Validator, Draft7Validator, Draft4Validator)
"""What a schema that names no draft may be written in; the first one that it fits holds."""

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int),
    "number": lambda value: isinstance(value, float),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
"""How a value's type is called, the narrower name first."""

_SIZES = {
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
}
"""What jsonschema's own words leave out: the limit."""

_LONGEST_PROBLEM = 300
"""Characters of a problem in jsonschema's words, which may quote the whole value."""


class JsonSchema(Schema):
    """A JSON Schema given as data.

    Args:
        schema: The schema, of any draft from 4 to 2020-12; copied.
        owner: Whose schema it is, for the error message.

    Raises:
        ConfigurationError: it is no JSON Schema, or a ``$ref`` in it points to nothing.
    """

    __slots__ = ("_validator",)

    def __init__(self, schema: Mapping[str, Any], *, owner: str = "the schema") -> None:
        super().__init__(copy_json(dict(schema)))
        self._validator = _read(self.json_schema, owner)

    def validate(self, value: Any) -> Any:
        """``value`` itself, if it fits.

        Raises:
            SchemaMismatch: it does not fit.
        """
        try:
            problems = list(_problems(self._validator.iter_errors(value)))
        except RecursionError:
            problems = ["(root): nested too deeply to be checked"]
        if problems:
            raise SchemaMismatch(problems)
        return value


# -- reading a schema ---------------------------------------------------------------------------------------------


def _read(schema: dict[str, Any], owner: str) -> Validator:
    kinds = [validator_for(schema, default=Draft202012Validator)] if "$schema" in schema else _DRAFTS
    errors = [_schema_error(kind, schema) for kind in kinds]
    if None not in errors:
        raise ConfigurationError(f"{owner} is no JSON Schema: {_schema_problem(errors[0])}")
    kind = kinds[errors.index(None)]
    specification = specification_with(kind.META_SCHEMA.get("$schema") or "", default=DRAFT202012)
    resource = Resource.from_contents(schema, default_specification=specification)
    registry: Registry[Any] = Registry(retrieve=_elsewhere)  # type: ignore[call-arg]  # the alias of a private field
    for reference in _broken_references(resource, registry.resolver_with_root(resource)):
        raise ConfigurationError(f"{owner} refers to {reference!r}, which it does not contain")
    checker: Validator = extend(kind, {"pattern": _pattern})(schema, registry=registry)  # type: ignore[no-untyped-call]
    return checker


def _schema_error(kind: type[Validator], schema: dict[str, Any]) -> SchemaError | None:
    try:
        # Without the formats: a pattern in another language's dialect is no fault of the schema.
        kind.check_schema(schema, format_checker=None)  # type: ignore[call-arg]
    except SchemaError as error:
        return error
    return None


def _schema_problem(error: SchemaError | None) -> str:
    assert error is not None
    if error.absolute_path and error.absolute_path[-1] == "type":
        return f"{error.instance!r} is no type; the types are {', '.join(_TYPES)}"
    return _in_short(path_text(error.absolute_path), error.message)


def _elsewhere(uri: str) -> Resource[Any]:
    # A schema that lies elsewhere is not fetched: checking a call is no reason to open a connection. Anything fits it.
    return Resource.from_contents({}, default_specification=DRAFT202012)


def _broken_references(resource: Resource[Any], resolver: Any) -> Iterator[str]:
    contents = resource.contents
    reference = contents.get("$ref") if isinstance(contents, dict) else None
    if isinstance(reference, str):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield reference
    for inner in resource.subresources():
        yield from _broken_references(inner, resolver.in_subresource(inner))


def _pattern(validator: Validator, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    try:
        fits = not isinstance(value, str) or re.search(pattern, value)
    except re.error:
        return
    if not fits:
        yield ValidationError(f"must match {pattern!r}")


# -- saying what does not fit -------------------------------------------------------------------------------------


def _problems(errors: Iterable[ValidationError]) -> Iterator[str]:
    for error in errors:
        if error.context:
            # The alternative with the fewest complaints is the one that was most likely meant.
            yield from min(_alternatives(error.context), key=len)
        else:
            yield from _problem(error, path_text(error.absolute_path))


def _alternatives(context: Sequence[ValidationError]) -> list[list[str]]:
    """What each alternative of an ``anyOf`` or ``oneOf`` complains about."""
    by_place: dict[Any, list[ValidationError]] = {}
    for error in context:
        by_place.setdefault(error.relative_schema_path[0], []).append(error)
    return [list(_problems(errors)) for errors in by_place.values()]


def _problem(error: ValidationError, place: str) -> Iterator[str]:
    keyword = error.validator
    wanted: Any = error.validator_value
    schema: Any = error.schema
    if keyword == "type":
        names = wanted if isinstance(wanted, list) else [wanted]
        yield f"{place}: must be {' or '.join(names)}, is {_type_name(error.instance)}"
    elif keyword == "enum":
        yield f"{place}: must be one of {', '.join(map(repr, wanted))}"
    elif keyword == "oneOf":
        yield f"{place}: fits more than one of the alternatives"
    elif keyword in _SIZES:
        yield f"{place}: {_SIZES[keyword].format(wanted)}"
    elif keyword == "required":
        # Each missing member is an error of its own, which names it in its message alone.
        missing = [name for name in wanted if error.message.startswith(f"{name!r} ")]
        yield f"{path_text((*error.absolute_path, *missing[:1]))}: required, but missing"
    elif keyword == "additionalProperties" and "patternProperties" not in schema:
        known = schema.get("properties", {})
        given: Any = error.instance
        for name in given:
            if name not in known:
                yield unknown_member((*error.absolute_path, name), known)
    else:
        yield _in_short(place, error.message)


def _type_name(value: Any) -> str:
    return next((name for name, fits in _TYPES.items() if fits(value)), type(value).__name__)


def _in_short(place: str, text: str) -> str:
    return f"{place}: {text if len(text) <= _LONGEST_PROBLEM else text[:_LONGEST_PROBLEM] + '…'}"
