"""Data goes one way: every import, typing-only ones too, against the table of ARCHITECTURE.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "interlock"

FOUNDATION = {"errors", "_json", "_text", "_ids", "usage", "context"}
CORE = {"messages", "chunks", *FOUNDATION}

ALLOWED: dict[str, set[str]] = {
    "errors": FOUNDATION,
    "_json": FOUNDATION,
    "_text": FOUNDATION,
    "_ids": FOUNDATION,
    "usage": FOUNDATION,
    "context": FOUNDATION,
    "messages": FOUNDATION,
    "chunks": FOUNDATION | {"messages.parts"},
    "processors": CORE,
    "models": FOUNDATION | {"chunks", "messages.prompt"},
    "tools": FOUNDATION | {"chunks", "messages.parts"},
    "agent": CORE | {"processors", "models", "tools"},
    "memory": CORE | {"processors", "tools", "agent.ports"},
    "testing": CORE | {"processors", "models", "tools", "agent", "memory"},
    "cli": CORE | {"processors", "models", "tools", "agent", "memory", "testing", "version"},
    "__main__": {"cli"},
    "__init__": CORE | {"processors", "models", "tools", "agent"},
}
"""Room → what it may import; a dotted entry allows that one module of the room."""


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("interlock.") for name in names if name.startswith("interlock.")}


def _room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


MODULES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_a_module_imports_only_from_the_rooms_that_its_row_names(path: Path) -> None:
    room = _room(path)
    allowed = ALLOWED[room]
    for name in _imports(path):
        head = name.split(".")[0]
        if not (SRC / head).exists() and not (SRC / f"{head}.py").exists():
            continue
        is_whole_room = head == room or head in allowed
        is_named_module = any(name == entry or name.startswith(entry + ".") for entry in allowed if "." in entry)
        is_its_package = any(entry.startswith(name + ".") for entry in allowed if "." in entry)
        assert is_whole_room or is_named_module or is_its_package, f"{room} must not import interlock.{name}"


def test_every_room_has_a_row() -> None:
    assert {_room(path) for path in MODULES} == set(ALLOWED)
