"""Where interlock differs from the recorded outcomes on purpose: general rules, each naming the specification's.

A rule says which changes of a recorded fact it asks for. It does not say the new value: that comes from the oracle. A
change that no rule asks for is not made, so the recorded fact stands. Rules about single facts check as much as they
can, a step number for example by its exact distance; rules about whole runs hold from the place where the run leaves
the reference's course.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .oracle import CallCourse, Record

Facts = dict[str, Any]

ABSENT: Any = object()
"""Stands for a fact that is not there."""


@dataclass
class Change:
    """A place where the oracle says something else than the recording."""

    area: str
    """``hooks``, ``prompts``, ``modelIds``, ``callSettings``, ``chunks``, ``result``, ``error`` or ``stored``."""
    path: str
    recorded: Any
    value: Any
    """What interlock gives; ``ABSENT`` for an entry or fact that goes away, as ``recorded`` is for a new one."""
    course: CallCourse
    name: str = ""
    """The fact's name, in ``result`` and in hook records."""
    record: Record | None = None
    """The oracle's record, for a changed or added one."""
    hook: str = ""
    departures: frozenset[str] = frozenset()
    """Divergences by which the run has left the reference's course before this place."""
    earlier_causes: frozenset[str] = field(default_factory=frozenset)
    """Divergences that added records to the log before this place."""

    @property
    def is_added(self) -> bool:
        return self.recorded is ABSENT

    @property
    def is_removed(self) -> bool:
        return self.value is ABSENT

    def is_fact(self, *names: str) -> bool:
        """Whether it changes such a fact of a hook record."""
        return self.area == "hooks" and self.name in names

    def is_result(self, *names: str) -> bool:
        return self.area == "result" and self.name in names

    def has(self, mark: str) -> bool:
        return mark in self.course.marks

    def is_entry(self, kind: str) -> bool:
        """Whether it adds or removes a chunk of a type, or a stream record of it."""
        entry = self.value if self.is_added else self.recorded
        if self.area == "chunks":
            return isinstance(entry, Mapping) and entry.get("type") == kind
        return self.area == "hooks" and not self.name and entry[2].get("partType") == kind


@dataclass(frozen=True)
class Divergence:
    """One general divergence."""

    id: str
    rule: str
    """The rules of the runtime specification that ask for it."""
    what: str
    explains: Callable[[Change], bool]


def departure(identifier: str, rule: str, what: str) -> Divergence:
    """A divergence after which the run takes another course."""
    return Divergence(identifier, rule, what, lambda change: identifier in change.departures)


def _step_number(change: Change) -> bool:
    record = change.record
    return (
        change.is_fact("stepNumber")
        and record is not None
        and change.recorded == change.value + record.abort_retries
        and record.abort_retries > 0
    )


def _tool_step_number(change: Change) -> bool:
    record = change.record
    is_local = record is not None and record.what == "processToolResult" and "providerExecuted" not in record.facts
    return (
        is_local
        and record is not None
        and change.is_fact("stepNumber")
        and change.recorded == change.value + 1 + record.abort_retries
    )


def _texts_of_stream(change: Change) -> bool:
    texts = [text for text in (change.course.result or {}).get("stepTexts", []) if text]
    return change.is_result("text") and bool(change.course.chunks) and len(texts) > 1


def _of_all_steps(change: Change) -> bool:
    steps = (change.course.result or {}).get("steps", 0)
    return change.is_result("reasoningText", "sources", "files") and steps > 1


def _was_cut(change: Change) -> bool:
    """An attempt failed, or was cut before its response was complete."""
    return change.has("failed-attempt") or change.has("rejected-attempt")


def _is_outcome(change: Change) -> bool:
    """A text that the output-result hook is given."""
    return change.hook == "processOutputResult" and change.is_fact("text", "resultSteps")


def _blocked_with_response(change: Change) -> bool:
    hooks = ("processLLMResponse", "processToolResult", "processOutputStream")
    return any(change.has(f"tripped in {hook}") for hook in hooks)


def _added_by(identifier: str) -> Callable[[Change], bool]:
    """A record that exists by this divergence, or what its rules left in the processor's state."""

    def explains(change: Change) -> bool:
        if change.is_added and change.record is not None:
            return change.record.cause == identifier
        return change.is_fact("state", "streamParts") and identifier in change.earlier_causes

    return explains


