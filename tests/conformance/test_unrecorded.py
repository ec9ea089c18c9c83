"""Divergences that no recorded scenario shows: recordings that the reference might make, edited from the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from .compare import differences
from .expected import expectation
from .made import TOOL, calls, entry, fails, made, op, processor, says, scenario, text
from .oracle import simulate
from .scenario import read

MADE = dict(made())
Facts = dict[str, Any]
Edit = Callable[[Facts, Facts], None]
"""Edits the call's facts, and the whole outcome, into what the reference does."""

WATCH = processor("w", "processOutputStream", also=("processOutputStep", "processOutputResult"))


def facts_of(call: Facts, hook: str, place: int = -1) -> Facts:
    """The facts of one record of a hook."""
    found: list[Facts] = [facts for _, what, facts in call["hooks"] if what == hook]
    return found[place]


def _default_reason(call: Facts, outcome: Facts) -> None:
    reason = {"reason": "[Stream] Tripwire triggered by p"}
    call["result"]["tripwire"] |= reason
    call["chunks"][-1] |= reason


def _partial_text_kept(call: Facts, outcome: Facts) -> None:
    call["result"] |= {"text": "parok", "stepTexts": ["par", "ok"], "steps": 2}
    call["prompts"][1].append({"role": "assistant", "content": [{"type": "text", "text": "par"}]})


def _last_reasoning(call: Facts, outcome: Facts) -> None:
    call["result"]["reasoningText"] = "two"


def _stored_unfiltered(call: Facts, outcome: Facts) -> None:
    outcome["stored"][1]["parts"].insert(1, {"type": "data-a", "data": 1})


def _reason_lost(call: Facts, outcome: Facts) -> None:
    for reason in (call["chunks"][-1], call["chunks"][-2]):
        reason["reason"] = "unknown"
    call["result"]["finishReason"] = facts_of(call, "processOutputResult")["finishReason"] = "unknown"
    del facts_of(call, "processOutputStep")["finishReason"]


def _finish_by_reason(call: Facts, outcome: Facts) -> None:
    place = next(i for i, (_, what, _) in enumerate(call["hooks"]) if what == "processOutputStep")
    call["hooks"].insert(place, ["w", "processOutputStream", {"retryCount": 0, "partType": "finish"}])


def _asked_again(call: Facts, outcome: Facts) -> None:
    call["hooks"].append(["@model", "call", {"call": 1}])
    for facts in ("prompts", "modelIds", "callSettings"):
        call[facts].append(call[facts][0])
    call["chunks"][-2]["isContinued"] = True
    call["result"] |= {"text": "more", "steps": 2, "stepTexts": ["", "more"]}


def _text_back(call: Facts, outcome: Facts) -> None:
    call["result"] |= {"text": "first second", "stepTexts": ["first ", "second"]}
    outcome["stored"].append({"role": "assistant", "parts": [{"type": "text", "text": "first second"}]})


def _empty_text_sent(call: Facts, outcome: Facts) -> None:
    call["prompts"][1][2]["content"].insert(0, {"type": "text", "text": ""})


def _text_collapsed(call: Facts, outcome: Facts) -> None:
    call["result"] |= {"text": "same", "stepTexts": ["same", ""]}
    outcome["stored"][1]["parts"].pop()


def _new_message_last(call: Facts, outcome: Facts) -> None:
    call["prompts"][0].append(call["prompts"][0].pop(1))
    outcome["stored"].append(outcome["stored"].pop(0))


def _tool_stalls(call: Facts, outcome: Facts) -> None:
    call["hooks"] = [record for record in call["hooks"] if record[1] != "processToolResult"][:-1]
    for facts in ("prompts", "modelIds", "callSettings"):
        call[facts].pop()
    call["result"] |= {"text": "", "finishReason": "tool-calls", "toolResults": []}


def _executed(call: Facts, outcome: Facts) -> None:
    call["hooks"].insert(2, ["@tool", "execute", {"toolName": "add", "args": {"a": 1}}])
    call["chunks"][3] = {"type": "tool-result", "toolName": "add", "result": {"sum": 3}}
    call["result"]["toolResults"] = [{"sum": 3}]


def _mutation_sent(call: Facts, outcome: Facts) -> None:
    call["prompts"][0][-1]["content"][0]["text"] = "ho"


def _accepted(call: Facts, outcome: Facts) -> None:
    del call["error"]
    call["result"] = {"text": "ok"}


