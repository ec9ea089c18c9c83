"""The oracle, against outcomes worked out by hand from the specification (no part of interlock runs here)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .oracle import CallCourse, simulate
from .scenario import load

HERE = Path(__file__).parent

BASE = {"role": "system", "content": "Base instructions."}
START = {"type": "start"}
STEP_START = {"type": "step-start"}
RETRY = {"type": "step-finish", "reason": "retry", "isContinued": True}


def course(name: str) -> CallCourse:
    """The only call of a scenario."""
    path = next(HERE.rglob(f"{name}.json"))
    (call,) = simulate(load(path)).calls
    return call


def user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def prompt(*feedback: str, text: str = "hi") -> list[dict[str, Any]]:
    quoted = [{"role": "system", "feedback": [reason]} for reason in feedback]
    return [BASE, *quoted, user(text)]


def text_chunks(*deltas: str) -> list[dict[str, Any]]:
    return [{"type": "text-start"}, *({"type": "text-delta", "text": delta} for delta in deltas), {"type": "text-end"}]


def end(counts: dict[str, int], reason: str = "stop") -> list[dict[str, Any]]:
    return [
        {"type": "step-finish", "reason": reason, "isContinued": False},
        {"type": "finish", "reason": reason, "usage": counts},
    ]


def usage(given: int, made: int, total: int) -> dict[str, int]:
    return {"inputTokens": given, "outputTokens": made, "totalTokens": total}


def result(text: str, steps: list[str], counts: dict[str, int], reason: str = "stop", **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"text": text, "finishReason": reason, "steps": len(steps), "stepTexts": steps}
    return facts | {"usage": counts, "totalUsage": counts, "toolCalls": [], "toolResults": []} | more


def log(call: CallCourse) -> list[list[Any]]:
    return [record.as_list() for record in call.hooks]


def test_error_retries_stop_after_ten_by_default() -> None:
    """R7.1, R7.15"""
    call = course("api-error-default-cap-roomy")
    expected: list[list[Any]] = []
    for count in range(11):
        facts = {"retryCount": count, "stepNumber": 0, "error": f"bad request {count}"}
        expected += [["@model", "call", {"call": count}], ["always", "processAPIError", facts]]
    assert log(call) == expected
    assert call.prompts == 11 * [prompt()]
    failed = [{"type": "error", "message": "bad request 10"}, *end({}, "error")]
    assert call.chunks == [START, *(10 * [STEP_START, RETRY]), STEP_START, *failed]
    assert call.result == result("", [], {}, "error", error={"message": "bad request 10"})


def test_abort_retries_share_the_default_limit() -> None:
    """R7.2, R7.6, R7.12"""
    call = course("output-step-retry-default-with-error-processors")
    expected: list[list[Any]] = []
    for count in range(11):
        facts = {"retryCount": count, "stepNumber": 0, "text": f"bad {count}", "finishReason": "stop", "toolCalls": []}
        expected += [["@model", "call", {"call": count}], ["q", "processOutputStep", facts]]
    assert log(call) == expected
    assert call.prompts == [prompt(), *(10 * [prompt("Again.")])]
    tripwire = {"reason": "Again.", "retry": True, "processorId": "q"}
    assert call.result == result("", 11 * [""], usage(55, 33, 88), "other", tripwire=tripwire)


def test_an_empty_list_from_the_output_step_changes_nothing() -> None:
    """R2.29"""
    scenario = load(HERE / "disputed" / "output-step-returns-empty-list.json")
    outcome = simulate(scenario)
    call = outcome.calls[0]
    both = {"role": "assistant", "text": "onetwo", "tools": [["add", "result"]]}
    steps = [record.facts["messages"] for record in call.hooks if record.what == "processOutputStep"]
    assert steps[1] == [{"role": "user", "text": "hi"}, both]
    assert call.hooks[-1].facts["messages"] == [both]
    args, output = {"a": 1, "b": 2}, {"type": "json", "value": {"sum": 3}}
    calling = [{"type": "text", "text": "one"}, {"type": "tool-call", "toolName": "add", "args": args}]
    answered = [{"type": "tool-result", "toolName": "add", "output": output}]
    assert call.prompts[1] == [
        *prompt(),
        {"role": "assistant", "content": calling},
        {"role": "tool", "content": answered},
    ]
    invocation = {"type": "tool-invocation", "toolName": "add", "state": "result", "args": args, "result": {"sum": 3}}
    assert outcome.stored == [
        {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "parts": [{"type": "text", "text": "one"}, invocation, {"type": "text", "text": "two"}]},
    ]


@pytest.mark.parametrize(
    ("name", "hook", "reason"),
    [
        ("request-abort-retry", ["stop", "processLLMRequest"], "prompt refused"),
        ("step-abort-retry", ["guard", "processInputStep"], "try again please"),
    ],
)
def test_a_retry_before_the_provider_call_repeats_the_step(name: str, hook: list[str], reason: str) -> None:
    """R7.7, R7.10: no step-start was emitted, so the attempt leaves no chunk."""
    call = course(name)
    asked = [record for record in call.hooks if [record.who, record.what] == hook]
    assert [(record.facts["retryCount"], record.facts["stepNumber"]) for record in asked] == [(0, 0), (1, 0)]
    assert call.prompts == [prompt(reason)]
    assert call.chunks == [START, STEP_START, *text_chunks("ok"), *end(usage(5, 3, 8))]
    assert call.result == result("ok", ["ok"], usage(5, 3, 8))


def test_a_retry_from_the_stream_closes_the_attempt() -> None:
    """R7.7, R7.10, R6.7"""
    call = course("stream-abort-retry")
    stream = [(record.facts["retryCount"], record.facts["partType"]) for record in call.hooks if record.is_stream]
    first = [(0, kind) for kind in ("step-start", "text-start", "text-delta", "text-delta", "step-finish")]
    second = ("step-start", "text-start", "text-delta", "text-end", "finish", "step-finish")
    assert stream == [*first, *((1, kind) for kind in second)]
    assert call.prompts == [prompt(), prompt("bad word")]
    cut = [START, STEP_START, {"type": "text-start"}, {"type": "text-delta", "text": "fine "}, RETRY]
    assert call.chunks == [*cut, STEP_START, *text_chunks("good"), *end(usage(5, 3, 8))]
    assert call.result == result("good", ["good"], usage(5, 3, 8))


def test_the_last_retry_of_the_stream_becomes_a_tripwire() -> None:
    """R7.5, R6.8"""
    call = course("stream-abort-retry-generate")
    assert log(call)[-2:] == [
        ["g", "processOutputStream", {"retryCount": 1, "partType": "text-start"}],
        ["g", "processOutputStream", {"retryCount": 1, "partType": "text-delta", "text": "bad two"}],
    ]
    tripwire = {"reason": "bad word", "retry": True, "processorId": "g"}
    assert call.result == result("", [], {}, "other", tripwire=tripwire)


def test_a_retry_from_a_tool_result_runs_the_tools_again() -> None:
    """R7.7, R7.11, R12.21"""
    call = course("tool-result-abort-retry")
    used = [{"type": "tool-call", "toolName": "fetch", "args": {"u": name}} for name in "xy"]
    done = [
        used[1],
        {"type": "tool-result", "toolName": "fetch", "result": "good data"},
        {"type": "step-finish", "reason": "tool-calls", "isContinued": True},
    ]
    last = [STEP_START, *text_chunks("done"), *end(usage(17, 11, 28))]
    assert call.chunks == [START, STEP_START, used[0], RETRY, STEP_START, *done, *last]
    outcome = result("done", ["", "", "done"], usage(17, 11, 28), toolCalls=["fetch"], toolResults=["good data"])
    assert call.result == outcome


def test_a_replay_runs_every_hook_of_a_reply() -> None:
    """R11.3 to R11.6"""
    call = course("request-cached-response")
    kinds = ["step-start", "text-start", "text-delta", "text-end", "finish"]
    stream = [record.facts["partType"] for record in call.hooks if record.is_stream]
    assert stream == [*kinds, "step-finish"]
    facts = {"retryCount": 0, "stepNumber": 0, "fromCache": True, "chunkTypes": kinds, "chunkText": "from cache"}
    assert ["cache", "processLLMResponse", facts] in log(call)
    assert call.chunks == [START, STEP_START, *text_chunks("from cache"), *end(usage(1, 1, 2))]


def test_a_chunk_that_is_no_data_chunk_fails_the_run() -> None:
    """R9.1, R17.2"""
    call = course("data-bad-type")
    ended = {"type": "step-finish", "reason": "stop", "isContinued": False}
    assert call.chunks == [START, STEP_START, *text_chunks("one"), ended, {"type": "error", "mentions": []}]
    assert call.result == result("one", ["one"], usage(5, 3, 8), "error", error={"mentions": []})


def test_rejected_attempts_do_not_use_up_steps() -> None:
    """R7.12"""
    call = course("retry-counts-against-max-steps")
    judged = [record.facts for record in call.hooks if record.what == "processOutputStep"]
    assert [(facts["retryCount"], facts["text"]) for facts in judged] == [
        (0, "bad 1"),
        (1, "bad 2"),
        (2, "bad 3"),
        (3, "good"),
    ]
    assert call.prompts == [prompt(), *(3 * [prompt("Again.")])]
    assert call.result == result("good", ["", "", "", "good"], usage(20, 12, 32))


def test_a_stream_hook_that_raises_fails_the_run_at_its_chunk() -> None:
    """R17.1 to R17.3"""
    call = course("stream-throws")
    assert log(call)[-1] == ["bad", "processOutputStream", {"retryCount": 0, "partType": "text-delta", "text": "one "}]
    said = {"mentions": ["boom in stream"]}
    assert call.chunks == [START, STEP_START, {"type": "text-start"}, {"type": "error"} | said]
    assert call.result == result("", [], {}, "error", error=said)
