"""Processors in sequence behave like neighbours in the array (runtime specification, R16.2 to R16.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from interlock import Message, MessageList, ProcessorError
from interlock.processors import HookEvent, create_workflow, parallel, sequence
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import Drive, Made, Make, Recorder, agent_of, echo, told

pytestmark = pytest.mark.anyio

Arrange = Callable[..., list[Any]]


def nothing(args: Any) -> None:
    """A hook that changes nothing."""


def as_list(*processors: Any) -> list[Any]:
    return list(processors)


def as_sequence(*processors: Any) -> list[Any]:
    return [sequence(*processors)]


def as_then_steps(*processors: Any) -> list[Any]:
    workflow = create_workflow(id="w")
    for processor in processors:
        workflow.then(processor)
    return [workflow.commit()]


def as_nested(*processors: Any) -> list[Any]:
    return [sequence(sequence(processors[0]), sequence(*processors[1:]))]


def with_a_map_behind(*processors: Any) -> list[Any]:
    """A map that hands on what it gets: everything is noted for it, and nothing may come of that."""
    workflow = create_workflow(id="w")
    for processor in processors:
        workflow.then(processor)
    return [workflow.map(lambda args: args.input_data).commit()]


WAYS = [as_list, as_sequence, as_then_steps, as_nested, with_a_map_behind]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def arrange(request: pytest.FixtureRequest) -> Arrange:
    way: Arrange = request.param
    return way


class Noting(Recorder):
    """Notes its hooks in a list that it shares with others; has no hooks that workflows do not call."""

    process_llm_request = None  # type: ignore[assignment]
    process_llm_response = None  # type: ignore[assignment]
    process_api_error = None  # type: ignore[assignment]

    def __init__(self, id: str, calls: list[str]) -> None:  # noqa: A002 - the field's name
        super().__init__(id)
        self.calls = _Prefixed(id, calls)


class _Prefixed(list[str]):
    def __init__(self, prefix: str, target: list[str]) -> None:
        self._prefix = prefix
        self._target = target

    def append(self, call: str) -> None:
        self._target.append(f"{self._prefix}.{call}")


async def test_every_hook_runs_in_the_order_of_a_plain_list(arrange: Arrange, drive: Drive) -> None:
    """R16.2, R16.4"""

    async def calls_of(way: Arrange) -> list[str]:
        calls: list[str] = []
        processors = way(Noting("a", calls), Noting("b", calls), Noting("c", calls))
        turns = [["hm", tool_call("echo")], "done"]
        await drive(agent_of(turns, tools=[echo], input_processors=processors, output_processors=processors))
        return calls

    assert await calls_of(arrange) == await calls_of(as_list)


async def test_the_settings_of_a_step_are_handed_on(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R2.17, R16.4"""
    seen: list[Any] = []
    other = ScriptedModel(["from the other"], model_id="other")

    def look(args: Any) -> dict[str, Any]:
        seen.append((args.model.model_id, args.active_tools))
        return {"tool_choice": "none"}

    processors = arrange(
        make("a", process_input_step=lambda args: {"model": other, "active_tools": []}),
        make("b", process_input_step=look),
        make("c", process_input_step=lambda args: seen.append(args.tool_choice)),
    )
    outcome = await drive(agent_of(["x"], tools=[echo], input_processors=processors))
    assert seen == [("other", []), "none"]
    assert outcome.text == "from the other"


