"""Carry out a scenario with a real agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock import Agent, RequestContext
from interlock.memory import InMemoryStore, Memory

from . import observe
from .model import ModelDesk, ScriptedModel
from .observe import Facts, Journal
from .operations import World
from .processors import RuleProcessor, prepare_step
from .scenario import Array, ByContext, Call, ProcessorSpec, Scenario
from .script import Script
from .tools import scripted_tool

THREAD = "thread-1"
RESOURCE = "user-1"

_STREAM_VALUES = (
    "text",
    "finish_reason",
    "steps",
    "usage",
    "total_usage",
    "tool_calls",
    "tool_results",
    "reasoning_text",
    "sources",
    "files",
)
_OPTION_NAMES = {"input": "input_processors", "output": "output_processors", "error": "error_processors"}
_JSON_TYPES = ("string", "number", "boolean")


async def run(scenario: Scenario) -> Facts:
    """What happened, in the form of ``expect``."""
    return await _Execution(scenario).run()


class _Execution:
    """One scenario being carried out: its agent, and what the current call has logged."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.desk = ModelDesk(Script(scenario.script), self._on_model_call)
        self.models: dict[str, ScriptedModel] = {}
        self.tools = {
            name: scripted_tool(name, tool, self._current_journal)
            for name, tool in {**scenario.extra_tools, **scenario.tools}.items()
        }
        self.world = World(self._model, self.tools)
        self.store = InMemoryStore() if scenario.has_memory else None
        self.journal = Journal()
        self.facts: Facts = {}
        self.agent: Agent | None = None

    def _ready_agent(self) -> Agent:
        """The scenario's agent, made at its first call, so that what making it raises is that call's outcome."""
        scenario = self.scenario
        self.agent = self.agent or Agent(
            id="conformance",
            instructions=scenario.instructions,
            model=self._model(scenario.model_id),
            tools={name: self.tools[name] for name in scenario.tools},
            memory=Memory(store=self.store) if self.store is not None else None,
            max_processor_retries=scenario.agent.get("maxProcessorRetries"),
            **{_OPTION_NAMES[kind]: self._array(array) for kind, array in scenario.arrays.items()},
        )
        return self.agent

    async def run(self) -> Facts:
        outcome: Facts = {"calls": [await self._call(call) for call in self.scenario.calls]}
        if self.store is not None:
            messages = await self.store.list_messages(THREAD, resource_id=RESOURCE)
            outcome["stored"] = observe.stored(messages, self.scenario)
        return outcome

    async def _call(self, call: Call) -> Facts:
        self.journal = Journal()
        self.desk.joins_text = not call.is_stream
        self.facts = {"hooks": self.journal.records, "prompts": [], "modelIds": [], "callSettings": []}
        try:
            if call.is_stream:
                await self._stream(call)
            else:
                generated = await self._ready_agent().generate(self._messages(call), **self._options(call))
                self.facts["result"] = await self._result(lambda name: _value(generated, name), generated, None)
        except Exception as error:
            # Whatever a call raises is an outcome to compare.
            self.facts["error"] = {"raised": True} | observe.error(error, self.scenario)
        return self.facts

    async def _stream(self, call: Call) -> None:
        async with self._ready_agent().stream(self._messages(call), **self._options(call)) as stream:
            chunks = [chunk async for chunk in stream.full_stream]
            self.facts["chunks"] = observe.chunks(chunks, self.scenario)
            self.facts["result"] = await self._result(lambda name: getattr(stream, name), stream, stream.error)

    async def _result(self, read: Callable[[str], Awaitable[Any]], outcome: Any, failure: Any) -> Facts:
        values: dict[str, Any] = {}
        rejected: list[str] = []
        for name in _STREAM_VALUES:
            try:
                values[name] = await read(name)
            except Exception:
                # A value that cannot be had is a fact: the name goes to ``rejected``.
                rejected.append(observe.camel(name))
        structured = None
        if failure is None and any("structuredOutput" in call.options for call in self.scenario.calls):
            structured = await read("object")
        if rejected:
            return {"rejected": rejected}
        return observe.result(
            text=values["text"],
            finish_reason=values["finish_reason"],
            tripwire_info=outcome.tripwire,
            steps=values["steps"],
            step_usage=values["usage"],
            total_usage=values["total_usage"],
            tool_calls=values["tool_calls"],
            tool_results=values["tool_results"],
            reasoning_text=values["reasoning_text"],
            sources=values["sources"],
            files=values["files"],
            structured=structured,
            failure=failure,
            scenario=self.scenario,
        )

    def _messages(self, call: Call) -> Any:
        if isinstance(call.messages, str):
            return call.messages
        return [{"role": item.role, "content": item.text} for item in call.messages]

    def _options(self, call: Call) -> dict[str, Any]:
        given = call.options
        options: dict[str, Any] = {"request_context": RequestContext(call.context)}
        options |= {_OPTION_NAMES[kind]: self._array(array) for kind, array in call.arrays.items()}
        if self.scenario.setting(call, "maxSteps") is not None:
            options["max_steps"] = self.scenario.setting(call, "maxSteps")
        if "maxProcessorRetries" in given:
            options["max_processor_retries"] = given["maxProcessorRetries"]
        if "modelSettings" in given:
            options["model_settings"] = {observe.snake(name): value for name, value in given["modelSettings"].items()}
        if "structuredOutput" in given:
            options["structured_output"] = {"schema": _json_schema(given["structuredOutput"])}
        if "prepareStep" in given:
            options["prepare_step"] = prepare_step(given["prepareStep"], self.world, self._current_journal)
        if self.store is not None:
            options["memory"] = {"thread": call.thread, "resource": RESOURCE}
        return options

    def _array(self, array: Array) -> Any:
        if not isinstance(array, ByContext):
            return self._processors(array)
        made = {id(case): self._processors(case) for case in (*array.cases.values(), array.default)}

        def choose(options: Any) -> list[RuleProcessor]:
            return made[id(array.choose(options.request_context.to_dict()))]

        return choose

    def _processors(self, specs: tuple[ProcessorSpec, ...]) -> list[RuleProcessor]:
        return [RuleProcessor(spec, self.world, self._current_journal) for spec in specs]

    def _model(self, model_id: str) -> ScriptedModel:
        return self.models.setdefault(model_id, ScriptedModel(model_id, self.desk))

    def _current_journal(self) -> Journal:
        return self.journal

    def _on_model_call(self, model_id: str, request: Any) -> None:
        self.journal.add("@model", "call", {"call": len(self.facts["prompts"])})
        self.facts["prompts"].append(observe.prompt(request.prompt, self.scenario))
        self.facts["modelIds"].append(model_id)
        self.facts["callSettings"].append(observe.call_settings(request))


async def _value(outcome: Any, name: str) -> Any:
    return getattr(outcome, name)


def _json_schema(fields: Mapping[str, str]) -> dict[str, Any]:
    unknown = sorted(set(fields.values()) - set(_JSON_TYPES))
    if unknown:
        raise ValueError(f"structuredOutput: unknown type {', '.join(unknown)}; known are {', '.join(_JSON_TYPES)}")
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }
