"""Where interlock spends the time of one workload, by cProfile."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import sysconfig
import time
from pathlib import Path
from typing import Any

from benchmarks.workloads import Workload

_ROOTS = (
    str(Path(__file__).resolve().parent.parent / "src"),
    str(Path(__file__).resolve().parent.parent),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("stdlib"),
)


async def profile(workload: Workload, *, seconds: float = 2.0, lines: int = 40, sort: str = "tottime") -> str:
    """A table of the costliest functions, per unit of the workload.

    The profiler slows small functions down more than large ones: read the order and the numbers of calls here, and take
    times from ``core``.

    Args:
        workload: What to run, its interlock side.
        seconds: How long to run it.
        lines: How many functions to list.
        sort: ``tottime`` for a function's own time, ``cumtime`` with the time of what it calls.
    """
    for _ in range(3):
        await workload.ours()
    gc.collect()
    profiler = cProfile.Profile()
    runs = 0
    end = time.perf_counter() + seconds
    profiler.enable()
    while runs == 0 or time.perf_counter() < end:
        await workload.ours()
        runs += 1
    profiler.disable()
    return _table(profiler, runs * workload.units, lines, sort)


def run_profile(workload: Workload, **options: Any) -> str:
    """``profile`` in an event loop of its own."""
    return asyncio.run(profile(workload, **options))


def _table(profiler: cProfile.Profile, units: int, lines: int, sort: str) -> str:
    stats: Any = pstats.Stats(profiler)
    rows = []
    for (file, line, function), (_, calls, own_s, total_s, _) in stats.stats.items():
        rows.append((own_s * 1e6 / units, total_s * 1e6 / units, calls / units, _place(file, line, function)))
    rows.sort(key=lambda row: row[0 if sort == "tottime" else 1], reverse=True)
    out = [f"{'own µs':>9} {'total µs':>9} {'calls':>9}  function ({units:,} units)"]
    out += [f"{own:9.3f} {total:9.3f} {calls:9.3f}  {place}" for own, total, calls, place in rows[:lines]]
    return "\n".join(out)


def _place(file: str, line: int, function: str) -> str:
    for root in _ROOTS:
        if file.startswith(root + "/"):
            file = file[len(root) + 1 :]
            break
    return function if file == "~" else f"{file}:{line} {function}"
