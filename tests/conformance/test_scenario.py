"""Reading scenarios and running folders of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .__main__ import main
from .made import op, processor, says, scenario
from .scenario import ByContext, InputMessage, ScenarioError, find, load, read


def write(folder: Path, name: str, **changes: Any) -> Path:
    """A scenario file whose expectation is right but for ``changes`` of its result."""
    counts = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
    data = scenario([says("ok")], method="generate", agent={"memory": False})
    result: dict[str, Any] = {"text": "ok", "finishReason": "stop", "steps": 1, "stepTexts": ["ok"]}
    result |= {"usage": counts, "totalUsage": counts, "toolCalls": [], "toolResults": []}
    data["expect"] = {"calls": [{"hooks": [["@model", "call", {"call": 0}]], "result": result | changes}]}
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_folder_is_searched_with_its_subfolders(tmp_path: Path) -> None:
    paths = [write(tmp_path / "disputed", "a"), write(tmp_path, "b"), write(tmp_path / "scenarios" / "deep", "c")]
    assert find(tmp_path) == sorted(paths)


def test_a_folder_without_scenarios_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario"):
        find(tmp_path)


def test_a_folder_that_passes_ends_with_its_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_difference_is_printed_with_path_expected_and_got(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", text="other")
    assert main(["--scenarios", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert 'calls[0].result.text\n    expected "other"\n    got      "ok"' in out
    assert out.endswith("1 passed, 1 failed\n")


def test_a_file_that_cannot_be_read_fails_and_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a")
    (tmp_path / "b.json").write_text("{", encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("1 passed, 1 failed\n")


@pytest.mark.parametrize(
    "word",
    [
        processor("p", "processInput", op("teleport")),
        processor("p", "processInput", op("pass"), when={"moonPhase": 1}),
        processor("p", "processNothing"),
        processor("p", "processInput", observe=["mood"]),
    ],
    ids=["operation", "condition", "hook", "fact"],
)
def test_an_unknown_word_is_an_error(word: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="unknown"):
        read(scenario([says("ok")], given=[word]))


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="unknown speed"):
        read(scenario([says("ok")], options={"speed": 9}))


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"id": "a"}), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"a\.json"):
        load(path)


def test_repeated_text_is_written_out() -> None:
    given = read(scenario([says("ok")], messages={"role": "user", "repeat": {"text": "ab", "times": 3}}))
    assert given.calls[0].messages == (InputMessage("user", "ababab"),)


def test_an_array_may_be_chosen_by_the_request_context() -> None:
    cases = {"a": [processor("in-a", "processInput")]}
    by_context = {"byContext": {"key": "k", "cases": cases, "default": []}}
    array = read({**scenario([says("ok")]), "processors": {"input": by_context}}).arrays["input"]
    assert isinstance(array, ByContext)
    assert [spec.id for spec in array.choose({"k": "a"})] == ["in-a"]
    assert array.choose({}) == ()


def test_facts_to_observe_are_those_of_the_scenario_and_of_the_processor() -> None:
    given = read(scenario([says("ok")], given=[processor("p", "processInput", observe=["model"])], observe=["state"]))
    (spec,) = given.processors(given.calls[0])
    assert spec.observe == {"state", "model"}
