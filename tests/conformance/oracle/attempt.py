"""One attempt of a step, phase by phase (specification sections 1, 5, 10 and 11)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..scenario import Call, Scenario
from ..script import parts_of
from .chunks import from_script
from .conversation import Message, Part
from .dispatch import Dispatcher, Site
from .hooks import HookFailure, ProviderFailure, Returned, step_result
from .returns import reconcile
from .tool_phase import ToolPhase
from .world import World

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

    def __init__(self, hooks: Dispatcher, scenario: Scenario, call: Call, world: World, step_limit: int) -> None:
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
        """The divergence by which the chunks exist: those of a replay do not reach the reference's hooks."""
        self.tools = ToolPhase(self)

    def run(self) -> bool:
        """Go through the step; whether the loop goes on after it.

        Raises:
            Abort, HookFailure, ProviderFailure: it did not come to its end.
        """
        self._input_step()
        self._stream(self._request())
        self._response()
        self._output_step()
        outcomes = self.tools.run()
        is_last = self.hooks.status.accepted + 1 >= self.step_limit
        goes_on = outcomes > 0 and self.step.reason not in _STOPPING and not is_last
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
            reconcile(self.hooks, returned, stage, "input")
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
            reconcile(self.hooks, returned["messages"], stage, "input")
        if "systemMessages" in returned:
            self.hooks.conversation.system = list(returned["systemMessages"])

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
        hooks.status.from_cache = False
        self._start({"type": "step-start"})
        entry = self._call_model(prompt)
        if "error" in entry:
            raise ProviderFailure(entry["error"]["message"])
        parts = parts_of(entry, joins_text=not self.call.is_stream)
        if any(part.get("delta") == "" for part in parts):
            hooks.course.marks.add("empty-delta")
        return [from_script(part) for part in parts if part["type"] != "stream-start"]

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

    def offered(self) -> list[str]:
        active = self.settings["activeTools"]
        return [name for name in self.settings["tools"] if active is None or name in active]

    def _call_settings(self) -> Facts:
        settings = self.settings
        facts: Facts = {}
        choice = settings["toolChoice"] if settings["toolChoice"] is not None else "auto"
        if choice == "none":
            facts["toolChoice"] = "none"
        elif self.offered():
            facts |= {"toolChoice": choice, "tools": self.offered()}
        facts |= {name: value for name, value in settings["modelSettings"].items() if name not in _KEPT_SETTINGS}
        if settings["providerOptions"]:
            facts["providerOptions"] = settings["providerOptions"]
        if "structuredOutput" in self.call.options:
            facts["responseFormat"] = "json"
        return facts

    # -- the stream ------------------------------------------------------------------------------------------------

    def _stream(self, chunks: list[Facts]) -> None:
        for chunk in chunks:
            if chunk["type"] == "error":
                raise ProviderFailure(chunk["_error"])
            if chunk["type"] == "finish":
                self._finish(chunk)
                break
            self._pass(chunk)
        self.assemble()

    def _pass(self, chunk: Facts) -> None:
        if chunk["type"] == "tool-result":
            chunk = self.tools.provider_result(chunk)
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
        self.flush()
        self.hooks.status.is_assembled = True

    def flush(self) -> None:
        status, conversation = self.hooks.status, self.hooks.conversation
        parts, status.buffer = status.buffer, []
        if not parts:
            return
        made = (part for message in conversation.messages for part in message.parts)
        if not any(part.get("attempt") == status.attempt for part in made):
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
        # Dropped, it is hidden from the client, but still part of the reply: without it a replay would not be the same.
        self.survivors.append(hooks.through(chunk, cause=self.cause) or chunk)

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
            cause = "D41" if is_cached else ""
            site = Site(
                facts=facts,
                model=self.settings["model"],
                chunks=self.survivors,
                cause=cause,
                finish_reason=self.step.reason,
            )
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
            site = Site(facts=facts, text=step.text, extra={"usage": step.usage}, finish_reason=step.reason)
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


@dataclass
class _Stage:
    """What ``prepareStep`` reads, as a step hook would."""

    hooks: Dispatcher
    settings: Facts

    @property
    def system(self) -> list[str]:
        return self.hooks.conversation.system

    @property
    def messages(self) -> list[Message]:
        return self.hooks.messages()


_COUNTS = ("inputTokens", "outputTokens", "totalTokens")
