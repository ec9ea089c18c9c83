"""The state that each processor has for the length of a run (runtime specification, section 8)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock import APICallError, ModelFallback
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import NINE_HOOKS, Drive, Make, agent_of, echo, look_at_every_hook

pytestmark = pytest.mark.anyio


async def test_all_hooks_of_a_run_have_one_state_that_is_empty_at_first() -> None:
    """R8.1"""
    first: list[Any] = []
    states: dict[str, Any] = {}

    def look(hook: str, args: Any) -> None:
        if not first:
            first.append(dict(args.state))
        states[hook] = args.state

    await look_at_every_hook(look)
    assert first == [{}]
    assert set(states) == set(NINE_HOOKS)
    assert all(state is states["process_input"] for state in states.values())


async def test_processors_of_different_ids_do_not_share(drive: Drive, make: Make) -> None:
    """R8.2"""
    seen: list[Any] = []
    processors = [
        make("a", process_input=lambda args: args.state.update(x=1)),
        make("b", process_input=lambda args: seen.append(dict(args.state))),
    ]
    await drive(agent_of(["x"], input_processors=processors))
    assert seen == [{}]


async def test_different_instances_of_one_id_in_different_arrays_share(drive: Drive, make: Make) -> None:
    """R8.2"""
    seen: list[Any] = []
    agent = agent_of(
        ["x"],
        input_processors=[make("pair", process_input=lambda args: args.state.update(x=1))],
        output_processors=[make("pair", process_output_result=lambda args: seen.append(dict(args.state)))],
    )
    await drive(agent)
    assert seen == [{"x": 1}]


async def test_different_instances_of_one_id_in_one_array_do_not_share_and_are_warned_of_once(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R8.2"""
    seen: list[Any] = []
    processors = [
        make("twin", process_input=lambda args: args.state.update(x=1)),
        make("twin", process_input=lambda args: seen.append(dict(args.state))),
    ]
    with caplog.at_level(logging.WARNING, logger="interlock"):
        agent = agent_of(["x", "x"], input_processors=lambda arguments: processors)
        await drive(agent)
        await drive(agent)
    assert seen == [{}, {}]
    assert len([record for record in caplog.records if "twin" in record.getMessage()]) == 1


async def test_runs_do_not_share_state(drive: Drive, make: Make) -> None:
    """R8.3"""
    seen: list[Any] = []

    def count(args: Any) -> None:
        seen.append(dict(args.state))
        args.state["x"] = 1

    agent = agent_of(["x", "x"], input_processors=[make(process_input=count)])
    await drive(agent)
    await drive(agent)
    assert seen == [{}, {}]


async def test_concurrent_runs_do_not_share_state(drive: Drive, make: Make) -> None:
    """R8.3"""
    barrier = asyncio.Barrier(3)
    seen: list[int] = []

    async def count(args: Any) -> None:
        args.state["n"] = args.state.get("n", 0) + 1
        await barrier.wait()
        seen.append(args.state["n"])

    agent = agent_of(lambda request: "x", input_processors=[make(process_input=count)])
    await asyncio.gather(*(drive(agent) for _ in range(3)))
    assert seen == [1, 1, 1]


async def test_state_survives_retries_fallback_models_and_steps(drive: Drive, make: Make) -> None:
    """R8.4"""
    counts: list[int] = []

    def count(args: Any) -> None:
        args.state["n"] = args.state.get("n", 0) + 1
        counts.append(args.state["n"])

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    failing = ScriptedModel(lambda request: APICallError("down", status_code=400))
    model = ScriptedModel(["bad", [tool_call("echo")], "x"])
    processor = make("counter", process_input_step=count, process_output_step=reject)
    agent = agent_of(
        [],
        tools=[echo],
        input_processors=[processor],
        output_processors=[processor],
        max_processor_retries=1,
    )
    await drive(agent, model=[ModelFallback(failing), ModelFallback(model)])
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) >= 4


async def test_the_runtime_keeps_nothing_of_its_own_in_the_state() -> None:
    """R8.5"""
    states: list[Any] = []
    await look_at_every_hook(lambda hook, args: states.append(dict(args.state)))
    assert all(state == {} for state in states)
