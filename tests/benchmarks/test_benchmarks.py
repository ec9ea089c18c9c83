"""The benchmarks run and report what they promise; how fast anything is, no test asks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.__main__ import main
from benchmarks.import_cost import as_text
from benchmarks.measure import Round
from benchmarks.report import as_json, as_table
from benchmarks.state import as_text as state_table
from benchmarks.state import state_costs
from benchmarks.workloads import Workload, workloads

NAMES = [
    "run_h0",
    "run_h4",
    "stream_h0",
    "stream_h4",
    "history_10",
    "history_100",
    "history_1000",
    "steps_50",
    "concurrent_200_h0",
    "concurrent_200_h4",
]
TINY = ["--chunks", "20", "--crowd", "3", "--slice-s", "0"]


@pytest.fixture(name="tiny", scope="module")
def small_workloads() -> dict[str, Workload]:
    return {one.name: one for one in workloads(chunks=20, crowd=3)}


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_both_sides_of_a_workload_do_the_same_work(name: str, tiny: dict[str, Workload]) -> None:
    workload = tiny[name]
    assert await workload.bare() == workload.expected
    assert await workload.ours() == workload.expected


def test_core_prints_one_json_object_with_a_member_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", "--json", "--rounds", "1", *TINY]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == NAMES
    for name, member in printed.items():
        for key in ("us", "bare_us", "ratio"):
            assert 0 < member[f"{key}_min"] <= member[key] <= member[f"{key}_max"]
        assert len(member["rounds"]) == 1
        assert ("runs_per_s" in member) == name.startswith("concurrent")


def test_core_measures_only_what_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", "--json", "--rounds", "2", "--only", "run_h4", "--only", "stream_h0", *TINY]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["run_h4", "stream_h0"]
    assert [len(member["rounds"]) for member in printed.values()] == [2, 2]


def test_core_prints_a_table_without_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", "--rounds", "1", "--only", "stream_h4", *TINY]) == 0
    assert "stream_h4" in capsys.readouterr().out


def test_an_unknown_workload_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["core", "--only", "nothing"])
    assert "run_h0" in capsys.readouterr().err


def test_a_report_gives_medians_and_ranges_over_the_rounds(tiny: dict[str, Workload]) -> None:
    rounds = [Round(us=10, bare_us=2), Round(us=30, bare_us=3), Round(us=12, bare_us=1)]
    member = as_json({"run_h0": (tiny["run_h0"], rounds)})["run_h0"]
    assert (member["us_min"], member["us"], member["us_max"]) == (10, 12, 30)
    assert (member["bare_us_min"], member["bare_us"], member["bare_us_max"]) == (1, 2, 3)
    assert (member["ratio_min"], member["ratio"], member["ratio_max"]) == (5, 10, 12)
    assert member["rounds"][1] == {"us": 30, "bare_us": 3, "ratio": 10}


def test_a_table_says_how_history_and_long_runs_grow(tiny: dict[str, Workload]) -> None:
    us = {"run_h0": 30.0, "history_10": 40.0, "history_1000": 100.0, "steps_50": 510.0}
    table = as_table({name: (tiny[name], [Round(us=value, bare_us=1)]) for name, value in us.items()})
    assert "2.50× history of 10" in table
    assert "10.0 µs in a run of 3 and 10.0 µs" in table


def test_profile_lists_functions_with_their_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "run_h0", "--seconds", "0", "--lines", "5"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["own", "µs", "total", "µs"]
    assert len(rows) == 5


def test_importing_interlock_loads_no_edge(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--json", "--times", "1"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["edges"] == []
    assert "msgspec" in cost["packages"]
    assert cost["ms_min"] <= cost["ms"] <= cost["ms_max"]


def test_an_edge_that_is_loaded_is_named() -> None:
    cost: dict[str, Any] = {
        "ms": 1,
        "ms_min": 1,
        "ms_max": 1,
        "modules": 2,
        "packages": ["openai"],
        "edges": ["openai"],
    }
    assert "must not be loaded: openai" in as_text(cost)


def test_state_shows_what_states_of_each_size_cost() -> None:
    costs = state_costs(rounds=1, sizes=((1, 2), (2, 4)))
    assert [(cost.steps, cost.messages) for cost in costs] == [(1, 2), (2, 4)]
    assert all(cost.kilobytes > 0 and cost.to_json_ms > 0 and cost.from_json_ms > 0 for cost in costs)
    table = state_table(costs).splitlines()
    assert table[0].split() == ["steps", "messages", "KB", "to_json", "ms", "from_json", "ms"]
    assert table[1].count("( 1.0x)") == 3
