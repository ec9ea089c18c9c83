from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from tests.cli.conftest import interlock


def test_the_version_is_that_of_the_package() -> None:
    assert interlock("--version").stdout == f"interlock {metadata.version('interlock')}\n"


def test_the_exit_statuses_are_documented() -> None:
    assert "3 a processor blocked it" in " ".join(interlock("run", "--help").stdout.split())


def test_a_missing_extra_is_one_clear_line() -> None:
    code = "import sys; sys.modules['typer'] = None; from interlock.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "interlock: the command line needs the extra 'cli': pip install 'interlock[cli]'\n"


def test_help_loads_no_adapter() -> None:
    code = (
        "import atexit, sys; sys.argv = ['interlock', '--help']; from interlock.cli import main; "
        "atexit.register(lambda: print([m for m in ('httpx2', 'xllamacpp', 'pydantic', 'rich') if m in sys.modules])); "
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
