"""Whether a call needs a human's approval before it is executed (R12.35)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from interlock.context import RequestContext
from interlock.tools.base import Tool

_log = logging.getLogger("interlock")

RequireToolApproval = bool | Callable[[str, Any, RequestContext], Any]
"""The run's ``require_tool_approval``: for all calls, or decided by ``(tool_name, args, request_context)``."""


async def needs_approval(
    tool: Tool,
    tool_name: str,
    args: Any,
    request_context: RequestContext,
    require_tool_approval: RequireToolApproval = False,
) -> bool:
    """Whether the call must wait for a human (R12.35).

    The tool's own function, if it has one, decides alone; else the call needs approval if the run or the tool asks for
    it. A function that raises means yes.

    Args:
        tool: The tool that is called.
        tool_name: The name that the model used.
        args: The call's JSON arguments.
        request_context: The run's request context.
        require_tool_approval: What the run asks for.
    """
    try:
        if callable(tool.require_approval):
            return await _answer(tool.require_approval(args, request_context))
        if tool.require_approval:
            return True
        if callable(require_tool_approval):
            return await _answer(require_tool_approval(tool_name, args, request_context))
        return require_tool_approval
    except Exception:
        # The policy is user code; one that fails must not wave a call through.
        _log.exception("the approval function for tool %r failed; the call needs approval", tool_name)
        return True


async def _answer(outcome: Any) -> bool:
    return bool(await outcome if inspect.isawaitable(outcome) else outcome)
