"""Several readers of one run, readers that are cancelled, and streams that nobody closes (section 12.3 and 12.5)."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from interlock import AbortSignal, AgentStream, tool
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, drain, tool_call, types_of, wait_for
from tests.agent.kit import THREAD, Made, agent_of, saved

pytestmark = pytest.mark.anyio


class Gate:
    """Somewhere a model or a tool waits until it is opened."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.is_open = asyncio.Event()

    async def __call__(self) -> None:
        self.is_reached.set()
        await self.is_open.wait()


async def test_closing_while_another_task_reads_ends_both() -> None:
    """R12.17, R12.28"""
    gate, store = Gate(), InMemoryStore()
    model = ScriptedModel([["so far", gate, "never"]])
    stream = await agent_of(model, memory=Memory(store)).stream("hi", memory=THREAD)
    reader = asyncio.ensure_future(drain(stream.full_stream))
    await gate.is_reached.wait()
    await asyncio.wait_for(stream.aclose(), 5)
    chunks = await asyncio.wait_for(reader, 5)
    assert types_of(chunks)[-1] == "abort"
    assert (stream.status, model.open_streams) == ("canceled", 0)
    assert await saved(store) == [("user", "hi"), ("assistant", "so far")]


async def test_closing_twice_at_once_is_harmless() -> None:
    """R12.17"""
    model = ScriptedModel([["a", "b"]])
    stream = await agent_of(model).stream("hi")
    async for _ in stream.text_stream:
        break
    await asyncio.gather(stream.aclose(), stream.aclose())
    assert types_of(await drain(stream.full_stream)).count("abort") == 1
    assert model.open_streams == 0


async def test_a_second_reader_ends_when_the_one_that_drives_is_cancelled() -> None:
    """R12.29"""
    gate = Gate()
    model = ScriptedModel([["a", gate, "b"]])
    stream = await agent_of(model).stream("hi")
    driving = asyncio.ensure_future(drain(stream.full_stream))
    await gate.is_reached.wait()
    waiting = asyncio.ensure_future(drain(stream.full_stream))
    await asyncio.sleep(0)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert "text-delta" in types_of(await asyncio.wait_for(waiting, 5))
    assert (stream.status, model.open_streams) == ("canceled", 0)


async def test_cancelling_a_reader_that_only_waits_leaves_the_run_alone() -> None:
    """R12.17"""
    gate = Gate()
    model = ScriptedModel([["a", gate, "b"]])
    stream = await agent_of(model).stream("hi")
    driving = asyncio.ensure_future(drain(stream.full_stream))
    await gate.is_reached.wait()
    waiting = asyncio.ensure_future(drain(stream.full_stream))
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.is_open.set()
    assert types_of(await asyncio.wait_for(driving, 5))[-1] == "finish"
    assert await stream.text == "ab"


async def test_values_may_be_awaited_by_several_tasks_at_once() -> None:
    """R12.17"""
    gate = Gate()
    model = ScriptedModel([["a", gate, "b"]])
    stream = await agent_of(model).stream("hi")
    asking = [asyncio.ensure_future(_value(stream, name)) for name in ("text", "finish_reason", "steps")]
    await gate.is_reached.wait()
    gate.is_open.set()
    text, reason, steps = await asyncio.wait_for(asyncio.gather(*asking), 5)
    assert (text, reason, len(steps), model.calls) == ("ab", "stop", 1, 1)


async def _value(stream: AgentStream, name: str) -> Any:
    return await getattr(stream, name)


async def test_several_tasks_may_prepare_the_stream_at_once() -> None:
    """R12.6"""
    prepared: list[int] = []
    made = Made("p", process_input=lambda args: prepared.append(1))
    stream = agent_of(["x"], input_processors=[made]).stream("hi")
    first, second = await asyncio.gather(drain(stream.full_stream), drain(stream.full_stream))
    assert types_of(first) == types_of(second)
    assert prepared == [1]


async def test_a_forgotten_stream_is_closed_when_it_is_collected() -> None:
    """R12.29"""
    before = asyncio.all_tasks()
    store, model = InMemoryStore(), ScriptedModel([["a", "b"]])
    stream = await agent_of(model, memory=Memory(store)).stream("hi", memory=THREAD)
    iterator = stream.text_stream
    assert await anext(iterator) == "a"
    assert model.open_streams == 1
    del stream, iterator
    # First the iterator is closed, then the stream that it held; what else is garbage may come before.
    for _ in range(20):
        gc.collect()
        await asyncio.sleep(0)
    assert model.open_streams == 0
    assert asyncio.all_tasks() == before
    assert await saved(store) == []


async def test_a_stream_that_was_never_started_leaves_nothing() -> None:
    """R12.17"""
    before = asyncio.all_tasks()
    model = ScriptedModel(["x"])
    stream = await agent_of(model).stream("hi")
    del stream
    gc.collect()
    await asyncio.sleep(0)
    assert (model.calls, asyncio.all_tasks()) == (0, before)


async def test_a_reader_with_a_time_limit_ends_the_run_when_it_is_over() -> None:
    """R12.29"""
    store, model = InMemoryStore(), ScriptedModel([["a", wait_for(asyncio.Event())]])
    agent = agent_of(model, memory=Memory(store))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.generate("hi", memory=THREAD), 0.02)
    assert model.open_streams == 0
    assert await saved(store) == []


async def test_a_time_limit_of_the_caller_is_not_taken_for_a_cancellation_of_the_run() -> None:
    """R12.28, R12.29"""
    signal, gate = AbortSignal(), Gate()
    model = ScriptedModel([["a", gate, "b"]])
    task = asyncio.ensure_future(agent_of(model).generate("hi", abort_signal=signal))
    await gate.is_reached.wait()
    signal.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.open_streams == 0


async def test_reading_text_while_tools_run_waits_for_them() -> None:
    """R12.17"""
    gate = Gate()

    @tool
    async def slow() -> str:
        """Waits until it may go on."""
        await gate()
        return "ok"

    stream = await agent_of([["a", tool_call("slow")], "b"], tools=[slow]).stream("hi")
    reader = asyncio.ensure_future(drain(stream.text_stream))
    await gate.is_reached.wait()
    assert not reader.done()
    gate.is_open.set()
    assert await asyncio.wait_for(reader, 5) == ["a", "b"]


@pytest.mark.parametrize("where", ["stop_when", "to_model_output", "prepare_step"])
async def test_a_function_of_the_user_that_raises_ends_the_run_as_an_error(where: str) -> None:
    """R17.2"""

    def fail(*_: Any) -> Any:
        raise ValueError("boom")

    @tool(**({"to_model_output": fail} if where == "to_model_output" else {}))
    async def work() -> str:
        """Works."""
        return "ok"

    model = ScriptedModel([[tool_call("work")], "x"])
    options: Any = {} if where == "to_model_output" else {where: fail}
    stream = await agent_of(model, tools=[work]).stream("hi", **options)
    chunks = await asyncio.wait_for(drain(stream.full_stream), 5)
    assert chunks[-1].type == "error"
    assert (stream.status, model.open_streams) == ("failed", 0)
    assert "boom" in str(stream.error)
