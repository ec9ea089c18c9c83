"""Scenarios made by hand: what interlock does is what the oracle says by the specification."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from .compare import differences
from .made import made
from .oracle import simulate
from .run import run
from .scenario import OBSERVE, OPS, OPTIONS, WHEN, read

pytestmark = pytest.mark.anyio

MADE = dict(made())


@pytest.mark.parametrize("name", MADE)
async def test_interlock_and_the_oracle_agree(name: str) -> None:
    scenario = read(deepcopy(MADE[name]))
    course = simulate(scenario)
    told: dict[str, Any] = {
        "calls": [
            call.facts(is_stream=given.is_stream) for call, given in zip(course.calls, scenario.calls, strict=True)
        ]
    }
    if scenario.has_memory:
        told["stored"] = course.stored
    found = differences(scenario, told, await run(scenario))
    assert not found, "\n" + "\n".join(str(difference) for difference in found)


@pytest.mark.parametrize(("words", "key"), [(OPS, "op"), (WHEN, "when"), (OBSERVE, "observe"), (OPTIONS, "options")])
def test_every_word_of_the_language_is_spoken(words: frozenset[str], key: str) -> None:
    spoken: set[str] = set()
    _collect(list(MADE.values()), key, spoken)
    assert words - spoken == set()


def _collect(data: Any, key: str, spoken: set[str]) -> None:
    if isinstance(data, dict):
        said = data.get(key)
        spoken |= {said} if isinstance(said, str) else set(said or ())
        for value in data.values():
            _collect(value, key, spoken)
    elif isinstance(data, list):
        for item in data:
            _collect(item, key, spoken)