def _reasoning(said: str, *then: Facts, reason: str = "stop") -> Facts:
    delta = {"type": "reasoning-delta", "id": "r", "delta": said}
    return entry(
        {"type": "reasoning-start", "id": "r"}, delta, {"type": "reasoning-end", "id": "r"}, *then, reason=reason
    )


_CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "add", "input": "{}"}
_WITHOUT_REASON = processor("p", "processOutputStream", op("abort"), when={"partType": "text-delta"})
_RETRY = [processor("e", "processAPIError", op("retry"))]
_DROP_FINISH = processor("d", "processOutputStream", op("drop-part"), when={"partType": "finish"})
_FIRST = processor("f", "processInput", op("return-appended", role="user", text="new", index=0))

CASES: dict[str, tuple[Facts, Edit]] = {
    "D29": (scenario([says("x")], out=[_WITHOUT_REASON]), _default_reason),
    "D36": (
        scenario([{"chunks": [*text("par"), {"type": "error", "error": "bad"}]}, says("ok")], errors=_RETRY),
        _partial_text_kept,
    ),
    "D37": (
        scenario([_reasoning("one", _CALL, reason="tool-calls"), _reasoning("two")], agent={"tools": TOOL}),
        _last_reasoning,
    ),
    "D52": (MADE["drop of a tool's data, stream"], _stored_unfiltered),
    "D53": (scenario([says("x")], out=[_DROP_FINISH, WATCH]), _reason_lost),
    "D54": (scenario([calls(reason="stop"), says("ok")], out=[WATCH], agent={"tools": TOOL}), _finish_by_reason),
    "D55": (MADE["all calls dropped, stream"], _asked_again),
    "D61": (MADE["return-empty-list in processOutputResult, stream"], _text_back),
    "D65": (scenario([calls(before=("",)), says("ok")], agent={"tools": TOOL}), _empty_text_sent),
    "D66": (scenario([calls(before=("same",)), says("same")], agent={"tools": TOOL}), _text_collapsed),
    "D67": (scenario([says("ok")], given=[_FIRST]), _new_message_last),
    "D73": (MADE["a tool that returns nothing, stream"], _tool_stalls),
    "D74": (
        scenario(
            [calls(), says("ok")],
            given=[processor("n", "processInputStep", op("step-result", toolChoice="none"))],
            agent={"tools": TOOL},
        ),
        _executed,
    ),
    "D82": (MADE["mutate-prompt-text, stream"], _mutation_sent),
    "D83": (MADE["a processor without hooks, stream"], _accepted),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_divergence_changes_the_recording_into_what_the_specification_says(rule: str) -> None:
    data, edit = CASES[rule]
    course = simulate(read(data))
    told: Facts = {"calls": [call.facts(is_stream=True) for call in course.calls], "stored": course.stored}
    recorded = deepcopy(told)
    edit(recorded["calls"][0], recorded)
    made_up = read({**data, "expect": recorded})
    assert differences(made_up, recorded, deepcopy(told)) != []
    expected = expectation(made_up)
    assert differences(made_up, expected.outcome, told) == []
    assert rule in {applied.id for applied in expected.applied}


def test_a_call_after_one_that_used_up_more_of_the_script_is_the_oracles() -> None:
    """The reference calls the model once more after some aborts, so that the next call gets another entry."""
    aborting = processor("p", "processToolResult", op("abort", reason="no"), when={"invocation": 0})
    data = scenario([calls(), says("one"), says("two")], out=[aborting], agent={"tools": TOOL, "memory": False})
    data["calls"] *= 2
    course = simulate(read(data))
    told: Facts = {"calls": [call.facts(is_stream=True) for call in course.calls]}
    recorded = deepcopy(told)
    first, second = recorded["calls"]
    for facts in ("prompts", "modelIds", "callSettings"):
        first[facts].append(first[facts][0])
    second["result"] |= {"text": "two", "stepTexts": ["two"]}
    second["chunks"][3]["text"] = "two"
    made_up = read({**data, "expect": recorded})
    assert differences(made_up, expectation(made_up).outcome, told) == []


def test_without_a_divergence_the_recording_stands() -> None:
    data = scenario([fails("bad"), says("ok")], errors=_RETRY)
    course = simulate(read(data))
    recorded: Facts = {"calls": [call.facts(is_stream=True) for call in course.calls], "stored": course.stored}
    recorded["calls"][0]["result"]["text"] = "other"
    made_up = read({**data, "expect": recorded})
    assert expectation(made_up).outcome["calls"][0]["result"]["text"] == "other"
