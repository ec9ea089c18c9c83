"""Cancelling a run, from outside and from inside (runtime specification, section 12.5)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, Processor, ProcessorError, ToolContext, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocationPart
from interlock.testing import ScriptedModel, drain, tool_call, types_of, wait_for
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    made_sync,
    part_types,
    saved,
    stored,
    streamed,
)

pytestmark = pytest.mark.anyio


def soon(signal: AbortSignal) -> Any:
    """Sets the signal from outside of the run, once the run waits."""

    def schedule() -> None:
        asyncio.get_running_loop().call_soon(signal.abort, "user left")

    return schedule


async def test_a_signal_during_the_stream_ends_the_run_and_keeps_its_text(drive: Drive) -> None:
    """R12.28"""
    signal, store, recorder = AbortSignal(), InMemoryStore(), Recorder()
    model = ScriptedModel([["so ", "far", soon(signal), wait_for(asyncio.Event()), "never"]])
    agent = agent_of(model, memory=Memory(store), output_processors=[recorder])
    outcome = await drive(agent, abort_signal=signal, memory=THREAD)
    assert (outcome.text, outcome.finish_reason, outcome.status) == ("so far", "aborted", "canceled")
    assert (outcome.error, outcome.tripwire) == (None, None)
    assert await saved(store) == [("user", "hi"), ("assistant", "so far")]
    assert recorder.calls.count("process_output_result") == 1
    assert "process_output_step(0)" not in recorder.calls
    assert model.open_streams == 0
    if outcome.chunks:
        assert types_of(outcome.chunks) == ["start", "step-start", "text-start", "text-delta", "text-delta", "abort"]


async def test_a_signal_while_tools_run_cancels_them_and_starts_no_other(drive: Drive) -> None:
    """R12.28"""
    signal, events = AbortSignal(), list[str]()

    @tool
    async def endless(context: ToolContext) -> str:
        """Runs until it is cancelled."""
        try:
            soon(signal)()
            await asyncio.Event().wait()
        finally:
            events.append(f"cancelled, signal {context.abort_signal.aborted}")
        return "never"

    @tool
    async def waiting() -> str:
        """Would run second."""
        events.append("started")
        return "x"

    model = ScriptedModel([["hm", tool_call("endless", id="c1"), tool_call("waiting", id="c2")]])
    outcome = await drive(agent_of(model, tools=[endless, waiting]), abort_signal=signal, tool_call_concurrency=1)
    assert events == ["cancelled, signal True"]
    assert (outcome.finish_reason, model.calls) == ("aborted", 1)
    if outcome.chunks:
        assert outcome.chunks[-1].type == "abort"
        assert chunks_of(outcome.chunks, "finish") == []


async def test_results_that_were_there_appear_exactly_once(make: Make) -> None:
    """R12.28"""
    signal = AbortSignal()

    def abort_at_second(args: Any) -> None:
        if args.tool_call_id == "c2":
            signal.abort()

    calls = [tool_call("echo", {"text": str(number)}, id=f"c{number}") for number in (1, 2, 3)]
    agent = agent_of([calls], tools=[echo], output_processors=[make(process_tool_result=abort_at_second)])
    outcome = await streamed(agent, abort_signal=signal)
    results = [chunk.payload.tool_call_id for chunk in chunks_of(outcome.chunks, "tool-result")]
    assert len(results) == len(set(results))
    assert results[:1] == ["c1"]
    assert outcome.chunks[-1].type == "abort"


async def test_calls_that_were_not_carried_out_are_stored_as_failed(drive: Drive) -> None:
    """R12.28, R17.5"""
    signal, store = AbortSignal(), InMemoryStore()
    model = ScriptedModel([["hm", tool_call("echo"), soon(signal), wait_for(asyncio.Event())]])
    await drive(agent_of(model, tools=[echo], memory=Memory(store)), abort_signal=signal, memory=THREAD)
    part = (await stored(store))[-1].content.parts[-1]
    assert isinstance(part, ToolInvocationPart)
    assert not part.tool_invocation.is_pending


async def test_blank_text_is_not_kept(drive: Drive) -> None:
    """R12.28"""
    signal, store = AbortSignal(), InMemoryStore()
    model = ScriptedModel([["  \n", soon(signal), wait_for(asyncio.Event())]])
    await drive(agent_of(model, memory=Memory(store)), abort_signal=signal, memory=THREAD)
    assert await saved(store) == [("user", "hi")]


async def test_a_signal_that_is_set_already_makes_no_call(drive: Drive) -> None:
    """R12.28"""
    signal, store, model, recorder = AbortSignal(), InMemoryStore(), ScriptedModel([]), Recorder()
    signal.abort()
    agent = agent_of(model, memory=Memory(store), output_processors=[recorder])
    outcome = await drive(agent, abort_signal=signal, memory=THREAD)
    assert (outcome.text, outcome.finish_reason, model.calls) == ("", "aborted", 0)
    assert recorder.hooks == ["process_output_result"]
    assert await saved(store) == [("user", "hi")]
    if outcome.chunks:
        assert outcome.chunks[-1].type == "abort"


@pytest.mark.parametrize("hook", ["process_input", "process_input_step", "process_llm_request"])
async def test_a_signal_in_a_hook_before_the_call_stops_the_run_there(drive: Drive, make: Make, hook: str) -> None:
    """R12.28"""
    signal, model, later = AbortSignal(), ScriptedModel([]), list[str]()
    processors = [
        make("first", **{hook: lambda args: args.abort_signal.abort()}),
        make("second", process_llm_response=lambda args: later.append("response")),
    ]
    outcome = await drive(agent_of(model, input_processors=processors), abort_signal=signal)
    assert (outcome.finish_reason, model.calls, later) == ("aborted", 0, [])


@pytest.mark.parametrize("count", [1, 2])
async def test_a_signal_while_approval_is_asked_for_starts_no_tool(drive: Drive, count: int) -> None:
    """R12.28, R12.35"""
    signal, ran = AbortSignal(), list[int]()

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    async def approves(*_: Any) -> bool:
        signal.abort("the user left")
        return False

    model = ScriptedModel([[tool_call("pay", {"amount": n}) for n in range(count)], "never"])
    outcome = await drive(agent_of(model, tools=[pay]), require_tool_approval=approves, abort_signal=signal)
    assert (outcome.status, ran, model.calls) == ("canceled", [], 1)


async def test_the_provider_gets_the_signal(drive: Drive) -> None:
    """R12.28"""
    signal, model = AbortSignal(), ScriptedModel(["x"])
    await drive(agent_of(model), abort_signal=signal)
    assert model.requests[0].abort_signal is signal


async def test_a_signal_between_steps_starts_no_further_step(drive: Drive) -> None:
    """R12.28"""
    signal, model = AbortSignal(), ScriptedModel([["one", tool_call("echo")], "two"])
    outcome = await drive(
        agent_of(model, tools=[echo]), abort_signal=signal, on_step_finish=lambda step: signal.abort()
    )
    assert (model.calls, outcome.finish_reason, outcome.text) == (1, "aborted", "one")


async def test_a_signal_that_comes_with_the_result_hooks_loses_nothing(drive: Drive, make: Make) -> None:
    """R12.28, R13.11"""
    signal, store = AbortSignal(), InMemoryStore()
    late = make(process_output_result=lambda args: signal.abort())
    outcome = await drive(
        agent_of(["x"], memory=Memory(store), output_processors=[late]), abort_signal=signal, memory=THREAD
    )
    assert outcome.text == "x"
    assert await saved(store) == [("user", "hi"), ("assistant", "x")]


async def test_the_reason_of_the_signal_is_in_the_abort_chunk() -> None:
    """R12.28"""
    signal = AbortSignal()
    signal.abort("user left")
    outcome = await streamed(agent_of([]), abort_signal=signal)
    assert outcome.chunks[-1].payload.reason == "user left"


async def test_the_signal_serves_another_run_after_an_unused_one(drive: Drive) -> None:
    """R12.28"""
    signal = AbortSignal()
    agent = agent_of(["x", ["y", soon(signal), wait_for(asyncio.Event())]])
    assert (await drive(agent, abort_signal=signal)).finish_reason == "stop"
    assert (await drive(agent, abort_signal=signal)).finish_reason == "aborted"


class Waits:
    """A model, a tool or a hook that waits for ever, and tells when it does."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()

    async def __call__(self, *_: Any) -> None:
        self.is_reached.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("place", ["model", "tool", "hook"])
