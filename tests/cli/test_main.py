from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from tests.cli.conftest import Write, interlock


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


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "interlock", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"interlock {metadata.version('interlock')}\n"


def test_a_closed_standard_input_is_one_clear_line(agents: Write) -> None:
    target = agents("agent = Agent(id='a', model=ScriptedModel(['x']))")
    command = f"exec {sys.executable} -m interlock run {target} - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input is closed")
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_had_enough_ends_the_command_without_a_word(agents: Write) -> None:
    target = agents("agent = Agent(id='a', model=ScriptedModel([['word '] * 20000]))")
    command = [sys.executable, "-m", "interlock", "run", "--json", target, "hi"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()
    assert (running.returncode, said) == (141, "")
