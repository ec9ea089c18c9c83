"""Tools of a step: how they run, what hooks make of their results (runtime specification, section 10)."""

from __future__ import annotations

import asyncio
import base64
import datetime
import enum
import json
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from interlock import Tool, ToolContext, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel, finish, tool_call, tool_input, types_of
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    saved,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio


def calls(*names: str) -> list[Any]:
    """One call of each tool, ids ``c1``, ``c2`` …"""
    return [tool_call(name, id=f"c{number}") for number, name in enumerate(names, 1)]


def outputs(prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool outputs of a prompt, in order."""
    return [part["output"] for message in prompt if message["role"] == "tool" for part in message["content"]]


def update(args: Any, call_id: str | None = None, **fields: Any) -> bool:
    """``update_tool_invocation`` for the current call, or for another one."""
    invocation = ToolInvocation(
        tool_call_id=call_id or args.tool_call_id, tool_name=args.tool_name, args=args.args, **fields
    )
    found: bool = args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))
    return found


class Crowd:
    """Counts how many of its calls run at the same time."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def visit(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1


def crowded(crowd: Crowd, **options: Any) -> Tool:
    @tool(**options)
    async def visit() -> str:
        """Be there for a while."""
        await crowd.visit()
        return "ok"

    return visit


@pytest.mark.parametrize(("limit", "most"), [(None, 10), (3, 3), (1, 1)])
async def test_calls_of_a_step_run_at_once_up_to_the_limit(drive: Drive, limit: int | None, most: int) -> None:
    """R10.1"""
    crowd = Crowd()
    options = {} if limit is None else {"tool_call_concurrency": limit}
    await drive(agent_of([calls(*["visit"] * 12), "x"], tools=[crowded(crowd)]), **options)
    assert crowd.most == most


async def test_calls_run_one_by_one_when_one_may_pause(drive: Drive) -> None:
    """R10.1"""
    crowd = Crowd()

    @tool(require_approval=lambda args, context: False)
    async def careful() -> str:
        """May need approval."""
        await crowd.visit()
        return "ok"

    agent = agent_of([calls("visit", "careful", "visit"), "x"], tools=[crowded(crowd), careful])
    await drive(agent)
    assert crowd.most == 1


async def test_results_are_handled_in_the_order_of_the_calls_after_all_have_settled(make: Make) -> None:
    """R10.2"""
    order: list[str] = []
    is_second_done = asyncio.Event()

    @tool
    async def first() -> str:
        """Ends last."""
        await is_second_done.wait()
        order.append("first ends")
        return "1"

    @tool
    async def second() -> str:
        """Ends first."""
        order.append("second ends")
        is_second_done.set()
        return "2"

    hook = make(process_tool_result=lambda args: order.append(f"hook {args.tool_name}"))
    agent = agent_of([calls("first", "second"), "x"], tools=[first, second], output_processors=[hook])
    outcome = await streamed(agent)
    assert order == ["second ends", "first ends", "hook first", "hook second"]
    assert [chunk.payload.tool_call_id for chunk in chunks_of(outcome.chunks, "tool-result")] == ["c1", "c2"]


async def test_at_the_hook_earlier_results_are_recorded_and_its_own_call_is_open(drive: Drive, make: Make) -> None:
    """R10.3"""
    seen: list[list[str]] = []

    def look(args: Any) -> None:
        seen.append([part.tool_invocation.state for part in args.messages[-1].content.parts])

    agent = agent_of(
        [calls("echo", "echo", "echo"), "x"], tools=[echo], output_processors=[make(process_tool_result=look)]
    )
    await drive(agent)
    assert seen == [["call", "call", "call"], ["result", "call", "call"], ["result", "result", "call"]]


async def test_each_result_is_on_its_way_before_the_next_hook_runs(make: Make) -> None:
    """R10.2"""
    order: list[str] = []

    def look(args: Any) -> Any:
        if args.part.type == "tool-result":
            order.append(f"chunk {args.part.payload.tool_call_id}")
        return args.part

    processor = make(
        "p", process_tool_result=lambda args: order.append(f"hook {args.tool_call_id}"), process_output_stream=look
    )
    await streamed(agent_of([calls("echo", "echo"), "x"], tools=[echo], output_processors=[processor]))
    assert order == ["hook c1", "chunk c1", "hook c2", "chunk c2"]


@tool
async def failing() -> str:
    """Raises."""
    raise ValueError("broken")


@tool
async def counting(number: int) -> int:
    """Needs a number."""
    return number


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (tool_call("failing"), {}),
        (tool_call("counting", {"number": "x"}), {}),
        (tool_call("nobody"), {}),
        (tool_call("echo"), {"active_tools": ["failing"]}),
        (tool_call("client"), {"client_tools": [Tool(id="client")]}),
        (tool_call("echo"), {"require_tool_approval": True}),
    ],
    ids=["raised", "invalid", "unknown", "inactive", "client tool", "not approved"],
)
async def test_the_hook_runs_for_success_only(drive: Drive, call: Any, options: dict[str, Any]) -> None:
    """R10.4"""
    recorder = Recorder()
    agent = agent_of([[call], "x"], tools=[failing, counting, echo], output_processors=[recorder])
    await drive(agent, **options)
    assert "process_tool_result(0)" not in recorder.calls