async def test_cancelling_the_task_of_generate_saves_nothing_and_sets_the_signal(place: str, make: Make) -> None:
    """R12.29"""
    waits, store, signals = Waits(), InMemoryStore(), list[AbortSignal]()

    @tool
    async def work() -> str:
        """Waits for ever."""
        await waits()
        return "never"

    model = ScriptedModel([["so far", waits]] if place == "model" else [["so far", tool_call("work")]])
    processor = make(
        "p",
        process_input_step=lambda args: signals.append(args.abort_signal),
        process_output_step=waits.__call__ if place == "hook" else None,
    )
    agent = agent_of(
        model, tools=[work], memory=Memory(store), input_processors=[processor], output_processors=[processor]
    )
    task = asyncio.ensure_future(agent.generate("hi", memory=THREAD))
    await waits.is_reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert signals[0].aborted
    assert model.open_streams == 0
    assert await saved(store) == []


async def test_cancelling_the_reader_of_a_stream_ends_the_run_without_saving() -> None:
    """R12.29"""
    waits, store = Waits(), InMemoryStore()
    model = ScriptedModel([["so far", waits]])
    agent = agent_of(model, memory=Memory(store))

    async def read() -> None:
        async with agent.stream("hi", memory=THREAD) as stream:
            await drain(stream.full_stream)

    task = asyncio.ensure_future(read())
    await waits.is_reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.open_streams == 0
    assert await saved(store) == []