def _empty_delta(change: Change) -> bool:
    if not change.has("empty-delta"):
        return False
    if change.is_fact("chunkTypes"):
        return [kind for kind in change.value if kind != "text-delta"] == [
            kind for kind in change.recorded if kind != "text-delta"
        ]
    entry = change.value if change.is_added else None
    if change.area == "hooks" and entry is not None and not change.name:
        return (entry[2].get("partType"), entry[2].get("text")) == ("text-delta", "")
    is_shifted = change.is_fact("state", "streamParts")
    return is_shifted or (change.area == "chunks" and change.is_entry("text-delta") and entry is not None)


def _failed_attempts_hooks(change: Change) -> bool:
    if not change.has("failed-attempt"):
        return False
    is_hook = change.hook in ("processOutputStep", "processLLMResponse")
    return (change.area == "hooks" and is_hook and change.is_removed) or change.is_fact("state")


def _unused(change: Change) -> bool:
    """No attempt reported its usage."""
    if change.is_result("usage", "totalUsage"):
        return bool(change.value == {})
    return change.area == "chunks" and change.value is not ABSENT and change.value.get("usage") == {}


def _default_reason(change: Change) -> bool:
    if not change.has("tripped in processOutputStream") and not change.has("rejected-attempt"):
        return False
    value = change.value.get("reason", "") if isinstance(change.value, Mapping) else change.value
    named = change.is_result("tripwire") or change.is_fact("message")
    return named and isinstance(value, str) and value.startswith("Tripwire triggered by ")


def _dropped_end(change: Change) -> bool:
    ends = ("step-finish", "finish", "error")
    is_end = change.area == "chunks" and any(
        isinstance(side, Mapping) and side.get("type") in ends for side in (change.recorded, change.value)
    )
    is_reason = change.is_fact("finishReason", "resultSteps", "usage", "chunkTypes")
    return change.has("end-dropped") and (
        is_end or is_reason or change.is_result("finishReason", "usage", "totalUsage", "error")
    )


def _provider_result(change: Change) -> bool:
    is_chunk = change.area == "chunks" and not change.is_removed and change.value.get("type") == "tool-result"
    is_place = is_chunk or change.is_result("toolResults") or change.area in ("stored", "prompts")
    return change.has("provider-result-replaced") and is_place


def _earlier_redaction(change: Change) -> bool:
    return change.is_fact("result") and change.hook == "processToolResult"


def _provider_args(change: Change) -> bool:
    is_provider = change.record is not None and change.record.facts.get("providerExecuted") is True
    return change.is_fact("args") and is_provider and change.is_added


def _in(change: Change, *areas: str) -> bool:
    return change.area in areas


_TEXTS = ("text", "stepTexts")

