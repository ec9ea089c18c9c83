"""Runs that are stopped after a step and go on elsewhere: what they are, and the process in which they go on.

``python -m tests.agent.stopped_runs DIRECTORY`` goes on with the runs of ``DIRECTORY/plan.json`` and prints what they
showed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from interlock import Agent, APICallError, Processor, ToolContext, tool
from interlock.agent import AgentStream, FileRunStore, RunStore
from interlock.chunks import chunk_to_dict
from interlock.memory import InMemoryStore, Memory
from interlock.models import ModelFallback
from interlock.testing import ScriptedModel, drain, reasoning, tool_call

THREAD = {"thread": "t", "resource": "u"}


# -- what the runs are made of ----------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def look_up(name: str, context: ToolContext) -> dict[str, Any]:
    """Look a person up."""
    await context.writer.custom({"type": "data-progress", "data": {"name": name}})
    if name == "nobody":
        raise ValueError("there is nobody of that name")
    return {"name": name, "phone": "555-0100", "tenant": context.request_context.get("tenant")}


@tool(require_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def ask(question: str, context: ToolContext) -> str:
    """Ask a person."""
    if context.resume_data is None:
        context.suspend({"question": question})
    return f"said {context.resume_data}"


class Judge(Processor):
    """Rejects what is bad, and keeps count in its state."""

    id = "judge"

    def process_input_step(self, args: Any) -> None:
        args.state["steps"] = args.state.get("steps", 0) + 1
        args.message_list.clear_system_messages("judge")
        args.message_list.add_system(f"attempt {args.state['steps']}, retries {args.retry_count}", "judge")

    def process_output_step(self, args: Any) -> None:
        args.state.setdefault("seen", []).append(args.text)
        if "bad" in args.text:
            args.abort(f"no {args.text.strip()!r}", retry=True, metadata={"text": args.text})


class Redactor(Processor):
    """Masks numbers in what is streamed and in what tools give back, and counts them."""

    id = "redactor"

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-delta" and "555-0100" in args.part.payload.text:
            args.state["masked"] = args.state.get("masked", 0) + 1
            args.part.payload.text = args.part.payload.text.replace("555-0100", f"[PHONE-{args.state['masked']}]")
        return args.part

    def process_tool_result(self, args: Any) -> None:
        if isinstance(args.result, dict) and "phone" in args.result:
            args.state["masked"] = args.state.get("masked", 0) + 1
            part = args.message_list.find_tool_invocation(args.tool_call_id)
            part.tool_invocation.state = "result"
            part.tool_invocation.result = {**args.result, "phone": f"[PHONE-{args.state['masked']}]"}

    def process_output_result(self, args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if part.type == "text" and message.role == "assistant":
                    part.text = part.text.replace("secret", "[SECRET]")


class Spender(Processor):
    """Counts what it spends for all processors of the run."""

    id = "spender"

    def process_output_step(self, args: Any) -> None:
        args.budget.guard_calls += 1
        args.budget.cost += 0.5
        args.state["spent"] = [*args.state.get("spent", []), [args.budget.guard_calls, args.budget.cost]]

    def process_input_step(self, args: Any) -> None:
        budget = args.budget
        args.message_list.add_system(f"only in step {args.step_number}")
        args.message_list.clear_system_messages("spent")
        args.message_list.add_system(f"spent {budget.guard_calls} {budget.cost} {budget.retries}", "spent")


class Repairs(Processor):
    id = "repairs"

    def process_api_error(self, args: Any) -> dict[str, Any]:
        return {"retry": args.retry_count < 3}


Answer = Callable[[Agent, str, dict[str, Any]], AgentStream]


class Scenario:
    """A kind of run.

    Args:
        scripts: The turns of each model, the first choice first.
        settings: Makes the agent's settings, anew each time.
        options: Makes the options of the call that begins the run.
        again: Those of them that have to be given again.
        answers: What to do each time the run waits for somebody.
        stops: How many steps are followed by another one: so often the run can be stopped.
    """

    def __init__(
        self,
        scripts: list[list[Any]],
        *,
        stops: int,
        settings: Callable[[], dict[str, Any]] = dict,
        options: Callable[[], dict[str, Any]] = dict,
        again: Callable[[], dict[str, Any]] = dict,
        answers: list[Answer] | None = None,
    ) -> None:
        self.scripts = scripts
        self.stops = stops
        self.settings = settings
        self.options = options
        self.again = again
        self.answers = answers or []

    def agent(self, store: RunStore, calls: list[int]) -> tuple[Agent, list[ScriptedModel]]:
        """The agent, built anew; its models have answered so often elsewhere."""
        models = [ScriptedModel(turns[done:]) for turns, done in zip(self.scripts, calls, strict=True)]
        model: Any = models[0] if len(models) == 1 else [ModelFallback(one) for one in models]
        settings = {"instructions": "Be brief.", "tools": [add, look_up, pay, ask], **self.settings()}
        return Agent(id="stopped", model=model, run_store=store, **settings), models


def seeded_memory() -> Memory:
    """A memory whose thread has a past."""
    store = InMemoryStore()
    memory = Memory(store)
    memory_of[id(memory)] = store
    return memory


memory_of: dict[int, InMemoryStore] = {}


def _guards() -> dict[str, Any]:
    redactor, judge, spender = Redactor(), Judge(), Spender()
    return {
        "input_processors": [judge, spender],
        "output_processors": [redactor, judge, spender],
        "max_processor_retries": 5,
    }


TOOLS: list[Any] = [
    [reasoning("hm"), "one ", tool_call("add", {"a": 1, "b": 2}, id="c1"), tool_call("nothing", {}, id="c2")],
    ["two ", tool_call("look_up", {"name": "Ada"}, id="c1"), tool_call("look_up", {"name": "nobody"}, id="c4")],
    [tool_call("add", {"a": "x"}, id="c5")],
    "done",
]

SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

SCENARIOS: dict[str, Scenario] = {
    "tools": Scenario([TOOLS], stops=3, options=lambda: {"request_context": {"tenant": "acme"}}),
    "retries": Scenario(
        [
            [
                "bad start",
                ["fine ", tool_call("add", {"a": 1, "b": 2}, id="c1")],
                ["bad again", tool_call("add", {"a": 0, "b": 0}, id="c2")],
                APICallError("busy", status_code=400),
                ["better ", tool_call("add", {"a": 3, "b": 4}, id="c2")],
                "bad end",
                "good end",
            ]
        ],
        stops=2,
        settings=lambda: {**_guards(), "error_processors": [Repairs()]},
    ),
    "guards": Scenario(
        [
            [
                ["call 555-0100, a secret ", tool_call("look_up", {"name": "Ada"}, id="c1")],
                ["or 555-0100 ", tool_call("look_up", {"name": "Bob"}, id="c2")],
                "the secret is 555-0100",
            ]
        ],
        stops=2,
        settings=_guards,
    ),
    "memory": Scenario(
        [TOOLS], stops=3, settings=lambda: {"memory": seeded_memory()}, options=lambda: {"memory": THREAD}
    ),
    "limits": Scenario(
        [[["one ", tool_call("add", {"a": 1, "b": 2}, id=f"c{n}")] for n in range(4)]],
        stops=2,
        settings=_guards,
        options=lambda: {"max_steps": 3, "model_settings": {"timeout": {"total_ms": 60_000}, "temperature": 0.5}},
    ),
    "functions": Scenario(
        [[["one ", tool_call("add", {"a": 1, "b": 2}, id=f"c{n}")] for n in range(4)]],
        stops=2,
        options=lambda: {
            "stop_when": lambda steps: len(steps) == 3,
            "prepare_step": lambda args: {"tool_choice": "required"} if args.step_number else None,
        },
        again=lambda: {
            "stop_when": lambda steps: len(steps) == 3,
            "prepare_step": lambda args: {"tool_choice": "required"} if args.step_number else None,
        },
    ),
    "typed": Scenario(
        [[["one ", tool_call("add", {"a": 1, "b": 2}, id="c1")], '{"sum": "three"}', '{"sum": 3}']],
        stops=1,
        settings=lambda: {"max_processor_retries": 2},
        options=lambda: {"structured_output": SUM},
        again=lambda: {"structured_output": SUM},
    ),
    "fallback": Scenario(
        [
            [APICallError("down", status_code=400), ["first ", tool_call("add", {"a": 1, "b": 1}, id="c2")], "end"],
            [["second ", tool_call("add", {"a": 1, "b": 2}, id="c1")]],
        ],
        stops=2,
    ),
    "approval": Scenario(
        [
            [
                ["one ", tool_call("add", {"a": 1, "b": 2}, id="c1")],
                [
                    "555-0100 two ",
                    tool_call("pay", {"amount": 1}, id="c2"),
                    tool_call("look_up", {"name": "Ada"}, id="c3"),
                    tool_call("pay", {"amount": 2}, id="c4"),
                    tool_call("ask", {"question": "?"}, id="c5"),
                ],
                [tool_call("add", {"a": 5, "b": 6}, id="c6")],
                "a secret end",
            ]
        ],
        stops=3,
        settings=_guards,
        options=lambda: {"request_context": {"tenant": "acme"}},
        answers=[
            lambda agent, run_id, options: agent.approve_tool_call(run_id, "c4", args={"amount": 20}, **options),
            lambda agent, run_id, options: agent.resume_stream("yes", run_id, "c5", **options),
            lambda agent, run_id, options: agent.decline_tool_call(run_id, "c2", reason="too little", **options),
        ],
    ),
}


# -- driving them -----------------------------------------------------------------------------------------------------


class Leg:
    """What a stretch of a run showed: its chunks, the prompts it sent to each model, and what it came to."""

    def __init__(self, chunks: list[Any], prompts: list[Any], result: Any, calls: list[int], answers: int) -> None:
        self.chunks = chunks
        self.prompts = prompts
        self.result = result
        self.calls = calls
        """How often each model has answered, in all legs so far."""
        self.answers = answers
        """How many decisions were made, in all legs so far."""


async def lead(
    scenario: Scenario,
    store: RunStore,
    run_id: str,
    *,
    former: Leg | None = None,
    stop: int | str | None = None,
) -> Leg:
    """Begin a run, or go on with one, with an agent built anew; to its next stop or its end."""
    calls = [0] * len(scenario.scripts) if former is None else former.calls
    answers = 0 if former is None else former.answers
    agent, models = scenario.agent(store, calls)
    options: dict[str, Any] = {"pause_when": lambda steps: stop in (len(steps), "every step")}
    if former is None:
        stream = agent.stream("hi", run_id=run_id, **scenario.options(), **options)
    elif former.result["waits"]:
        stream = scenario.answers[answers](agent, run_id, scenario.again() | options)
        answers += 1
    else:
        stream = agent.continue_stream(run_id, **scenario.again(), **options)
    async with stream:
        chunks = await drain(stream.full_stream)
        outcome = await stream.get_full_output()
    saved = [] if agent.memory is None else await memory_of[id(agent.memory)].list_messages("t", resource_id="u")
    result = {
        "status": outcome.status,
        "finish_reason": outcome.finish_reason,
        "waits": outcome.suspend_payload is not None,
        "text": outcome.text,
        "object": outcome.object,
        "reasoning": outcome.reasoning_text,
        "usage": outcome.usage.to_dict(),
        "steps": [_step(step) for step in outcome.steps],
        "tool_calls": [chunk_to_dict(chunk) for chunk in outcome.tool_calls],
        "tool_results": [chunk_to_dict(chunk) for chunk in outcome.tool_results],
        "messages": outcome.message_list.serialize()["messages"],
        "ui": outcome.response.ui_messages,
        "prompt": outcome.message_list.get.all.llm_prompt(),
        "saved": [message.to_dict() for message in saved],
    }
    prompts = [
        [(request.prompt, request.tool_choice, request.settings) for request in model.requests] for model in models
    ]
    total = [done + model.calls for done, model in zip(calls, models, strict=True)]
    return Leg(
        [chunk_to_dict(chunk) for chunk in chunks],
        plain(prompts),
        plain(result),
        total,
        answers,
    )


def _step(step: Any) -> dict[str, Any]:
    fields = {name: getattr(step, name) for name in step.__struct_fields__ if name != "request"}
    return fields | {"parts": step.content, "reasoning_text": step.reasoning_text}


def plain(value: Any) -> Any:
    """``value`` as it is after a journey through JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def comparable(legs: list[Leg], run_id: str) -> dict[str, Any]:
    """What the legs of a run showed together, without what differs from run to run."""
    chunks = [chunk for leg in legs for chunk in leg.chunks]
    prompts = [list(chain(*of_model)) for of_model in zip(*(leg.prompts for leg in legs), strict=True)]
    text = json.dumps(plain({"chunks": chunks, "prompts": prompts, "result": legs[-1].result}))
    text = text.replace(run_id, "RUN")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "NOW", text)
    text = re.sub(r'("startedAt": )\d+', r"\g<1>0", text)
    known: dict[str, str] = {}
    text = re.sub(
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        lambda found: known.setdefault(found[0], f"id{len(known)}"),
        text,
    )
    data: dict[str, Any] = json.loads(text)
    return data


async def to_the_end(
    scenario: Scenario,
    store: RunStore,
    run_id: str,
    former: Leg | None = None,
    stop: int | str | None = None,
) -> list[Leg]:
    """All legs from ``former`` on."""
    legs: list[Leg] = []
    while former is None or former.result["status"] == "suspended":
        former = await lead(scenario, store, run_id, former=former, stop=stop)
        legs.append(former)
    return legs


async def _go_on(directory: Path) -> list[dict[str, Any]]:
    told = []
    for entry in json.loads((directory / "plan.json").read_text()):
        former = Leg(**entry["former"])
        legs = await to_the_end(
            SCENARIOS[entry["scenario"]],
            FileRunStore(directory / "runs"),
            entry["run_id"],
            former,
            entry["stop"],
        )
        told.append({"run_id": entry["run_id"], "legs": [dict(vars(leg)) for leg in legs]})
    return told


if __name__ == "__main__":
    print(json.dumps(plain(asyncio.run(_go_on(Path(sys.argv[1]))))))
