"""Appendix A of the runtime specification: tools and their results (A10–A16, A24, A38, A40–A42)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from interlock import AbortSignal, Tool, ToolContext, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel, drain, finish, tool_call, types_of
from tests.agent.kit import (
    THREAD,
    Drive,
    Made,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    part_types,
    saved,
    stored,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio


def out_of_order() -> list[Tool]:
    """Two tools; ``first`` ends only after ``second``."""
    is_second_done = asyncio.Event()

    @tool
    async def first() -> str:
        await is_second_done.wait()
        return "secret one"

    @tool
    async def second() -> str:
        is_second_done.set()
        return "two"

    return [first, second]


BOTH = [tool_call("first", id="c1"), tool_call("second", id="c2")]


def set_result(args: Any, result: Any) -> None:
    """Replace the result of the current call."""
    invocation = ToolInvocation(
        state="result", tool_call_id=args.tool_call_id, tool_name=args.tool_name, args=args.args, result=result
    )
    assert args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))


def redactor(make: Make, calls: list[str]) -> Made:
    """Redacts results that hold a secret."""

    def process_tool_result(args: Any) -> Any:
        calls.append(args.tool_call_id)
        if "secret" in args.result:
            set_result(args, "[redacted]")

    return make("redactor", process_tool_result=process_tool_result)


async def test_a_redacted_result_is_redacted_everywhere_and_hooks_run_in_call_order(drive: Drive, make: Make) -> None:
    """A10: R10.2, R10.7"""
    store, model, calls = InMemoryStore(), ScriptedModel([BOTH, "done"]), list[str]()
    agent = agent_of(model, tools=out_of_order(), memory=Memory(store), output_processors=[redactor(make, calls)])
    outcome = await drive(agent, memory=THREAD)
    assert calls == ["c1", "c2"]
    assert " ".join(words for role, words in told(model.prompts[1]) if role == "tool") == "[redacted] two"
    assert [chunk.payload.result for chunk in outcome.steps[0].tool_results] == ["[redacted]", "two"]
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["[redacted]", "two"]
    if outcome.chunks:
        results = chunks_of(outcome.chunks, "tool-result")
        assert [chunk.payload.result for chunk in results] == ["[redacted]", "two"]
    kept = json.dumps([message.to_dict() for message in await stored(store)])
    assert "[redacted]" in kept
    assert "secret" not in kept


async def test_the_next_processor_of_the_chain_gets_the_redacted_result(drive: Drive, make: Make) -> None:
    """A11: R10.7"""
    seen: list[Any] = []
    logger = make("logger", process_tool_result=lambda args: seen.append(args.result))
    agent = agent_of([BOTH, "done"], tools=out_of_order(), output_processors=[redactor(make, []), logger])
    await drive(agent)
    assert seen == ["[redacted]", "two"]


async def test_an_abort_for_one_result_stops_its_siblings_and_the_run(drive: Drive, make: Make) -> None:
    """A12: R6.8"""
    store, model, calls = InMemoryStore(), ScriptedModel([BOTH]), list[str]()

    def guard(args: Any) -> None:
        calls.append(args.tool_call_id)
        args.abort("bad result")

    agent = agent_of(
        model, tools=out_of_order(), memory=Memory(store), output_processors=[make("g", process_tool_result=guard)]
    )
    outcome = await drive(agent, memory=THREAD)
    assert outcome.tripwire.reason == "bad result"
    assert calls == ["c1"]
    assert model.calls == 1
    assert chunks_of(outcome.chunks, "tool-result") == []
    assert await saved(store) == []


async def test_the_model_output_is_computed_from_the_redacted_result(drive: Drive, make: Make) -> None:
    """A13: R10.10"""

    @tool(to_model_output=lambda result: {"type": "text", "value": f"the tool says: {result}"})
    async def lookup() -> str:
        return "a secret"

    model = ScriptedModel([[tool_call("lookup")], "done"])
    await drive(agent_of(model, tools=[lookup], output_processors=[redactor(make, [])]))
    assert told(model.prompts[1])[-1] == ("tool", "the tool says: [redacted]")


@tool
async def strict(number: int) -> int:
    """Raises for zero."""
    if number == 0:
        raise ValueError("not zero")
    return number


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (tool_call("strict", {"number": 0}), "not zero"),
        (tool_call("strict", {"number": "many"}), "number"),
        (tool_call("nobody", {}), "nobody"),
    ],
    ids=["raises", "invalid args", "unknown tool"],
)
async def test_a_failed_call_is_told_to_the_model_without_a_result_hook(drive: Drive, call: Any, message: str) -> None:
    """A14: R10.4, R10.13"""
    model, recorder = ScriptedModel([[call], "sorry"]), Recorder()
    outcome = await drive(agent_of(model, tools=[strict], output_processors=[recorder]))
    assert "process_tool_result(0)" not in recorder.calls
    assert "tool-error" in recorder.parts
    output = model.prompts[1][-1]["content"][0]["output"]
    assert output["type"] == "error-text"
    assert message in output["value"]
    assert outcome.text == "sorry"
    if outcome.chunks:
        assert len(chunks_of(outcome.chunks, "tool-error")) == 1
        assert chunks_of(outcome.chunks, "tool-result") == []


async def test_none_is_a_result(drive: Drive, make: Make) -> None:
    """A15: R10.5, R4.11"""

    @tool
    async def nothing() -> None:
        """Returns nothing."""

    seen: list[Any] = []
    model = ScriptedModel([[tool_call("nothing")], "done"])
    watcher = make("watcher", process_tool_result=lambda args: seen.append(args.result))
    outcome = await drive(agent_of(model, tools=[nothing], output_processors=[watcher]))
    assert seen == [None]
    assert model.prompts[1][-1]["content"][0]["output"] == {"type": "json", "value": None}
    assert outcome.text == "done"


async def test_equal_texts_of_two_steps_are_both_kept(drive: Drive) -> None:
    """A16: R3.18, R12.20"""
    store = InMemoryStore()
    agent = agent_of([["OK", tool_call("echo")], "OK"], tools=[echo], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == "OKOK"
    answer = (await stored(store))[-1]
    assert part_types(answer) == ["text", "tool-invocation", "step-start", "text"]


async def test_a_chunk_that_an_opted_in_processor_drops_is_neither_streamed_nor_stored(make: Make) -> None:
    """A24: R9.10"""

    @tool
    async def leak(context: ToolContext) -> str:
        await context.writer.custom({"type": "data-secret", "data": 1})
        await context.writer.custom({"type": "data-open", "data": 2})
        return "ok"

    store = InMemoryStore()
    censor = make(
        "censor",
        process_data_parts=True,
        process_output_stream=lambda args: None if args.part.type == "data-secret" else args.part,
    )
    agent = agent_of([[tool_call("leak")], "done"], tools=[leak], memory=Memory(store), output_processors=[censor])
    outcome = await streamed(agent, memory=THREAD)
    assert "data-secret" not in types_of(outcome.chunks)
    assert "data-open" in types_of(outcome.chunks)
    answer = (await stored(store))[-1]
    assert "data-secret" not in part_types(answer)
    assert "data-open" in part_types(answer)


async def test_a_signal_during_a_tool_ends_the_run_and_keeps_its_text(drive: Drive) -> None:
    """A38: R12.28"""
    signal, store = AbortSignal(), InMemoryStore()

    @tool
    async def endless() -> str:
        signal.abort("enough")
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([["thinking", tool_call("endless")]])
    outcome = await drive(agent_of(model, tools=[endless], memory=Memory(store)), abort_signal=signal, memory=THREAD)
    assert (outcome.finish_reason, outcome.status, outcome.text) == ("aborted", "canceled", "thinking")
    assert await saved(store) == [("user", "hi"), ("assistant", "thinking")]
    assert model.calls == 1
    if outcome.chunks:
        assert outcome.chunks[-1].type == "abort"
        assert chunks_of(outcome.chunks, "finish") == []


async def test_a_call_in_a_reply_cut_at_its_length_is_carried_out_and_ends_the_loop(drive: Drive) -> None:
    """A40: R1.12"""
    store, model = InMemoryStore(), ScriptedModel([[tool_call("echo", {"text": "yo"}), finish("length")]])
    outcome = await drive(agent_of(model, tools=[echo], memory=Memory(store)), memory=THREAD)
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["yo"]
    assert outcome.finish_reason == "length"
    assert model.calls == 1
    part = (await stored(store))[-1].content.parts[-1]
    assert isinstance(part, ToolInvocationPart)
    assert (part.tool_invocation.state, part.tool_invocation.result) == ("result", "yo")


async def test_dropping_the_only_call_ends_the_run_without_it(drive: Drive, make: Make) -> None:
    """A41: R1.13, R2.27"""
    ran: list[str] = []

    @tool
    async def delete() -> str:
        ran.append("delete")
        return "gone"

    store, model = InMemoryStore(), ScriptedModel([["sure", tool_call("delete")]])
    guard = make("guard", process_output_stream=lambda args: None if args.part.type == "tool-call" else args.part)
    outcome = await drive(
        agent_of(model, tools=[delete], memory=Memory(store), output_processors=[guard]), memory=THREAD
    )
    assert ran == []
    assert model.calls == 1
    assert outcome.finish_reason == "tool-calls"
    assert outcome.tool_calls == []
    assert part_types((await stored(store))[-1]) == ["text"]


async def test_a_declined_call_gives_its_reason_to_the_model() -> None:
    """A42: R12.35–R12.38, R4.11"""
    model, recorder = ScriptedModel([[tool_call("echo", id="c1")], "as you wish"]), Recorder()
    agent = agent_of(model, tools=[echo], output_processors=[recorder])
    first = await agent.stream("hi", require_tool_approval=True)
    chunks = await drain(first.full_stream)
    assert types_of(chunks)[-1] == "tool-call-approval"
    assert (await first.finish_reason, first.status) == ("suspended", "suspended")
    assert (await first.suspend_payload)["toolCallId"] == "c1"
    assert "process_output_result" not in recorder.calls

    second = await agent.decline_tool_call(first.run_id, "c1", reason="not today")
    denied = chunks_of(await drain(second.full_stream), "tool-output-denied")
    assert len(denied) == 1
    assert denied[0].payload.approval["approved"] is False
    assert denied[0].payload.approval["reason"] == "not today"
    assert await second.text == "as you wish"
    assert model.prompts[1][-1]["content"][0]["output"] == {"type": "text", "value": "not today"}
    assert "process_tool_result(0)" not in recorder.calls
    assert recorder.calls.count("process_output_result") == 1
