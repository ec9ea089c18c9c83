"""The bare loop: the same work written by hand, with dicts and direct calls. It is the limit, not a product."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

CHUNK = "tok "
"""Text of every delta of a streamed run."""
FINAL = "done"
"""Answer of every run that calls tools."""


class Noop:
    """One processor with every hook of the pipeline, each doing nothing."""

    async def process_input(self, m: Any) -> Any:
        return m

    async def process_input_step(self, m: Any) -> Any:
        return m

    async def process_llm_request(self, m: Any) -> Any:
        return m

    async def process_llm_response(self, r: Any) -> Any:
        return r

    async def process_output_step(self, r: Any) -> Any:
        return r

    async def process_tool_result(self, r: Any) -> Any:
        return r

    async def process_output_result(self, r: Any) -> Any:
        return r

    async def process_output_stream(self, c: Any) -> Any:
        return c


async def add(x: int) -> str:
    return str(x + 1)


TOOLS: dict[str, Callable[..., Awaitable[str]]] = {"add": add}


def model(steps: int, yielding: bool) -> Callable[[list[dict[str, Any]]], Awaitable[dict[str, Any]]]:
    async def call(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if yielding:
            await asyncio.sleep(0)
        last = messages[-1]
        n = int(last["id"][1:]) + 1 if last["role"] == "tool" else 0
        if n < steps:
            calls = [{"id": f"c{n}", "name": "add", "args": {"x": n}}]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        return {"role": "assistant", "content": FINAL, "tool_calls": []}

    return call


async def stream_model(chunks: int) -> AsyncIterator[dict[str, str]]:
    for _ in range(chunks):
        yield {"type": "text-delta", "text": CHUNK}


def runner(hooks: int, steps: int, history: int, yielding: bool) -> Callable[[], Awaitable[str]]:
    """One run: ``steps`` tool calls, then the final text, which is returned."""
    procs = [Noop() for _ in range(hooks)]
    call = model(steps, yielding)
    past = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"message {i}"} for i in range(history)]

    async def run() -> str:
        msgs: list[dict[str, Any]] = [*past, {"role": "user", "content": "hi"}]
        for p in procs:
            msgs = await p.process_input(msgs)
        while True:
            for p in procs:
                msgs = await p.process_input_step(msgs)
            req = msgs
            for p in procs:
                req = await p.process_llm_request(req)
            res = await call(req)
            for p in procs:
                res = await p.process_llm_response(res)
            for p in procs:
                res = await p.process_output_step(res)
            msgs.append(res)
            if not res["tool_calls"]:
                break
            for tc in res["tool_calls"]:
                out = await TOOLS[tc["name"]](**tc["args"])
                for p in procs:
                    out = await p.process_tool_result(out)
                msgs.append({"role": "tool", "id": tc["id"], "content": out})
        for p in procs:
            res = await p.process_output_result(res)
        content: str = res["content"]
        return content

    return run


def streamer(hooks: int, chunks: int) -> Callable[[], Awaitable[int]]:
    """One streamed reply, read to its end; how many deltas were seen is returned."""
    procs = [Noop() for _ in range(hooks)]

    async def pipe() -> AsyncIterator[dict[str, str]]:
        async for c in stream_model(chunks):
            for p in procs:
                c = await p.process_output_stream(c)
                if c is None:
                    break
            else:
                yield c

    async def run() -> int:
        n = 0
        parts = []
        async for c in pipe():
            parts.append(c["text"])
            n += 1
        "".join(parts)
        return n

    return run
