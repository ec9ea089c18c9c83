"""What was measured, as JSON and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.measure import Round
from benchmarks.workloads import Workload

Measured = Mapping[str, tuple[Workload, list[Round]]]

STEPS_OF_A_RUN = 3
STEPS_OF_A_LONG_RUN = 51
MAX_GROWTH = 3
"""How many times a run on 10 earlier messages a run on 1,000 may take."""


def as_json(measured: Measured) -> dict[str, Any]:
    """One member a workload.

    ``us``, ``bare_us`` and ``ratio`` are medians over the rounds, with ``_min`` and ``_max`` beside them. ``ratio`` is
    the median of the rounds' own ratios, in which both sides had the same moment of the machine; so it need not be
    exactly ``us / bare_us``.
    """
    out: dict[str, Any] = {}
    for name, (workload, rounds) in measured.items():
        member: dict[str, Any] = {}
        for key in ("us", "bare_us", "ratio"):
            values = [getattr(one, key) for one in rounds]
            member[key] = _rounded(statistics.median(values))
            member[f"{key}_min"] = _rounded(min(values))
            member[f"{key}_max"] = _rounded(max(values))
        if workload.is_crowd:
            member["runs_per_s"] = round(1e6 / member["us"])
            member["bare_runs_per_s"] = round(1e6 / member["bare_us"])
        member["rounds"] = [
            {"us": _rounded(one.us), "bare_us": _rounded(one.bare_us), "ratio": _rounded(one.ratio)} for one in rounds
        ]
        out[name] = member
    return out


def as_table(measured: Measured, *, bare: str = "bare") -> str:
    """Medians and ranges of the rounds, and how long histories and long runs grow.

    Args:
        measured: What was measured.
        bare: What the other side is called.
    """
    figures = as_json(measured)
    lines = [
        f"{'workload':<18} {f'{bare} µs':>25} {'interlock µs':>28} {'ratio':>22}   aim",
        "-" * 104,
    ]
    for name, (workload, _) in measured.items():
        member = figures[name]
        aim = "" if workload.aim is None else f"≤ {workload.aim:g}"
        bare, ours, ratio = (_range(member, key) for key in ("bare_us", "us", "ratio"))
        lines.append(f"{name:<18} {bare:>25} {ours:>28} {ratio:>22}   {aim}")
    lines += ["", *_notes(figures)]
    return "\n".join(lines).rstrip()


def _notes(figures: dict[str, Any]) -> list[str]:
    notes = []
    if {"history_10", "history_1000"} <= figures.keys():
        growth = figures["history_1000"]["us"] / figures["history_10"]["us"]
        notes.append(f"history of 1,000 takes {growth:.2f}× history of 10 (aim ≤ {MAX_GROWTH})")
    if {"run_h0", "steps_50"} <= figures.keys():
        short = figures["run_h0"]["us"] / STEPS_OF_A_RUN
        long = figures["steps_50"]["us"] / STEPS_OF_A_LONG_RUN
        notes.append(f"a step takes {short:.1f} µs in a run of {STEPS_OF_A_RUN} and {long:.1f} µs in one of 51")
    crowds = [name for name in figures if "runs_per_s" in figures[name]]
    notes += [
        f"{name}: {figures[name]['runs_per_s']:,} runs/s (bare {figures[name]['bare_runs_per_s']:,})" for name in crowds
    ]
    return notes


def _range(member: dict[str, Any], key: str) -> str:
    return f"{member[key]:,.4g} ({member[f'{key}_min']:,.4g}–{member[f'{key}_max']:,.4g})"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
