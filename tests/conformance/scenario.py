"""Read scenario files; a word that the loader does not know is an error, never ignored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INPUT_HOOKS = ("processInput", "processInputStep", "processLLMRequest", "processLLMResponse")
OUTPUT_HOOKS = ("processOutputStream", "processOutputStep", "processToolResult", "processOutputResult")
HOOKS = (*INPUT_HOOKS, *OUTPUT_HOOKS, "processAPIError")

WHEN = frozenset(
    (
        "stepNumber",
        "retryCount",
        "partType",
        "textContains",
        "toolName",
        "messageTextContains",
        "errorContains",
        "hasToolCalls",
        "stateEquals",
        "fromCache",
        "invocation",
    )
)

OBSERVE = frozenset(
    (
        "state",
        "messages",
        "system",
        "streamParts",
        "model",
        "settings",
        "steps",
        "usage",
        "result",
        "toolStep",
    )
)

OPS = frozenset(
    (
        "uppercase-in-place",
        "return-uppercase",
        "return-suffix",
        "return-only",
        "return-appended",
        "replace-messages",
        "return-empty-list",
        "return-messages",
        "return-list",
        "return-nothing",
        "return-null",
        "return-foreign-list",
        "append-message",
        "remove-message",
        "add-system",
        "replace-system",
        "append-system",
        "set-message-metadata",
        "step-result",
        "replace-prompt-text",
        "append-prompt",
        "mutate-prompt-text",
        "cached-response",
        "save-response",
        "replay-saved",
        "drop-part",
        "rewrite-part",
        "rewrite-data",
        "emit",
        "set-state",
        "incr-state",
        "collect-state",
        "set-context",
        "abort",
        "retry",
        "redact-tool-result",
        "throw",
        "pass",
    )
)

AGENT = frozenset(
    (
        "instructions",
        "tools",
        "maxSteps",
        "maxProcessorRetries",
        "memory",
        "modelId",
    )
)

OPTIONS = frozenset(
    (
        "maxSteps",
        "maxProcessorRetries",
        "inputProcessors",
        "outputProcessors",
        "errorProcessors",
        "context",
        "modelSettings",
        "structuredOutput",
        "prepareStep",
        "thread",
    )
)

ARRAYS = {"input": "inputProcessors", "output": "outputProcessors", "error": "errorProcessors"}


class ScenarioError(ValueError):
    """A scenario file that the loader cannot carry out; the message says where and why."""


@dataclass(frozen=True)
class Rule:
    """When all of ``when`` holds, the operations of ``do`` are carried out in order."""

    when: Mapping[str, Any]
    do: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, eq=False)
class ProcessorSpec:
    """A processor described by rules; two specs are two processor instances, however equal."""

    id: str
    hooks: Mapping[str, tuple[Rule, ...]]
    observe: frozenset[str]
    silent: bool
    process_data_parts: bool
    on_violation: Mapping[str, Any] | None


@dataclass(frozen=True)
class ByContext:
    """An array chosen by a value of the request context."""

    key: str
    cases: Mapping[str, tuple[ProcessorSpec, ...]]
    default: tuple[ProcessorSpec, ...]

    def choose(self, context: Mapping[str, Any]) -> tuple[ProcessorSpec, ...]:
        value = context.get(self.key)
        return self.cases.get(value, self.default) if isinstance(value, str) else self.default


Array = tuple[ProcessorSpec, ...] | ByContext


@dataclass(frozen=True)
class InputMessage:
    """A message of the caller."""

    role: str
    text: str


@dataclass(frozen=True)
class Call:
    """One ``generate`` or ``stream``."""

    method: str
    messages: str | tuple[InputMessage, ...]
    options: Mapping[str, Any]
    arrays: Mapping[str, Array]
    """The processor arrays that this call overrides, by kind."""

    @property
    def is_stream(self) -> bool:
        return self.method == "stream"

    @property
    def context(self) -> dict[str, Any]:
        return dict(self.options.get("context") or {})

    @property
    def thread(self) -> str:
        return str(self.options.get("thread", "thread-1"))


@dataclass(frozen=True)
class Scenario:
    """One scenario file."""

    id: str
    title: str
    agent: Mapping[str, Any]
    tools: Mapping[str, Mapping[str, Any]]
    extra_tools: Mapping[str, Mapping[str, Any]]
    script: tuple[Mapping[str, Any], ...]
    """What the model says, one entry a provider call: ``{"chunks": […]}`` or ``{"error": {…}}``."""
    arrays: Mapping[str, Array]
    calls: tuple[Call, ...]
    omit: tuple[str, ...]
    stored_metadata: tuple[str, ...]
    expect: Mapping[str, Any]
    strings: tuple[str, ...]
    """The error messages and abort reasons of the file, in which the wording of an error is recognised."""
    feedback: tuple[str, ...]
    """The reasons of aborts that ask for a retry."""

    @property
    def instructions(self) -> str:
        return str(self.agent.get("instructions", "Base instructions."))

    @property
    def model_id(self) -> str:
        return str(self.agent.get("modelId", "main"))

    @property
    def has_memory(self) -> bool:
        return bool(self.agent.get("memory"))

    def setting(self, call: Call, name: str) -> Any:
        """An option that the agent and the call may set; the call wins."""
        return call.options[name] if name in call.options else self.agent.get(name)

    def processors(self, call: Call) -> Iterator[ProcessorSpec]:
        """Every processor that the call may use."""
        for kind in ARRAYS:
            array = call.arrays.get(kind, self.arrays[kind])
            if isinstance(array, ByContext):
                for case in (*array.cases.values(), array.default):
                    yield from case
            else:
                yield from array


def find(folder: Path) -> list[Path]:
    """The scenario files of ``folder`` and its subfolders, in order of their paths.

    Raises:
        ScenarioError: there is none.
    """
    files = sorted(path for path in folder.rglob("*.json") if not path.name.startswith("."))
    if not files:
        raise ScenarioError(f"no scenario (*.json) in {folder} or its subfolders")
    return files


def load(path: Path) -> Scenario:
    """Read one scenario file.

    Raises:
        ScenarioError: it is not JSON, or uses a word that the loader does not know.
    """
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise ScenarioError(f"{path}: {error if isinstance(error, ScenarioError) else repr(error)}") from error


def read(data: Mapping[str, Any]) -> Scenario:
    """A scenario from its JSON form."""
    agent = data.get("agent") or {}
    _known("agent", agent, AGENT)
    observe = frozenset(data.get("observe") or ())
    _known("observe", observe, OBSERVE)
    arrays = data.get("processors") or {}
    _known("processors", arrays, ARRAYS)
    texts = list(_texts(data))
    return Scenario(
        id=data["id"],
        title=data.get("title", ""),
        agent=agent,
        tools=agent.get("tools") or {},
        extra_tools=data.get("extraTools") or {},
        script=tuple(data.get("model") or ()),
        arrays={kind: _array(arrays.get(kind) or [], observe) for kind in ARRAYS},
        calls=tuple(_call(call, observe) for call in data["calls"]),
        omit=tuple(data.get("omit") or ()),
        stored_metadata=tuple(data.get("storedMetadata") or ()),
        expect=data["expect"],
        strings=tuple(dict.fromkeys(text for text, _ in texts)),
        feedback=tuple(dict.fromkeys(text for text, is_feedback in texts if is_feedback)),
    )


def _call(data: Mapping[str, Any], observe: frozenset[str]) -> Call:
    if data["method"] not in ("generate", "stream"):
        raise ScenarioError(f"unknown method {data['method']!r}")
    options = data.get("options") or {}
    _known("options", options, OPTIONS)
    messages = data["messages"]
    if isinstance(messages, Mapping):
        messages = [messages]
    return Call(
        method=data["method"],
        messages=messages if isinstance(messages, str) else tuple(_message(message) for message in messages),
        options=options,
        arrays={kind: _array(options[name], observe) for kind, name in ARRAYS.items() if name in options},
    )


def _message(data: Mapping[str, Any]) -> InputMessage:
    repeat = data.get("repeat")
    return InputMessage(data["role"], repeat["text"] * repeat["times"] if repeat else data["text"])


def _array(data: Any, observe: frozenset[str]) -> Array:
    if isinstance(data, Mapping):
        chooser = data["byContext"]
        return ByContext(
            chooser["key"],
            {case: _processors(items, observe) for case, items in chooser["cases"].items()},
            _processors(chooser.get("default") or [], observe),
        )
    return _processors(data, observe)


def _processors(data: Iterable[Mapping[str, Any]], observe: frozenset[str]) -> tuple[ProcessorSpec, ...]:
    return tuple(_processor(item, observe) for item in data)


def _processor(data: Mapping[str, Any], observe: frozenset[str]) -> ProcessorSpec:
    _known("hooks", data["hooks"], HOOKS)
    own = frozenset(data.get("observe") or ())
    _known("observe", own, OBSERVE)
    return ProcessorSpec(
        id=data["id"],
        hooks={hook: tuple(_rule(rule) for rule in rules) for hook, rules in data["hooks"].items()},
        observe=observe | own,
        silent=bool(data.get("silent")),
        process_data_parts=bool(data.get("processDataParts")),
        on_violation=data.get("onViolation"),
    )


def _rule(data: Mapping[str, Any]) -> Rule:
    when = data.get("when") or {}
    _known("when", when, WHEN)
    do = data.get("do") or []
    ops = (do,) if isinstance(do, Mapping) else tuple(do)
    _known("do", (op["op"] for op in ops), OPS)
    return Rule(when, ops)


def _known(where: str, words: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(words) - set(known))
    if unknown:
        raise ScenarioError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")


def _texts(data: Any) -> Iterator[tuple[str, bool]]:
    """The texts that an error or a feedback message may quote, and whether it is feedback."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in ("expect", "note"):
                continue
            if key in ("message", "reason", "throws") and isinstance(value, str):
                yield value, key == "reason" and bool(data.get("retry"))
            yield from _texts(value)
        if data.get("op") == "abort" and data.get("retry") and not data.get("reason"):
            yield "Tripwire triggered by", True
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