async def test_the_result_is_the_same_before_and_after_the_hook_edits_the_call(drive: Drive, make: Make) -> None:
    """R0.4"""
    seen: list[Any] = []

    def blank(args: Any) -> None:
        invocation = args.messages[-1].content.parts[-1].tool_invocation
        invocation.state, invocation.result = "result", None
        seen.append(args.result)

    agent = agent_of(
        [[tool_call("echo", {"text": "yo"})], "x"], tools=[echo], output_processors=[make(process_tool_result=blank)]
    )
    await drive(agent)
    assert seen == ["yo"]


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"text": value}
    return value


@pytest.mark.parametrize(
    "args",
    [_nested(250), json.dumps(_nested(250)), '{"text":' + "[" * 50_000 + "]" * 50_000 + "}"],
    ids=["parsed", "text", "text that exhausts the parser"],
)
async def test_arguments_nested_too_deeply_are_a_failed_call(drive: Drive, args: Any) -> None:
    """R5.6, R10.16"""
    outcome = await drive(agent_of([[tool_call("echo", args)], "I see"], tools=[echo]))
    assert outcome.text == "I see"
    (part,) = [part for part in outcome.response.db_messages[0].content.parts if part.type == "tool-invocation"]
    assert part.tool_invocation.state == "output-error"
    assert part.tool_invocation.error_text == "The arguments are nested more than 200 levels deep"


async def test_the_hook_does_not_run_for_a_suspended_call(drive: Drive) -> None:
    """R10.4, R12.39"""

    @tool
    async def waiting(context: ToolContext) -> str:
        """Suspends."""
        context.suspend({"why": "later"})

    recorder = Recorder()
    outcome = await drive(agent_of([[tool_call("waiting")]], tools=[waiting], output_processors=[recorder]))
    assert outcome.finish_reason == "suspended"
    assert "process_tool_result(0)" not in recorder.calls


class Color(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    name: str


@dataclass
class Point:
    x: int


class Odd:
    def __str__(self) -> str:
        return "odd thing"


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (Model(name="m"), {"name": "m"}),
        (Point(x=1), {"x": 1}),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02"),
        (Color.RED, "red"),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (b"hi", base64.b64encode(b"hi").decode()),
        (Odd(), "odd thing"),
        ({"deep": [Point(x=2)]}, {"deep": [{"x": 2}]}),
    ],
    ids=["pydantic", "dataclass", "datetime", "enum", "tuple", "set", "bytes", "other", "nested"],
)
async def test_results_are_made_serialisable_before_the_hook_sees_them(
    drive: Drive, make: Make, value: Any, recorded: Any
) -> None:
    """R10.6"""
    seen: list[Any] = []

    @tool(in_thread=False)
    def give() -> Any:
        """Gives the value."""
        return value

    hook = make(process_tool_result=lambda args: seen.append(args.result))
    outcome = await drive(agent_of([calls("give"), "x"], tools=[give], output_processors=[hook]))
    assert seen == [outcome.tool_results[0].payload.result]
    if isinstance(value, datetime.datetime):
        assert seen[0].startswith(recorded)
    else:
        assert seen == [recorded]


