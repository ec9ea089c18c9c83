"""The programs of the pages in ``docs/`` print what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = [
    pytest.param(program, printed, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, (program, printed) in enumerate(
        re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL), 1
    )
]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_prints_what_stands_below_it(program: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == printed, done.stderr
