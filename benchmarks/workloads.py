"""The pieces of work that are measured, each with its two sides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from benchmarks import baseline, subject

Run = Callable[[], Awaitable[Any]]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work, done by the bare loop and by interlock."""

    name: str
    bare: Run
    ours: Run
    expected: Any
    """What both must return."""
    units: int = 1
    """Times are given per unit: the chunks of a stream, the runs of a crowd."""
    is_crowd: bool = False
    """Whether the unit is one of many runs that go on at once."""
    aim: float | None = None
    """The ratio to reach."""


def workloads(*, chunks: int = 5_000, crowd: int = 200) -> list[Workload]:
    """All workloads, in the order in which they are reported.

    Args:
        chunks: Deltas of a streamed reply.
        crowd: How many runs go on at once.
    """
    return [
        _run("run_h0", hooks=0, aim=15),
        _run("run_h4", hooks=4, aim=12),
        _stream("stream_h0", hooks=0, chunks=chunks, aim=3),
        _stream("stream_h4", hooks=4, chunks=chunks, aim=4),
        _run("history_10", history=10),
        _run("history_100", history=100),
        _run("history_1000", history=1_000),
        _run("steps_50", steps=50),
        _crowd("concurrent_200_h0", hooks=0, size=crowd),
        _crowd("concurrent_200_h4", hooks=4, size=crowd),
    ]


def _run(name: str, *, hooks: int = 0, steps: int = 2, history: int = 0, aim: float | None = None) -> Workload:
    shape = (hooks, steps, history, False)
    return Workload(
        name=name, bare=baseline.runner(*shape), ours=subject.runner(*shape), expected=baseline.FINAL, aim=aim
    )


def _stream(name: str, *, hooks: int, chunks: int, aim: float) -> Workload:
    return Workload(
        name=name,
        bare=baseline.streamer(hooks, chunks),
        ours=subject.streamer(hooks, chunks),
        expected=chunks,
        units=chunks,
        aim=aim,
    )


def _crowd(name: str, *, hooks: int, size: int) -> Workload:
    shape = (hooks, 2, 0, True)
    return Workload(
        name=name,
        bare=_at_once(baseline.runner(*shape), size),
        ours=_at_once(subject.runner(*shape), size),
        expected=[baseline.FINAL] * size,
        units=size,
        is_crowd=True,
    )


def _at_once(run: Run, size: int) -> Run:
    async def crowd() -> list[Any]:
        return await asyncio.gather(*[run() for _ in range(size)])

    return crowd