async def test_no_retry_is_granted_once_the_signal_is_set(drive: Drive, make: Make) -> None:
    """R12.30"""
    signal, model = AbortSignal(), ScriptedModel(["bad"])

    def reject(args: Any) -> None:
        signal.abort()
        args.abort("again", retry=True)

    agent = agent_of(model, output_processors=[make(process_output_step=reject)], max_processor_retries=3)
    outcome = await drive(agent, abort_signal=signal)
    assert model.calls == 1
    assert outcome.finish_reason in ("aborted", "other")


async def test_no_error_retry_is_granted_once_the_signal_is_set(drive: Drive, make: Make) -> None:
    """R12.30"""
    signal, model = AbortSignal(), ScriptedModel([APICallError("down", status_code=400)])

    def ask(args: Any) -> Any:
        signal.abort()
        return {"retry": True}

    outcome = await drive(agent_of(model, error_processors=[make(process_api_error=ask)]), abort_signal=signal)
    assert (model.calls, outcome.finish_reason, outcome.error) == (1, "aborted", None)


async def test_a_signal_interrupts_a_hook_that_looks_at_the_input(drive: Drive) -> None:
    """R12.28"""
    signal, store, model = AbortSignal(), InMemoryStore(), ScriptedModel(["never"])

    async def never_done(args: Any) -> None:
        asyncio.get_running_loop().call_soon(signal.abort, "the user left")
        await asyncio.Event().wait()

    agent = agent_of(model, input_processors=[made_sync(process_input=never_done)], memory=Memory(store=store))
    outcome = await drive(agent, abort_signal=signal, memory=THREAD)
    assert (outcome.status, outcome.finish_reason, model.calls) == ("canceled", "aborted", 0)
    assert await saved(store) == []
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_input_hook_that_catches_the_cancellation_leaves_the_callers_task_as_it_was() -> None:
    """R12.28"""
    signal, model = AbortSignal(), ScriptedModel(["never"])

    async def catch(args: Any) -> None:
        asyncio.get_running_loop().call_soon(signal.abort)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    agent = agent_of(model, input_processors=[made_sync(process_input=catch)])
    stream = await agent.stream("hi", abort_signal=signal)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert types_of([chunk async for chunk in stream])[-1] == "abort"
    assert model.calls == 0