DIVERGENCES: tuple[Divergence, ...] = (
    # Whole runs first: after a departure nothing else needs a reason.
    departure("D83", "R1.16", "a processor without hooks is refused"),
    departure("D81", "R12.2", "function-valued arrays are chosen when the call begins"),
    departure("D5", "R7.7, B4", "a retry is granted to every hook inside a step"),
    departure("D6", "R7.1, R7.2", "the default limit is 10, for both kinds of retry"),
    departure("D7", "R7.12, B6", "rejected and failed attempts do not count as steps"),
    departure("D31", "R9.1", "writing a chunk that is no data chunk raises"),
    departure("D30", "R17.1 to R17.3, B17", "a stream hook that raises fails the run at that chunk"),
    departure("D34", "R17.1, R17.2", "a hook that raises fails the run at that place"),
    departure("D36", "R7.16, B7", "what a failed attempt had streamed is removed before the retry"),
    departure("D55", "R1.13, B16", "a step whose tool calls were all dropped is the last"),
    departure("D60", "R2.29, B1", "an empty list from the output step or a tool result changes nothing"),
    departure("D73", "R10.5, B9", "a tool that returns nothing has a result"),
    departure("D74", "R12.11, R10.13, B20", "a tool that is not offered is not executed"),
    departure("D28", "R6.5, R6.8", "an abort in the error hook is a tripwire like any other"),
    departure("D24", "R6.5, R6.8", "nothing runs after the abort that ended the run"),
    departure("D20", "R6.4, R6.5, B2, B3", "the tripwire chunk is the last chunk, from every hook"),
    departure("D25", "R6.5, R13.9, B2", "a tripped run stores nothing"),
    # Tripwires.
    Divergence(
        "D21",
        "R6.5, B2",
        "the finish reason of a tripped run is other",
        lambda change: change.has("tripped") and change.is_result("finishReason") and change.value == "other",
    ),
    Divergence(
        "D22",
        "R6.6, R6.7",
        "a blocked attempt has no text",
        lambda change: change.has("tripped") and change.is_result(*_TEXTS),
    ),
    Divergence(
        "D23",
        "R6.7, R12.22",
        "a blocked attempt with a response is listed and counted",
        lambda change: _blocked_with_response(change) and change.is_result("steps", "stepTexts", "usage", "totalUsage"),
    ),
    Divergence("D26", "R6.10", "on_violation is told of every abort", _added_by("D26")),
    Divergence(
        "D27",
        "R6.6, R12.34",
        "a tripped run has no object",
        lambda change: change.has("tripped") and change.is_result("object") and change.is_removed,
    ),
    Divergence("D29", "R6.1", "one default reason for every hook", _default_reason),
    # Retries.
    Divergence("D1", "R7.6", "a retry repeats its own step number", _step_number),
    Divergence("D2", "2.8, B12", "a tool result belongs to the step that made the call", _tool_step_number),
    Divergence(
        "D3",
        "R7.3, R7.10, B14",
        "the retry count never goes down and is given to every hook",
        lambda change: change.is_fact("retryCount") and change.record is not None and change.record.retries > 0,
    ),
    Divergence(
        "D4", "R2.5, B13", "steps are the accepted ones and the current one", lambda change: change.is_fact("steps")
    ),
    Divergence(
        "D9",
        "2.10",
        "the outcome's text and steps are those of accepted attempts",
        lambda change: _was_cut(change) and _is_outcome(change),
    ),
    Divergence(
        "D10",
        "R6.7",
        "attempts without a complete response are not listed",
        lambda change: _was_cut(change) and change.is_result("steps", "stepTexts"),
    ),
    Divergence(
        "D11",
        "R12.21",
        "tool calls and results are those of accepted attempts",
        lambda change: (_was_cut(change) or change.has("tripped")) and change.is_result("toolCalls", "toolResults"),
    ),
    Divergence("D37", "R12.21", "reasoning, sources and files are those of all accepted steps", _of_all_steps),
    Divergence("D12", "R12.20", "the text of a stream is that of all accepted steps", _texts_of_stream),
    # Errors.
    Divergence("D32", "R17.4a, R11.7", "a failed attempt has no response hooks", _failed_attempts_hooks),
    Divergence("D33", "R12.22", "usage that nobody reported is absent", _unused),
    # Answers from a cache.
    Divergence(
        "D40",
        "R11.3",
        "a replay has a step-start",
        lambda change: (
            change.area == "chunks"
            and change.has("step-start-added")
            and change.is_added
            and change.is_entry("step-start")
        ),
    ),
    Divergence("D41", "R11.5, R11.6, B11", "the response hook runs after a replay", _added_by("D41")),
    Divergence(
        "D42",
        "R11.4",
        "a replay goes through the stream hooks",
        lambda change: _added_by("D42")(change) or "D42" in change.departures,
    ),
    # Stream and data.
    Divergence("D50", "R5.8", "an empty delta is forwarded", _empty_delta),
    Divergence("D51", "R9.9", "data written by processors is shown to those that opted in", _added_by("D51")),
    Divergence(
        "D52",
        "R9.10",
        "what leaves the chain is streamed and stored",
        lambda change: (
            "D52" in change.departures or (change.has("data-edited") and _in(change, "stored") and not change.is_added)
        ),
    ),
    Divergence("D53", "R2.27, R11.6, R17.4, B15", "dropping an end hides it and changes nothing else", _dropped_end),
    Divergence(
        "D54",
        "R5.9, R5.10",
        "finish is shown for an attempt after which the loop stops",
        lambda change: (
            (change.area == "hooks" and (change.is_added or change.is_removed) and change.is_entry("finish"))
            or (change.is_fact("state", "streamParts") and "D54" in change.earlier_causes)
        ),
    ),
    # Messages and text.
    Divergence(
        "D61",
        "R2.34, R2.35",
        "an empty list from the output result removes the response",
        lambda change: change.has("response-removed") and (change.is_result(*_TEXTS) or _in(change, "stored")),
    ),
    Divergence(
        "D62",
        "2.10, R2.3",
        "the output result sees response messages only",
        lambda change: change.is_fact("messages") and change.hook == "processOutputResult",
    ),
    Divergence(
        "D63",
        "R2.31",
        "text changed in the output step is the step's text",
        lambda change: change.has("text-changed") and (_is_outcome(change) or change.is_result(*_TEXTS)),
    ),
    Divergence(
        "D66",
        "R3.18, B8",
        "equal texts of two steps are both kept",
        lambda change: (
            change.has("same-text")
            and (
                _in(change, "prompts", "stored")
                or change.is_fact("messages")
                or _is_outcome(change)
                or change.is_result(*_TEXTS)
            )
        ),
    ),
    Divergence(
        "D67",
        "R3.23, B18",
        "a new message stands where the returned list put it",
        lambda change: (
            change.has("new-message-placed")
            and (_in(change, "prompts", "stored") or change.is_fact("messages") or change.is_result(*_TEXTS))
        ),
    ),
    # Tools, state, configuration.
    Divergence("D70", "R10.7", "a later processor sees the replaced result", _earlier_redaction),
    Divergence("D71", "R10.12", "a provider's result can be replaced in its own stream", _provider_result),
    Divergence("D72", "2.8, R10.12", "a provider's result comes with the call's arguments", _provider_args),
    Divergence(
        "D80",
        "R8.2",
        "two processors with one id in one array have states of their own",
        lambda change: change.has("same-id") and change.is_fact("state"),
    ),
    Divergence(
        "D82",
        "R2.21",
        "a prompt changed in place is not sent",
        lambda change: change.has("prompt-mutated") and _in(change, "prompts"),
    ),
)


