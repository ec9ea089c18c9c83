"""Compare what happened with what was expected, strictly but for the freedoms that the scenarios' README names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .align import align
from .expected import without_omitted
from .scenario import Scenario

Facts = dict[str, Any]

NOTHING = "(nothing)"
FEEDBACK = "[Processor Feedback]"

_UNSURE = ("system", "model", "steps", "usage")
"""Extra facts of which the recordings do not say in which hooks they are written down."""

_OBJECTS = ("object", "object-result")
"""Chunks of structured output, of which the recordings show neither form nor place; the result has the object."""


@dataclass(frozen=True)
class Difference:
    """A fact that is not as expected."""

    path: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.path}\n    expected {_shown(self.expected)}\n    got      {_shown(self.got)}"


def differences(scenario: Scenario, expected: Facts, got: Facts) -> list[Difference]:
    """Every fact of ``expected`` that ``got`` has otherwise, and every fact of ``got`` that is not expected."""
    found: list[Difference] = []
    for number, of_call in enumerate(expected["calls"]):
        found += _call(f"calls[{number}]", of_call, got["calls"][number], scenario)
    if "stored" in expected:
        found += _compare("stored", expected["stored"], got.get("stored"))
    return found


def _call(path: str, expected: Facts, got: Facts, scenario: Scenario) -> Iterator[Difference]:
    got = without_omitted(got, scenario.omit)
    for area in sorted({**expected, **got}, key=_AREAS.index):
        if area not in expected and not got[area]:
            continue
        if area not in expected and area not in ("result", "error", "chunks"):
            continue
        want, have = (_free(area, facts.get(area), scenario) for facts in (expected, got))
        if area == "hooks" and want is not None and have is not None:
            yield from _hooks(path, want, _as_recorded(have, want))
        else:
            yield from _compare(f"{path}.{area}", want, have)


_AREAS = ("hooks", "prompts", "modelIds", "callSettings", "chunks", "result", "error")


# -- hooks ---------------------------------------------------------------------------------------------------------


def _hooks(path: str, expected: list[Any], got: list[Any]) -> Iterator[Difference]:
    """Records of the stream hook and the other records, each in their own order."""
    for name, is_stream in (("hooks(stream)", True), ("hooks", False)):
        want = [list(record) for record in expected if (record[1] == "processOutputStream") == is_stream]
        have = [list(record) for record in got if (record[1] == "processOutputStream") == is_stream]
        yield from _entries(f"{path}.{name}", want, have)


def _as_recorded(got: list[Any], expected: list[Any]) -> list[Any]:
    """The log without extra facts of a kind that the recording shows for no call of the hook."""
    written: dict[str, set[str]] = {}
    for _, what, facts in expected:
        written.setdefault(what, set()).update(facts)

    def is_compared(what: str, name: str) -> bool:
        return name not in _UNSURE or name in written.get(what, ())

    return [
        [who, what, {name: value for name, value in facts.items() if is_compared(what, name)}]
        for who, what, facts in got
    ]


# -- any facts -----------------------------------------------------------------------------------------------------


def _compare(path: str, expected: Any, got: Any) -> Iterator[Difference]:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if "mentions" in expected:
            got = _mentioning(expected, got)
        for key in {**expected, **got}:
            yield from _compare(f"{path}.{key}", expected.get(key, NOTHING), got.get(key, NOTHING))
    elif isinstance(expected, list) and isinstance(got, list):
        yield from _entries(path, expected, got)
    elif not _equal(expected, got):
        yield Difference(path, expected, got)


def _entries(path: str, expected: list[Any], got: list[Any]) -> Iterator[Difference]:
    """Differences entry by entry; with lists of unequal length, those that only one of them has."""
    if len(expected) == len(got):
        for number, (want, have) in enumerate(zip(expected, got, strict=True)):
            yield from _compare(f"{path}[{number}]", want, have)
        return
    for i, j in align([_text(entry) for entry in expected], [_text(entry) for entry in got]):
        if i is None or j is None:
            where = f"{path}[{i}]" if i is not None else f"{path}, got[{j}]"
            yield Difference(where, NOTHING if i is None else expected[i], NOTHING if j is None else got[j])


def _equal(expected: Any, got: Any) -> bool:
    return bool(expected == got) and isinstance(expected, bool) == isinstance(got, bool)


def _mentioning(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Facts:
    """The error as the expected one is told: only what it has to mention counts."""
    said = [got["message"]] if "message" in got else list(got.get("mentions", ()))
    kept = [text for text in expected["mentions"] if text in said]
    return {key: value for key, value in got.items() if key != "message"} | {"mentions": kept}


def _free(area: str, value: Any, scenario: Scenario) -> Any:
    """The facts without what may be worded freely: tool errors and feedback around what they quote of the scenario."""
    match area:
        case "chunks":
            shown = [chunk for chunk in value or [] if chunk["type"] not in _OBJECTS]
            return _without_wording(shown, scenario)
        case "hooks" if value is not None:
            shown = [record for record in value if record[2].get("partType") not in _OBJECTS]
            return _without_wording(shown, scenario)
        case "prompts" if value is not None:
            return _without_wording(value, scenario)
        case _:
            return value


def _without_wording(value: Any, scenario: Scenario) -> Any:
    if isinstance(value, list):
        return [_without_wording(item, scenario) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("type") == "error-text" and value.get("value") not in scenario.strings:
        return {"type": "error-text"}
    if value.get("type") == "tool-error" and value["error"].get("message") not in scenario.strings:
        return {**value, "error": {}}
    freed = {key: _without_wording(item, scenario) for key, item in value.items()}
    if isinstance(value.get("system"), list):
        freed["system"] = [_without_feedback_wording(text, scenario) for text in value["system"]]
    return freed


def _without_feedback_wording(text: str, scenario: Scenario) -> str:
    quoted = [reason for reason in scenario.feedback if reason in text]
    return f"{FEEDBACK} {quoted}" if text.startswith(FEEDBACK) else text


def _text(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True, ensure_ascii=False)


def _shown(value: Any) -> str:
    return value if value is NOTHING else _text(value)
