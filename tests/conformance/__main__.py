"""``python -m tests.conformance [DIR | FILE | --scenarios DIR]``: run scenarios and print what is not as expected."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from .expected import expectation
from .report import Verdict, judge_all
from .scenario import ScenarioError, find, load

OWN = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Run the scenarios and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="scenario files are looked for here and below")
    parser.add_argument("--scenarios", type=Path, metavar="DIR", help="the same, as an option")
    parser.add_argument("--explain", action="store_true", help="print the divergences of each scenario, run nothing")
    options = parser.parse_args(arguments)
    folder = options.scenarios or options.folder or OWN
    try:
        paths = [folder] if folder.is_file() else find(folder)
        if options.explain:
            return _explain(paths)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 2
    failed = asyncio.run(judge_all(paths, _tell))
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _tell(verdict: Verdict) -> None:
    if not verdict.passed:
        print(verdict, flush=True)


def _explain(paths: list[Path]) -> int:
    for path in paths:
        scenario = load(path)
        for area, ids in expectation(scenario).table().items():
            print(f"{scenario.id} {area} {' '.join(ids)}")
    return 0


if __name__ == "__main__":
    # What the agent logs about retries and odd processors is part of the scenarios, not news.
    logging.getLogger("interlock").setLevel(logging.CRITICAL + 1)
    sys.exit(main(sys.argv[1:]))
