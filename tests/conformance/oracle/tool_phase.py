"""The tool calls of an attempt, and the hook that sees their results (specification section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .conversation import Part
from .describe import describe
from .dispatch import Site
from .hooks import HookFailure, Returned
from .returns import reconcile

if TYPE_CHECKING:
    from .attempt import Attempt

Facts = dict[str, Any]


class ToolPhase:
    """Executes an attempt's local calls, and handles the results of both kinds of calls."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.hooks = attempt.hooks

    def run(self) -> int:
        """Execute the step's local calls, then handle their outcomes in order (R10.2); how many there were."""
        hooks = self.hooks
        attempt = hooks.status.attempt
        calls = [
            part
            for message in hooks.conversation.messages
            for part in message.tools
            if part.get("attempt") == attempt and part["state"] == "call" and not part["provider"]
        ]
        outcomes = [self._execute(part) for part in calls]
        for part, (result, error) in zip(calls, outcomes, strict=True):
            if error is not None:
                part |= {"state": "output-error", "error": error}
                said = describe(error, self.attempt.scenario)
                self.attempt.send({"type": "tool-error", "toolName": part["name"], "error": said})
                continue
            result = self._handled(part["id"], part["name"], part["args"], result, is_local=True)
            self.attempt.step.results.append(result)
            self.attempt.send({"type": "tool-result", "toolName": part["name"], "result": result})
        return len(calls)

    def _execute(self, part: Part) -> tuple[Any, str | None]:
        """The result of a call, or the text of its error."""
        name, hooks = part["name"], self.hooks
        tool = self.attempt.world.tools.get(name)
        if tool is None or name not in self.attempt.offered() or self.attempt.settings["toolChoice"] == "none":
            if tool is not None:
                hooks.course.depart("D74")
            return None, ""
        if not isinstance(part["args"], dict):
            return None, ""
        hooks.log("@tool", "execute", {"toolName": name, "args": part["args"]})
        try:
            for chunk in tool.get("emits") or ():
                hooks.emit_data(dict(chunk), 0)
        except HookFailure as failure:
            return None, str(failure)
        result = self.attempt.world.tool_result(name)
        if "throws" in tool:
            return None, tool["throws"]
        if result is None:
            hooks.course.depart("D73")
        return result, None

    def provider_result(self, chunk: Facts) -> Facts:
        self.attempt.flush()
        part = self.hooks.conversation.tool_part(chunk["_id"])
        args = None if part is None else part["args"]
        same_stream = part is not None and part.get("attempt") == self.hooks.status.attempt
        result = self._handled(chunk["_id"], chunk["toolName"], args, chunk["result"], is_local=False)
        if result != chunk["result"] and same_stream:
            self.hooks.course.marks.add("provider-result-replaced")
        self.attempt.step.results.append(result)
        return chunk | {"result": result}

    def _handled(self, call_id: str, name: str, args: Any, result: Any, *, is_local: bool) -> Any:
        """The ``processToolResult`` chain, then recording the result (R10.7)."""
        hooks = self.hooks
        for place, spec in hooks.having("output", "processToolResult"):
            facts = {"toolName": name, "result": result}
            facts |= {} if args is None else {"args": args}
            facts |= {} if is_local else {"providerExecuted": True}
            site = Site(facts=facts, call_id=call_id, is_local_tool=is_local)
            call = hooks.call(spec, "processToolResult", place, site, Returned.SAME_LIST)
            if call.returned == []:
                hooks.course.depart("D60")
            else:
                reconcile(hooks, call.returned, call.messages, "response")
            part = hooks.conversation.tool_part(call_id)
            if part is not None and part["state"] == "result":
                result = part["result"]
        part = hooks.conversation.tool_part(call_id)
        if part is not None:
            part |= {"state": "result", "result": result}
        return result
