"""Tools that Google executes itself: their calls and results as parts of a prompt and as chunks (R4.13, R10.12).

Code, and what it printed, are parts of an answer. So are calls of other tools if the request asks to see them
(``includeServerSideToolInvocations``). What was looked up otherwise is told beside the answer (``google_grounding``).
"""

from __future__ import annotations

from typing import Any

from interlock.chunks import Chunk, ToolCall, ToolCallPayload, ToolResult, ToolResultPayload
from interlock.models.streamed_calls import CallIds

CODE_EXECUTION = "code_execution"

_OK = "OUTCOME_OK"


def is_own(options: dict[str, Any]) -> bool:
    """Whether a provider's call in a prompt, or its result, is one of these, which no other provider's can be.

    Args:
        options: What the part says to Google alone; ``part`` names the part of the answer that the call was.
    """
    return "part" in options


def to_tool_part(part: dict[str, Any], options: dict[str, Any]) -> dict[str, Any] | None:
    """A call or a result as a part of a prompt; ``None`` for what was told beside an answer and cannot be sent."""
    is_call = part["type"] == "tool-call"
    if options["part"] == "executableCode":
        return {"executableCode": part["input"]} if is_call else {"codeExecutionResult": _to_outcome(part["output"])}
    if options["part"] == "toolCall":
        tool = {"id": part["toolCallId"], "toolType": options["toolType"]}
        if is_call:
            return {"toolCall": {**tool, "args": part["input"]}}
        return {"toolResponse": {**tool, "response": _to_object(part["output"].get("value"))}}
    return None


class FromGoogleTools:
    """Reads such parts of one answer.

    Args:
        provider: Namespace of provider metadata.
        ids: Gives each call an id.
    """

    def __init__(self, provider: str, ids: CallIds) -> None:
        self.names: set[str] = set()
        """Tools that were called."""
        self._provider = provider
        self._ids = ids
        self._open: dict[str, tuple[str, str]] = {}
        """Id that the API gave a call, or none → our id and the tool's name."""

    def read(self, part: dict[str, Any], signature: str | None, out: list[Chunk]) -> None:
        """Append the chunks of a part with code, its outcome, a tool's call or its response."""
        facts = {"thoughtSignature": signature} if signature else {}
        # A call and its result become one part of a message, with metadata of both.
        result_facts = {"resultSignature": signature} if signature else {}
        if code := part.get("executableCode"):
            args = {"language": code.get("language"), "code": code.get("code")}
            self._call(out, CODE_EXECUTION, args, code.get("id"), {"part": "executableCode", **facts})
        elif call := part.get("toolCall"):
            kind = str(call.get("toolType"))
            more = {"part": "toolCall", "toolType": kind, **facts}
            self._call(out, kind.lower(), call.get("args") or {}, call.get("id"), more)
        elif outcome := part.get("codeExecutionResult"):
            result = {"outcome": outcome.get("outcome"), "output": outcome.get("output", "")}
            self._result(out, CODE_EXECUTION, result, outcome.get("id"), result_facts)
        elif response := part.get("toolResponse"):
            kind = str(response.get("toolType")).lower()
            self._result(out, kind, response.get("response"), response.get("id"), result_facts)

    def tell(self, out: list[Chunk], name: str, args: Any, result: Any, source: str) -> None:
        """Append a call with its result, of which the API told beside the answer, in its field ``source``."""
        self._call(out, name, args, None, {"part": source})
        self._result(out, name, result, None, {})

    def _call(self, out: list[Chunk], name: str, args: Any, api_id: str | None, facts: dict[str, Any]) -> None:
        call_id = self._ids.unique(api_id)
        self.names.add(name)
        self._open[api_id or ""] = call_id, name
        out.append(
            ToolCall(
                payload=ToolCallPayload(
                    tool_call_id=call_id,
                    tool_name=name,
                    args=args,
                    provider_executed=True,
                    provider_metadata={self._provider: facts},
                )
            )
        )

    def _result(self, out: list[Chunk], name: str, result: Any, api_id: str | None, facts: dict[str, Any]) -> None:
        call_id, called = self._open.get(api_id or "") or (self._ids.unique(api_id), name)
        out.append(
            ToolResult(
                payload=ToolResultPayload(
                    tool_call_id=call_id,
                    tool_name=called,
                    result=result,
                    provider_executed=True,
                    provider_metadata={self._provider: facts} if facts else None,
                )
            )
        )


def _to_outcome(output: dict[str, Any]) -> dict[str, Any]:
    """The outcome of code; what a hook put in its place is what the code printed."""
    value = output.get("value")
    if isinstance(value, dict) and "outcome" in value:
        return value
    failed = output["type"].startswith("error")
    return {"outcome": "OUTCOME_FAILED" if failed else _OK, "output": str(value)}


def _to_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"output": value}
