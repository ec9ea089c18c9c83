"""The divergences: which apply where, and that comparing lets nothing else through; interlock does not run here."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from .compare import differences
from .divergences import DIVERGENCES, PROMPT_DIVERGENCES, Divergence, PromptDivergence
from .expected import expectation, without_omitted
from .oracle import simulate
from .scenario import Scenario, find, load

HERE = Path(__file__).parent
PATHS = [path for folder in ("scenarios", "disputed") for path in find(HERE / folder)]


def _table() -> dict[str, dict[str, str]]:
    """Scenario → facts → divergences that change them, as ``python -m tests.conformance --explain`` prints them."""
    table: dict[str, dict[str, str]] = {}
    for line in (HERE / "divergences.txt").read_text(encoding="utf-8").splitlines():
        name, area, ids = line.split(" ", 2)
        table.setdefault(name, {})[area] = ids
    return table


TABLE = _table()


def scenario(name: str) -> Scenario:
    return load(next(HERE.rglob(f"{name}.json")))


def told(of: Scenario) -> dict[str, Any]:
    """What the oracle says, as if it had run."""
    course = simulate(of)
    calls = [call.facts(is_stream=given.is_stream) for call, given in zip(course.calls, of.calls, strict=True)]
    return {"calls": calls, "stored": course.stored}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_table_names_the_divergences_of_each_scenario(path: Path) -> None:
    """A divergence that no longer applies, or applies anew, has to be seen."""
    found = expectation(load(path)).table()
    assert {area: " ".join(ids) for area, ids in found.items()} == TABLE.get(path.stem, {})


def test_the_table_knows_every_scenario_it_names() -> None:
    assert set(TABLE) <= {path.stem for path in PATHS}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_recording_and_divergences_give_what_the_specification_says(path: Path) -> None:
    """Every fact that no divergence changes is as the oracle says, so recording and oracle check each other."""
    of = load(path)
    assert differences(of, expectation(of).outcome, told(of)) == []


@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_recorded_outcome_fails_where_a_divergence_applies(name: str) -> None:
    """A listed divergence that no longer occurs is a failure."""
    of = scenario(name)
    assert differences(of, expectation(of).outcome, deepcopy(dict(of.expect))) != []


def test_every_divergence_has_an_id_of_its_own_and_names_its_rule() -> None:
    both: list[Divergence | PromptDivergence] = [*DIVERGENCES, *PROMPT_DIVERGENCES]
    assert len({divergence.id for divergence in both}) == len(both)
    assert all(divergence.rule and divergence.what for divergence in both)


Edit = Callable[[dict[str, Any]], None]


def _set(*path: Any) -> Edit:
    *way, last, value = path

    def edit(outcome: dict[str, Any]) -> None:
        place: Any = outcome
        for key in way:
            place = place[key]
        place[last] = value

    return edit


def _swap(outcome: dict[str, Any]) -> None:
    hooks = outcome["calls"][0]["hooks"]
    hooks[0], hooks[1] = hooks[1], hooks[0]


WRONG: dict[str, Edit] = {
    "hook fact": _set("calls", 0, "hooks", 1, 2, "stepNumber", 7),
    "new hook fact": _set("calls", 0, "hooks", 1, 2, "surprise", 1),
    "hook order": _swap,
    "missing hook": lambda outcome: outcome["calls"][0]["hooks"].pop(),
    "prompt": _set("calls", 0, "prompts", 0, 0, "content", "Other instructions."),
    "missing prompt": lambda outcome: outcome["calls"][0]["prompts"].pop(),
    "model": _set("calls", 0, "modelIds", 0, "other"),
    "settings": _set("calls", 0, "callSettings", 0, {"temperature": 1}),
    "chunk": _set("calls", 0, "chunks", 3, "text", "other"),
    "missing chunk": lambda outcome: outcome["calls"][0]["chunks"].pop(),
    "text": _set("calls", 0, "result", "text", "other"),
    "boolean for a number": _set("calls", 0, "result", "steps", True),
    "new result fact": _set("calls", 0, "result", "error", {"message": "no"}),
    "stored": _set("stored", 0, "role", "assistant"),
    "raised": lambda outcome: outcome["calls"][0].update(error={"raised": True}, result={}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_difference_that_nothing_explains_is_found(name: str) -> None:
    of = scenario("output-step-retry-with-feedback")
    got = deepcopy(told(of))
    WRONG[name](got)
    assert differences(of, expectation(of).outcome, got) != []


def test_a_changed_recording_is_found_where_no_divergence_applies() -> None:
    """The oracle stands in for nothing but the facts that a divergence changes."""
    of = scenario("retry-feedback-differs")
    got = told(of)
    of.expect["calls"][0]["hooks"][1][2]["text"] = "something else"
    assert [one.path for one in differences(of, expectation(of).outcome, got)] == ["calls[0].hooks[1][2].text"]


def test_stream_records_may_come_earlier_or_later_among_the_others() -> None:
    of = scenario("order-one-step")
    got = deepcopy(told(of))
    got["calls"][0]["hooks"].sort(key=lambda record: record[1] == "processOutputStream")
    assert differences(of, expectation(of).outcome, got) == []


def test_omitted_facts_are_not_compared() -> None:
    call = {"chunks": [], "result": {"text": "", "steps": 1}}
    assert without_omitted(call, ("chunks", "result.steps")) == {"result": {"text": ""}}
