"""The benchmark of the adapters runs and reports what it promises; how fast anything is, no test asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.models import model_names, model_workloads
from benchmarks.recorded import PIECE
from benchmarks.workloads import Workload

NAMES = [
    f"{adapter}_{hooks}"
    for adapter in ("anthropic", "google", "openai_chat", "openai_responses")
    for hooks in ("h0", "h4")
]
TINY = ["--chunks", "5", "--slice-s", "0", "--rounds", "1"]


@pytest.fixture(name="tiny", scope="module")
def small_workloads() -> dict[str, Workload]:
    return {one.name: one for one in model_workloads(chunks=5)}


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_the_sdk_and_the_adapter_read_the_same_text(name: str, tiny: dict[str, Workload]) -> None:
    workload = tiny[name]
    assert await workload.bare() == workload.expected == PIECE * 5
    assert await workload.ours() == workload.expected


def test_models_prints_one_json_object_with_a_member_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", *TINY]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == NAMES == model_names()
    for member in printed.values():
        for key in ("us", "bare_us", "ratio"):
            assert 0 < member[f"{key}_min"] <= member[key] <= member[f"{key}_max"]
        assert len(member["rounds"]) == 1


def test_models_prints_a_table_that_names_the_sdk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--only", "google_h0", *TINY]) == 0
    header, _, row = capsys.readouterr().out.splitlines()[:3]
    assert "SDK µs" in header
    assert row.startswith("google_h0")
    assert row.endswith("≤ 0.25")


def test_an_unknown_adapter_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["models", "--only", "nothing"])
    assert "openai_responses_h4" in capsys.readouterr().err


DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_document_describes_every_workload(name: str) -> None:
    adapter, _, hooks = name.rpartition("_")
    (row,) = [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `{adapter}_h0`")]
    assert f"_{hooks}`" in row
