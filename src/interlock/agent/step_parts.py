"""Keeps what a step says of its reply in agreement with its message parts (R2.30, R2.31, R2.35).

Hooks change messages. What a step tells beside its parts, from the text to the results of tools, has to follow, or a
value that a hook took out would still be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeVar

from interlock.agent.response import file_part, source_part
from interlock.chunks import ToolCall, ToolResult
from interlock.messages import texts_of
from interlock.messages.parts import Part, ReasoningPart, ToolInvocation, ToolInvocationPart
from interlock.processors import StepResult, TripwireInfo

C = TypeVar("C", ToolCall, ToolResult)

Recorded = dict[str, ToolInvocation]
"""Call id → what a message said of the call before hooks ran."""


def recorded(parts: Sequence[Part]) -> Recorded:
    """What the parts say of tool calls now."""
    was: Recorded = {}
    for part in parts:
        if isinstance(part, ToolInvocationPart):
            was[part.tool_invocation.tool_call_id] = part.tool_invocation.__copy__()
    return was


def follow_parts(step: StepResult, parts: list[Part], was: Recorded, calls: Recorded | None = None) -> None:
    """Make ``parts`` the step's parts, and everything else in it what they say.

    A source or a file that a hook edited is left out: the chunk is not what the message holds any more.

    Args:
        step: The step.
        parts: Its parts now.
        was: What was recorded of calls before the hooks ran; only what they changed is taken over.
        calls: What is recorded of them now, if that is not to be found in the step's parts alone.
    """
    calls = _calls_in(parts) if calls is None else calls
    step.parts = parts
    step.text = "".join(texts_of(parts))
    step.reasoning = [part for part in parts if isinstance(part, ReasoningPart)]
    step.sources = [chunk for chunk in step.sources if source_part(chunk) in parts]
    step.files = [chunk for chunk in step.files if file_part(chunk) in parts]
    step.tool_calls = [call for chunk in step.tool_calls if (call := _call_left(chunk, was, calls)) is not None]
    step.tool_results = [result for one in step.tool_results if (result := _result_left(one, was, calls)) is not None]


def follow_response(steps: Sequence[StepResult], before: list[Part], after: list[Part], was: Recorded) -> None:
    """Let the steps of a run follow what hooks made of its response.

    Args:
        steps: The steps.
        before: The parts of the response before the hooks ran.
        after: Its parts now; others at the same places if a hook returned edited copies.
        was: What was recorded of the calls in ``before``.
    """
    if before and not after:
        # A removed response takes nothing out of what the steps said and did (R2.35), but nothing is left of it.
        for step in steps:
            step.parts, step.reasoning, step.sources, step.files = [], [], [], []
        return
    left: dict[int, Part | None] = dict.fromkeys(map(id, before))
    kept = before if len(before) == len(after) else after
    left |= zip(map(id, kept), after, strict=True)
    calls = _calls_in(after)
    for step in steps:
        # What an earlier hook took out of the message is none of these hooks' doing.
        now = [left.get(id(part), part) for part in step.parts]
        follow_parts(step, [part for part in now if part is not None], was, calls)


def emptied(step: StepResult, reason: str, tripwire: TripwireInfo | None = None) -> StepResult:
    """What is told of an attempt that came to nothing: that there was one, and what it used (R6.7).

    Whatever else a step tells may hold what the attempt was rejected for: its text, the arguments of its calls, the
    request and the response as the provider tells them, the provider's metadata.
    """
    return StepResult(
        step_number=step.step_number,
        step_type=step.step_type,
        finish_reason=reason,
        usage=step.usage,
        model_id=step.model_id,
        tripwire=tripwire,
    )


def _calls_in(parts: Sequence[Part]) -> dict[str, ToolInvocation]:
    return {
        part.tool_invocation.tool_call_id: part.tool_invocation
        for part in parts
        if isinstance(part, ToolInvocationPart)
    }


def _call_left(chunk: ToolCall, was: Recorded, calls: Recorded) -> ToolCall | None:
    call_id = chunk.payload.tool_call_id
    call, before = calls.get(call_id), was.get(call_id)
    if call is None or before is None:
        return chunk if before is None else None
    return chunk if call.args == before.args else _with(chunk, args=call.args)


def _result_left(chunk: ToolResult, was: Recorded, calls: Recorded) -> ToolResult | None:
    call_id = chunk.payload.tool_call_id
    call, before = calls.get(call_id), was.get(call_id)
    if call is None or before is None:
        return chunk if before is None else None
    if call.state != "result":
        return None
    changed: dict[str, Any] = {}
    if call.result != before.result:
        changed["result"] = call.result
    if call.args != before.args and chunk.payload.args is not None:
        changed["args"] = call.args
    return _with(chunk, **changed) if changed else chunk


def _with(chunk: C, **fields: Any) -> C:
    """A copy of the chunk with these fields in its payload: a client has the chunk itself already."""
    twin = copy(chunk)
    twin.payload = copy(chunk.payload)
    for name, value in fields.items():
        setattr(twin.payload, name, value)
    return twin
