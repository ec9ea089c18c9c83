"""``FILE:AGENT``: load the file and find the agent in it."""

from __future__ import annotations

import importlib
import inspect
import sys
from difflib import get_close_matches
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from interlock import Agent
from interlock.cli.failures import UsageFailure, own_traceback


def load_agent(target: str) -> Agent:
    """The agent that ``target`` names.

    Args:
        target: ``FILE:AGENT``, where AGENT is a global of the file: an agent, or a function without arguments that
            returns one. ``FILE`` alone will do if the file has a single agent.

    Raises:
        UsageFailure: there is no such file or agent, or the file's own code fails.
    """
    path, name = _split(target)
    return _find(_load(path), path, name)


def _split(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        file, name = target, ""
    path = Path(file)
    if not path.is_file():
        raise UsageFailure(f"no such file: {file}; write FILE:AGENT, such as agents.py:support")
    if path.suffix != ".py":
        raise UsageFailure(f"{file} is no Python file")
    return path, name


def _load(path: Path) -> ModuleType:
    """Import the file as Python would: beside its neighbours, or as a module of its package."""
    path = path.resolve()
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    try:
        return _import_file(path) if len(parts) == 1 else importlib.import_module(".".join(parts))
    except SystemExit as error:
        raise UsageFailure(
            f"{path.name} ended the program while it was imported (exit status {error.code}): "
            "put what it does as a script under `if __name__ == '__main__':`"
        ) from error
    except Exception as error:
        # The file is the user's code: whatever it raises is shown to them.
        raise UsageFailure(f"{path.name} could not be imported\n{own_traceback(error)}") from error


def _import_file(path: Path) -> ModuleType:
    # A file may have the name of a module that is loaded already, such as types.py.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_agent_file"
    spec = util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, path: Path, name: str) -> Agent:
    known = _agents(module)
    if not name:
        if len(known) != 1:
            raise UsageFailure(f"which agent of {path}? {_listed(known)}")
        name = known[0]
    found = getattr(module, name, None)
    if isinstance(found, Agent):
        return found
    if inspect.isroutine(found):
        return _call(found, path, name)
    if found is not None:
        raise UsageFailure(f"{name!r} in {path} is no agent but of type {type(found).__name__}. {_listed(known)}")
    near = get_close_matches(name, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageFailure(f"{path} has no agent {name!r}.{guess} {_listed(known)}")


def _agents(module: ModuleType) -> list[str]:
    """Names of the agents, or if there is none, of the functions that say that they return one."""
    members = vars(module).items()
    agents = [name for name, value in members if isinstance(value, Agent)]
    return agents or [name for name, value in members if inspect.isfunction(value) and _returns_agent(value)]


def _returns_agent(function: Any) -> bool:
    annotation = function.__annotations__.get("return")
    return annotation is Agent or annotation in ("Agent", "interlock.Agent")


def _listed(names: list[str]) -> str:
    return f"The file has: {', '.join(names)}" if names else "The file has no agent."


def _call(function: Any, path: Path, name: str) -> Agent:
    if inspect.iscoroutinefunction(function):
        raise UsageFailure(f"{name}() in {path} is async: make it a plain function that returns an agent")
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise UsageFailure(f"{name}() in {path} cannot be called without arguments: {error}") from error
    try:
        made = function()
    except Exception as error:
        # As for the import: user code.
        raise UsageFailure(f"{name}() in {path} failed\n{own_traceback(error)}") from error
    if not isinstance(made, Agent):
        raise UsageFailure(f"{name}() in {path} returned {type(made).__name__}, not an agent")
    return made