async def test_a_circular_result_is_a_tool_error(drive: Drive) -> None:
    """R10.6"""

    @tool(in_thread=False)
    def circle() -> Any:
        """Gives a list that holds itself."""
        loop: list[Any] = []
        loop.append(loop)
        return loop

    model = ScriptedModel([calls("circle"), "x"])
    outcome = await drive(agent_of(model, tools=[circle]))
    assert outputs(model.prompts[1])[0]["type"] == "error-text"
    assert outcome.text == "x"


async def test_a_replaced_result_is_the_only_one_anybody_sees(make: Make) -> None:
    """R10.7"""
    store, model, steps = InMemoryStore(), ScriptedModel([calls("echo"), "x"]), list[Any]()
    hook = make(process_tool_result=lambda args: update(args, state="result", result={"clean": True}) and None)
    agent = agent_of(model, tools=[echo], memory=Memory(store), output_processors=[hook])
    outcome = await streamed(agent, memory=THREAD, on_step_finish=steps.append)
    results = [
        chunks_of(outcome.chunks, "tool-result")[0].payload.result,
        outcome.tool_results[0].payload.result,
        outcome.steps[0].tool_results[0].payload.result,
        steps[0].tool_results[0].payload.result,
        outputs(model.prompts[1])[0]["value"],
        outcome.message_list.get.response.db()[0].content.parts[0].tool_invocation.result,
        (await store.list_messages("t", resource_id="u"))[-1].content.parts[0].tool_invocation.result,  # type: ignore[attr-defined]
    ]
    assert results == [{"clean": True}] * 7


async def test_a_hook_may_turn_a_result_into_a_failure(make: Make) -> None:
    """R10.8"""
    model = ScriptedModel([calls("echo"), "x"])
    hook = make(process_tool_result=lambda args: update(args, state="output-error", error_text="refused") and None)
    outcome = await streamed(agent_of(model, tools=[echo], output_processors=[hook]))
    assert outputs(model.prompts[1]) == [{"type": "error-text", "value": "refused"}]
    assert "tool-error" in types_of(outcome.chunks)
    assert "tool-result" not in types_of(outcome.chunks)
    assert outcome.tool_results == []


async def test_updating_another_call_holds_for_an_earlier_one_and_is_overwritten_for_a_later_one(
    drive: Drive, make: Make
) -> None:
    """R10.9"""
    model = ScriptedModel([calls("echo", "echo", "echo"), "x"])

    def cross(args: Any) -> None:
        if args.tool_call_id == "c2":
            assert update(args, "c1", state="result", result="first changed")
            assert update(args, "c3", state="result", result="third changed")

    await drive(agent_of(model, tools=[echo], output_processors=[make(process_tool_result=cross)]))
    assert [output["value"] for output in outputs(model.prompts[1])] == ["first changed", "hey", "hey"]


async def test_on_output_gets_the_raw_result_before_the_hooks(drive: Drive, make: Make) -> None:
    """R10.11"""
    order: list[Any] = []

    @tool(on_output=lambda event: order.append(("on_output", event.output)))
    async def give() -> Any:
        """Gives a point."""
        return Point(x=1)

    hook = make(process_tool_result=lambda args: order.append(("hook", args.result)))
    await drive(agent_of([calls("give"), "x"], tools=[give], output_processors=[hook]))
    assert order == [("on_output", Point(x=1)), ("hook", {"x": 1})]


async def test_the_model_output_comes_after_the_chain(drive: Drive, make: Make) -> None:
    """R10.10"""
    converted: list[Any] = []

    async def to_model_output(result: Any) -> Any:
        converted.append(result)
        return {"type": "text", "value": f"seen: {result}"}

    @tool(to_model_output=to_model_output)
    async def give() -> str:
        """Gives a secret."""
        return "secret"

    model = ScriptedModel([calls("give"), "x"])
    hook = make(process_tool_result=lambda args: update(args, state="result", result="public") and None)
    await drive(agent_of(model, tools=[give], output_processors=[hook]))
    assert converted == ["public"]
    assert outputs(model.prompts[1]) == [{"type": "text", "value": "seen: public"}]


def provider_call(call_id: str = "p1") -> dict[str, Any]:
    payload = {"toolCallId": call_id, "toolName": "search", "args": {"q": "x"}, "providerExecuted": True}
    return {"type": "tool-call", "payload": payload}


