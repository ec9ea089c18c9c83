"""Calls the hooks of one simulated call: log records, conditions, the stream chain, emitted data."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..conditions import Moment, holds
from ..scenario import ByContext, Call, ProcessorSpec, Rule, Scenario
from .conversation import Conversation, message_facts
from .course import STREAM_HOOK, CallCourse, Record
from .hooks import Abort, HookCall, HookFailure, Op

Facts = dict[str, Any]

_STEPLESS = frozenset(("processInput", "processOutputStream", "processOutputResult"))
_MESSAGELESS = frozenset(("processLLMRequest", "processLLMResponse", "processOutputStream"))
_WITH_SYSTEM = frozenset(("processInput", "processInputStep", "processOutputStep", "processToolResult"))
_WITH_MODEL = frozenset(("processInputStep", "processLLMRequest", "processLLMResponse"))
_OF_STEP = frozenset(("processLLMResponse", "processOutputStep", "processToolResult"))
_UNCOUNTED_BY_REFERENCE = frozenset(("processOutputStream", "processToolResult", "processOutputResult"))

FEEDBACK_PREFIX = "[Processor Feedback] "

UNLOGGED = frozenset(
    ("response-metadata", "tool-call-input-streaming-start", "tool-call-delta", "tool-call-input-streaming-end")
)


@dataclass
class Status:
    """Where the call is."""

    step: int = 0
    attempt: int = -1
    retries: int = 0
    abort_retries: int = 0
    retries_of_step: int = 0
    accepted: int = 0
    from_cache: bool = False
    is_assembled: bool = False
    """Whether the attempt's reply is in the message list."""
    buffer: list[Facts] = field(default_factory=list)
    """Finished parts of the attempt, until its reply is assembled."""


@dataclass
class Site:
    """What a hook call is about, beside the processor."""

    facts: Facts = field(default_factory=dict)
    """The facts that are always logged."""
    part: Facts | None = None
    prompt: list[Facts] = field(default_factory=list)
    settings: Facts = field(default_factory=dict)
    model: str | None = None
    chunks: list[Facts] = field(default_factory=list)
    call_id: str = ""
    is_local_tool: bool = False
    response_only: bool = False
    text: str | None = None
    finish_reason: str = ""
    extra: Facts = field(default_factory=dict)
    """``usage`` and ``resultSteps``, logged if the scenario asks for them."""
    cause: str = ""


