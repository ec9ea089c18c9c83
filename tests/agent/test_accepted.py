"""Whatever is wrong with a setting or an option is told by its name, before anything runs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock import AbortSignal, Agent, RequestContext
from interlock.agent.accepted import AGENT_SETTINGS, CALL_OPTIONS
from interlock.agent.options import CallOptions
from interlock.errors import InterlockError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel
from tests.agent.kit import agent_of, echo, made_sync

pytestmark = pytest.mark.anyio

READ_ELSEWHERE = {
    "context",
    "client_tools",
    "model",
    "structured_output",
    "input_processors",
    "output_processors",
    "error_processors",
    "tracing_context",
}
"""Options whose readers say what is wrong with them; ``tracing_context`` may be anything."""


class Watching:
    def hook_started(self, event: Any) -> None: ...

    def hook_ended(self, event: Any) -> None: ...


FITTING: dict[str, list[Any]] = {
    "run_id": ["r"],
    "instructions": ["S", ["S", {"role": "system", "content": "T"}], lambda arguments: "S"],
    "system": ["S", ["S"], {"role": "system", "content": "T"}],
    "memory": [{}, {"thread": "t"}],
    "request_context": [{}, RequestContext()],
    "max_steps": [1],
    "stop_when": [lambda steps: True, [lambda steps: True], ()],
    "pause_when": [lambda steps: True, [lambda steps: True], ()],
    "prepare_step": [lambda args: None],
    "toolsets": [[[echo]], {"own": [echo]}],
    "tool_choice": ["auto", "none", "required", {"type": "tool", "toolName": "echo"}],
    "active_tools": [["echo"], (), {"echo"}],
    "tool_call_concurrency": [1],
    "require_tool_approval": [False, lambda **call: False],
    "max_processor_retries": [0],
    "model_settings": [{"temperature": 0, "of_a_provider": 1}],
    "provider_options": [{"p": {}}],
    "include_raw_chunks": [True],
    "abort_signal": [AbortSignal()],
    "tracing_options": [{}, {"observer": Watching()}, {"observer": None}],
}

WRONG: dict[str, list[Any]] = {
    "run_id": [3, ""],
    "instructions": [3, [None], [3]],
    "system": [3, [None], lambda arguments: "S"],
    "memory": [3, "t"],
    "request_context": [3, "t"],
    "max_steps": [0, -1, 1.5, True, "3"],
    "stop_when": [3, [3]],
    "pause_when": [3, [3]],
    "prepare_step": [3, {}],
    "toolsets": [3, "tools"],
    "tool_choice": ["bogus", 3, {}, {"type": "tool"}, {"toolName": "echo"}, ["auto"]],
    "active_tools": [3, "search", [3], {"search": 1}],
    "tool_call_concurrency": [0, "2"],
    "require_tool_approval": [3, "yes"],
    "max_processor_retries": [-1, "2", True],
    "model_settings": [3, "hot", {1: 2}],
    "provider_options": [3, []],
    "include_raw_chunks": [3, "yes"],
    "abort_signal": [3, object()],
    "tracing_options": [3, {"observer": 3}, {"watcher": Watching()}],
}

FUNCTIONS = ["on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_iteration_complete"]


def test_every_call_option_is_checked() -> None:
    """R12.7"""
    known = set(CallOptions.__annotations__)
    assert CALL_OPTIONS.keys() | READ_ELSEWHERE == known
    assert CALL_OPTIONS.keys() == FITTING.keys() | set(FUNCTIONS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FITTING.items() for value in values])
async def test_what_an_option_takes_is_taken(name: str, value: Any) -> None:
    """R12.7, R12.8"""
    agent = agent_of(["x"], tools=[echo])
    options: Any = {name: value}
    assert (await agent.generate("hi", **options)).text in ("x", "")


@pytest.mark.parametrize("name", sorted(set(FITTING) | set(FUNCTIONS)))
async def test_none_is_taken_as_given_by_every_option(name: str) -> None:
    """R12.8"""
    options: Any = {name: None}
    assert (await agent_of(["x"]).generate("hi", **options)).text == "x"


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values] + [(name, 3) for name in FUNCTIONS],
)
def test_what_an_option_does_not_take_is_refused_at_the_call(name: str, value: Any) -> None:
    """R12.7, R12.11, R12.12"""
    model = ScriptedModel(["x"])
    options: Any = {name: value}
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be ") as of_the_call:
        agent_of(model).stream("hi", **options)
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be ") as of_the_default:
        agent_of(model, default_options=options)
    assert str(of_the_call.value) == str(of_the_default.value)
    assert model.calls == 0


@pytest.mark.parametrize("name", sorted(READ_ELSEWHERE - {"tracing_context"}))
async def test_the_other_options_are_refused_by_who_reads_them(name: str) -> None:
    """R12.7"""
    model = ScriptedModel(["x"])
    options: Any = {name: 3}
    with pytest.raises(InterlockError):
        await agent_of(model).generate("hi", **options)
    assert model.calls == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 3),
        ("name", 3),
        ("description", 3),
        ("instructions", 3),
        ("instructions", [None]),
        ("memory", 3),
        ("memory", {"thread": "t"}),
        ("max_processor_retries", -1),
        ("max_retries", -1),
        ("max_retries", "x"),
        ("default_options", [1]),
        ("logger", print),
        ("tracer", 3),
        ("run_store", 3),
    ],
)
def test_what_a_setting_does_not_take_is_refused_when_the_agent_is_made(name: str, value: Any) -> None:
    """R12.1"""
    settings: Any = {"id": "a", "model": ScriptedModel([]), name: value}
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
        Agent(**settings)


def test_every_checked_setting_takes_what_it_should() -> None:
    """R12.1"""
    settings: dict[str, Any] = {
        "id": "a",
        "name": "A",
        "description": "says a",
        "instructions": ["S"],
        "memory": Memory(InMemoryStore()),
        "max_processor_retries": 0,
        "max_retries": 1,
        "default_options": {"max_steps": 1},
        "logger": logging.getLogger("a"),
        "tracer": Watching(),
        "run_store": Agent(id="b", model=ScriptedModel([])).run_store,
    }
    assert settings.keys() == AGENT_SETTINGS.keys()
    agent = Agent(model=ScriptedModel([]), **settings)
    assert (agent.name, agent.tracer) == ("A", settings["tracer"])


ARRAYS = ["input_processors", "output_processors", "error_processors"]


@pytest.mark.parametrize("name", [*ARRAYS, "tools", "model"])
def test_a_list_that_an_agent_has_compiled_cannot_be_added_to(name: str) -> None:
    """R12.1: a guard that is appended to an agent would guard nothing."""
    given: dict[str, list[Any]] = {
        "input_processors": [made_sync("p", process_input=lambda args: None)],
        "output_processors": [made_sync("p", process_output_result=lambda args: None)],
        "error_processors": [made_sync("p", process_api_error=lambda args: None)],
        "tools": [echo],
        "model": [ScriptedModel([])],
    }
    agent = Agent(**{"id": "a", "model": ScriptedModel([]), **given})
    with pytest.raises(AttributeError, match="append"):
        getattr(agent, name).append(given[name][0])
    given[name].append(given[name][0])
    assert len(getattr(agent, name)) == 1


@pytest.mark.parametrize("name", [*ARRAYS, "tools", "model", "default_options"])
def test_a_compiled_setting_cannot_be_assigned(name: str) -> None:
    """R12.1"""
    agent = agent_of([])
    with pytest.raises(AttributeError, match=f"{name} of agent 'agent' cannot be changed"):
        setattr(agent, name, None)


def test_a_mapping_that_an_agent_has_compiled_cannot_be_changed() -> None:
    """R12.1"""
    agent: Any = agent_of([], tools={"echo": echo}, default_options={"max_steps": 2})
    for mapping in (agent.tools, agent.default_options):
        with pytest.raises(TypeError):
            mapping["more"] = 1
