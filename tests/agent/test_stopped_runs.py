"""A run that is stopped after a step, stored, and goes on in another process, is the run that was never stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.agent import FileRunStore, InMemoryRunStore
from tests.agent.stopped_runs import SCENARIOS, Leg, comparable, lead, plain, to_the_end

STOPS = [(name, stop) for name, scenario in SCENARIOS.items() for stop in (*range(1, scenario.stops + 1), "every step")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Leg]]:
    """Run id → its legs: the first in this process, the others in one fresh process for all runs."""
    directory: Path = tmp_path_factory.mktemp("stopped")
    first = asyncio.run(_begin(directory))
    done = subprocess.run(
        [sys.executable, "-m", "tests.agent.stopped_runs", str(directory)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rest = {entry["run_id"]: [Leg(**leg) for leg in entry["legs"]] for entry in json.loads(done.stdout)}
    return {run_id: [leg, *rest[run_id]] for run_id, leg in first.items()}


async def _begin(directory: Path) -> dict[str, Leg]:
    legs, plan = {}, []
    for name, stop in STOPS:
        run_id = f"{name}/{stop}"
        leg = legs[run_id] = await lead(
            SCENARIOS[name],
            FileRunStore(directory / "runs"),
            run_id,
            stop=stop,
        )
        plan.append({"scenario": name, "run_id": run_id, "stop": stop, "former": vars(leg)})
    (directory / "plan.json").write_text(json.dumps(plain(plan)))
    return legs


@pytest.fixture(scope="module")
def unstopped() -> dict[str, dict[str, Any]]:
    """Scenario → what its run shows when nobody stops it."""
    return {name: asyncio.run(_unstopped(name)) for name in SCENARIOS}


async def _unstopped(name: str) -> dict[str, Any]:
    return comparable(await to_the_end(SCENARIOS[name], InMemoryRunStore(), f"{name}/never"), f"{name}/never")


@pytest.mark.parametrize(("name", "stop"), STOPS, ids=lambda value: str(value).replace(" ", "-"))
def test_a_stopped_run_shows_what_an_unstopped_one_shows(
    name: str, stop: Any, runs: dict[str, list[Leg]], unstopped: dict[str, dict[str, Any]]
) -> None:
    """R3.26, R7.3, R8.4, R12.37, R14.6, R19.9"""
    run_id = f"{name}/{stop}"
    legs = runs[run_id]
    waits = len(SCENARIOS[name].answers)
    assert len(legs) == (SCENARIOS[name].stops if stop == "every step" else 1) + waits + 1
    shown = comparable(legs, run_id)
    expected = unstopped[name]
    assert [chunk["type"] for chunk in shown["chunks"]] == [chunk["type"] for chunk in expected["chunks"]]
    for part in ("chunks", "prompts", "result"):
        assert shown[part] == expected[part]


def test_stopped_runs_use_every_kind_of_chunk_and_outcome(unstopped: dict[str, dict[str, Any]]) -> None:
    """The comparison is worth something only if much happens in what is compared."""
    kinds = {chunk["type"] for shown in unstopped.values() for chunk in shown["chunks"]}
    assert kinds >= {
        "data-progress",
        "reasoning-delta",
        "tool-call-approval",
        "tool-call-suspended",
        "tool-error",
        "tool-output-denied",
        "tool-result",
    }
    assert {shown["result"]["finish_reason"] for shown in unstopped.values()} == {"stop", "tool-calls"}
    assert [step["finish_reason"] for step in unstopped["retries"]["result"]["steps"]].count("retry") == 3
    assert "[SECRET]" in unstopped["approval"]["result"]["text"]
