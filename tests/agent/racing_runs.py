"""Processes that go on with stored runs: at the same moment as others, or to die on the way.

``python -m tests.agent.racing_runs DEED DIRECTORY`` says ``ready``, waits for a line, and does its deed.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from interlock import Agent, Tool, tool
from interlock.agent import FileRunStore
from interlock.errors import RunStateError
from interlock.testing import ScriptedModel, tool_call

TRIES = 100_000
"""A process that has to try again so often never gets its turn."""


def cashier(directory: Path, *turns: Any, tools: Any = None) -> Agent:
    """An agent whose tool writes each payment to ``paid.txt``."""
    return Agent(
        id="cashier",
        model=ScriptedModel(list(turns) or (lambda request: "done")),
        tools=tools or [payer(directory)],
        run_store=FileRunStore(directory / "runs"),
    )


def payer(directory: Path) -> Tool:
    @tool(require_approval=True, in_thread=False)
    def pay(what: str) -> str:
        """Pay."""
        with (directory / "paid.txt").open("a") as book:
            book.write(f"{what}\n")
        return "paid"

    return pay


def paid(directory: Path) -> list[str]:
    """What was paid so far."""
    book = directory / "paid.txt"
    return sorted(book.read_text().split()) if book.exists() else []


def calls(run_id: str, *names: str) -> list[Any]:
    """A turn that asks for payments."""
    return [tool_call("pay", {"what": f"{run_id}:{name}"}, id=name) for name in names]


async def approve_all(directory: Path, order: list[str]) -> list[Any]:
    """Approve the calls of every stored run, in this order, until somebody has approved each."""
    agent = cashier(directory)
    outcomes: list[Any] = []
    for run_id in json.loads((directory / "ids.json").read_text()):
        for name in order:
            for _ in range(TRIES):
                try:
                    result = await agent.approve_tool_call_generate(run_id, name)
                except RunStateError as error:
                    if "does not wait for anybody" in str(error):
                        break
                    if str(error).endswith("was resumed already"):
                        break  # it has ended
                    continue  # somebody is at work on it
                outcomes.append([run_id, name, result.status])
                break
            else:
                raise AssertionError(f"{run_id} {name} was never free")
    return outcomes


async def die_at_work(directory: Path) -> None:
    """Approve a call whose tool takes the process down."""

    @tool(in_thread=False)
    def pay(what: str) -> str:
        """Pay."""
        os._exit(9)

    await cashier(directory, tools=[pay]).approve_tool_call_generate("run")


async def die_writing(directory: Path) -> None:
    """Store a state that is larger than the process may write."""
    store = FileRunStore(directory / "runs")
    state = await store.load("run")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    await store.save("run", {**state, "requestContext": {"much": "x" * 10_000_000}})


async def _main(deed: str, directory: Path) -> Any:
    if deed == "approve-forward":
        return await approve_all(directory, ["c1", "c2", "c3"])
    if deed == "approve-backward":
        return await approve_all(directory, ["c3", "c2", "c1"])
    return await {"die-at-work": die_at_work, "die-writing": die_writing}[deed](directory)


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))))
