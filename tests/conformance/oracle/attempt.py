"""One attempt of a step, phase by phase (specification sections 1, 5, 10 and 11)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..scenario import Call, Scenario
from ..script import error_text, parsed_input, parts_of
from .conversation import Message, Part, text_part
from .course import STREAM_HOOK
from .dispatch import Dispatcher, Site
from .hooks import HookFailure, ProviderFailure, Returned, step_result

Facts = dict[str, Any]

_TEXT_SPANS = {"text-delta": "text", "reasoning-delta": "reasoning"}
_KEPT_SETTINGS = ("maxRetries", "timeout")
_STOPPING = ("error", "length", "content-filter")


@dataclass
class Step:
    """What an attempt produced."""

    text: str = ""
    reason: str = ""
    usage: Facts = field(default_factory=dict)
    calls: list[Facts] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    reasoning: str = ""
    sources: int = 0
    files: int = 0


class Attempt:
    """One pass through a step."""

    def __init__(self, hooks: Dispatcher, scenario: Scenario, call: Call, world: Any, step_limit: int) -> None:
        self.hooks = hooks
        self.scenario = scenario
        self.call = call
        self.world = world
        self.step_limit = step_limit
        self.step = Step()
        self.has_started = False
        """Whether its ``step-start`` was emitted."""
        self.has_response = False
        """Whether its model-level ``finish`` was reached."""
        self.survivors: list[Facts] = []
        self.open_spans: list[Part] = []
        self.settings: Facts = {}
        self.cause = ""

    def run(self) -> bool:
        """Go through the step; whether the loop goes on after it.

        Raises:
            Abort, HookFailure, ProviderFailure: it did not come to its end.
        """
        self._input_step()
        self._stream(self._request())
        self._response()
        self._output_step()
        outcomes = self._tools()
        goes_on = outcomes > 0 and self.step.reason not in _STOPPING and self.hooks.status.accepted + 1 < self.step_limit
        self.send({"type": "step-finish", "reason": self.step.reason, "isContinued": goes_on})
        return goes_on

    def send(self, chunk: Facts) -> Facts | None:
        """Pass a chunk through the stream hooks to the client."""
        left = self.hooks.through(chunk)
        if left is not None:
            self.hooks.to_client(left)
        return left

    # -- before the provider ---------------------------------------------------------------------------------------

    def _input_step(self) -> None:
        hooks, given = self.hooks, self.call.options
        self.settings = {
            "model": self.scenario.model_id,
            "toolChoice": "auto",
            "tools": list(self.scenario.tools),
            "activeTools": None,
            "modelSettings": dict(given.get("modelSettings") or {}),
            "providerOptions": None,
        }
        for place, spec in hooks.having("input", "processInputStep"):
            site = Site(settings=copy.deepcopy(self.settings), model=self.settings["model"])
            call = hooks.call(spec, "processInputStep", place, site, Returned.NOTHING)
            self._apply_step(call.returned, call.messages)
        if "prepareStep" in given:
            self._prepare_step(given["prepareStep"])

    def _prepare_step(self, changes: Mapping[str, Any]) -> None:
        hooks, settings = self.hooks, self.settings
        facts = {"stepNumber": hooks.status.step, "model": settings["model"]}
        facts |= {} if settings["toolChoice"] is None else {"toolChoice": settings["toolChoice"]}
        hooks.log("@prepareStep", "call", facts)
        stage = _Stage(hooks, settings)
        self._apply_step(step_result(stage, changes), stage.messages)  # type: ignore[arg-type]

    def _apply_step(self, returned: Any, stage: list[Message]) -> None:
        if not isinstance(returned, Mapping):
            self.hooks_reconcile(returned, stage, "input")
            return
        if "messages" in returned and "messageList" in returned:
            raise HookFailure("")
        if returned.get("messageList") is Returned.FOREIGN_LIST:
            raise HookFailure("")
        for key in ("model", "toolChoice", "tools", "activeTools", "providerOptions"):
            if key in returned and not (key == "model" and returned[key] is None):
                self.settings[key] = copy.deepcopy(returned[key])
        if "modelSettings" in returned:
            kept = {name: self.settings["modelSettings"].get(name) for name in _KEPT_SETTINGS}
            kept = {name: value for name, value in kept.items() if value is not None}
            self.settings["modelSettings"] = {**kept, **returned["modelSettings"]}
        if returned.get("messages") is not None:
            self.hooks_reconcile(returned["messages"], stage, "input")
        if "systemMessages" in returned:
            self.hooks.conversation.system = list(returned["systemMessages"])

    def hooks_reconcile(self, returned: Any, stage: list[Message], source: str) -> None:
        """Apply a returned list of messages, or refuse what may not be returned."""
        reconcile(self.hooks, returned, stage, source)

    def _request(self) -> list[Facts]:
        """What is streamed: the script's next entry, or a cached response.

        Raises:
            ProviderFailure: the script's entry is an error.
        """
        hooks = self.hooks
        prompt, cached = hooks.conversation.prompt(), None
        for place, spec in hooks.having("input", "processLLMRequest"):
            site = Site(prompt=copy.deepcopy(prompt), model=self.settings["model"])
            call = hooks.call(spec, "processLLMRequest", place, site, Returned.NOTHING)
            if call.mutated_prompt:
                hooks.course.marks.add("prompt-mutated")
            if isinstance(call.returned, Mapping):
                prompt = call.returned.get("prompt", prompt)
                cached = cached or call.returned.get("response")
        if cached is not None:
            return self._replayed(cached)
        entry = self._call_model(prompt)
        hooks.status.from_cache = False
        self._start({"type": "step-start"})
        if "error" in entry:
            raise ProviderFailure(entry["error"]["message"])
        parts = parts_of(entry, joins_text=not self.call.is_stream)
        if any(part.get("delta") == "" for part in parts):
            hooks.course.marks.add("empty-delta")
        return [_from_script(part) for part in parts if part["type"] != "stream-start"]

    def _start(self, chunk: Facts) -> None:
        left = self.hooks.through(chunk, cause=self.cause)
        self.has_started = True
        if left is not None:
            self.survivors.append(left)
            self.hooks.to_client(left)

    def _replayed(self, cached: list[Facts]) -> list[Facts]:
        self.cause = "D42"
        self.hooks.status.from_cache = True
        chunks = copy.deepcopy(cached)
        start = next((chunk for chunk in chunks if chunk["type"] == "step-start"), None)
        if start is None:
            self.hooks.course.marks.add("step-start-added")
            start = {"type": "step-start"}
        if not any(chunk["type"] == "finish" for chunk in chunks):
            reason = "tool-calls" if any(chunk["type"] == "tool-call" for chunk in chunks) else "stop"
            chunks.append({"type": "finish", "reason": reason, "usage": dict.fromkeys(_COUNTS, 0)})
        self._start(start)
        return [chunk for chunk in chunks if chunk["type"] != "step-start"]

    def _call_model(self, prompt: list[Facts]) -> Mapping[str, Any]:
        course = self.hooks.course
        self.hooks.log("@model", "call", {"call": len(course.prompts)})
        course.prompts.append(prompt)
        course.model_ids.append(self.settings["model"])
        course.call_settings.append(self._call_settings())
        return self.world.script.next_entry()

    def _offered(self) -> list[str]:
        active = self.settings["activeTools"]
        return [name for name in self.settings["tools"] if active is None or name in active]

    def _call_settings(self) -> Facts:
        settings, facts = self.settings, {}
        choice = settings["toolChoice"] if settings["toolChoice"] is not None else "auto"
        if choice == "none":
            facts["toolChoice"] = "none"
        elif self._offered():
            facts |= {"toolChoice": choice, "tools": self._offered()}
        facts |= {name: value for name, value in settings["modelSettings"].items() if name not in _KEPT_SETTINGS}
        if settings["providerOptions"]:
            facts["providerOptions"] = settings["providerOptions"]
        if "structuredOutput" in self.call.options:
            facts["responseFormat"] = "json"
        return facts

    # -- the stream ------------------------------------------------------------------------------------------------

    def _stream(self, chunks: list[Facts]) -> None:
        status = self.hooks.status
        status.is_streaming = True
        try:
            for chunk in chunks:
                if chunk["type"] == "error":
                    raise ProviderFailure(chunk["_error"])
                if chunk["type"] == "finish":
                    self._finish(chunk)
                    break
                self._pass(chunk)
        finally:
            status.is_streaming = False
        self.assemble()

    def _pass(self, chunk: Facts) -> None:
        if chunk["type"] == "tool-result":
            chunk = self._provider_result(chunk)
        left = self.hooks.through(chunk, cause=self.cause)
        if left is None:
            return
        self.survivors.append(left)
        self.hooks.to_client(left)
        self._collect(left)

    def _collect(self, chunk: Facts) -> None:
        """Add a surviving chunk to the response (R4.6)."""
        match chunk["type"]:
            case "text-start" | "reasoning-start":
                kind = chunk["type"].removesuffix("-start")
                self.open_spans.append({"type": kind, "text": "", "attempt": self.hooks.status.attempt})
            case "text-delta" | "reasoning-delta":
                self._add_text(_TEXT_SPANS[chunk["type"]], chunk["text"])
            case "text-end" | "reasoning-end":
                self._close(chunk["type"].removesuffix("-end"))
            case "tool-call":
                self.step.calls.append(chunk)
                self._add_call(chunk)
            case "source":
                self.step.sources += 1
                self._add({"type": "source"})
            case "file":
                self.step.files += 1
                self._add({"type": "file", "mediaType": chunk["mediaType"]})

    def _add(self, part: Part) -> None:
        self.hooks.status.buffer.append(part | {"attempt": self.hooks.status.attempt})

    def _add_text(self, kind: str, text: str) -> None:
        if kind == "text":
            self.step.text += text
        else:
            self.step.reasoning += text
        span = next((span for span in reversed(self.open_spans) if span["type"] == kind), None)
        if span is None:
            span = {"type": kind, "text": "", "attempt": self.hooks.status.attempt}
            self.open_spans.append(span)
        span["text"] += text

    def _close(self, kind: str) -> None:
        span = next((span for span in reversed(self.open_spans) if span["type"] == kind), None)
        if span is None:
            return
        self.open_spans.remove(span)
        if span["text"]:
            self.hooks.status.buffer.append(span)

    def _add_call(self, chunk: Facts) -> None:
        self._add(
            {
                "type": "tool-invocation",
                "name": chunk["toolName"],
                "id": chunk["_id"],
                "args": chunk["args"],
                "state": "call",
                "provider": bool(chunk.get("providerExecuted")),
            }
        )

    def assemble(self) -> None:
        """Put the finished parts into the response message; spans still open are closed with what they have."""
        for span in list(self.open_spans):
            self._close(span["type"])
        self._flush()

    def _flush(self) -> None:
        status, conversation = self.hooks.status, self.hooks.conversation
        parts, status.buffer = status.buffer, []
        if not parts:
            return
        if not any(part.get("attempt") == status.attempt for message in conversation.messages for part in message.parts):
            conversation.open_step(status.attempt)
        for part in parts:
            conversation.add_part(part)

    def _finish(self, chunk: Facts) -> None:
        """The model-level ``finish``: shown to the stream hooks if the loop will not go on (R5.9, R5.10)."""
        step, hooks = self.step, self.hooks
        step.reason = chunk["reason"]
        if step.reason == "error" or (step.reason == "other" and len(self.survivors) <= 1):
            raise ProviderFailure("")
        step.usage = chunk["usage"]
        self.has_response = True
        local = [call for call in step.calls if not call.get("providerExecuted")]
        if step.reason == "tool-calls" and not step.calls:
            hooks.course.depart("D55")
        if local and step.reason not in _STOPPING:
            self.survivors.append(chunk)
            return
        left = hooks.through({"type": "finish", **{k: v for k, v in chunk.items() if k != "type"}}, cause=self.cause)
        if left is not None:
            self.survivors.append(left)

    # -- after the stream ------------------------------------------------------------------------------------------

    def _response(self) -> None:
        hooks, is_cached = self.hooks, bool(self.cause)
        shown = [chunk for chunk in self.survivors if chunk["type"] != "response-metadata"]
        facts = {
            "fromCache": is_cached,
            "chunkTypes": [chunk["type"] for chunk in shown if not chunk["type"].startswith("tool-call-")],
            "chunkText": "".join(chunk["text"] for chunk in shown if chunk["type"] == "text-delta"),
        }
        for place, spec in hooks.having("input", "processLLMResponse"):
            site = Site(facts=facts, model=self.settings["model"], chunks=self.survivors, cause="D41" if is_cached else "")
            hooks.call(spec, "processLLMResponse", place, site, Returned.NOTHING)

    def _output_step(self) -> None:
        hooks, step = self.hooks, self.step
        before = hooks.conversation.response_text()
        facts = {
            "text": step.text,
            "finishReason": step.reason,
            "toolCalls": [call["toolName"] for call in step.calls],
        }
        for place, spec in hooks.having("output", "processOutputStep"):
            site = Site(facts=facts, text=step.text, extra={"usage": step.usage})
            call = hooks.call(spec, "processOutputStep", place, site, Returned.SAME_LIST)
            if call.returned == []:
                hooks.course.depart("D60")
                continue
            reconcile(hooks, call.returned, call.messages, "response")
        after = hooks.conversation.response_text()
        if after != before:
            hooks.course.marks.add("text-changed")
            step.text = self._own_text() if hooks.status.accepted else after

    def _own_text(self) -> str:
        parts = [part for message in self.hooks.conversation.messages for part in message.parts]
        own = (part for part in parts if part["type"] == "text" and part.get("attempt") == self.hooks.status.attempt)
        return "".join(part["text"] for part in own)

    # -- tools -----------------------------------------------------------------------------------------------------

    def _tools(self) -> int:
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
                said = describe(error, self.scenario)
                self.send({"type": "tool-error", "toolName": part["name"], "error": said})
                continue
            result = self._tool_result(part["id"], part["name"], part["args"], result, is_local=True)
            self.step.results.append(result)
            self.send({"type": "tool-result", "toolName": part["name"], "result": result})
        return len(calls)

    def _execute(self, part: Part) -> tuple[Any, str | None]:
        """The result of a call, or the text of its error."""
        name, hooks = part["name"], self.hooks
        tool = self.world.tools.get(name)
        if tool is None or name not in self._offered() or self.settings["toolChoice"] == "none":
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
        result = self.world.tool_result(name)
        if "throws" in tool:
            return None, tool["throws"]
        if result is None:
            hooks.course.depart("D73")
        return result, None

    def _provider_result(self, chunk: Facts) -> Facts:
        self._flush()
        part = self.hooks.conversation.tool_part(chunk["_id"])
        args = None if part is None else part["args"]
        same_stream = part is not None and part.get("attempt") == self.hooks.status.attempt
        result = self._tool_result(chunk["_id"], chunk["toolName"], args, chunk["result"], is_local=False)
        if result != chunk["result"] and same_stream:
            self.hooks.course.marks.add("provider-result-replaced")
        self.step.results.append(result)
        return chunk | {"result": result}

    def _tool_result(self, call_id: str, name: str, args: Any, result: Any, *, is_local: bool) -> Any:
        """The ``processToolResult`` chain, then recording the result (R10.7)."""
        hooks = self.hooks
        for place, spec in hooks.having("output", "processToolResult"):
            facts = {"toolName": name, "args": args, "result": result} | ({} if is_local else {"providerExecuted": True})
            if args is None:
                del facts["args"]
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


@dataclass
class _Stage:
    """What ``prepareStep`` reads, as a step hook would."""

    hooks: Dispatcher
    settings: Facts

    @property
    def conversation(self) -> Any:
        return self.hooks.conversation

    @property
    def messages(self) -> list[Message]:
        return self.hooks.messages()


_COUNTS = ("inputTokens", "outputTokens", "totalTokens")


def reconcile(hooks: Dispatcher, returned: Any, stage: list[Message], source: str) -> None:
    """Apply what a message hook returned (R2.8, R2.28).

    Raises:
        HookFailure: it returned another list.
    """
    if returned is Returned.FOREIGN_LIST:
        raise HookFailure("")
    if isinstance(returned, Mapping):
        reconcile(hooks, returned["messages"], stage, source)
        hooks.conversation.system = list(returned["systemMessages"])
    if not isinstance(returned, list):
        return
    known = {message.id for message in stage}
    if any(message.id not in known for message in returned[:-1]) and any(message.id in known for message in returned):
        hooks.course.marks.add("new-message-placed")
    for message in returned:
        if message.id not in known and source == "response":
            for part in message.parts:
                part.setdefault("attempt", hooks.status.attempt)
    hooks.conversation.reconcile(returned, stage, source)


def describe(error: str, scenario: Scenario) -> Facts:
    """An error in recorded form: by its message, if that is a text of the scenario."""
    if error in scenario.strings:
        return {"message": error}
    return {"mentions": [text for text in scenario.strings if text in error]}


def mentions(failure: HookFailure) -> Facts:
    """The failure of a hook in recorded form: it is wrapped, so only what it quotes counts."""
    return {"mentions": [str(failure)] if str(failure) else []}


def _from_script(part: Mapping[str, Any]) -> Facts:
    """A stream part of the script in the form that the simulation streams."""
    return dict(_script_facts(part))


def _script_facts(part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kind = part["type"]
    yield "type", _NAMES.get(kind, kind)
    match kind:
        case "text-delta" | "reasoning-delta":
            yield "text", part["delta"]
        case "tool-call":
            yield from {"toolName": part["toolName"], "args": parsed_input(part), "_id": part["toolCallId"]}.items()
        case "tool-result":
            yield from {"toolName": part["toolName"], "result": part["result"], "_id": part["toolCallId"]}.items()
        case "source" if "url" in part:
            yield "url", part["url"]
        case "file":
            yield "mediaType", part["mediaType"]
        case "error":
            yield "_error", error_text(part)
        case "finish":
            yield from {"reason": part["finishReason"], "usage": part.get("usage") or {}}.items()
    if part.get("providerExecuted"):
        yield "providerExecuted", True


_NAMES = {
    "tool-input-start": "tool-call-input-streaming-start",
    "tool-input-delta": "tool-call-delta",
    "tool-input-end": "tool-call-input-streaming-end",
}
