"""Tools: what a model can call, how calls are checked and run, and what becomes of their results."""

from interlock.tools.approval import RequireToolApproval, needs_approval
from interlock.tools.base import Tool
from interlock.tools.context import ToolContext, ToolSuspended, ToolWriter
from interlock.tools.function import FunctionTool, ToolOptions, tool
from interlock.tools.observers import (
    InputAvailableEvent,
    InputDeltaEvent,
    InputStartEvent,
    OutputEvent,
    ToolEvent,
    notify,
)
from interlock.tools.resolve import ToolLike, ToolsLike, as_tools
from interlock.tools.schema import Schema, SchemaMismatch
from interlock.tools.schema_source import as_schema
from interlock.tools.serialize import to_serializable

__all__ = [
    "FunctionTool",
    "InputAvailableEvent",
    "InputDeltaEvent",
    "InputStartEvent",
    "OutputEvent",
    "RequireToolApproval",
    "Schema",
    "SchemaMismatch",
    "Tool",
    "ToolContext",
    "ToolEvent",
    "ToolLike",
    "ToolOptions",
    "ToolSuspended",
    "ToolWriter",
    "ToolsLike",
    "as_schema",
    "as_tools",
    "needs_approval",
    "notify",
    "to_serializable",
    "tool",
]
