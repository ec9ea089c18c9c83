"""A run between two steps is data (R3.26, R8.4, R12.37)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock import Agent, Processor, tool
from interlock.agent import InMemoryRunStore
from interlock.agent.state_json import VERSION, state_from_dict, state_to_dict
from interlock.errors import RunStateError
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
    again = state_to_dict(state_from_dict(json.loads(json.dumps(data)), "a"))
    assert again == data


async def test_a_state_holds_what_later_steps_need() -> None:
    """R8.4, R14.6"""
    state = state_from_dict(await suspended())
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
        state_from_dict({**data, "version": VERSION + 1})


@pytest.mark.parametrize("data", [None, [], "x", {}, {"version": "1"}, {"version": True}, {"version": 1}])
def test_what_is_no_state_is_refused(data: Any) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        state_from_dict(data)


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
                state_to_dict(state_from_dict(broken, "a"))
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
    "systemBaseline",
    "callIds",
    "requestContext",
    "options",
    "suspended",
]


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({"version": st.just(VERSION)}, optional=dict.fromkeys(KEYS, json_data)))
def test_random_json_is_refused_with_our_error(data: dict[str, Any]) -> None:
    """R12.37"""
    with pytest.raises(RunStateError):
        state_from_dict(data)
