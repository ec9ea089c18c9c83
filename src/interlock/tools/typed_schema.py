"""Schemas from Python types, through pydantic; importing this module imports pydantic."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from interlock.errors import ConfigurationError
from interlock.tools.schema import Schema, SchemaMismatch, path_text, unknown_member


class TypedSchema(Schema):
    """A Python type as a schema.

    Args:
        source: A pydantic model, a dataclass, a ``TypedDict`` or any other type that pydantic can read.
        owner: Whose schema it is, for the error message.

    Raises:
        ConfigurationError: pydantic cannot read the type, or it has no JSON Schema.
    """

    __slots__ = ("_adapter", "_validate")

    def __init__(self, source: Any, *, owner: str = "the schema") -> None:
        adapter, schema = _read_type(source, owner)
        super().__init__(schema)
        self._adapter = adapter
        self._validate = adapter.validator.validate_python

    def validate(self, value: Any) -> Any:
        """``value`` as the type, coerced as pydantic's lax mode does it (``"5"`` → ``5``).

        Raises:
            SchemaMismatch: it does not fit.
        """
        try:
            return self._validate(value)
        except ValidationError as error:
            raise self._mismatch(error) from error

    def validate_json(self, text: str) -> Any:
        """The value that ``text`` holds, as the type; strict types take from JSON what JSON has no type for.

        Raises:
            SchemaMismatch: it does not fit, or it is no JSON.
        """
        try:
            return self._adapter.validator.validate_json(text)
        except ValidationError as error:
            raise self._mismatch(error) from error

    def dump(self, value: Any) -> Any:
        """A validated value as JSON data, in the form in which it was read."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)

    def _mismatch(self, error: ValidationError) -> SchemaMismatch:
        return SchemaMismatch(self._problem(detail) for detail in error.errors(include_url=False))

    def _problem(self, detail: ErrorDetails) -> str:
        path = detail["loc"]
        if detail["type"] == "missing":
            return f"{path_text(path)}: required, but missing"
        if detail["type"] == "extra_forbidden" and len(path) == 1:
            return unknown_member(path, self.json_schema.get("properties", {}))
        return f"{path_text(path)}: {detail['msg']} (got {reprlib.repr(detail['input'])})"


def arguments_schema(
    name: str,
    types: Mapping[str, Any],
    descriptions: Mapping[str, str],
    defaults: Mapping[str, Any],
) -> TypedSchema:
    """The schema of a function's arguments.

    It validates into a dict of keyword arguments. An argument that is left out stays out, so that the function's own
    default applies; an unknown one is refused, so that the model learns of its mistake.

    Args:
        name: Name of the function.
        types: Type of each parameter, in order, possibly ``Annotated``.
        descriptions: What the docstring says about parameters; the description of a ``Field`` comes first.
        defaults: Defaults of the parameters that have one.

    Raises:
        ConfigurationError: pydantic cannot read a type, or a default is a ``Field``.
    """
    members: dict[str, Any] = {}
    for parameter, hint in types.items():
        if isinstance(defaults.get(parameter), FieldInfo):
            raise ConfigurationError(
                f"tool {name!r}: parameter {parameter!r} has a Field as its default: write "
                f"{parameter}: Annotated[<type>, Field(...)], with the default itself after it if there is one"
            )
        described = _described(hint, descriptions.get(parameter))
        members[parameter] = NotRequired[described] if parameter in defaults else described
    # A TypedDict and no model: parameters may be called anything, such as "json", "copy" or "_x".
    typed_dict: Any = TypedDict
    try:
        schema = TypedSchema(with_config(ConfigDict(extra="forbid"))(typed_dict(name, members)))
    except ConfigurationError:
        for parameter, hint in types.items():
            _read_type(hint, f"tool {name!r}: the schema of parameter {parameter!r}")
        raise
    for parameter, default in defaults.items():
        _show_default(schema.json_schema["properties"][parameter], default)
    return schema


def _described(hint: Any, description: str | None) -> Any:
    metadata = getattr(hint, "__metadata__", ())
    if any(isinstance(item, FieldInfo) and item.description for item in metadata):
        return hint
    # Annotated[int, "what it is"] is how several other frameworks describe an argument.
    description = next((item for item in metadata if isinstance(item, str)), description)
    if not description:
        return hint
    return Annotated[hint, Field(description=description)]


def _show_default(schema: dict[str, Any], default: Any) -> None:
    """Tell the model what a left-out argument means, where JSON can say it."""
    try:
        schema["default"] = to_jsonable_python(default)
    except PydanticSerializationError:
        schema.pop("default", None)


def _read_type(source: Any, owner: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(source)
        schema = adapter.json_schema(schema_generator=_WithoutTitles)
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"{owner} cannot be made from {source!r}: {reason}") from error
    return adapter, _with_root(schema)


class _WithoutTitles(GenerateJsonSchema):
    """Titles repeat the name of the field, and cost tokens in every request."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _with_root(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what it describes at its root: a recursive model is only a reference, which providers refuse."""
    ref = schema.pop("$ref", None)
    if ref is not None:
        schema = {**schema["$defs"][ref.rpartition("/")[2]], **schema}
    schema.pop("title", None)
    return schema
