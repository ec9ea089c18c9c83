"""What becomes of the values that tools return (R10.6)."""

from __future__ import annotations

import json
from collections import OrderedDict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel, SecretStr

from interlock.errors import ToolError
from interlock.messages.parts import TextPart
from interlock.tools import to_serializable


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class Shout(str):
    def __str__(self) -> str:
        return "not this"


@dataclass
class Point:
    x: int
    tags: set[str] = field(default_factory=set)


class Person(BaseModel):
    name: str
    born: date
    home: Point | None = None
    photo: bytes = b"\xff"


class Ids(RootModel[list[int]]):
    pass


class Account(BaseModel):
    token: SecretStr


class Entry(msgspec.Struct):
    at: datetime


class Opaque:
    def __str__(self) -> str:
        return "opaque!"


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("value", [False, True, 0, 1.5, "", "é", None, [], {}, 2**80, {"a": [1, {"b": None}]}])
def test_plain_data_stays_what_it_is(value: Any) -> None:
    """R10.6, FR-122"""
    result = to_serializable(value)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (deque([1]), [1]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({"b": 1, "a": 2}.keys(), ["b", "a"]),
        ({"a": 1}.values(), [1]),
        (OrderedDict(a=1), {"a": 1}),
        (Color.RED, "red"),
        (Color.PAIR, [1, 2]),
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        (Shout("as it is"), "as it is"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (memoryview(b"a"), "YQ=="),
        (datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC), "2026-01-02T03:04:05.678900+00:00"),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 3), "1/3"),
        (PurePosixPath("/a"), "/a"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Opaque(), "opaque!"),
        (ValueError("bad"), "bad"),
        (Point, str(Point)),
        (Point(1, {"b", "a"}), {"x": 1, "tags": ["a", "b"]}),
        (
            Person(name="Ann", born=date(2000, 1, 1), home=Point(1)),
            {"name": "Ann", "born": "2000-01-01", "home": {"x": 1, "tags": []}, "photo": "/w=="},
        ),
        (Ids([1, 2]), [1, 2]),
        (Account(token=SecretStr("sk-1")), {"token": "**********"}),
        (Entry(datetime(2026, 1, 2)), {"at": "2026-01-02T00:00:00"}),
        (TextPart(text="a"), {"text": "a", "type": "text"}),
        (
            {1: "a", None: "b", True and "t": 0, Color.RED: 1, (1, 2): 2},
            {"1": "a", "null": "b", "t": 0, "red": 1, "[1, 2]": 2},
        ),
        ({False: 0, 2.5: 1}, {"false": 0, "2.5": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_become_plain_data(value: Any, expected: Any) -> None:
    """R10.6"""
    assert to_serializable(value) == expected


def test_a_set_whose_items_cannot_be_compared_becomes_a_list() -> None:
    assert sorted(to_serializable({1, "a"}), key=str) == [1, "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bad \ud83d…", "bad \ufffd…"),
        ("\ud83d", "\ufffd"),
        ("\udf89x", "\ufffdx"),
        ("\ud83d\ud83d", "\ufffd\ufffd"),
        ("\ud83c\udf89", "🎉"),
        ("x👩‍👩‍👧y", "x👩‍👩‍👧y"),
    ],
)
def test_lone_surrogates_are_replaced(text: str, expected: str) -> None:
    """FR-080"""
    assert to_serializable(text) == expected
    assert to_serializable({text: [text]}) == {expected: [expected]}
    to_serializable(text).encode()


def test_the_result_shares_no_container_with_the_tools_own_data() -> None:
    inner: list[int] = [1]
    outer = {"inner": inner, "again": inner}
    result = to_serializable(outer)
    inner.append(2)
    outer["more"] = []
    assert result == {"inner": [1], "again": [1]}


def test_data_that_contains_itself_is_a_tool_error() -> None:
    """R10.6"""
    loop: dict[str, Any] = {"wide": list(range(1000))}
    loop["self"] = [loop]
    with pytest.raises(ToolError, match="returned a dict that contains itself"):
        to_serializable(loop)


def test_an_object_that_contains_itself_is_a_tool_error() -> None:
    """R10.6"""

    @dataclass
    class Node:
        next: Any = None

    class Model(BaseModel):
        next: Any = None

    node, model = Node(), Model()
    node.next, model.next = node, model
    with pytest.raises(ToolError, match="returned a Node that contains itself"):
        to_serializable(node)
    with pytest.raises(ToolError, match="returned a Model that contains itself"):
        to_serializable(model)


def test_data_that_is_nested_too_deeply_is_a_tool_error() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ToolError, match="nested more than 200 levels deep"):
        to_serializable(deep)


def test_two_keys_that_become_one_are_a_tool_error() -> None:
    with pytest.raises(ToolError, match="two keys become the same text"):
        to_serializable({1: "a", "1": "b"})


def test_an_object_that_cannot_be_read_is_a_tool_error() -> None:
    class Broken:
        def __str__(self) -> str:
            raise OSError("disk gone")

    with pytest.raises(ToolError, match="returned a Broken that cannot be turned into JSON: disk gone"):
        to_serializable([Broken()])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(categories=None)) | st.binary(),
    lambda items: st.lists(items) | st.tuples(items, items) | st.dictionaries(st.text(), items),
    max_leaves=20,
)


@given(json_values)
def test_every_result_is_json_that_every_encoder_takes(value: Any) -> None:
    result = to_serializable(value)
    assert to_serializable(result) == result
    json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
