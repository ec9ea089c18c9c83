"""Approval, suspension, client tools, and runs that go on elsewhere (R12.35 to R12.40)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Agent, Processor, Tool, ToolContext, tool
from interlock.agent import InMemoryRunStore
from interlock.errors import ConfigurationError, RunNotFoundError, RunStateError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import RecordingProcessor, ScriptedModel, tool_call, types_of

pytestmark = pytest.mark.anyio

THREAD = {"thread": "t", "resource": "u"}


class Payments:
    """A tool that needs approval, and what it was asked to do."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(require_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = pay


@tool
async def echo(word: str) -> str:
    """Say it again."""
    return word


def pay_agent(payments: Payments, *turns: Any, **settings: Any) -> Agent:
    model = ScriptedModel(list(turns) or [[tool_call("pay", {"amount": 5}, id="c1")], "done"])
    return Agent(id="a", model=model, tools=[payments.tool, echo], **settings)


async def test_a_call_that_needs_approval_suspends_the_run() -> None:
    """R12.36"""
    payments, store = Payments(), InMemoryStore()
    agent = pay_agent(payments, memory=Memory(store))
    async with agent.stream("hi", memory=THREAD) as stream:
        chunks = [chunk async for chunk in stream]
    assert types_of(chunks) == ["start", "step-start", "tool-call", "tool-call-approval"]
    assert await stream.finish_reason == "suspended"
    assert stream.status == "suspended"
    assert (await stream.suspend_payload)["toolCallId"] == "c1"
    assert payments.paid == []
    assert await store.get_thread("t") is None


async def test_an_approved_call_runs_and_the_run_goes_on() -> None:
    """R12.37, R12.38"""
    payments, store = Payments(), InMemoryStore()
    recorder = RecordingProcessor()
    agent = pay_agent(payments, memory=Memory(store), input_processors=[recorder], output_processors=[recorder])
    first = await agent.generate("hi", memory=THREAD)
    before = len(recorder.calls)
    async with agent.approve_tool_call(first.run_id, "c1") as stream:
        chunks = [chunk async for chunk in stream]
    assert types_of(chunks) == [
        "tool-result", "step-finish", "step-start", "text-start", "text-delta", "text-end", "step-finish", "finish",
    ]  # fmt: skip
    assert payments.paid == [5]
    assert await stream.text == "done"
    assert [step.finish_reason for step in await stream.steps] == ["tool-calls", "stop"]
    assert (await stream.usage).input_tokens == 10
    assert stream.run_id == first.run_id
    resumed = [call.hook for call in recorder.calls[before:]]
    assert "process_input" not in resumed
    assert resumed[0] == "process_tool_result"
    assert resumed.count("process_input_step") == 1
    saved = await store.list_messages("t", resource_id="u")
    assert [message.role for message in saved] == ["user", "assistant"]
    assert agent.model.prompts[1][-1]["content"][0]["output"] == {"type": "text", "value": "paid 5"}


async def test_a_declined_call_tells_the_model_why() -> None:
    """A42, R12.38, R4.11"""
    payments, recorder = Payments(), RecordingProcessor()
    agent = pay_agent(payments, output_processors=[recorder])
    first = await agent.generate("hi")
    async with agent.decline_tool_call(first.run_id, reason="too much") as stream:
        chunks = [chunk async for chunk in stream]
    assert types_of(chunks)[:2] == ["tool-output-denied", "step-finish"]
    assert chunks[0].payload.approval == {"id": "c1", "approved": False, "reason": "too much"}
    assert payments.paid == []
    assert "process_tool_result" not in recorder.hooks
    assert agent.model.prompts[1][-1]["content"][0]["output"] == {"type": "text", "value": "too much"}
    assert await stream.text == "done"


async def test_approved_arguments_replace_the_models() -> None:
    """R12.37"""
    payments = Payments()
    agent = pay_agent(payments)
    first = await agent.generate("hi")
    result = await agent.approve_tool_call_generate(first.run_id, args={"amount": 1})
    assert payments.paid == [1]
    assert result.tool_results[0].payload.args == {"amount": 1}
    assert agent.model.prompts[1][-2]["content"][0]["input"] == {"amount": 1}


async def test_arguments_that_do_not_fit_leave_the_run_suspended() -> None:
    """R12.37"""
    payments = Payments()
    agent = pay_agent(payments)
    first = await agent.generate("hi")
    with pytest.raises(RunStateError, match="amount"):
        await agent.approve_tool_call_generate(first.run_id, args={"amount": "much"})
    await agent.approve_tool_call_generate(first.run_id)
    assert payments.paid == [5]


