"""JSON that is still being written (R12.32)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agent.partial_json import MAX_DEPTH, PartialJson
from interlock.agent.structured import PartialObject, structured_output

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
ROOTS = st.lists(VALUES, max_size=5) | st.dictionaries(st.text(max_size=4), VALUES, max_size=5)


def grew(before: Any, after: Any) -> bool:
    """Whether ``before`` is how ``after`` may have begun."""
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    if isinstance(before, dict):
        names = list(before)
        if not isinstance(after, dict) or list(after)[: len(names)] != names:
            return False
        return _members_grew([before[name] for name in names], [after[name] for name in names])
    if isinstance(before, list):
        return isinstance(after, list) and len(after) >= len(before) and _members_grew(before, after[: len(before)])
    return type(before) is type(after) and bool(before == after)


def _members_grew(before: list[Any], after: list[Any]) -> bool:
    *complete, last = zip(before, after, strict=True) if before else [((), ())]
    return all(old == new for old, new in complete) and (not before or grew(*last))


def read(text: str, cuts: list[int]) -> list[Any]:
    """Every value that is told while the text arrives in the pieces between the cuts."""
    reader, values = PartialJson(), []
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(borders):
        if reader.add(text[start:end]):
            values.append(reader.value)
    return values


@given(
    value=ROOTS,
    cuts=st.lists(st.integers(0, 400), max_size=40),
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
    fenced=st.booleans(),
)
def test_the_value_grows_and_ends_as_what_was_written(
    value: Any, cuts: list[int], is_ascii: bool, indent: int | None, fenced: bool
) -> None:
    """R12.32"""
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    values = read(f"```json\n{text}\n```" if fenced else text, cuts)
    assert values[-1] == value
    for before, after in pairwise(values):
        assert before != after
        assert grew(before, after)


@given(value=ROOTS)
def test_the_value_grows_when_every_character_comes_alone(value: Any) -> None:
    """R12.32"""
    text = json.dumps(value)
    values = read(text, list(range(len(text))))
    assert values[-1] == value
    assert all(grew(before, after) for before, after in pairwise(values))


@pytest.mark.parametrize(
    ("so_far", "value"),
    [
        ('{"a": 12', {}),
        ('{"a": 12 ', {"a": 12}),
        ("[12, -3.5e", [12]),
        ("[tru", []),
        ("[true", []),
        ("[null,", [None]),
        ('{"na', {}),
        ('{"name"', {}),
        ('{"name":', {}),
        ('{"name":"', {"name": ""}),
        ('["a\\', ["a"]),
        ('["a\\u00e', ["a"]),
        ('["a\\u00e9', ["aé"]),
        ('["a\\ud83d', ["a"]),
        ('["a\\ud83d\\ude0', ["a"]),
        ('["a\\ud83d\\ude00', ["a😀"]),
        ('{"a": {"b": [', {"a": {"b": []}}),
        ("", None),
        ("``", None),
        ("```json", None),
        ("```json\n[1,", [1]),
    ],
)
def test_a_value_counts_when_nothing_can_change_it_any_more(so_far: str, value: Any) -> None:
    """R12.32"""
    reader = PartialJson()
    for character in so_far:
        reader.add(character)
    assert reader.value == value
    assert not reader.is_over


@pytest.mark.parametrize(
    "text",
    [
        "Here: {",
        '{"a" 1',
        "{a",
        "[1,]",
        '{"a":1,}',
        '{"a":1]',
        '["\n',
        '["\\x',
        '["\\u00g0',
        '["\\u 123',
        '["\\ud83d!!!!!!',
        '["\\udc00abcdef',
        "[01,",
        "[+1,",
        "[.5,",
        "[truee,",
        "['a'",
        "``x",
        "1",
        '"text"',
        "[" * (MAX_DEPTH + 1),
        "[" + "1" * 5000 + ",",
    ],
)
def test_what_is_no_json_is_told_no_further(text: str) -> None:
    """R12.32"""
    for cuts in ([], list(range(len(text)))):
        reader = PartialJson()
        for start, end in pairwise([0, *cuts, len(text)]):
            reader.add(text[start:end])
        assert reader.is_over
        assert not reader.add('{"a": 1}')


def test_complete_parts_are_shared_and_open_ones_are_not() -> None:
    """R12.32"""
    reader = PartialJson()
    reader.add('{"done": {"n": 1}, "open": [1,')
    first = reader.value
    reader.add(" 2,")
    second = reader.value
    assert first["done"] is second["done"]
    assert (first["open"], second["open"]) == ([1], [1, 2])


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x" * 100_000},
        [{"n": number} for number in range(10_000)],
        {"a": [list(range(25)) for _ in range(900)]},
    ],
    ids=["one long string", "many elements", "many arrays"],
)
def test_what_is_copied_grows_with_the_text_and_not_with_its_square(value: Any) -> None:
    """R12.32"""
    text = json.dumps(value)
    asked = structured_output({"type": "array"} if isinstance(value, list) else {"type": "object"})
    assert asked is not None
    partial = PartialObject(asked)
    copied, told, last = 0, 0, None
    for start in range(0, len(text), 5):
        now = partial.add(text[start : start + 5])
        if now is not None:
            copied += _copied(now, last)
            told += 1
            last = now
    assert last == value
    assert told > 100
    assert copied < 128 * len(text) + 200_000


def _copied(now: Any, before: Any) -> int:
    """The members of containers and the characters of strings that two partial objects do not share."""
    if now is before:
        return 0
    if isinstance(now, str):
        return len(now)
    if isinstance(now, dict):
        return len(now) + sum(_copied(part, (before or {}).get(name)) for name, part in now.items())
    if isinstance(now, list):
        pairs = zip(now[-2:], [*(before or []), None, None][max(0, len(now) - 2) :], strict=False)
        return len(now) + sum(_copied(part, old if isinstance(old, type(part)) else None) for part, old in pairs)
    return 1
