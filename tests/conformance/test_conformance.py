"""interlock against the recorded outcomes of the reference runtime, one test a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from .report import judge
from .scenario import find

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
PATHS = [path for folder in ("scenarios", "disputed") for path in find(HERE / folder)]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_the_run_is_as_recorded_or_as_the_specification_asks(path: Path) -> None:
    verdict = await judge(path)
    assert verdict.passed, f"\n{verdict}"
