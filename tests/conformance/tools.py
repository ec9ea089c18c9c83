"""Tools that return, throw and write what a scenario says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.tools import Tool

from . import observe
from .observe import Journal


def scripted_tool(name: str, script: Mapping[str, Any], journal: Callable[[], Journal]) -> Tool:
    """A tool that takes any object; with ``results`` each execution takes the next one, and the last repeats."""
    results = list(script["results"]) if "results" in script else [script.get("result")]
    executions = 0

    async def execute(args: dict[str, Any], context: Any) -> Any:
        nonlocal executions
        journal().add("@tool", "execute", {"toolName": name, "args": observe.detached(args)})
        result = results[min(executions, len(results) - 1)]
        executions += 1
        for chunk in script.get("emits") or ():
            await context.writer.custom(observe.detached(chunk))
        if "throws" in script:
            raise RuntimeError(script["throws"])
        return observe.detached(result)

    return Tool(
        id=name,
        description=f"The scenario's tool {name}.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": True},
        execute=execute,
    )
