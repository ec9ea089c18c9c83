"""Tools in every form that users give them in, as one mapping from name to ``Tool`` (R12.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interlock.errors import ConfigurationError
from interlock.tools.base import Tool
from interlock.tools.function import FunctionTool

ToolLike = Tool | Callable[..., Any] | Mapping[str, Any]
"""A tool, a typed function, or a client tool as data: ``{"id", "description", "inputSchema"}``."""

ToolsLike = Mapping[str, ToolLike] | Iterable[ToolLike]
"""Tools by name, or a list of tools that are named by their ids."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def as_tools(tools: ToolsLike | None) -> dict[str, Tool]:
    """The tools by the name that the model sees (R12.4).

    A typed function is made a tool each time; decorate it with ``@tool`` if this happens in every run.

    Raises:
        ConfigurationError: an entry is no tool, two tools have one name, or providers would refuse a name.
    """
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        named = [(name, _as_tool(entry, name)) for name, entry in tools.items()]
    elif isinstance(tools, Iterable) and not isinstance(tools, str):
        named = [(made.id, made) for made in (_as_tool(entry, None) for entry in tools)]
    else:
        raise ConfigurationError(f"tools must be a mapping from name to tool or a list of tools, not {tools!r}")
    out: dict[str, Tool] = {}
    for name, made in named:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"a tool cannot be called {name!r}: use letters, digits, '_' and '-' only, which every provider accepts"
            )
        if name in out:
            raise ConfigurationError(f"two tools are called {name!r}: give one of them another id, or use a mapping")
        out[name] = made
    return out


def _as_tool(entry: Any, name: str | None) -> Tool:
    if isinstance(entry, Tool):
        return entry
    if isinstance(entry, Mapping):
        return _client_tool(entry, name)
    if callable(entry):
        return FunctionTool(entry, {}, name=_own_name(entry) or name)
    raise ConfigurationError(
        f"{entry!r} is no tool: give a Tool, a typed function, or a client tool as "
        "{'id': ..., 'description': ..., 'inputSchema': {...}}"
    )


def _own_name(function: Any) -> str | None:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else None


def _client_tool(data: Mapping[str, Any], name: str | None) -> Tool:
    tool_id = data.get("id") or name
    if not tool_id:
        raise ConfigurationError(f"a client tool in a list needs an 'id', which {dict(data)!r} does not have")
    return Tool(
        id=tool_id,
        description=data.get("description") or "",
        input_schema=data.get("inputSchema", data.get("input_schema")),
    )