async def test_a_run_is_resumed_once() -> None:
    """R12.37"""
    agent = pay_agent(Payments())
    first = await agent.generate("hi")
    outcomes = await asyncio.gather(
        *(agent.approve_tool_call_generate(first.run_id) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AgentResult", "RunStateError", "RunStateError"]


async def test_an_unknown_run_and_an_unknown_call_are_named() -> None:
    """R12.37"""
    agent = pay_agent(Payments())
    with pytest.raises(RunNotFoundError, match="'nobody'"):
        await agent.approve_tool_call("nobody")
    first = await agent.generate("hi")
    with pytest.raises(RunStateError, match="'c9' does not wait for anybody; waiting: c1"):
        await agent.approve_tool_call(first.run_id, "c9")
    with pytest.raises(RunStateError, match="does not wait for data"):
        await agent.resume_stream({}, first.run_id)


async def test_siblings_run_before_the_run_is_suspended_and_calls_are_approved_one_by_one() -> None:
    """R12.36"""
    payments = Payments()
    agent = pay_agent(
        payments,
        [
            tool_call("pay", {"amount": 1}, id="c1"),
            tool_call("echo", {"word": "x"}, id="c2"),
            tool_call("pay", {"amount": 2}, id="c3"),
        ],
        "done",
    )
    async with agent.stream("hi") as stream:
        chunks = [chunk async for chunk in stream]
    assert types_of(chunks)[-3:] == ["tool-result", "tool-call-approval", "tool-call-approval"]
    with pytest.raises(RunStateError, match="waiting: c1, c3"):
        await agent.approve_tool_call(stream.run_id)
    second = await agent.approve_tool_call_generate(stream.run_id, "c3")
    assert second.finish_reason == "suspended"
    assert payments.paid == [2]
    third = await agent.decline_tool_call_generate(stream.run_id, "c1")
    assert third.text == "done"
    assert [result.payload.tool_call_id for result in third.tool_results] == ["c2", "c3"]
    assert len(agent.model.prompts[1][-1]["content"]) == 3


async def test_another_process_goes_on_with_the_run() -> None:
    """R12.37, R3.26, R8.4"""

    class Counts(Processor):
        id = "counts"

        def process_output_step(self, args: Any) -> None:
            args.state["n"] = args.state.get("n", 0) + 1
            args.state["live"] = object()
            seen.append(args.state["n"])

    seen: list[int] = []
    store, payments = InMemoryRunStore(), Payments()
    first = await pay_agent(payments, output_processors=[Counts()], run_store=store).generate(
        "hi", request_context={"tenant": "t1", "socket": object()}
    )
    fresh = pay_agent(payments, "done", output_processors=[Counts()], run_store=store)
    contexts: list[Any] = []
    result = await fresh.approve_tool_call_generate(
        first.run_id, on_finish=lambda info: contexts.append(info.finish_reason)
    )
    assert result.text == "done"
    assert seen == [1, 2]
    assert contexts == ["stop"]
    assert fresh.model.prompts[0][0]["content"] == [{"type": "text", "text": "hi"}]


async def test_a_run_of_another_agent_is_refused() -> None:
    """R12.37"""
    store = InMemoryRunStore()
    first = await pay_agent(Payments(), run_store=store).generate("hi")
    other = Agent(id="b", model=ScriptedModel(["x"]), run_store=store)
    with pytest.raises(RunStateError, match="belongs to agent 'a', not to 'b'"):
        await other.approve_tool_call(first.run_id)


async def test_a_tool_may_suspend_itself_and_gets_what_it_is_resumed_with() -> None:
    """R12.39"""
    asked: list[Any] = []

    @tool
    async def ask(question: str, context: ToolContext) -> str:
        """Ask a person."""
        asked.append(context.resume_data)
        if context.resume_data is None:
            context.suspend({"question": question})
        return f"said {context.resume_data['answer']}"

    agent = Agent(id="a", model=ScriptedModel([[tool_call("ask", {"question": "?"}, id="c1")], "done"]), tools=[ask])
    async with agent.stream("hi") as stream:
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].payload.suspend_payload == {"question": "?"}
    assert types_of(chunks)[-1] == "tool-call-suspended"
    result = await agent.resume_generate({"answer": 42}, stream.run_id)
    assert asked == [None, {"answer": 42}]
    assert result.tool_results[0].payload.result == "said 42"
    assert result.text == "done"


async def test_a_retry_after_an_approved_result_takes_the_whole_attempt_back() -> None:
    """R7.11, R12.37"""

    class Rejects(Processor):
        id = "rejects"

        def process_tool_result(self, args: Any) -> None:
            if args.retry_count == 0:
                args.abort("not that", retry=True)

    payments = Payments()
    agent = pay_agent(
        payments,
        ["let me pay ", tool_call("pay", {"amount": 5}, id="c1")],
        "all right",
        output_processors=[Rejects()],
        max_processor_retries=1,
    )
    first = await agent.generate("hi")
    result = await agent.approve_tool_call_generate(first.run_id)
    assert result.text == "all right"
    assert [message["role"] for message in agent.model.prompts[1]] == ["system", "user"]


async def test_a_client_tool_ends_the_run_with_its_call_open() -> None:
    """R12.40, FR-128"""
    calls = [
        tool_call("locate", {}, id="c1"),
        tool_call("locate", {"fine": True}, id="c2"),
        tool_call("echo", {"word": "x"}, id="c3"),
    ]
    model = ScriptedModel([calls, "done"])
    agent = Agent(id="a", model=model, tools={"locate": Tool(id="locate"), "echo": echo})
    result = await agent.generate("hi")
    assert result.finish_reason == "tool-calls"
    states = {
        part["toolInvocation"]["toolCallId"]: part["toolInvocation"]["state"]
        for part in result.response.db_messages[0].to_dict()["content"]["parts"]
        if part["type"] == "tool-invocation"
    }
    assert states == {"c1": "call", "c2": "call", "c3": "result"}


async def test_require_tool_approval_of_the_call_may_be_a_function() -> None:
    """R12.35"""
    agent = Agent(id="a", model=ScriptedModel([[tool_call("echo", {"word": "x"})], "done"]), tools=[echo])
    result = await agent.generate("hi", require_tool_approval=lambda name, args, context: args["word"] == "x")
    assert result.finish_reason == "suspended"
    with pytest.raises((ConfigurationError, RunStateError, TypeError)):
        await agent.approve_tool_call(result.run_id, nonsense=True)  # type: ignore[call-arg]
