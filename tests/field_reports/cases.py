"""The cases of the field reports: what the model says, what it is asked, and what must hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from interlock import APICallError, Tool
from interlock.chunks import chunk_to_dict
from interlock.memory import InMemoryStore
from interlock.testing import ScriptedModel
from tests.agent.kit import Outcome, stored

FOLDER = Path(__file__).parent / "cases"

Case = dict[str, Any]


def case(number: str) -> Case:
    """The case of report ``FR-<number>``."""
    read: Case = built(json.loads((FOLDER / f"FR-{number}.json").read_text()))["case"]
    return read


def built(value: Any) -> Any:
    """``value`` with every ``{"$repeat": {"text", "times"}}`` in it written out."""
    if isinstance(value, list):
        return [built(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$repeat"}:
        return value["$repeat"]["text"] * value["$repeat"]["times"]
    return {key: built(item) for key, item in value.items()}


def turn(chunks: Iterable[dict[str, Any]]) -> list[Any]:
    """What the model says in one call; an ``error`` chunk becomes a refusal of the provider's at that place."""
    return [_refusal(chunk["payload"]) if chunk["type"] == "error" else chunk for chunk in chunks]


def turns(given: Case) -> list[Any]:
    """The turns of a case: one for each of its steps or attempts, or the one that it has."""
    scripted = given.get("steps") or given.get("attempts") or [given["chunks"]]
    return [turn(chunks) for chunks in scripted]


def scripted(given: Case, **options: Any) -> ScriptedModel:
    """The model of a case."""
    return ScriptedModel(turns(given), **options)


def api_error(described: dict[str, Any]) -> APICallError:
    """The refusal that a provider sent, as an adapter raises it."""
    body = described["body"]
    error = body.get("error")
    message = error["message"] if isinstance(error, dict) else body.get("message", "")
    return APICallError(message, status_code=described["status"], response_body=json.dumps(body))


def _refusal(payload: dict[str, Any]) -> APICallError:
    return APICallError(payload["message"], status_code=payload["status"])


class Calls:
    """The tools of a case, and the arguments that each was executed with."""

    def __init__(self, given: Case) -> None:
        self.executed: list[Any] = []
        self.tools = {name: self._tool(name, one["returns"]) for name, one in given.get("tools", {}).items()}

    def returning(self, name: str, make: Callable[[Any], Any]) -> Tool:
        """A further tool, with a result that depends on its arguments."""
        tool = self.tools[name] = Tool(id=name, execute=lambda args: self._execute(args, make), in_thread=False)
        return tool

    def _tool(self, name: str, returned: Any) -> Tool:
        return Tool(id=name, execute=lambda args: self._execute(args, lambda _: returned), in_thread=False)

    def _execute(self, args: Any, make: Callable[[Any], Any]) -> Any:
        self.executed.append(args)
        return make(args)


def as_text(value: Any) -> str:
    """``value`` as one searchable text, whatever it is made of."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else repr(value)


def shown(outcome: Outcome) -> str:
    """Everything that the caller of a run gets: the chunks, the values, the messages."""
    result = outcome.result
    values = [] if result is None else [
        result.text, result.object, result.content, result.reasoning_text, result.tool_calls, result.tool_results,
        result.response.messages, result.response.ui_messages, result.response.db_messages,
        result.provider_metadata, result.sources, result.files, result.warnings, result.response.headers,
        repr(result.steps),
    ]  # fmt: skip
    return as_text([[chunk_to_dict(chunk) for chunk in outcome.chunks], values, repr(outcome.error)])


async def kept_in(store: InMemoryStore) -> str:
    """Everything that the thread of the tests holds."""
    return as_text(await stored(store))


def assert_pairs_are_valid(prompt: list[dict[str, Any]]) -> None:
    """Every call of a prompt is answered, once, by the tool message directly behind it, and nothing else is."""
    open_calls: list[str] = []
    for message in prompt:
        if message["role"] == "tool":
            assert [part["toolCallId"] for part in message["content"]] == open_calls
            open_calls = []
            continue
        assert open_calls == []
        if message["role"] == "assistant":
            parts = message["content"]
            answered = {part["toolCallId"] for part in parts if part["type"] == "tool-result"}
            called = [part["toolCallId"] for part in parts if part["type"] == "tool-call"]
            assert len(set(called)) == len(called)
            open_calls = [call_id for call_id in called if call_id not in answered]
    assert open_calls == []


def results_in(prompt: list[dict[str, Any]]) -> dict[str, Any]:
    """Call id → what the model is told of the call."""
    parts = [part for message in prompt if message["role"] == "tool" for part in message["content"]]
    return {part["toolCallId"]: part["output"] for part in parts}