def provider_result(call_id: str = "p1", **fields: Any) -> dict[str, Any]:
    payload = {"toolCallId": call_id, "toolName": "search", "result": {"hits": 2}, "providerExecuted": True, **fields}
    return {"type": "tool-result", "payload": payload}


async def test_a_result_of_the_provider_is_screened_before_it_is_recorded_and_shown(make: Make) -> None:
    """R10.12"""
    seen: list[Any] = []

    def redact(args: Any) -> None:
        part = args.messages[-1].content.parts[-1]
        seen.append((args.provider_executed, args.args, args.result, part.tool_invocation.state))
        assert update(args, state="result", result="redacted")

    turn = [provider_call(), provider_result(), "found", finish("stop")]
    outcome = await streamed(agent_of([turn], output_processors=[make(process_tool_result=redact)]))
    assert seen == [(True, {"q": "x"}, {"hits": 2}, "call")]
    (chunk,) = chunks_of(outcome.chunks, "tool-result")
    assert chunk.payload.result == "redacted"
    part = outcome.message_list.get.response.db()[0].content.parts[0]
    assert (part.tool_invocation.state, part.tool_invocation.result) == ("result", "redacted")


async def test_the_last_of_several_results_of_the_provider_stands(drive: Drive, make: Make) -> None:
    """R10.12"""
    seen: list[Any] = []
    turn = [provider_call(), provider_result(result="early"), provider_result(result="final"), "x", finish("stop")]
    hook = make(process_tool_result=lambda args: seen.append(args.result))
    outcome = await drive(agent_of([turn], output_processors=[hook]))
    assert seen == ["early", "final"]
    assert outcome.message_list.get.response.db()[0].content.parts[0].tool_invocation.result == "final"


async def test_a_late_result_of_the_provider_patches_the_call_of_the_earlier_step(drive: Drive) -> None:
    """R10.12"""
    model = ScriptedModel([[provider_call(), tool_call("echo")], [provider_result(), "done", finish("stop")]])
    outcome = await drive(agent_of(model, tools=[echo]))
    parts = outcome.message_list.get.response.db()[0].content.parts
    invocations = [part.tool_invocation for part in parts if part.type == "tool-invocation"]
    assert [(one.tool_call_id == "p1", one.state) for one in invocations] == [(True, "result"), (False, "result")]


async def test_a_failure_is_told_and_the_loop_goes_on(make: Make) -> None:
    """R10.13"""
    model = ScriptedModel([calls("failing"), "sorry"])
    outcome = await streamed(agent_of(model, tools=[failing]))
    (chunk,) = chunks_of(outcome.chunks, "tool-error")
    assert (chunk.payload.tool_name, chunk.payload.error) == ("failing", "broken")
    part = outcome.message_list.get.response.db()[0].content.parts[0]
    assert (part.tool_invocation.state, part.tool_invocation.error_text) == ("output-error", "broken")
    assert outcome.text == "sorry"


async def test_an_empty_failure_message_gets_the_default_one(drive: Drive) -> None:
    """R10.13"""

    @tool
    async def silent() -> str:
        """Raises without a word."""
        raise RuntimeError

    model = ScriptedModel([calls("silent"), "x"])
    await drive(agent_of(model, tools=[silent]))
    assert outputs(model.prompts[1]) == [{"type": "error-text", "value": "Tool execution failed"}]


@pytest.mark.parametrize("options", [{}, {"active_tools": ["failing"]}], ids=["unknown", "inactive"])
async def test_the_model_is_told_which_tools_there_are(drive: Drive, options: dict[str, Any]) -> None:
    """R10.13"""
    name = "echo" if options else "nobody"
    model = ScriptedModel([calls(name), "x"])
    await drive(agent_of(model, tools=[echo, failing]), **options)
    (output,) = outputs(model.prompts[1])
    assert output["type"] == "error-text"
    assert name in output["value"]
    assert "failing" in output["value"]