async def test_a_returned_list_is_reconciled_before_the_next_step(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R2.3, R16.4"""
    model = ScriptedModel(["x"])

    def shout(args: Any) -> list[dict[str, Any]]:
        content = {"format": 2, "parts": [{"type": "text", "text": "HI"}]}
        return [{**message.to_dict(), "content": content} for message in args.messages]

    def add(args: Any) -> dict[str, Any]:
        return {"messages": [*args.messages, {"role": "user", "content": "more"}], "system_messages": ["S"]}

    seen: list[Any] = []
    processors = arrange(
        make("a", process_input=shout),
        make("b", process_input=add),
        make("c", process_input=lambda args: seen.append((len(args.messages), args.system_messages))),
    )
    await drive(agent_of(model, input_processors=processors))
    assert seen == [(2, [{"role": "system", "content": "S"}])]
    assert told(model.prompts[0]) == [("system", "S"), ("user", "HI"), ("user", "more")]


async def test_a_foreign_message_list_is_refused_in_the_name_of_the_processor(
    arrange: Arrange, drive: Drive, make: Make
) -> None:
    """R2.6, R16.4"""
    processors = arrange(
        make("a", process_output_step=lambda args: MessageList()), make("b", process_output_result=nothing)
    )
    outcome = await drive(agent_of(["x"], output_processors=processors))
    assert isinstance(outcome.error, ProcessorError)
    code = getattr(outcome.error, "code", None)
    assert (outcome.error.processor_id, code) == ("a", "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST")


async def test_result_hooks_chain_on_the_response(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R2.34, R16.4"""

    def louder(args: Any) -> list[Message]:
        for message in args.messages:
            message.content.parts[-1].text += "!"
        return args.messages  # type: ignore[no-any-return]

    processors = arrange(make("a", process_output_result=louder), make("b", process_output_result=louder))
    outcome = await drive(agent_of(["hey"], output_processors=processors))
    assert outcome.text == "hey!!"


async def test_tool_results_are_handed_on(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R10.7, R16.4"""
    model = ScriptedModel([tool_call("echo", {"text": "secret"}, id="c1"), "done"])
    seen: list[Any] = []

    def redact(args: Any) -> None:
        args.message_list.update_tool_invocation(
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "result",
                    "toolCallId": args.tool_call_id,
                    "toolName": args.tool_name,
                    "args": args.args,
                    "result": "***",
                },
            }
        )

    processors = arrange(
        make("a", process_tool_result=redact), make("b", process_tool_result=lambda args: seen.append(args.result))
    )
    outcome = await drive(agent_of(model, tools=[echo], output_processors=processors))
    assert seen == ["***"]
    assert outcome.steps[0].tool_results[0].payload.result == "***"
    assert ("tool", "***") in told(model.prompts[1])


async def test_each_processor_has_its_own_state_by_its_own_id(drive: Drive, make: Make) -> None:
    """R8.6"""
    seen: list[Any] = []
    counter = make(
        "counter",
        process_input=lambda args: args.state.update(started=True),
        process_output_result=lambda args: seen.append(dict(args.state)),
    )
    other = make("other", process_output_result=lambda args: seen.append(dict(args.state)))
    agent = agent_of(["x"], input_processors=[counter], output_processors=[sequence(other, counter)])
    await drive(agent)
    assert seen == [{}, {"started": True}]


async def test_a_namesake_outside_of_the_workflow_has_a_state_of_its_own(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R8.2, R8.6"""
    seen: list[Any] = []
    inner = make("pair", process_input=lambda args: args.state.update(x=1))
    outer = make("pair", process_input=lambda args: seen.append(dict(args.state)))
    await drive(agent_of(["x"], input_processors=[sequence(inner), outer]))
    assert seen == [{}]
    assert "input_processors holds several processors with id 'pair'" in caplog.text


async def test_workflows_of_one_id_are_no_reason_to_warn(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R8.2: a workflow has no state."""
    processors = [sequence(make(name, process_input=nothing), id="w") for name in "ab"]
    await drive(agent_of(["x"], input_processors=processors))
    assert caplog.text == ""


async def test_processors_are_numbered_by_their_position_in_the_workflow(make: Make) -> None:
    """R16.10"""
    a, b, c, d, e = (make(name, process_input=nothing) for name in "abcde")
    workflow = create_workflow(id="w").then(a).parallel([sequence(b, c), d]).map(lambda args: args.initial_data)
    agent_of(["x"], input_processors=[e, workflow.commit()])
    assert [processor.processor_index for processor in (e, workflow, a, b, c, d)] == [0, 1, 0, 1, 2, 3]


class Watching:
    """An observer that keeps the events of each hook."""

    def __init__(self) -> None:
        self.events: list[HookEvent] = []

    def hook_started(self, event: HookEvent) -> str:
        self.events.append(event)
        return f"span of {event.processor_id}"

    def hook_ended(self, event: HookEvent) -> None:
        if event.hook == "process_output_stream":
            self.events.append(event)

    def about(self, hook: str) -> list[tuple[str, int, str, str]]:
        return [
            (event.processor_id, event.processor_index, event.executor, event.outcome)
            for event in self.events
            if event.hook == hook
        ]


async def test_an_observer_is_told_of_the_processors_in_a_workflow_and_not_of_the_workflow(make: Make) -> None:
    """R15.2, R16.4"""
    spans: list[Any] = []
    a = make("a", process_input=lambda args: spans.append(args.tracing_context.current_span))
    b = make(
        "b",
        process_input=lambda args: [*args.messages, {"role": "user", "content": "more"}],
        process_output_stream=lambda args: None,
    )
    watching = Watching()
    processors = [b, parallel(a, b, keep=a)]
    agent = agent_of(["x"], input_processors=processors, output_processors=[sequence(b)], tracer=watching)
    await agent.generate("hi")
    assert watching.about("process_input") == [
        ("b", 0, "direct", "changed"),
        ("a", 0, "workflow", "unchanged"),
        ("b", 1, "workflow", "changed"),
    ]
    assert spans == ["span of a"]
    assert set(watching.about("process_output_stream")) == {("b", 0, "workflow", "dropped")}


@pytest.mark.parametrize("hook", ["process_llm_request", "process_llm_response", "process_api_error"])
async def test_hooks_that_workflows_have_no_phase_for_are_not_called_and_warned_of_once(
    hook: str, drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R16.3"""
    calls: list[Any] = []
    cache = make("cache", process_input=nothing, process_output_step=nothing, **{hook: calls.append})
    processors = [sequence(cache, id="w")]
    agent = agent_of(["x", "y"], input_processors=processors, output_processors=processors)
    await drive(agent)
    await drive(agent)
    assert calls == []
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"processor 'cache' has {hook}, which is not called in a workflow" in warnings[0]


async def test_a_workflow_in_one_array_takes_no_part_in_the_other(drive: Drive) -> None:
    """R1.3, R16.1"""
    calls: list[str] = []
    await drive(agent_of(["x"], input_processors=[sequence(Noting("a", calls))]))
    assert calls == ["a.process_input", "a.process_input_step(0)"]


async def test_a_workflow_that_has_nothing_for_its_array_is_warned_of(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R1.16"""
    await drive(agent_of(["x"], output_processors=[sequence(make("a", process_input=nothing), id="w")]))
    assert "processor 'w' has no hook of output_processors" in caplog.text


async def test_an_abort_from_a_workflow_can_be_retried(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R7.6, R16.9"""
    seen: list[Any] = []

    def judge(args: Any) -> None:
        seen.append((args.step_number, args.retry_count, args.text))
        if args.text == "bad":
            args.abort("no good", retry=True)

    processors = arrange(make("judge", process_output_step=judge), make("b", process_output_result=nothing))
    outcome = await drive(agent_of(["bad", "good"], output_processors=processors, max_processor_retries=2))
    assert seen == [(0, 0, "bad"), (0, 1, "good")]
    assert outcome.text == "good"
    assert outcome.tripwire is None


async def test_concurrent_runs_of_one_workflow_share_nothing(make: Make) -> None:
    """R8.3"""
    both_started = asyncio.Event()
    started: list[str] = []

    async def meet(args: Any) -> None:
        args.state["text"] = args.messages[0].content.parts[0].text
        started.append(args.run_id)
        if len(started) == 2:
            both_started.set()
        await both_started.wait()

    seen: list[str] = []
    a = Made("a", process_input=meet, process_output_result=lambda args: seen.append(args.state["text"]))
    b = make("b", process_output_result=nothing)
    processors = [create_workflow("w").then(b).then(a).map(lambda args: args.get_step_result("processor:b")).commit()]
    agent = agent_of(lambda request: "x", input_processors=processors, output_processors=processors)
    await asyncio.gather(agent.generate("one"), agent.generate("two"))
    assert sorted(seen) == ["one", "two"]
