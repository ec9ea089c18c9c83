"""What a schema is here: a JSON Schema to show to a model, and a check to pass values through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.errors import ConfigurationError


class SchemaMismatch(ValueError):
    """A value does not fit a schema; each user of schemas turns it into an error of its own.

    Args:
        problems: One line for each place that is wrong: where, and what.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(f"- {problem}" for problem in self.problems))


class Schema:
    """A JSON Schema with its validator; ``as_schema`` makes one."""

    __slots__ = ("json_schema",)

    def __init__(self, json_schema: dict[str, Any]) -> None:
        self.json_schema = json_schema
        """What a model is shown."""

    def validate(self, value: Any) -> Any:
        """``value`` as the schema's type, such as a dict or an instance of a model.

        Raises:
            SchemaMismatch: it does not fit.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json_schema!r})"


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
    # Both kinds build on this module; and pydantic, which costs more to import than all of the runtime, is left alone
    # until the first type needs it.
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


def path_text(path: Sequence[str | int]) -> str:
    """``("filters", 0, "name")`` → ``filters[0].name``; the empty path → ``(root)``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".") or "(root)"


def unknown_member(path: Sequence[str | int], known: Iterable[str]) -> str:
    """The problem line for a member that a schema does not have."""
    return f"{path_text(path)}: unknown; the known ones are {', '.join(known) or 'none'}"
