"""What a run did, told on standard error: processors, tools, tokens, time."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from interlock import AgentResult, Chunk, ToolCall, ToolResult
from interlock.chunks import RETRY, StepFinish, ToolErrorChunk
from interlock.processors import HookEvent
from interlock.usage import Usage

_MAX_SHOWN = 200
"""Characters of a reason, an error or a tool's arguments."""


class RunReport:
    """Collects the facts of one run: hook calls as its observer, the rest from its chunks."""

    def __init__(self) -> None:
        self._hooks: dict[tuple[str, str], HookDeeds] = {}
        self._calls: dict[str, ToolUse] = {}
        """Tool calls by id."""
        self._warnings: dict[str, None] = {}
        """The models' warnings, each once, in order."""
        self._retries = 0

    def hook_started(self, event: HookEvent) -> None:
        """Nothing: the outcome is what counts."""

    def hook_ended(self, event: HookEvent) -> None:
        """Count the outcome with those of the same processor and hook."""
        self._hooks.setdefault((event.processor_id, event.hook), HookDeeds()).add(event)

    def see(self, chunk: Chunk) -> None:
        """Take notice of a chunk of the run's stream."""
        match chunk:
            case ToolCall():
                self._calls[chunk.payload.tool_call_id] = ToolUse(chunk)
            case ToolResult():
                self._settle(chunk, "returned")
            case ToolErrorChunk():
                self._settle(chunk, f"failed: {_cut(str(chunk.payload.error))}")
            case StepFinish():
                outcome = chunk.payload.step_result
                self._retries += outcome.reason == RETRY
                for warning in outcome.warnings or ():
                    self._warnings[_warning_text(warning)] = None

    def _settle(self, chunk: ToolResult | ToolErrorChunk, outcome: str) -> None:
        use = self._calls.setdefault(chunk.payload.tool_call_id, ToolUse(chunk))
        use.outcome = outcome

    def lines(self, result: AgentResult | None, seconds: float) -> list[str]:
        """The report, line by line.

        Args:
            result: What the run came to; ``None`` if it never began.
            seconds: How long it took.
        """
        lines = _section("processors", _aligned([(*key, deeds.text) for key, deeds in self._hooks.items()]))
        lines += _section("tools", [use.text for use in self._calls.values()])
        lines += _section("warnings", list(self._warnings))
        return lines + _section("run", [self._summary(result, seconds)])

    def _summary(self, result: AgentResult | None, seconds: float) -> str:
        facts: list[str] = []
        if result is not None:
            facts += dict.fromkeys(step.model_id for step in result.steps if step.model_id)
            facts.append(_count(sum(step.tripwire is None for step in result.steps), "step"))
        if self._retries:
            facts.append(_count(self._retries, "retry", "retries"))
        if result is not None:
            facts += _tokens(result.usage)
        return ", ".join([*facts, f"{seconds:.1f} s"])


class ToolUse:
    """One tool call and what became of it."""

    def __init__(self, chunk: ToolCall | ToolResult | ToolErrorChunk) -> None:
        self._call = f"{chunk.payload.tool_name}({_shown(chunk.payload.args)})"
        self.outcome = "did not run"

    @property
    def text(self) -> str:
        """The call as a line."""
        return f"{self._call} {self.outcome}"


class HookDeeds:
    """What one processor did in all calls of one hook."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._last: dict[str, str] = {}
        self._is_stream = False

    def add(self, event: HookEvent) -> None:
        """Count one call."""
        outcome = "retry" if event.outcome == "aborted" and event.retry else event.outcome
        self._outcomes[outcome] += 1
        self._last[outcome] = event.detail
        self._is_stream = event.hook == "process_output_stream"

    @property
    def text(self) -> str:
        """The deeds in words; the last reason where there were several."""
        deeds = [self._deed(outcome, count) for outcome, count in self._outcomes.items() if outcome != "unchanged"]
        return "; ".join(deeds) or f"ran{_times(self._outcomes['unchanged'])}"

    def _deed(self, outcome: str, count: int) -> str:
        match outcome:
            case "changed":
                return f"rewrote {_count(count, 'chunk')}" if self._is_stream else f"rewrote{_times(count)}"
            case "dropped":
                return f"held back or dropped {_count(count, 'chunk')}"
            case "retry":
                return f"asked for a retry{_times(count)}: {_cut(self._last[outcome])}"
            case "aborted":
                return f"tripped: {_cut(self._last[outcome])}"
            case _:
                return f"{outcome}: {_cut(self._last[outcome])}"


def _section(title: str, entries: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {entry}" for entry in entries)] if entries else []


def _aligned(rows: list[tuple[str, str, str]]) -> list[str]:
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows), default=0)
    return [f"{a:<{first}}  {b:<{second}}  {c}" for a, b, c in rows]


def _tokens(usage: Usage) -> list[str]:
    if usage.input_tokens is None and usage.output_tokens is None:
        return []
    return [f"{usage.input_tokens or 0} tokens in", f"{usage.output_tokens or 0} out"]


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _times(count: int) -> str:
    return f" {count} times" if count > 1 else ""


def _warning_text(warning: Any) -> str:
    if isinstance(warning, dict) and warning.get("message"):
        return str(warning["message"])
    return _shown(warning)


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
