"""From what somebody gives as a schema, data or a Python type, to a ``Schema``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.errors import ConfigurationError
from interlock.tools.schema import Schema


def as_schema(source: Any, *, owner: str) -> Schema:
    """A schema from a JSON Schema mapping, or from a pydantic model, a dataclass, a ``TypedDict`` or another type.

    Args:
        source: The schema or type; a ``Schema`` is returned as it is.
        owner: Whose schema it is, for the error message.

    Raises:
        ConfigurationError: no schema can be made from it.
    """
    if isinstance(source, Schema):
        return source
    # pydantic and jsonschema cost more to import than all of the runtime: each is left alone until it is needed.
    if isinstance(source, Mapping):
        from interlock.tools.json_schema import JsonSchema

        return JsonSchema(source, owner=owner)
    from interlock.tools.typed_schema import TypedSchema

    return TypedSchema(source, owner=owner)


def as_arguments(source: Any, *, owner: str) -> Schema:
    """A schema of a tool's arguments, which are always members of an object; ``None`` allows any.

    Raises:
        ConfigurationError: no schema can be made from ``source``, or it does not describe an object.
    """
    if source is None:
        source = {"properties": {}}
    if isinstance(source, Mapping) and "type" not in source:
        source = {"type": "object", **source}
    schema = as_schema(source, owner=owner)
    kind = schema.json_schema.get("type")
    if kind != "object":
        raise ConfigurationError(
            f"{owner} must describe an object whose members are the arguments, but its type is {kind!r}: "
            "use a pydantic model, a dataclass, a TypedDict or a JSON Schema of type 'object'"
        )
    return schema
