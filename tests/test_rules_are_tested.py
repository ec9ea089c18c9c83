"""Every rule of the runtime specification is named by a test, in its docstring: ``R7.10``, or ``R7.13–R7.16``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

RULES_IN_SECTION = {
    0: 7,
    1: 20,
    2: 35,
    3: 30,
    4: 20,
    5: 12,
    6: 11,
    7: 19,
    8: 6,
    9: 14,
    10: 17,
    11: 9,
    12: 40,
    13: 17,
    14: 6,
    15: 7,
    16: 12,
    17: 9,
    19: 9,
}
"""How many rules each section has, numbered from 1."""

LETTERED = {"R2.10a", "R17.4a"}

_WAITS_FOR_MEMORY = "needs the processors for input filtering, working memory and recall"
_WAITS_FOR_TRACING = "needs spans"

NOT_YET = {
    "R3.27": "says what the message list does not promise",
    "R13.6": _WAITS_FOR_MEMORY,
    "R13.7": _WAITS_FOR_MEMORY,
    "R13.8": _WAITS_FOR_MEMORY,
    "R15.1": _WAITS_FOR_TRACING,
    "R15.3": _WAITS_FOR_TRACING,
    "R15.4": _WAITS_FOR_TRACING,
    "R15.5": _WAITS_FOR_TRACING,
    "R15.6": _WAITS_FOR_TRACING,
}
"""Rules that no test names, and why not."""

_RULE = re.compile(r"R(\d+)\.(\d+)(a?)(?:\s*[–-]\s*R(\d+)\.(\d+))?")


def all_rules() -> set[str]:
    numbered = {f"R{section}.{n}" for section, count in RULES_IN_SECTION.items() for n in range(1, count + 1)}
    return numbered | LETTERED


@cache
def named_rules() -> dict[str, list[str]]:
    """Rule → the tests that name it."""
    named: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for name, docstring in docstrings(path):
            for rule in rules_in(docstring):
                named.setdefault(rule, []).append(f"{path.name}::{name}")
    return named


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """The docstrings of the tests of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def rules_in(text: str) -> Iterator[str]:
    for section, first, letter, last_section, last in _RULE.findall(text):
        yield f"R{section}.{first}{letter}"
        if last_section == section:
            yield from (f"R{section}.{n}" for n in range(int(first) + 1, int(last) + 1))


def test_every_rule_is_named_by_a_test() -> None:
    unnamed = all_rules() - named_rules().keys() - NOT_YET.keys()
    assert sorted(unnamed) == []


def test_a_rule_that_is_tested_is_not_listed_as_untested() -> None:
    assert sorted(NOT_YET.keys() & named_rules().keys()) == []


def test_tests_name_rules_that_exist() -> None:
    unknown = {rule: tests for rule, tests in named_rules().items() if rule not in all_rules()}
    assert unknown == {}
