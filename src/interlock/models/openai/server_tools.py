"""Tools that OpenAI executes itself: their output items as calls and results, and back (R4.13, R10.12).

Arguments and results keep the names that the wire has for their fields, so that a call can be given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.models.prompt_parts import json_text
from interlock.models.streamed_calls import parsed_args

Item = dict[str, Any]


class ServerTool(NamedTuple):
    """A kind of output item: what is a call's arguments in it, what its result, and how they become an item again."""

    name: str | None
    """The tool's name; ``None`` if the item says it."""
    args: Callable[[Item], Any]
    result: Callable[[Item], Any]
    item: Callable[[Any, Any], Item | None]
    """From arguments and result, the item's own fields; ``None`` if they do not make one any more."""


def _web_search_args(item: Item) -> Any:
    action = item.get("action") or {}
    return {name: value for name, value in action.items() if name != "sources"}


def _web_search_result(item: Item) -> Any:
    sources = (item.get("action") or {}).get("sources")
    return {"status": item.get("status")} if sources is None else {"sources": sources}


def _web_search_item(args: Any, result: Any) -> Item | None:
    if not isinstance(args, dict) or "type" not in args:
        return None
    sources = result.get("sources") if isinstance(result, dict) else None
    return {"action": {**args, "sources": sources} if isinstance(sources, list) else args}


def _file_search_item(args: Any, result: Any) -> Item | None:
    if not isinstance(args, dict) or not isinstance(args.get("queries"), list):
        return None
    results = result.get("results") if isinstance(result, dict) else None
    return {"queries": args["queries"], "results": results if isinstance(results, list) else None}


def _code_item(args: Any, result: Any) -> Item | None:
    if not isinstance(args, dict) or not isinstance(args.get("container_id"), str):
        return None
    outputs = result.get("outputs") if isinstance(result, dict) else None
    if not isinstance(outputs, list):
        # Something else was put in the result's place, which the model should see all the same.
        outputs = None if result is None else [{"type": "logs", "logs": _text(result)}]
    return {"container_id": args["container_id"], "code": args.get("code"), "outputs": outputs}


def _mcp_item(args: Any, result: Any) -> Item | None:
    return {"arguments": args if isinstance(args, str) else _text(args), "output": _text(result)}


SERVER_TOOLS: dict[str, ServerTool] = {
    "web_search_call": ServerTool("web_search", _web_search_args, _web_search_result, _web_search_item),
    "file_search_call": ServerTool(
        "file_search",
        lambda item: {"queries": item.get("queries") or []},
        lambda item: {"results": item.get("results")},
        _file_search_item,
    ),
    "code_interpreter_call": ServerTool(
        "code_interpreter",
        lambda item: {"container_id": item.get("container_id"), "code": item.get("code")},
        lambda item: {"outputs": item.get("outputs")},
        _code_item,
    ),
    "mcp_call": ServerTool(
        None,
        lambda item: parsed_args(item.get("arguments")),
        lambda item: item.get("output"),
        _mcp_item,
    ),
}
"""By the type of the output item."""

INCLUDED = {
    "web_search": "web_search_call.action.sources",
    "web_search_preview": "web_search_call.action.sources",
    "file_search": "file_search_call.results",
    "code_interpreter": "code_interpreter_call.outputs",
}
"""What has to be asked for to get a tool's results: type of the tool → member of ``include``."""


def failure_of(item: Item) -> str | None:
    """Why the call failed; ``None`` if it did not."""
    error = item.get("error")
    if error:
        message = error.get("message") or error.get("content") if isinstance(error, dict) else error
        return _text(message or error)
    return f"{item.get('type')} failed" if item.get("status") == "failed" else None


def to_server_item(part: dict[str, Any], output: dict[str, Any] | None, own: dict[str, Any]) -> Item | None:
    """The item of a call and its result in a prompt; ``None`` if it cannot be given back.

    Args:
        part: The call.
        output: What came back (R4.11); ``None`` while nothing has.
        own: The call's provider options, which name the item's id and type.
    """
    tool = SERVER_TOOLS.get(own.get("itemType") or "")
    if tool is None or output is None or not own.get("itemId"):
        return None
    fields = tool.item(part["input"], output.get("value"))
    if fields is None:
        return None
    item = {"type": own["itemType"], "id": own["itemId"], **fields}
    if own["itemType"] == "mcp_call":
        return {**item, "name": part["toolName"], "server_label": own.get("serverLabel") or ""}
    return {**item, "status": "completed"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)
