"""Takes the times: both sides in one event loop, turn by turn, so that a slow moment of the machine hits both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.workloads import Run, Workload

BATCH_S = 0.002
"""A sample is at least this long, so that reading the clock is no part of what it says."""
MIN_SAMPLES = 3


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round said about one workload: medians of its samples, in microseconds a unit."""

    us: float
    bare_us: float

    @property
    def ratio(self) -> float:
        """How many times the bare loop interlock took."""
        return self.us / self.bare_us


class Side:
    """One side of a workload, warm, with the number of runs that make up a sample."""

    def __init__(self, workload: Workload, run: Run) -> None:
        self._workload = workload
        self._run = run
        self._batch = 1

    async def warm_up(self) -> None:
        """Run a few times, check the result, and find the size of a sample."""
        for _ in range(3):
            await self._batch_us()
        shortest_us = min([await self._batch_us() for _ in range(3)]) * self._workload.units
        self._batch = max(1, round(BATCH_S * 1e6 / shortest_us))

    async def sample(self, seconds: float) -> float:
        """Median microseconds a unit over the samples that fit into ``seconds``.

        The garbage collector stays on, as in a program; what was left before is collected first.
        """
        samples: list[float] = []
        gc.collect()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples) < MIN_SAMPLES:
            samples.append(await self._batch_us())
        return statistics.median(samples)

    async def _batch_us(self) -> float:
        run, times = self._run, range(self._batch)
        begin = time.perf_counter()
        results = [await run() for _ in times]
        taken = time.perf_counter() - begin
        self._check(results)
        return taken * 1e6 / (len(results) * self._workload.units)

    def _check(self, results: list[Any]) -> None:
        for result in results:
            if result != self._workload.expected:
                raise AssertionError(f"{self._workload.name}: got {result!r}, expected {self._workload.expected!r}")


async def measure(
    workloads: Sequence[Workload], *, rounds: int = 7, slice_s: float = 0.2
) -> dict[str, tuple[Workload, list[Round]]]:
    """Measure the workloads, interleaved round by round.

    Args:
        workloads: What to measure.
        rounds: How often each workload has its turn.
        slice_s: Seconds that each side has in each turn.
    """
    sides = {one.name: (Side(one, one.bare), Side(one, one.ours)) for one in workloads}
    for pair in sides.values():
        for side in pair:
            await side.warm_up()
    measured: dict[str, tuple[Workload, list[Round]]] = {one.name: (one, []) for one in workloads}
    for number in range(rounds):
        for name, (bare, ours) in sides.items():
            if number % 2 == 0:
                bare_us = await bare.sample(slice_s)
                us = await ours.sample(slice_s)
            else:
                us = await ours.sample(slice_s)
                bare_us = await bare.sample(slice_s)
            measured[name][1].append(Round(us=us, bare_us=bare_us))
    return measured