async def test_cancelling_the_task_while_the_input_is_looked_at_is_not_swallowed() -> None:
    """R12.29"""
    entered = asyncio.Event()

    async def never_done(args: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    agent = agent_of(ScriptedModel(["never"]), input_processors=[made_sync(process_input=never_done)])
    task = asyncio.get_running_loop().create_task(agent.generate("hi"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_background_task_that_trips_ends_the_wait_of_an_input_hook(drive: Drive) -> None:
    """R6.8, R19.4"""

    async def never_done(args: Any) -> None:
        async def trip() -> None:
            args.abort("not this")

        args.create_task(trip())
        await asyncio.Event().wait()

    outcome = await drive(agent_of(ScriptedModel(["never"]), input_processors=[made_sync(process_input=never_done)]))
    assert outcome.tripwire.reason == "not this"


async def test_input_that_was_not_judged_because_of_the_signal_is_not_saved(drive: Drive, make: Make) -> None:
    """R12.28, R12.30"""
    signal, store = AbortSignal(), InMemoryStore()

    def fail(args: Any) -> Any:
        signal.abort()
        raise RuntimeError("connection closed by the signal")

    agent = agent_of([], memory=Memory(store), input_processors=[make(process_input=fail)])
    outcome = await drive(agent, abort_signal=signal, memory=THREAD)
    assert (outcome.finish_reason, outcome.error) == ("aborted", None)
    assert await saved(store) == []


@pytest.mark.parametrize(
    "hook",
    [
        "process_input_step",
        "process_llm_request",
        "process_llm_response",
        "process_output_stream",
        "process_output_step",
        "process_tool_result",
    ],
)
async def test_a_hook_that_raises_because_of_the_signal_is_part_of_the_cancellation(
    drive: Drive, make: Make, hook: str
) -> None:
    """R12.30"""
    signal = AbortSignal()

    def fail(args: Any) -> Any:
        signal.abort()
        raise RuntimeError("connection closed by the signal")

    array = "input_processors" if hook.startswith(("process_input", "process_llm")) else "output_processors"
    agent = agent_of([["a", tool_call("echo")]], tools=[echo], **{array: [make(**{hook: fail})]})
    outcome = await drive(agent, abort_signal=signal)
    assert (outcome.finish_reason, outcome.status, outcome.error) == ("aborted", "canceled", None)


@pytest.mark.parametrize("hook", ["process_input_step", "process_output_stream", "process_output_step"])
async def test_the_result_hooks_run_once_after_a_hook_that_raised_because_of_the_signal(
    drive: Drive, make: Make, hook: str
) -> None:
    """R12.28, R12.30"""
    signal, store, ended = AbortSignal(), InMemoryStore(), list[str]()

    def fail(args: Any) -> Any:
        signal.abort()
        raise RuntimeError("connection closed by the signal")

    agent = agent_of(
        ["a"],
        memory=Memory(store),
        input_processors=[make(**{hook: fail})] if hook == "process_input_step" else [],
        output_processors=[
            *([] if hook == "process_input_step" else [make("failing", **{hook: fail})]),
            make("result", process_output_result=lambda args: ended.append(args.result.finish_reason)),
        ],
    )
    outcome = await drive(agent, abort_signal=signal, memory=THREAD)
    assert (outcome.finish_reason, outcome.error, ended) == ("aborted", None, ["aborted"])
    assert (await saved(store))[0] == ("user", "hi")


@pytest.mark.parametrize(
    "hook", ["process_llm_response", "process_output_stream", "process_output_step", "process_api_error"]
)
async def test_a_run_is_cancelled_once_even_while_its_tasks_are_stopped(drive: Drive, hook: str) -> None:
    """R12.28, R12.30, R19.4"""
    signal, store, heard = AbortSignal(), InMemoryStore(), list[str]()

    class Failing(Processor):
        id = "failing"

        def process_input_step(self, args: Any) -> None:
            async def forever() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    for _ in range(3):
                        await asyncio.sleep(0)

            args.create_task(forever())

    async def fail(args: Any) -> Any:
        part = getattr(args, "part", None)
        if part is not None and part.type != "text-end":
            return part
        await asyncio.sleep(0)
        signal.abort()
        raise RuntimeError("connection closed by the signal")

    failing = Failing()
    setattr(failing, hook, fail)
    agent = agent_of(
        [["a", APICallError("down", status_code=400)] if hook == "process_api_error" else "a"],
        memory=Memory(store),
        input_processors=[failing],
        output_processors=[failing],
        error_processors=[failing] if hook == "process_api_error" else [],
    )
    outcome = await drive(
        agent,
        abort_signal=signal,
        memory=THREAD,
        on_abort=lambda told: heard.append("abort"),
        on_finish=lambda info: heard.append("finish"),
    )
    assert (outcome.text, outcome.finish_reason, outcome.error) == ("a", "aborted", None)
    assert heard == ["abort", "finish"]
    assert await saved(store) == [("user", "hi"), ("assistant", "a")]
    assert types_of(outcome.chunks).count("abort") == (1 if outcome.chunks else 0)


async def test_a_result_hook_that_fails_after_a_cancellation_is_a_run_error(drive: Drive, make: Make) -> None:
    """R17.1"""
    signal, calls = AbortSignal(), list[int]()

    def fail(args: Any) -> None:
        calls.append(1)
        raise ValueError("boom")

    model = ScriptedModel([["a", soon(signal), wait_for(asyncio.Event())]])
    outcome = await drive(
        agent_of(model, output_processors=[make("bad", process_output_result=fail)]), abort_signal=signal
    )
    assert isinstance(outcome.error, ProcessorError)
    assert calls == [1]


async def test_a_cancelled_reply_keeps_finished_parts_only_once(drive: Drive) -> None:
    """R12.28"""
    signal, store = AbortSignal(), InMemoryStore()
    model = ScriptedModel([["one", tool_call("echo")], ["two", soon(signal), wait_for(asyncio.Event())]])
    outcome = await drive(agent_of(model, tools=[echo], memory=Memory(store)), abort_signal=signal, memory=THREAD)
    assert outcome.text == "onetwo"
    assert part_types((await stored(store))[-1]) == ["text", "tool-invocation", "step-start", "text"]
