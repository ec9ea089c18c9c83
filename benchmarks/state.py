"""What it takes to store a run and to read it again, and whether that grows with the size of the run."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from interlock import Agent, tool
from interlock.agent import InMemoryRunStore, RunState
from interlock.testing import ScriptedModel, tool_call

SIZES = ((50, 250), (100, 500), (200, 1_000))
"""Steps and messages of history."""


class StateCost(msgspec.Struct, kw_only=True):
    """What one state costs."""

    steps: int
    messages: int
    kilobytes: float
    to_json_ms: float
    from_json_ms: float


def state_costs(*, rounds: int = 7, sizes: Sequence[tuple[int, int]] = SIZES) -> list[StateCost]:
    """The cost of states of each size; times are medians over the rounds."""
    return [_cost(asyncio.run(run_state(*size)), *size, rounds) for size in sizes]


async def run_state(steps: int, messages: int) -> RunState:
    """The state of a run that is paused behind so many steps, each with a tool call, and so many earlier messages."""
    turns = [["I call the tool. ", tool_call("echo", {"text": f"text {n}"}, id=f"c{n}")] for n in range(steps)]
    store = InMemoryRunStore()
    agent = Agent(id="state", model=ScriptedModel(turns, record=False), tools=[echo], run_store=store)
    history = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"message {n} " * 10} for n in range(messages)
    ]
    result = await agent.generate(
        [*history, {"role": "user", "content": "go"}],
        max_steps=steps + 1,
        pause_when=lambda done: len(done) == steps,
    )
    return RunState.from_dict(await store.load(result.run_id))


@tool(in_thread=False)
def echo(text: str) -> str:
    """Say the text."""
    return text


def _cost(state: RunState, steps: int, messages: int, rounds: int) -> StateCost:
    text = state.to_json()
    return StateCost(
        steps=steps,
        messages=messages,
        kilobytes=len(text) / 1_000,
        to_json_ms=_median_ms(state.to_json, rounds),
        from_json_ms=_median_ms(lambda: RunState.from_json(text), rounds),
    )


def _median_ms(work: Callable[[], Any], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1_000)
    return statistics.median(taken)


def as_text(costs: Sequence[StateCost]) -> str:
    """A table; behind each figure how many times that of the smallest state it is."""
    first = costs[0]
    lines = [f"{'steps':>6} {'messages':>9} {'KB':>15} {'to_json ms':>16} {'from_json ms':>16}"]
    for cost in costs:
        figures = [
            f"{getattr(cost, name):8.1f} ({getattr(cost, name) / getattr(first, name):4.1f}x)"
            for name in ("kilobytes", "to_json_ms", "from_json_ms")
        ]
        lines.append(f"{cost.steps:>6} {cost.messages:>9} {figures[0]:>15} {figures[1]:>16} {figures[2]:>16}")
    return "\n".join(lines)
