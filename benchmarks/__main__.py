"""``python -m benchmarks core | models | composition | profile WORKLOAD | state | import``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.composition import composition_names, composition_workloads
from benchmarks.import_cost import as_text, import_cost
from benchmarks.measure import measure
from benchmarks.models import model_names, model_workloads
from benchmarks.profiling import run_profile
from benchmarks.report import as_json, as_table
from benchmarks.state import as_text as state_table
from benchmarks.state import state_costs
from benchmarks.workloads import Workload, workloads


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    options = _parser().parse_args(arguments)
    status: int = options.command(options)
    return status


def _core(options: argparse.Namespace) -> int:
    measured = asyncio.run(measure(_chosen(options), rounds=options.rounds, slice_s=options.slice_s))
    print(json.dumps(as_json(measured)) if options.json else as_table(measured))
    return 0


def _models(options: argparse.Namespace) -> int:
    chosen = [one for one in model_workloads(chunks=options.chunks) if not options.only or one.name in options.only]
    measured = asyncio.run(measure(chosen, rounds=options.rounds, slice_s=options.slice_s))
    print(json.dumps(as_json(measured)) if options.json else as_table(measured, bare="SDK"))
    return 0


def _composition(options: argparse.Namespace) -> int:
    known = composition_workloads(chunks=options.chunks)
    chosen = [one for one in known if not options.only or one.name in options.only]
    measured = asyncio.run(measure(chosen, rounds=options.rounds, slice_s=options.slice_s))
    print(json.dumps(as_json(measured)) if options.json else as_table(measured, bare="plain list"))
    return 0


def _profile(options: argparse.Namespace) -> int:
    (workload,) = _chosen(options)
    print(run_profile(workload, seconds=options.seconds, lines=options.lines, sort=options.sort))
    return 0


def _state(options: argparse.Namespace) -> int:
    costs = state_costs(rounds=options.rounds)
    print(json.dumps(msgspec.to_builtins(costs)) if options.json else state_table(costs))
    return 0


def _import(options: argparse.Namespace) -> int:
    cost = import_cost(options.times)
    print(json.dumps(cost) if options.json else as_text(cost))
    return 1 if cost["edges"] else 0


def _chosen(options: argparse.Namespace) -> list[Workload]:
    known = workloads(chunks=options.chunks, crowd=options.crowd)
    return [one for one in known if not options.only or one.name in options.only]


def _parser() -> argparse.ArgumentParser:
    names = [one.name for one in workloads(chunks=1, crowd=1)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What interlock costs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    core = commands.add_parser("core", help="measure interlock beside a bare loop that does the same work")
    core.add_argument("--only", action="append", choices=names, metavar="NAME", help="this workload; may be repeated")
    core.set_defaults(command=_core)

    models = commands.add_parser("models", help="measure each adapter beside the provider's SDK on the same stream")
    models.add_argument(
        "--only", action="append", choices=model_names(), metavar="NAME", help="this workload; may be repeated"
    )
    models.add_argument("--chunks", type=_count, default=2_000, help="deltas of a stream (default: 2000)")
    models.set_defaults(command=_models)

    composition = commands.add_parser("composition", help="measure composed processors beside a plain list of them")
    composition.add_argument(
        "--only", action="append", choices=composition_names(), metavar="NAME", help="this workload; may be repeated"
    )
    composition.add_argument("--chunks", type=_count, default=2_000, help="deltas of a stream (default: 2000)")
    composition.set_defaults(command=_composition)

    for command in (core, models, composition):
        command.add_argument("--json", action="store_true", help="print one JSON object, a member a workload")
        command.add_argument("--rounds", type=_count, default=7, help="turns of each workload (default: 7)")
        command.add_argument("--slice-s", type=float, default=0.2, help="seconds a side in each turn (default: 0.2)")

    profile = commands.add_parser("profile", help="show where interlock spends the time of one workload")
    profile.add_argument("only", nargs=1, choices=names, metavar="WORKLOAD")
    profile.add_argument("--seconds", type=float, default=2.0, help="how long to run it (default: 2)")
    profile.add_argument("--lines", type=_count, default=40, help="how many functions to list (default: 40)")
    profile.add_argument("--sort", choices=("tottime", "cumtime"), default="tottime")
    profile.set_defaults(command=_profile)

    for command in (core, profile):
        command.add_argument("--chunks", type=_count, default=5_000, help="deltas of a stream (default: 5000)")
        command.add_argument("--crowd", type=_count, default=200, help="runs at once (default: 200)")

    state = commands.add_parser("state", help="time a stored run: to JSON and back, at three sizes")
    state.add_argument("--json", action="store_true", help="print one JSON list, an entry a size")
    state.add_argument("--rounds", type=_count, default=7, help="how often each is done (default: 7)")
    state.set_defaults(command=_state)

    importing = commands.add_parser("import", help="time `import interlock` in fresh processes and show what it loads")
    importing.add_argument("--json", action="store_true", help="print one JSON object")
    importing.add_argument("--times", type=_count, default=9, help="how many processes (default: 9)")
    importing.set_defaults(command=_import)
    return parser


def _count(text: str) -> Any:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
