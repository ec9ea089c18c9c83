"""A stream that is left in the middle, and the end of its event loop (R12.17)."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from interlock import Agent, AgentStream, Chunk
from interlock.models import OpenAIChatModel
from interlock.testing import ScriptedModel
from interlock.testing.provider_server import ProviderServer

Leave = Callable[[AgentStream], Awaitable[Any]]


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """An agent whose model is asked over HTTP."""
    with ProviderServer(lambda request: ['{"a": 1', ', "b": 2}']) as server:
        yield Agent(id="a", model=OpenAIChatModel("m", base_url=f"{server.url}/v1"))


async def by_break(stream: AgentStream) -> None:
    """Leave the chunks."""
    async for chunk in stream:
        if chunk.type == "text-delta":
            break


async def by_break_of_the_text(stream: AgentStream) -> None:
    """Leave the text."""
    async for _ in stream.text_stream:
        break


async def by_break_of_the_object(stream: AgentStream) -> None:
    """Leave the object."""
    async for _ in stream.object_stream:
        break


async def by_a_single_read(stream: AgentStream) -> None:
    """Read one chunk that comes from the model."""
    chunks = stream.full_stream
    while (await anext(chunks)).type != "text-delta":
        pass


async def by_another_reader_too(stream: AgentStream) -> None:
    """Leave two iterators."""
    await by_break(stream)
    await by_break_of_the_text(stream)


LEAVES = [by_break, by_break_of_the_text, by_break_of_the_object, by_a_single_read, by_another_reader_too]


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "let go"])
@pytest.mark.parametrize("turns", [0, 1, 20])
@pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)
def test_a_loop_ends_in_peace_after_a_stream_was_left(
    agent: Agent, leave: Leave, turns: int, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """R12.17: leaving an iterator early is allowed, and what it leaves behind is closed in order"""

    async def main() -> AgentStream | None:
        stream = agent.stream("hi", structured_output={"type": "object"})
        await leave(stream)
        for _ in range(turns):
            await asyncio.sleep(0)
        return stream if is_kept else None

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
        gc.collect()
    assert caplog.records == []


def test_a_loop_ends_in_peace_after_its_reader_failed(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    """R12.17, R17.6"""

    async def main() -> None:
        async for chunk in agent.stream("hi"):
            if chunk.type == "text-delta":
                raise LookupError("the reader")

    with caplog.at_level(logging.WARNING):
        with pytest.raises(LookupError, match="the reader"):
            asyncio.run(main())
        gc.collect()
    assert caplog.records == []


async def chunks_of(stream: AgentStream) -> list[Chunk]:
    """All its chunks."""
    return [chunk async for chunk in stream]


async def text_of(stream: AgentStream) -> str:
    """Its text, awaited."""
    return await stream.text


@pytest.mark.parametrize("read", [chunks_of, text_of, AgentStream.get_full_output, AgentStream.consume_stream])
@pytest.mark.parametrize("is_scripted", [True, False], ids=["scripted", "http"])
def test_a_stream_that_another_loop_began_is_not_taken_for_one_that_has_ended(
    agent: Agent, is_scripted: bool, read: Callable[[AgentStream], Any]
) -> None:
    """R12.17: the rest of the run is lost with the loop, and whoever asks for it is told so"""
    used = Agent(id="b", model=ScriptedModel([["one", "two"]])) if is_scripted else agent

    async def begin() -> AgentStream:
        stream = used.stream("hi")
        await by_break(stream)
        return stream

    stream = asyncio.run(begin())
    with pytest.raises(RuntimeError, match="begun in another event loop"):
        asyncio.run(read(stream))


def test_a_stream_that_has_ended_is_read_in_any_loop(agent: Agent) -> None:
    """R12.17: replaying needs no connection"""

    async def begin() -> AgentStream:
        stream = agent.stream("hi")
        await stream.consume_stream()
        return stream

    stream = asyncio.run(begin())
    assert asyncio.run(text_of(stream)) == '{"a": 1, "b": 2}'
    assert [chunk.type for chunk in asyncio.run(chunks_of(stream))][-1] == "finish"


def test_a_stream_that_was_left_goes_on_in_its_own_loop(agent: Agent) -> None:
    """R12.17: leaving an iterator early neither cancels nor advances the run"""

    async def main() -> str:
        stream = agent.stream("hi")
        await by_break(stream)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await text_of(stream)

    assert asyncio.run(main()) == '{"a": 1, "b": 2}'


def test_a_stream_that_nobody_can_read_any_more_is_closed_while_its_loop_runs(agent: Agent) -> None:
    """R12.17: what watches over it does not keep it"""

    async def main() -> int:
        await by_break(agent.stream("hi"))
        for _ in range(50):
            gc.collect()
            await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    assert asyncio.run(main()) == 0
