"""What a hostile reader, caller or model may do to a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Agent, ConfigurationError, ProcessorError
from interlock.chunks import Finish, FinishPayload, StepOutcome, StepOutput
from interlock.testing import ScriptedModel, types_of, wait_for
from interlock.usage import Usage
from tests.agent.kit import agent_of, made_sync

pytestmark = pytest.mark.anyio


async def test_a_second_reader_learns_that_the_one_who_pulled_was_cancelled() -> None:
    """R12.17, R12.29"""
    started = asyncio.Event()
    model = ScriptedModel([["a", started.set, wait_for(asyncio.Event()), "b"]])
    stream = await Agent(id="a", model=model).stream("hi")

    async def read() -> list[Any]:
        return [chunk async for chunk in stream.full_stream]

    pulling = asyncio.create_task(read())
    await started.wait()
    other = asyncio.create_task(read())
    await asyncio.sleep(0)
    pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)
    assert types_of(await other)[-1] == "abort"
    assert stream.status == "canceled"
    assert model.open_streams == 0


async def test_leaving_by_cancellation_ends_a_run_that_another_task_reads() -> None:
    """R12.17"""
    started = asyncio.Event()
    model = ScriptedModel([["a", started.set, wait_for(asyncio.Event()), "b"]])
    agent, readers = Agent(id="a", model=model), []

    async def owner() -> None:
        async with agent.stream("hi") as stream:
            readers.append(asyncio.create_task(stream.consume_stream()))
            await asyncio.Event().wait()

    owning = asyncio.create_task(owner())
    await started.wait()
    owning.cancel()
    await asyncio.gather(owning, return_exceptions=True)
    await readers[0]
    assert model.open_streams == 0


async def test_a_stream_that_was_closed_before_it_began_runs_nothing() -> None:
    """R12.17"""
    model, asked = ScriptedModel(["never"]), list[str]()
    agent = agent_of(model, input_processors=[made_sync(process_input=lambda args: asked.append("input"))])
    stream = agent.stream("hi")
    await stream.aclose()
    assert [chunk async for chunk in stream] == []
    with pytest.raises(RuntimeError, match="the run has not begun"):
        await stream.text
    assert (stream.status, model.calls, asked) == ("canceled", 0, [])
    with pytest.raises(RuntimeError, match="the run has not begun"):
        _ = stream.run_id


async def test_a_second_finish_counts_for_nothing() -> None:
    """R5.4"""
    outcome, usage = StepOutcome(reason="stop"), Usage(input_tokens=1, output_tokens=1)
    finish = Finish(payload=FinishPayload(step_result=outcome, output=StepOutput(usage=usage)))
    result = await Agent(id="a", model=ScriptedModel([["x", finish, finish]])).generate("hi")
    assert (result.usage.input_tokens, result.text) == (1, "x")


@pytest.mark.parametrize("given", [{"scheme": int}, {}, {"Schema": {}}])
async def test_a_typed_answer_without_a_schema_is_refused(given: Any) -> None:
    """R12.31"""
    with pytest.raises(ConfigurationError, match="has no 'schema'"):
        await Agent(id="a", model=ScriptedModel(["{}"])).generate("hi", structured_output=given)


@pytest.mark.parametrize("timeout", [{"total_ms": 0}, {"step_ms": -1}, {"total": 5}, 3, {"total_ms": "1000"}])
async def test_a_time_limit_that_cannot_be_kept_is_refused(timeout: Any) -> None:
    """R17.9"""
    with pytest.raises(ValueError, match=r"model_settings\.timeout"):
        await Agent(id="a", model=ScriptedModel(["x"])).generate("hi", model_settings={"timeout": timeout})


def test_a_negative_number_of_client_retries_is_refused() -> None:
    """R7.13"""
    with pytest.raises(ValueError, match="max_retries must be an integer of at least 0, got -1"):
        Agent(id="a", model=ScriptedModel([]), max_retries=-1)


def test_the_outcome_of_a_blocking_stream_is_there_after_it_was_closed() -> None:
    with Agent(id="a", model=ScriptedModel(["hello"])).stream_sync("hi") as stream:
        types = [chunk.type for chunk in stream]
    assert types[-1] == "finish"
    assert stream.result().text == "hello"


async def test_a_run_that_could_not_be_prepared_is_not_prepared_again() -> None:
    """R1.5, R12.15, R17.1"""
    ran: list[int] = []

    class Broken:
        id = "broken"

        def process_input(self, args: Any) -> None:
            ran.append(1)
            raise ValueError("no")

    stream = Agent(id="a", model=ScriptedModel([]), input_processors=[Broken()]).stream("hi")
    for _ in range(2):
        with pytest.raises(ProcessorError) as raised:
            await stream.text
        assert raised.value is stream.error
    assert (len(ran), stream.status) == (1, "failed")


async def test_a_value_that_is_to_come_says_that_it_is_awaited() -> None:
    """R12.15"""
    stream = Agent(id="a", model=ScriptedModel([])).stream("hi")
    assert "await" in repr(stream.text)
