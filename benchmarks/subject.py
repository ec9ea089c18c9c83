"""The work of the bare loop, done by an interlock agent through its public interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.baseline import CHUNK, FINAL
from interlock import Agent, Message, TextDelta, ToolCall, tool
from interlock.chunks import (
    STOP,
    TOOL_CALLS,
    Chunk,
    Finish,
    FinishPayload,
    StepOutcome,
    TextDeltaPayload,
    TextEnd,
    TextEndPayload,
    TextStart,
    TextStartPayload,
    ToolCallPayload,
)
from interlock.messages.parts import MessageContent, TextPart
from interlock.models import ModelRequest
from interlock.processors import Processor


class Noop(Processor):
    """One processor with all nine hooks, each giving back what it got.

    The hooks that may return the message list return it, as those of the bare loop return their messages. The hooks of
    a request, a reply and an error return ``None``: to hand back an unchanged prompt would mean to copy it, and the
    return value of the other two has no form that says "the same".
    """

    def __init__(self, number: int) -> None:
        self.id = f"noop-{number}"

    async def process_input(self, args: Any) -> Any:
        return args.message_list

    async def process_input_step(self, args: Any) -> Any:
        return args.message_list

    async def process_llm_request(self, args: Any) -> Any:
        return None

    async def process_llm_response(self, args: Any) -> Any:
        return None

    async def process_output_stream(self, args: Any) -> Any:
        return args.part

    async def process_output_step(self, args: Any) -> Any:
        return args.message_list

    async def process_tool_result(self, args: Any) -> Any:
        return args.message_list

    async def process_output_result(self, args: Any) -> Any:
        return args.message_list

    async def process_api_error(self, args: Any) -> Any:
        return None


@tool
async def add(x: int) -> str:
    """Add one.

    Args:
        x: The number to add one to.
    """
    return str(x + 1)


class CallingModel:
    """Calls ``add`` ``steps`` times, each time after the result of the call before, then answers.

    Args:
        steps: How many tool calls precede the answer.
        yielding: Whether every call gives the event loop up once, as a network call would.
    """

    provider = "benchmark"
    model_id = "calling"

    def __init__(self, steps: int, yielding: bool) -> None:
        self._steps = steps
        self._yielding = yielding

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        if self._yielding:
            await asyncio.sleep(0)
        last = request.prompt[-1]
        n = int(last["content"][-1]["toolCallId"][1:]) + 1 if last["role"] == "tool" else 0
        if n < self._steps:
            yield ToolCall(payload=ToolCallPayload(tool_call_id=f"c{n}", tool_name="add", args={"x": n}))
            yield _finish(TOOL_CALLS)
            return
        yield TextStart(payload=TextStartPayload(id="0"))
        yield TextDelta(payload=TextDeltaPayload(id="0", text=FINAL))
        yield TextEnd(payload=TextEndPayload(id="0"))
        yield _finish(STOP)


class WritingModel:
    """Answers with ``chunks`` text deltas."""

    provider = "benchmark"
    model_id = "writing"

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        yield TextStart(payload=TextStartPayload(id="0"))
        for _ in range(self._chunks):
            yield TextDelta(payload=TextDeltaPayload(id="0", text=CHUNK))
        yield TextEnd(payload=TextEndPayload(id="0"))
        yield _finish(STOP)


def _finish(reason: str) -> Finish:
    return Finish(payload=FinishPayload(step_result=StepOutcome(reason=reason)))


def _agent(model: Any, hooks: int, tools: list[Any], max_steps: int) -> Agent:
    processors = [Noop(number) for number in range(hooks)]
    return Agent(
        id="benchmark",
        model=model,
        tools=tools,
        input_processors=processors,
        output_processors=processors,
        error_processors=processors,
        default_options={"max_steps": max_steps} if max_steps > 5 else None,
    )


def runner(hooks: int, steps: int, history: int, yielding: bool) -> Callable[[], Awaitable[str]]:
    """One run: ``steps`` tool calls, then the final text, which is returned."""
    agent = _agent(CallingModel(steps, yielding), hooks, [add], steps + 1)
    past = [_message(i) for i in range(history)]

    async def run() -> str:
        result = await agent.generate([*past, "hi"] if past else "hi")
        return result.text

    return run


def streamer(hooks: int, chunks: int) -> Callable[[], Awaitable[int]]:
    """One streamed reply, read to its end; how many deltas were seen is returned."""
    agent = _agent(WritingModel(chunks), hooks, [], 1)

    async def run() -> int:
        n = 0
        parts = []
        async with agent.stream("hi") as stream:
            async for chunk in stream.full_stream:
                if isinstance(chunk, TextDelta):
                    parts.append(chunk.payload.text)
                    n += 1
        "".join(parts)
        return n

    return run


def _message(number: int) -> Message:
    """An earlier message as a store gives it back: with an id and a date."""
    return Message(
        id=f"message-{number}",
        role="user" if number % 2 == 0 else "assistant",
        created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        content=MessageContent(parts=[TextPart(text=f"message {number}")]),
    )
