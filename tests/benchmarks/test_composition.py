"""The benchmark of composed processors runs and reports (R16.11)."""

from __future__ import annotations

import json

import pytest
from benchmarks.__main__ import main
from benchmarks.composition import composition_names

TINY = ["--chunks", "5", "--rounds", "1", "--slice-s", "0.001"]


def test_composition_prints_one_json_object_with_a_member_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["composition", "--json", *TINY]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == composition_names()
    assert all(member["ratio"] > 0 for member in figures.values())


def test_composition_prints_a_table_that_names_the_plain_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["composition", "--only", "sequence", *TINY]) == 0
    out = capsys.readouterr().out
    assert "plain list" in out
    assert "sequence" in out
