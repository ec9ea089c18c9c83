"""What a schema is here: a JSON Schema to show to a model, and a check to pass values through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class SchemaMismatch(ValueError):
    """A value does not fit a schema; each user of schemas turns it into an error of its own.

    Args:
        problems: One line for each place that is wrong: where, and what.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(f"- {problem}" for problem in self.problems))


class Schema:
    """A JSON Schema with its validator; ``as_schema`` makes one from data or a type."""

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

    def validate_json(self, text: str) -> Any:
        """What ``validate`` makes of the value that ``text`` holds.

        Raises:
            SchemaMismatch: it does not fit, or it is no JSON.
        """
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SchemaMismatch([f"(root): {error}"]) from error
        return self.validate(value)

    def dump(self, value: Any) -> Any:
        """A validated value as JSON data, in the form in which it was read."""
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.json_schema!r})"


def path_text(path: Sequence[str | int]) -> str:
    """``("filters", 0, "name")`` → ``filters[0].name``; the empty path → ``(root)``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".") or "(root)"


def unknown_member(path: Sequence[str | int], known: Iterable[str]) -> str:
    """The problem line for a member that a schema does not have."""
    return f"{path_text(path)}: unknown; the known ones are {', '.join(known) or 'none'}"