async def test_the_aborted_result_is_in_neither_list_nor_stream(make: Make) -> None:
    """R10.14"""
    store = InMemoryStore()
    hook = make(process_tool_result=lambda args: args.abort("no"))
    agent = agent_of([calls("echo")], tools=[echo], memory=Memory(store), output_processors=[hook])
    outcome = await streamed(agent, memory=THREAD)
    assert "tool-result" not in types_of(outcome.chunks)
    states = [
        part.tool_invocation.state
        for message in outcome.message_list.get.response.db()
        for part in message.content.parts
    ]
    assert "result" not in states
    assert await saved(store) == []


async def test_a_failing_hook_leaves_the_raw_result_unrecorded(drive: Drive, make: Make) -> None:
    """R10.15"""

    def crash(args: Any) -> Any:
        raise ValueError("boom")

    model = ScriptedModel([calls("echo")])
    agent = agent_of(model, tools=[echo], output_processors=[make("bad", process_tool_result=crash)])
    outcome = await drive(agent)
    assert (outcome.error.processor_id, outcome.error.hook) == ("bad", "process_tool_result")
    assert model.calls == 1
    if outcome.chunks:
        assert "tool-result" not in types_of(outcome.chunks)
        assert "hey" not in str(outcome.message_list.get.all.ui())