Prompt = list[Facts]


@dataclass(frozen=True)
class PromptDivergence:
    """A general divergence of prompts, as an edit of the recorded prompt; the oracle's prompt is at hand."""

    id: str
    rule: str
    what: str
    rewrite: Callable[[Prompt, Prompt], Prompt]


def _newest_feedback(recorded: Prompt, value: Prompt) -> Prompt:
    """The oracle's feedback after the other system messages, in place of the recorded."""
    feedback = [item for item in value if "feedback" in item]
    others = [item for item in recorded if "feedback" not in item]
    place = sum(item["role"] == "system" for item in others)
    return [*others[:place], *feedback, *others[place:]]


def _without_dot(recorded: Prompt, value: Prompt) -> Prompt:
    place = next((i for i, item in enumerate(recorded) if item["role"] != "system"), len(recorded))
    dot = {"role": "user", "content": [{"type": "text", "text": "."}]}
    first, second = recorded[place : place + 1], recorded[place + 1 : place + 2]
    is_put_before = first == [dot] and bool(second) and second[0]["role"] == "assistant"
    return [*recorded[:place], *recorded[place + 1 :]] if is_put_before and dot not in value else recorded


def _without_empty_text(recorded: Prompt, value: Prompt) -> Prompt:
    empty = {"type": "text", "text": ""}
    kept: Prompt = []
    for item in recorded:
        if item["role"] != "assistant":
            kept.append(item)
            continue
        content = [part for part in item["content"] if part != empty]
        if content:
            kept.append({**item, "content": content})
    return kept


PROMPT_DIVERGENCES: tuple[PromptDivergence, ...] = (
    PromptDivergence(
        "D8", "R7.8, R7.16, B5", "only the newest feedback, and only while its step is repeated", _newest_feedback
    ),
    PromptDivergence("D64", "R4.19", "a prompt may begin with the assistant", _without_dot),
    PromptDivergence("D65", "R4.14", "empty assistant text is not sent", _without_empty_text),
)


def explanation(change: Change) -> Divergence | None:
    """The first divergence that asks for the change."""
    return next((divergence for divergence in DIVERGENCES if divergence.explains(change)), None)
