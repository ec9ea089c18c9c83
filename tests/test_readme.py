"""The README's program prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_program_of_the_readme_prints_what_stands_below_it() -> None:
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    program, printed = found.groups()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == printed, done.stderr


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
