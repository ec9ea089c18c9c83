"""JSON that is still being written, read as far as it can be known."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

MAX_DEPTH = 200
"""Containers within containers; an answer that has more could not be encoded again."""

_MAX_SCALAR = 4_000
"""Characters of a number; Python refuses to read integers that are a little longer."""

_SPACE = re.compile(r"[ \t\r\n]+")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]+')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<real>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_FENCE = re.compile(r"```[\w-]*[ \t]*\r?\n")
_FENCE_SO_FAR = re.compile(r"`{1,2}|```[\w-]*[ \t]*\r?")

_CODE_UNIT = re.compile(r"\\u([0-9A-Fa-f]{4})")

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}

_NOTHING: Any = object()


class _Next(Enum):
    """What may come next."""

    START = "the outermost container"
    VALUE = "a value"
    FIRST_VALUE = "a value, or the end of the array"
    KEY = "a key"
    FIRST_KEY = "a key, or the end of the object"
    COLON = "a colon"
    COMMA = "a comma, or the end of the container"


class PartialJson:
    """An object or array whose text arrives in pieces, cut anywhere; a code fence may stand before it.

    Every piece is read once. A value counts when nothing that follows can change it: a number when it has ended, an
    escape when it is whole, a member when its value has begun. Only a string is there as far as it goes.
    """

    __slots__ = ("_containers", "_has_changed", "_is_key", "_keys", "_length", "_next", "_rest", "_string", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        """Whether nothing more can come: the value is complete, or the text is no JSON."""
        self._containers: list[Any] = []
        """The open containers, the outermost first, each without the one that is open in it."""
        self._keys: list[str | None] = []
        """For each of them the key whose value is being read."""
        self._next = _Next.START
        self._rest = ""
        """Text that cannot be read before more has come."""
        self._string: list[str] | None = None
        """The open string, decoded."""
        self._length = 0
        """Its characters."""
        self._is_key = False
        self._has_changed = False

    def add(self, piece: str) -> bool:
        """Read one more piece; whether the value has changed."""
        if self.is_over:
            return False
        text, self._rest = self._rest + piece, ""
        self._has_changed = False
        position = 0
        try:
            while position < len(text) and not self.is_over:
                read = self._read_token if self._string is None else self._read_string
                end = read(text, position)
                if end == position:
                    self._rest = text[position:]
                    break
                position = end
        except ValueError:
            self.is_over = True
            return False
        return self._has_changed

    @property
    def size(self) -> int:
        """About how many bytes ``value`` has to copy."""
        return self._length + 16 * sum(map(len, self._containers))

    @property
    def value(self) -> Any:
        """The object or array as far as it is known, ``None`` before it has begun.

        What is complete in it is shared by all the values that are given out.
        """
        value = _NOTHING
        if self._string is not None and not self._is_key:
            value = "".join(self._string)
            self._string = [value]
        for container, key in zip(reversed(self._containers), reversed(self._keys), strict=True):
            copy = container.copy()
            if value is not _NOTHING:
                _put(copy, key, value)
            value = copy
        return None if value is _NOTHING else value

    # Each of these reads on from a position, and returns where it got to: no further if it needs more text.

    def _read_token(self, text: str, position: int) -> int:
        space = _SPACE.match(text, position)
        if space is not None:
            return space.end()
        char = text[position]
        match self._next:
            case _Next.START if char == "`":
                return _after_fence(text, position)
            case _Next.START if char in "{[":
                self._open(char)
            case _Next.FIRST_VALUE if char == "]":
                self._close()
            case _Next.VALUE | _Next.FIRST_VALUE if char in "{[":
                self._open(char)
            case _Next.VALUE | _Next.FIRST_VALUE if char == '"':
                self._open_string(is_key=False)
            case _Next.VALUE | _Next.FIRST_VALUE:
                return self._read_scalar(text, position)
            case _Next.FIRST_KEY if char == "}":
                self._close()
            case _Next.KEY | _Next.FIRST_KEY if char == '"':
                self._open_string(is_key=True)
            case _Next.COLON if char == ":":
                self._next = _Next.VALUE
            case _Next.COMMA if char == ",":
                self._next = _Next.KEY if isinstance(self._containers[-1], dict) else _Next.VALUE
            case _Next.COMMA if char == ("}" if isinstance(self._containers[-1], dict) else "]"):
                self._close()
            case expected:
                raise ValueError(f"{char!r} instead of {expected.value}")
        return position + 1

    def _read_scalar(self, text: str, position: int) -> int:
        found = _SCALAR.match(text, position)
        if found is None:
            raise ValueError(f"{text[position]!r} begins no value")
        if found.end() == len(text) and found.end() - position < _MAX_SCALAR:
            return position
        self._put(_scalar(found[0]))
        self._has_changed = True
        return found.end()

    def _read_string(self, text: str, position: int) -> int:
        plain = _PLAIN_TEXT.match(text, position)
        if plain is not None:
            self._add_text(plain[0])
            return plain.end()
        if text[position] == '"':
            self._close_string()
            return position + 1
        char, end = _escape(text, position)
        if end > position:
            self._add_text(char)
        return end

    # What has been read.

    def _open(self, bracket: str) -> None:
        if len(self._containers) == MAX_DEPTH:
            raise ValueError("nested too deeply")
        self._containers.append({} if bracket == "{" else [])
        self._keys.append(None)
        self._next = _Next.FIRST_KEY if bracket == "{" else _Next.FIRST_VALUE
        self._has_changed = True

    def _close(self) -> None:
        if len(self._containers) == 1:
            self.is_over = True
            return
        self._keys.pop()
        self._put(self._containers.pop())

    def _put(self, value: Any) -> None:
        _put(self._containers[-1], self._keys[-1], value)
        self._next = _Next.COMMA

    def _open_string(self, *, is_key: bool) -> None:
        self._string, self._length, self._is_key = [], 0, is_key
        self._has_changed |= not is_key

    def _add_text(self, text: str) -> None:
        assert self._string is not None
        self._string.append(text)
        self._length += len(text)
        self._has_changed |= not self._is_key

    def _close_string(self) -> None:
        assert self._string is not None
        text = "".join(self._string)
        self._string, self._length = None, 0
        if self._is_key:
            self._keys[-1] = text
            self._next = _Next.COLON
        else:
            self._put(text)


def _put(container: Any, key: str | None, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.append(value)


def _after_fence(text: str, position: int) -> int:
    fence = _FENCE.match(text, position)
    if fence is not None:
        return fence.end()
    if _FENCE_SO_FAR.fullmatch(text, position) is None:
        raise ValueError("no code fence")
    return position


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None or len(text) > _MAX_SCALAR:
        raise ValueError(f"{text[:20]!r} is no value")
    return float(text) if number["real"] else int(text)


def _escape(text: str, position: int) -> tuple[str, int]:
    """The character of the escape at ``position`` and where it ends: at its beginning if it is not all there."""
    kind = text[position + 1 : position + 2]
    if not text.startswith("\\", position) or (kind and kind != "u" and kind not in _ESCAPES):
        raise ValueError(f"{text[position]!r} in a string")
    if kind != "u":
        return (_ESCAPES[kind], position + 2) if kind else ("", position)
    if len(text) < position + 6:
        return "", position
    unit = _code_unit(text, position)
    if not 0xD800 <= unit < 0xE000:
        return chr(unit), position + 6
    if len(text) < position + 12:
        return "", position
    low = _code_unit(text, position + 6)
    if unit >= 0xDC00 or not 0xDC00 <= low < 0xE000:
        raise ValueError("half a surrogate pair")
    return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), position + 12


def _code_unit(text: str, position: int) -> int:
    found = _CODE_UNIT.match(text, position)
    if found is None:
        raise ValueError(f"{text[position : position + 6]!r} is no code unit")
    return int(found[1], 16)
