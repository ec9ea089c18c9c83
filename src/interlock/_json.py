"""camelCase JSON in and out; the only module that knows how keys are spelled outside (R0.1, R0.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec


@cache
def camel(name: str) -> str:
    """``tool_call_id`` → ``toolCallId``; ``from_`` → ``from``."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


def iso(moment: datetime) -> str:
    """UTC ISO-8601 with milliseconds and ``Z`` (R0.2)."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_time(value: object) -> datetime:
    """A timezone-aware UTC datetime from an ISO string, epoch milliseconds or a datetime (R0.2).

    Raises:
        ValueError: the value is none of these.
    """
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, str):
        return parse_time(datetime.fromisoformat(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    raise ValueError(f"{value!r} is not a time: give an ISO-8601 string or epoch milliseconds")


def to_json(value: Any) -> Any:
    """``value`` with every ``Record`` and datetime in it turned into JSON-ready data; containers are new."""
    if value is None or value.__class__ in (str, int, float, bool):
        return value
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return iso(value)
    return value


_ESCAPES = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def without_lone_surrogates(text: str) -> str:
    """JSON text in which each half of a character, which nothing can decode, is the sign for what cannot be shown."""
    return _ESCAPES.sub(lambda found: r"\ufffd" if found["lone"] else found[0], text)


_LEAVES = frozenset({str, int, float, bool, type(None)})


def copy_json(value: Any) -> Any:
    """A deep copy of JSON-like data; other objects in it are shared."""
    if isinstance(value, dict):
        return {key: item if item.__class__ in _LEAVES else copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [item if item.__class__ in _LEAVES else copy_json(item) for item in value]
    return value


def by_name(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """``values`` with the keys in snake_case, whichever of the two spellings they came in (R0.5).

    Raises:
        ValueError: a key that is none of ``names``, or one in both spellings.
    """
    known = _spellings(names)
    out: dict[str, Any] = {}
    for key, value in values.items():
        name = known.get(key)
        if name is None:
            raise ValueError(f"unknown key {key!r}; the known ones are {', '.join(names)}")
        if name in out:
            raise ValueError(f"{name!r} is given in two spellings")
        out[name] = value
    return out


@cache
def _spellings(names: tuple[str, ...]) -> dict[str, str]:
    return {spelling: name for name in names for spelling in (name, camel(name))}


class Record(msgspec.Struct, kw_only=True, repr_omit_defaults=True):
    """A typed object with a camelCase JSON form that loses nothing.

    Fields that JSON has and the class has not are kept in ``extra`` and written back unchanged.
    A field whose value is ``None`` is left out of JSON unless ``_keep_null`` names it.
    """

    extra: dict[str, Any] | None = None
    """JSON fields that this class does not know, by their JSON name."""

    _nested: ClassVar[dict[str, Any]] = {}
    """Field name → function that reads the field's JSON into an object."""
    _keep_null: ClassVar[frozenset[str]] = frozenset()
    _times: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:

        def __copy__(self) -> Self:
            """A shallow copy; msgspec has it, its type stubs have not."""

    def to_dict(self) -> dict[str, Any]:
        """The camelCase JSON form (R0.1)."""
        out: dict[str, Any] = {}
        for name in self.__struct_fields__:
            if name == "extra":
                continue
            value = getattr(self, name)
            if value is not None or name in self._keep_null:
                out[camel(name)] = to_json(value)
        if self.extra:
            for key, value in self.extra.items():
                out.setdefault(key, to_json(value))
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read the camelCase JSON form; unknown fields go to ``extra``."""
        fields = _field_names(cls)
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in data.items():
            name = fields.get(key)
            if name is None:
                extra[key] = value
            elif value is not None and name in cls._nested:
                known[name] = cls._nested[name](value)
            elif value is not None and name in cls._times:
                known[name] = parse_time(value)
            else:
                known[name] = value
        return cls(**known, extra=extra or None)


@cache
def _field_names(cls: type[Record]) -> dict[str, str]:
    return {camel(name): name for name in cls.__struct_fields__ if name != "extra"}
