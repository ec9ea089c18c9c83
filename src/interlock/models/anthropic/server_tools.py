"""Tools that Anthropic executes itself: their calls and results as blocks of a prompt and as chunks (R4.13, R10.12).

A result is kept as the API sent it, for the API takes nothing else back: much of it is encrypted.
"""

from __future__ import annotations

from typing import Any

from interlock.chunks import ToolResult, ToolResultPayload
from interlock.models.anthropic.options import NAMESPACE, own_options

SERVER_TOOL = "server_tool_use"
MCP_TOOL = "mcp_tool_use"
_MCP_RESULT = "mcp_tool_result"

_RESULT_TYPES = dict.fromkeys(("tool_search_tool_regex", "tool_search_tool_bm25"), "tool_search_tool_result")
"""Block types of results that are not named after their tool."""

_ID_PREFIXES = ("srvtoolu_", "mcptoolu_")


def is_own_call(part: dict[str, Any]) -> bool:
    """Whether a provider's call in a prompt is one of Anthropic's, to which no other provider's can be sent."""
    return str(part["toolCallId"]).startswith(_ID_PREFIXES)


def to_server_call(part: dict[str, Any]) -> dict[str, Any]:
    """The block of a call in a prompt."""
    options = own_options(part)
    call = {"id": part["toolCallId"], "name": part["toolName"], "input": part["input"]}
    if "server_name" in options:
        return {"type": MCP_TOOL, "server_name": options["server_name"], **call}
    return {"type": SERVER_TOOL, **call, **({"caller": options["caller"]} if "caller" in options else {})}


def to_server_result(part: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The block of a result in a prompt, and whether it says what the recorded result says.

    What a hook put in a result's place cannot be said; the model is told that the tool failed.
    """
    name, output = part["toolName"], part["output"]
    value = output.get("value")
    is_kept = output["type"] == "json"
    block = {"tool_use_id": part["toolCallId"]}
    if part["toolCallId"].startswith("mcptoolu_"):
        if is_kept and isinstance(value, dict) and "content" in value:
            content, is_error = value["content"], bool(value.get("is_error"))
            return {"type": _MCP_RESULT, **block, "is_error": is_error, "content": content}, True
        return {"type": _MCP_RESULT, **block, "is_error": True, "content": str(value)}, True
    kind = _RESULT_TYPES.get(name) or f"{name}_tool_result"
    if is_kept and (isinstance(value, list) or (isinstance(value, dict) and "type" in value)):
        options = own_options(part)
        caller = {"caller": options["caller"]} if "caller" in options else {}
        return {"type": kind, **block, "content": value, **caller}, True
    return {"type": kind, **block, "content": {"type": f"{kind}_error", "error_code": "unavailable"}}, False


def from_server_call(block: dict[str, Any]) -> dict[str, Any] | None:
    """Provider metadata with what a call's block says beside id, name and input."""
    facts: dict[str, Any] = {}
    if block["type"] == MCP_TOOL:
        facts["serverName"] = block.get("server_name")
    caller = block.get("caller")
    if isinstance(caller, dict) and caller.get("type") != "direct":
        facts["caller"] = caller
    return {NAMESPACE: facts} if facts else None


def from_server_result(block: dict[str, Any], tool_name: str) -> ToolResult:
    """The chunk of a result's block."""
    content = block.get("content")
    if block["type"] == _MCP_RESULT:
        is_error = bool(block.get("is_error"))
        content = {"content": content, "is_error": is_error}
    else:
        is_error = isinstance(content, dict) and str(content.get("type")).endswith("_error")
    return ToolResult(
        payload=ToolResultPayload(
            tool_call_id=block.get("tool_use_id") or "",
            tool_name=tool_name,
            result=content,
            is_error=is_error or None,
            provider_executed=True,
        )
    )