class Dispatcher:
    """The hooks of one call."""

    def __init__(self, scenario: Scenario, call: Call, invocations: Counter[Any], saved: dict[str, Any]) -> None:
        self.course = CallCourse()
        self.status = Status()
        self.conversation = Conversation([])
        self.context = call.context
        self._scenario = scenario
        self._call = call
        self._invocations = invocations
        self._saved = saved
        self._states: dict[str, Facts] = {}
        self._stream_parts: Counter[Any] = Counter()
        arrays = {kind: call.arrays.get(kind, array) for kind, array in scenario.arrays.items()}
        self.arrays = {kind: _chosen(array, self.context) for kind, array in arrays.items()}
        self._keys = _state_keys(self.arrays)
        if any("#" in key for key in self._keys.values()):
            self.course.marks.add("same-id")

    def having(self, kind: str, hook: str) -> list[tuple[int, ProcessorSpec]]:
        """The processors of an array that implement ``hook``, with their places in it."""
        return [(place, spec) for place, spec in enumerate(self.arrays[kind]) if hook in spec.hooks]

    # -- one hook of one processor ---------------------------------------------------------------------------------

    def call(self, spec: ProcessorSpec, hook: str, place: int, site: Site, default: Any) -> HookCall:
        """Log the call, carry out the rules that apply, and return the hook call with what it returned.

        Raises:
            Abort: a rule aborted; ``onViolation`` was told.
            HookFailure: a rule threw.
        """
        now, reference = self._moments(spec, hook, site)
        self._invocations[id(spec), hook] += 1
        self._log(spec, hook, site)
        hook_call = HookCall(
            processor=spec,
            hook=hook,
            conversation=self.conversation,
            state=self._state(spec),
            saved=self._saved,
            emit=lambda op: self._emit(hook, place, op),
            set_context=self._set_context,
            messages=self.messages(response_only=site.response_only),
            system=list(self.conversation.system),
            attempt=self.status.attempt,
            part=site.part,
            prompt=site.prompt,
            settings=site.settings,
            chunks=site.chunks,
            call_id=site.call_id,
            text=site.text,
            returned=default,
        )
        for rule in spec.hooks[hook]:
            applies = holds(rule.when, now)
            if applies != holds(rule.when, reference):
                self.course.depart(_deciding(rule, hook, site))
            if applies:
                self._carry_out(hook_call, rule, site)
        return hook_call

    def _carry_out(self, hook_call: HookCall, rule: Rule, site: Site) -> None:
        for op in rule.do:
            if site.cause in ("D41", "D42", "D51") and op["op"] in ("abort", "throw", "emit"):
                self.course.depart(site.cause)
            try:
                hook_call.carry_out(op)
            except Abort as abort:
                self._report_violation(abort)
                raise
            except HookFailure as failure:
                failure.hook = failure.hook or hook_call.hook
                raise

    def _report_violation(self, abort: Abort) -> None:
        spec = abort.processor
        if spec.on_violation is None or spec.silent:
            return
        facts = {"processorId": spec.id, "message": abort.reason}
        facts |= {} if abort.metadata is None else {"detail": abort.metadata}
        self.log(spec.id, "onViolation", facts, cause="D26")

    def messages(self, *, response_only: bool = False) -> list[Any]:
        return self.conversation.of("response") if response_only else list(self.conversation.messages)

    # -- the log ---------------------------------------------------------------------------------------------------

    def log(self, who: str, what: str, facts: Facts, cause: str = "") -> None:
        status = self.status
        self.course.hooks.append(
            Record(
                who=who,
                what=what,
                facts=facts,
                abort_retries=status.abort_retries,
                retries=status.retries,
                attempt=status.attempt,
                cause=cause,
            )
        )

    def _log(self, spec: ProcessorSpec, hook: str, site: Site) -> None:
        if spec.silent or (site.part is not None and site.part["type"] in UNLOGGED):
            return
        observe, status = spec.observe, self.status
        facts: Facts = {"retryCount": status.retries}
        if hook not in _STEPLESS and (hook != "processToolResult" or "toolStep" in observe):
            facts["stepNumber"] = status.step
        facts |= site.facts
        if "messages" in observe and hook not in _MESSAGELESS:
            facts["messages"] = message_facts(self.messages(response_only=site.response_only))
        if "system" in observe and hook in _WITH_SYSTEM:
            facts["system"] = self._system(hook)
        if "state" in observe:
            facts["state"] = copy.deepcopy(self._state(spec))
        if "steps" in observe and hook not in _STEPLESS:
            facts["steps"] = self._step_count(hook, site)
        if "model" in observe and hook in _WITH_MODEL:
            facts["model"] = site.model
        if "settings" in observe and hook == "processInputStep":
            facts |= _settings_facts(site.settings)
        if "streamParts" in observe and hook == STREAM_HOOK:
            facts["streamParts"] = self._stream_parts[id(spec)]
        facts |= {name: value for name, value in site.extra.items() if name in _asked(observe)}
        self.log(spec.id, hook, copy.deepcopy(facts), site.cause)

    def _system(self, hook: str) -> list[str]:
        """The untagged system messages; the tool-result hook sees the tagged ones too (R2.4)."""
        feedback = self.conversation.feedback
        is_seen = hook == "processToolResult" and feedback is not None
        return [*self.conversation.system, *([FEEDBACK_PREFIX + str(feedback)] if is_seen else [])]

    def _step_count(self, hook: str, site: Site) -> int:
        is_counted = hook in _OF_STEP and site.finish_reason != "content-filter"
        return self.status.accepted + is_counted

    # -- conditions ------------------------------------------------------------------------------------------------

    def _moments(self, spec: ProcessorSpec, hook: str, site: Site) -> tuple[Moment, Moment]:
        """How the call looks to a rule here, and how it looks to one in the reference."""
        status, part = self.status, site.part or {}
        now = Moment(
            invocation=self._invocations[id(spec), hook],
            retry_count=status.retries,
            step_number=None if hook in _STEPLESS else status.step,
            part_type=part.get("type"),
            text=site.text,
            tool_name=site.facts.get("toolName", part.get("toolName")),
            message_texts=[]
            if hook in _MESSAGELESS
            else [message.text for message in self.messages(response_only=site.response_only)],
            error=site.facts.get("error"),
            has_tool_calls=bool(site.facts.get("toolCalls")) if hook == "processOutputStep" else None,
            from_cache=status.from_cache if hook in ("processLLMResponse", STREAM_HOOK) else None,
            state=copy.deepcopy(self._state(spec)),
        )
        shift = status.abort_retries + site.is_local_tool
        return now, replace(
            now,
            step_number=None if now.step_number is None else now.step_number + shift,
            retry_count=0 if hook in _UNCOUNTED_BY_REFERENCE else status.retries_of_step,
        )

    # -- the stream ------------------------------------------------------------------------------------------------

    def through(self, chunk: Facts, start: int = 0, cause: str = "") -> Facts | None:
        """Pass a chunk through the stream hooks from ``start`` on; ``None`` when it was dropped."""
        is_data = chunk["type"].startswith("data-")
        for place, spec in self.having("output", STREAM_HOOK):
            if place < start or (is_data and not spec.process_data_parts):
                continue
            self._stream_parts[id(spec)] += 1
            text = chunk.get("text")
            facts = {"partType": chunk["type"]} | ({} if text is None else {"text": text})
            site = Site(facts=facts, part=chunk, text=text, cause=cause)
            returned = self.call(spec, STREAM_HOOK, place, site, chunk).returned
            if not isinstance(returned, Mapping):
                self._note_edit(chunk, None, cause)
                return None
            if returned is not chunk:
                self._note_edit(chunk, returned, cause)
            chunk = dict(returned)
        return chunk

    def _note_edit(self, chunk: Facts, edited: Mapping[str, Any] | None, cause: str) -> None:
        if cause == "D42":
            self.course.depart("D42")
        if cause == "D51":
            self.course.depart("D52")
        if chunk["type"].startswith("data-"):
            self.course.marks.add("data-edited")
        if edited is None and chunk["type"] in ("finish", "step-finish", "error"):
            self.course.marks.add("end-dropped")

    def to_client(self, chunk: Facts) -> None:
        if chunk["type"] not in UNLOGGED:
            self.course.chunks.append({key: value for key, value in chunk.items() if not key.startswith("_")})

    # -- emitted data ----------------------------------------------------------------------------------------------

    def _emit(self, hook: str, place: int, op: Op) -> None:
        if hook == "processInput":
            return
        chunk = {key: value for key, value in op.items() if key != "op"}
        if hook == "processOutputResult":
            self.emit_data(chunk, len(self.arrays["output"]))
        elif hook == STREAM_HOOK:
            self.emit_data(chunk, place + 1, cause="D51")
        else:
            self.emit_data(chunk, 0, cause="D51")

    def emit_data(self, chunk: Facts, start: int, cause: str = "") -> None:
        """``writer.custom``: to the opted-in processors, to the client, and into the response (R9.3, R9.4).

        Raises:
            HookFailure: the type is no ``data-`` type.
        """
        if not chunk["type"].startswith("data-") or chunk["type"] == "data-":
            self.course.depart("D31")
            raise HookFailure("")
        written = {"type": chunk["type"], "data": chunk.get("data")}
        written |= {"transient": True} if chunk.get("transient") else {}
        left = self.through(written, start, cause)
        if left is None:
            return
        if not left.get("transient"):
            part = {key: value for key, value in left.items() if key != "transient"} | {"attempt": self.status.attempt}
            if self.status.is_assembled:
                self.conversation.add_part(part)
            else:
                self.status.buffer.append(part)
        self.to_client(left)

    # -- state and context -----------------------------------------------------------------------------------------

    def _state(self, spec: ProcessorSpec) -> Facts:
        return self._states.setdefault(self._keys[id(spec)], {})

    def _set_context(self, key: str, value: Any) -> None:
        before = dict(self.context)
        self.context[key] = value
        for kind in ("output", "error"):
            array = self._call.arrays.get(kind, self._scenario.arrays[kind])
            if isinstance(array, ByContext) and array.choose(before) is not array.choose(self.context):
                self.course.depart("D81")


def _chosen(array: Any, context: Facts) -> tuple[ProcessorSpec, ...]:
    return array.choose(context) if isinstance(array, ByContext) else array


def _state_keys(arrays: Mapping[str, tuple[ProcessorSpec, ...]]) -> dict[int, str]:
    """State key of each processor: its id, numbered where an array holds the id more than once (R8.2)."""
    keys: dict[int, str] = {}
    for array in arrays.values():
        seen: Counter[str] = Counter()
        for spec in array:
            seen[spec.id] += 1
            keys[id(spec)] = spec.id if seen[spec.id] == 1 else f"{spec.id}#{seen[spec.id]}"
    return keys


def _asked(observe: frozenset[str]) -> Iterator[str]:
    for name in observe:
        yield {"result": "resultSteps"}.get(name, name)


def _settings_facts(settings: Facts) -> Facts:
    return {
        name: value
        for name, value in settings.items()
        if name in ("toolChoice", "activeTools", "tools", "modelSettings", "providerOptions") and value is not None
    }


def _deciding(rule: Rule, hook: str, site: Site) -> str:
    """The divergence that makes a rule apply here and not in the reference, or the other way round."""
    if "stepNumber" not in rule.when:
        return "D3"
    return "D2" if site.is_local_tool else "D1"
