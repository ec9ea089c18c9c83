from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from interlock.cli.app import app

HEAD = """
from interlock import Agent, Processor, tool
from interlock.testing import ScriptedModel, finish, text, tool_call
"""

Write = Callable[[str], str]


@pytest.fixture(autouse=True)
def _own_imports(tmp_path: Path) -> Iterator[None]:
    """Agent files are imported into this process; none of them outlives its test."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def agents(tmp_path: Path) -> Write:
    """Writes a file of agents, its imports done, and returns its path."""

    def write(code: str) -> str:
        path = tmp_path / "agents.py"
        path.write_text(HEAD + code)
        return str(path)

    return write


def interlock(*arguments: str, stdin: str | None = None) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
