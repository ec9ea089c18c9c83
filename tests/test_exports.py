"""The front doors export what they say, and importing them loads no edge."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

DOORS = (
    "interlock",
    "interlock.agent",
    "interlock.memory",
    "interlock.messages",
    "interlock.models",
    "interlock.processors",
    "interlock.testing",
    "interlock.tools",
)

EDGES = ("httpx2", "xllamacpp", "typer", "pydantic", "starlette", "opentelemetry", "openai", "sqlite3")


@pytest.mark.parametrize("door", DOORS)
def test_a_door_exports_exactly_its_public_names(door: str) -> None:
    module = importlib.import_module(door)
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("interlock")
    }
    names = set(module.__all__)
    assert {name for name in own - names if not isinstance(vars(module)[name], type(sys))} == set()
    assert all(hasattr(module, name) for name in names)
    assert list(module.__all__) == sorted(module.__all__, key=_isort_key)


def _isort_key(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_importing_interlock_loads_no_edge() -> None:
    code = f"import sys, interlock; print([m for m in {EDGES!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
