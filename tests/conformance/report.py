"""Run many scenarios and tell how they went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .compare import Difference, differences
from .expected import expectation
from .run import run
from .scenario import load


@dataclass
class Verdict:
    """How one scenario went."""

    path: Path
    differences: list[Difference] = field(default_factory=list)
    failure: str = ""
    """Why the scenario could not be carried out."""
    note: str = ""
    """What else to know about the differences."""

    @property
    def passed(self) -> bool:
        return not self.differences and not self.failure

    def __str__(self) -> str:
        lines = [f"FAILED {self.path}"] if not self.passed else []
        lines += [f"  {text}" for text in (self.failure, self.note) if text]
        return "\n".join([*lines, *(f"  {difference}" for difference in self.differences)])


async def judge(path: Path) -> Verdict:
    """Carry out one scenario file and compare."""
    scenario = load(path)
    expected, note = dict(scenario.expect), ""
    try:
        expected = expectation(scenario).outcome
    except Exception as error:
        # A scenario that the oracle cannot follow is held to its recording alone.
        note = f"compared without divergences: the oracle failed with {type(error).__name__}: {error}"
    return Verdict(path, differences(scenario, expected, await run(scenario)), note=note)


async def judge_all(paths: list[Path], tell: Callable[[Verdict], None]) -> int:
    """Carry out all files, telling of each; how many failed."""
    failed = 0
    for path in paths:
        try:
            verdict = await judge(path)
        except Exception as error:
            # One file that cannot be carried out must not keep the others from being judged.
            verdict = Verdict(path, failure=f"{type(error).__name__}: {error}")
        failed += not verdict.passed
        tell(verdict)
    return failed