async def test_a_call_that_is_repeated_with_its_id_runs_once(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """R10.16"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    turn = [tool_call("note", {"text": "a"}, id="c1"), tool_call("note", {"text": "a"}, id="c1")]
    outcome = await drive(agent_of([turn, "x"], tools=[note]))
    assert ran == ["a"]
    assert len(outcome.tool_calls) == 1
    assert "c1" in caplog.text


async def test_observers_of_the_input_are_told_in_order(drive: Drive) -> None:
    """R10.17"""
    heard: list[Any] = []

    @tool(
        on_input_start=lambda event: heard.append(("start", event.tool_call_id)),
        on_input_delta=lambda event: heard.append(("delta", event.delta)),
        on_input_available=lambda event: heard.append(("available", event.args)),
    )
    async def note(text: str) -> str:
        """Note the text."""
        heard.append("executed")
        return text

    await drive(agent_of([tool_input("note", '{"text":', ' "a"}', id="c1"), "x"], tools=[note]))
    assert heard == [
        ("start", "c1"),
        ("delta", '{"text":'),
        ("delta", ' "a"}'),
        ("available", {"text": "a"}),
        "executed",
    ]


async def test_a_failing_observer_changes_nothing(drive: Drive) -> None:
    """R10.17, R12.27"""

    def fail(event: Any) -> None:
        raise ValueError("observer broke")

    @tool(on_input_start=fail, on_input_delta=fail, on_input_available=fail, on_output=fail)
    async def note(text: str) -> str:
        """Note the text."""
        return text

    outcome = await drive(agent_of([tool_input("note", '{"text": "a"}'), "x"], tools=[note]))
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["a"]


async def test_on_input_available_is_not_told_of_invalid_arguments(drive: Drive) -> None:
    """R10.17"""
    heard: list[Any] = []

    @tool(on_input_available=heard.append)
    async def note(number: int) -> int:
        """Note the number."""
        return number

    await drive(agent_of([[tool_call("note", {"number": "x"})], "x"], tools=[note]))
    assert heard == []


async def test_a_tool_sees_run_agent_context_and_messages(drive: Drive) -> None:
    """R14.1"""
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Looks around."""
        seen.append((context.tool_call_id, context.run_id, context.request_context.get("k"), len(context.messages)))
        seen.append(context.agent)
        return "ok"

    agent = agent_of([calls("look"), "x"], tools=[look])
    await drive(agent, run_id="r1", request_context={"k": 1})
    assert seen == [("c1", "r1", 1, 2), agent]


async def test_a_result_hooks_data_goes_before_the_result(make: Make) -> None:
    """R9.3, R10.2"""

    async def write(args: Any) -> None:
        await args.writer.custom({"type": "data-seen", "data": args.tool_call_id})

    agent = agent_of([calls("echo", "echo"), "x"], tools=[echo], output_processors=[make(process_tool_result=write)])
    outcome = await streamed(agent)
    kinds = [kind for kind in types_of(outcome.chunks) if kind in ("data-seen", "tool-result")]
    assert kinds == ["data-seen", "tool-result"] * 2


async def test_a_two_step_prompt_never_looks_like_parallel_calls(drive: Drive) -> None:
    """R3.11"""
    model = ScriptedModel([calls("echo"), [tool_call("echo", id="c2")], "x"])
    await drive(agent_of(model, tools=[echo]))
    assert [role for role, _ in told(model.prompts[2])] == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize(
    ("call", "state"),
    [(tool_call("echo"), "result"), (tool_call("failing"), "output-error"), (tool_call("nobody"), "output-error")],
)
async def test_a_call_goes_from_call_to_its_outcome(drive: Drive, make: Make, call: Any, state: str) -> None:
    """R4.5"""
    states: list[str] = []

    def note(args: Any) -> None:
        states.append(args.messages[-1].content.parts[0].tool_invocation.state)

    agent = agent_of([[call], "x"], tools=[echo, failing], output_processors=[make(process_output_step=note)])
    await drive(agent)
    assert states == ["call", state]


async def test_a_call_that_waits_for_approval_stays_a_call_and_is_noted_in_the_message() -> None:
    """R4.5, R12.36–R12.38"""
    agent = agent_of([calls("echo"), "x"], tools=[echo])
    waiting = await agent.generate("hi", require_tool_approval=True)
    (message,) = waiting.message_list.get.response.db()
    assert [part.tool_invocation.state for part in message.content.parts] == ["call"]  # type: ignore[attr-defined]
    assert message.content.metadata is not None
    assert list(message.content.metadata["pendingToolApprovals"]) == ["c1"]
    done = await agent.approve_tool_call_generate(waiting.run_id, "c1")
    (message,) = done.message_list.get.response.db()
    invocation = message.content.parts[0].tool_invocation  # type: ignore[attr-defined]
    assert (invocation.state, invocation.result, invocation.approval.approved) == ("result", "hey", True)
    assert not (message.content.metadata or {}).get("pendingToolApprovals")


async def test_a_declined_call_is_denied_with_its_reason() -> None:
    """R4.5, R12.38"""
    agent = agent_of([calls("echo"), "x"], tools=[echo])
    waiting = await agent.generate("hi", require_tool_approval=True)
    done = await agent.decline_tool_call_generate(waiting.run_id, "c1", reason="no")
    invocation = done.message_list.get.response.db()[0].content.parts[0].tool_invocation  # type: ignore[attr-defined]
    assert (invocation.state, invocation.approval.approved, invocation.approval.reason) == (
        "output-denied",
        False,
        "no",
    )


async def test_an_id_that_the_provider_uses_again_in_a_later_step_is_another_call(drive: Drive) -> None:
    """R10.16, R3.18"""
    turns = [[tool_call("echo", {"text": "a"}, id="c1")], [tool_call("echo", {"text": "b"}, id="c1")], "x"]
    model = ScriptedModel(turns)
    outcome = await drive(agent_of(model, tools=[echo]))
    assert [output["value"] for output in outputs(model.prompts[2])] == ["a", "b"]
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["a", "b"]


class Stop(BaseException):
    """Not an ordinary exception."""


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("with_context", [False, True])
async def test_a_base_exception_of_a_tool_propagates(count: int, with_context: bool) -> None:
    """R17.8"""

    @tool(name="stop")
    async def plain() -> str:
        """Stops everything."""
        raise Stop

    @tool(name="stop")
    async def informed(context: ToolContext) -> str:
        """Stops everything."""
        raise Stop

    store, model = InMemoryStore(), ScriptedModel([calls(*["stop"] * count), "x"])
    agent = agent_of(model, tools=[informed if with_context else plain], memory=Memory(store))
    with pytest.raises(Stop):
        await asyncio.wait_for(agent.generate("hi", memory=THREAD), 5)
    assert model.open_streams == 0
    assert await saved(store) == []


@pytest.mark.parametrize("count", [1, 2])
async def test_a_tool_whose_own_task_was_cancelled_does_not_end_the_run_in_silence(count: int) -> None:
    """R17.8, R10.13"""

    @tool
    async def broken() -> str:
        """Waits for something that somebody cancelled."""
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        return "never"

    model = ScriptedModel([calls(*["broken"] * count), "sorry"])
    try:
        result = await asyncio.wait_for(agent_of(model, tools=[broken]).generate("hi"), 5)
    except asyncio.CancelledError:
        return
    assert result.text == "sorry"
