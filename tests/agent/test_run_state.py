"""A run between two steps is data (R3.26, R8.4, R12.37)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import Agent, Processor, tool
from interlock.agent import InMemoryRunStore, RunState
from interlock.agent.state import VERSION
from interlock.errors import RunStateError
from interlock.messages.parts import TextPart
from interlock.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.anyio


@tool(require_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def echo(word: str) -> str:
    """Say it again."""
    return word


class Judge(Processor):
    id = "judge"

    def process_output_step(self, args: Any) -> None:
        args.state["seen"] = [*args.state.get("seen", []), args.text]
        args.state["socket"] = object()
        if args.text == "bad ":
            args.abort("no", retry=True, metadata={"why": object()})


async def suspended() -> dict[str, Any]:
    """The stored state of a run with a rejected attempt, an accepted step, and a step that waits."""
    store = InMemoryRunStore()
    model = ScriptedModel(
        [
            "bad ",
            ["one ", tool_call("echo", {"word": "x"}, id="c1")],
            ["two ", tool_call("pay", {"amount": 5}, id="c2"), tool_call("echo", {"word": "y"}, id="c3")],
        ]
    )
    agent = Agent(
        id="a",
        instructions="Be brief.",
        model=model,
        tools=[pay, echo],
        output_processors=[Judge()],
        max_processor_retries=3,
        run_store=store,
    )
    result = await agent.generate("hi", request_context={"tenant": "t", "live": object()}, max_steps=7)
    return await store.load(result.run_id)


async def test_a_state_survives_json_exactly() -> None:
    """R3.26"""
    data = await suspended()
    again = RunState.from_dict(json.loads(json.dumps(data)), "a").to_dict()
    assert again == data
    text = RunState.from_dict(data).to_json()
    assert RunState.from_json(text).to_json() == text
    assert RunState.from_json(text.encode(), "a").to_json() == text


async def test_text_that_utf8_cannot_hold_and_numbers_of_any_size_survive() -> None:
    """R3.26: a reply cut off in the middle of an emoji ends in half of it."""
    state = RunState.from_dict(await suspended())
    numbers = {"big": 10**40, "small": -(2**63), "ratio": 0.1}
    state.processor_states = {"p": {"cut": "\ud83d", "whole": "\U0001f600", **numbers}}
    text = state.to_json()
    again = RunState.from_json(text)
    assert again.processor_states == state.processor_states
    assert again.to_json() == text


async def test_processor_state_that_json_would_change_is_missing_not_changed() -> None:
    """R8.4"""
    loop: dict[str, Any] = {}
    loop["self"] = loop
    state = RunState.from_dict(await suspended())
    state.processor_states = {
        "p": {
            "kept": {"list": [1, (2, 3)], "none": None},
            "time": datetime(2026, 1, 2, tzinfo=UTC),
            "set": {1},
            "bytes": b"x",
            "nan": float("nan"),
            "part": TextPart(text="x"),
            "loop": loop,
            "partly": {"a": 1, "b": object(), 3: 4},
            7: 8,
        }
    }
    again = RunState.from_json(state.to_json())
    assert again.processor_states == {"p": {"kept": {"list": [1, [2, 3]], "none": None}, "partly": {"a": 1}}}


async def test_a_step_has_the_parts_of_its_message_also_after_json() -> None:
    """R2.30, R12.37: what changes one changes both."""
    state = RunState.from_json(RunState.from_dict(await suspended()).to_json())
    held = {id(part) for message in state.message_list.get.all.db() for part in message.content.parts}
    assert state.suspended is not None
    for step in (*state.steps, state.suspended.step):
        assert step.parts
        assert {id(part) for part in step.parts} <= held


async def test_a_state_holds_what_later_steps_need() -> None:
    """R8.4, R14.6"""
    state = RunState.from_dict(await suspended())
    assert [step.text for step in state.steps] == ["one "]
    assert [(step.finish_reason, step.text) for step in state.listed_steps] == [("retry", ""), ("tool-calls", "one ")]
    assert (state.step_number, state.retry_count) == (1, 1)
    assert state.processor_states == {"judge": {"seen": ["bad ", "one ", "two "]}}
    assert state.request_context == {"tenant": "t"}
    assert state.options == {"max_steps": 7}
    assert state.usage.input_tokens == 15
    assert state.suspended is not None
    assert list(state.suspended.waiting) == ["c2"]
    assert state.call_ids == {"c1"}


async def test_a_newer_version_is_refused() -> None:
    """R12.37"""
    data = await suspended()
    with pytest.raises(RunStateError, match=f"has version {VERSION + 1}; this interlock reads up to {VERSION}"):
        RunState.from_dict({**data, "version": VERSION + 1})


@pytest.mark.parametrize("version", [0, -1])
async def test_a_version_that_never_was_is_refused(version: int) -> None:
    """R12.37"""
    with pytest.raises(RunStateError, match=f"this is no run state: there is no version {version}"):
        RunState.from_dict({**await suspended(), "version": version})


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "nul", "NaN", "[]", "1e999", b"\xff\xfe", "\ud800", '"\\ud800"', "1" * 5_000, '{"version": NaN}'],
        *["[" * 100_000, '{"a":' * 100_000, '{"version": 1, "runId": ' + "[" * 500 + "]" * 500 + "}"],
        *[None, 5, {"version": 1}],
    ],
)
def test_text_that_is_no_state_is_refused(text: Any) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        RunState.from_json(text)


async def test_a_call_that_waits_must_be_in_a_message() -> None:
    """R12.37"""
    data = await suspended()
    data["suspended"]["waiting"] = {"c9": data["suspended"]["waiting"]["c2"]}
    with pytest.raises(RunStateError, match="no message has the tool call 'c9'"):
        RunState.from_dict(data)


async def test_a_part_must_be_where_the_step_says() -> None:
    """R12.37"""
    for place in ([0, 99], [99, 0], [-1, 0], [0], [0, 0, 0], ["0", 0]):
        data = await suspended()
        data["steps"][1]["parts"] = [place]
        with pytest.raises(RunStateError, match="malformed"):
            RunState.from_dict(data)


@pytest.mark.parametrize("data", [None, [], "x", {}, {"version": "1"}, {"version": True}, {"version": 1}])
def test_what_is_no_state_is_refused(data: Any) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        RunState.from_dict(data)


async def test_a_state_with_one_thing_broken_is_refused_or_read_but_never_crashes() -> None:
    """R12.37"""
    data = await suspended()
    for path in _paths(data):
        for junk in (None, 3, "x", [], {}, [None], {"a": 1}, -1.5, True):
            broken = json.loads(json.dumps(data))
            node: Any = broken
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = junk
            try:
                RunState.from_dict(broken, "a").to_dict()
            except RunStateError:
                continue


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "runId",
    "agentId",
    "messageId",
    "messages",
    "steps",
    "stepNumber",
    "retryCount",
    "processorStates",
    "usage",
    "suspensionId",
    "budget",
    "usedMs",
    "systemBaseline",
    "callIds",
    "requestContext",
    "options",
    "requiredOptions",
    "suspended",
]


@settings(max_examples=200)
@given(st.fixed_dictionaries({"version": st.just(VERSION)}, optional=dict.fromkeys(KEYS, json_data)))
def test_random_json_is_refused_with_our_error(data: dict[str, Any]) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        RunState.from_dict(data)


@settings(max_examples=300)
@given(st.text() | st.binary() | json_data.map(json.dumps))
def test_random_text_is_refused_with_our_error(text: str | bytes) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        RunState.from_json(text)


WHOLE = asyncio.run(suspended())
PATHS = _paths(WHOLE)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(PATHS), json_data | st.none()), min_size=1, max_size=4))
def test_a_state_with_anything_anywhere_is_read_or_refused_with_our_error(changes: list[tuple[Any, Any]]) -> None:
    """R12.37: what is read can be written again."""
    broken = json.loads(json.dumps(WHOLE))
    for path, junk in changes:
        node: Any = broken
        try:
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = junk
        except (LookupError, TypeError):
            continue  # an earlier change took the place away
    try:
        state = RunState.from_json(json.dumps(broken), "a")
    except RunStateError:
        return
    RunState.from_json(state.to_json())


# -- cost ------------------------------------------------------------------------------------------------------------


async def long_run(steps: int, messages: int) -> RunState:
    """The state of a run with so many steps behind so many messages of history."""
    store = InMemoryRunStore()
    turns = [["I call ", tool_call("echo", {"word": f"word {n}"}, id=f"c{n}")] for n in range(steps)]
    agent = Agent(id="a", model=ScriptedModel(turns, record=False), tools=[echo], run_store=store)
    history = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n}"} for n in range(messages)]
    result = await agent.generate(
        [*history, {"role": "user", "content": "hi"}],
        max_steps=steps + 1,
        pause_when=lambda done: len(done) == steps,
    )
    return RunState.from_dict(await store.load(result.run_id))


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions are called by ``work``: a measure of time that needs no clock."""
    count = 0

    def seen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("small", "large"), [((50, 0), (200, 0)), ((5, 250), (5, 1_000)), ((50, 250), (200, 1_000))])
async def test_the_cost_of_a_state_grows_with_its_size(small: Any, large: Any) -> None:
    """R3.26: four times the run, four times the bytes and the work."""
    less, more = await long_run(*small), await long_run(*large)
    text, longer = less.to_json(), more.to_json()
    assert len(longer) < 4.2 * len(text)
    assert calls_of(more.to_json) < 4.2 * calls_of(less.to_json)
    assert calls_of(lambda: RunState.from_json(longer)) < 4.2 * calls_of(lambda: RunState.from_json(text))
