"""``RunState`` to JSON and back: what a run needs to go on in another process (R8.4, R12.37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from interlock._json import to_json
from interlock.agent.accepted import CALL_OPTIONS, check_values
from interlock.agent.state import RunState
from interlock.agent.state_shape import StateShape
from interlock.agent.suspension import SuspendedStep
from interlock.chunks import (
    Chunk,
    File,
    Source,
    ToolCall,
    ToolCallApproval,
    ToolCallSuspended,
    ToolResult,
    chunk_from_dict,
    chunk_to_dict,
)
from interlock.errors import InvalidMessageError, RunStateError
from interlock.messages import MessageList
from interlock.messages.parts import ReasoningPart, part_from_dict
from interlock.processors import StepResult, TripwireInfo
from interlock.usage import Usage

VERSION = 1

T = TypeVar("T")


def state_to_dict(state: RunState) -> dict[str, Any]:
    """The state as JSON data; processor state that JSON cannot hold is left out (R8.4)."""
    accepted = {id(step) for step in state.steps}
    suspended = state.suspended
    return {
        "version": VERSION,
        "runId": state.run_id,
        "agentId": state.agent_id,
        "messageId": state.message_id,
        "messages": state.message_list.serialize(),
        "steps": [{**_step_to_dict(step), "isAccepted": id(step) in accepted} for step in state.listed_steps],
        "stepNumber": state.step_number,
        "retryCount": state.retry_count,
        "processorStates": {key: _json_safe(value) for key, value in state.processor_states.items()},
        "usage": state.usage.to_dict(),
        "systemBaseline": to_json(state.system_baseline),
        "callIds": sorted(state.call_ids),
        "requestContext": state.request_context,
        "options": _json_safe(state.options),
        "suspended": None
        if suspended is None
        else {
            "step": _step_to_dict(suspended.step),
            "finishReason": suspended.finish_reason,
            "waiting": {key: chunk_to_dict(chunk) for key, chunk in suspended.waiting.items()},
            "resolved": suspended.resolved,
        },
    }


def state_from_dict(data: Any, agent_id: str | None = None) -> RunState:
    """Read what ``state_to_dict`` wrote.

    Args:
        data: The JSON data.
        agent_id: The agent that is to go on with the run, if that is to be checked.

    Raises:
        RunStateError: the data is malformed, of a newer version, or of another agent.
    """
    if not isinstance(data, Mapping):
        raise RunStateError(f"a run state must be a JSON object, got {type(data).__name__}")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RunStateError("this is no run state: it has no version")
    if version > VERSION:
        raise RunStateError(f"the run state has version {version}; this interlock reads up to {VERSION}: upgrade it")
    if agent_id is not None and data.get("agentId") != agent_id:
        raise RunStateError(f"the run belongs to agent {data.get('agentId')!r}, not to {agent_id!r}")
    try:
        msgspec.convert(data, StateShape)
        return _read(data)
    except (
        AttributeError,
        InvalidMessageError,
        KeyError,
        LookupError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
        msgspec.MsgspecError,
    ) as error:
        raise RunStateError(f"the run state is malformed: {type(error).__name__}: {error}") from error


def _read(data: Mapping[str, Any]) -> RunState:
    state = RunState(
        _a(data, "runId", str),
        _a(data, "agentId", str),
        MessageList.deserialize(data["messages"]),
        _a(data, "messageId", str),
    )
    for entry in _a(data, "steps", list):
        step = _step_from_dict(entry)
        state.listed_steps.append(step)
        if entry["isAccepted"]:
            state.steps.append(step)
    state.step_number = _a(data, "stepNumber", int)
    state.retry_count = _a(data, "retryCount", int)
    state.processor_states = {key: dict(value) for key, value in _a(data, "processorStates", dict).items()}
    state.usage = _usage(data["usage"])
    state.system_baseline = _a(data, "systemBaseline", list)
    state.call_ids = {_text(one) for one in _a(data, "callIds", list)}
    state.request_context = _a(data, "requestContext", dict)
    state.options = _a(data, "options", dict)
    check_values(state.options, CALL_OPTIONS)
    suspended = data["suspended"]
    if suspended is not None:
        state.suspended = SuspendedStep(
            step=_step_from_dict(suspended["step"]),
            finish_reason=_a(suspended, "finishReason", str),
            waiting={key: _waiting(value) for key, value in _a(suspended, "waiting", dict).items()},
            resolved=_a(suspended, "resolved", int),
        )
    return state


def _step_to_dict(step: StepResult) -> dict[str, Any]:
    tripwire = step.tripwire
    return {
        "stepNumber": step.step_number,
        "stepType": step.step_type,
        "text": step.text,
        "reasoning": [part.to_dict() for part in step.reasoning],
        "sources": [chunk.to_dict() for chunk in step.sources],
        "files": [chunk.to_dict() for chunk in step.files],
        "toolCalls": [chunk_to_dict(chunk) for chunk in step.tool_calls],
        "toolResults": [chunk_to_dict(chunk) for chunk in step.tool_results],
        "parts": [part.to_dict() for part in step.parts],
        "finishReason": step.finish_reason,
        "usage": step.usage.to_dict(),
        "warnings": _json_safe(step.warnings),
        "response": _json_safe(step.response),
        "modelId": step.model_id,
        "providerMetadata": _json_safe(step.provider_metadata),
        "tripwire": None
        if tripwire is None
        else {
            "reason": tripwire.reason,
            "processorId": tripwire.processor_id,
            "retry": tripwire.retry,
            "metadata": _json_safe(tripwire.metadata),
        },
    }


def _step_from_dict(data: Mapping[str, Any]) -> StepResult:
    tripwire = data["tripwire"]
    return StepResult(
        step_number=_a(data, "stepNumber", int),
        step_type="tool-result" if data["stepType"] == "tool-result" else "initial",
        text=_a(data, "text", str),
        reasoning=[ReasoningPart.from_dict(part) for part in _a(data, "reasoning", list)],
        sources=[Source.from_dict(chunk) for chunk in _a(data, "sources", list)],
        files=[File.from_dict(chunk) for chunk in _a(data, "files", list)],
        tool_calls=[ToolCall.from_dict(chunk) for chunk in _a(data, "toolCalls", list)],
        tool_results=[ToolResult.from_dict(chunk) for chunk in _a(data, "toolResults", list)],
        parts=[part_from_dict(part) for part in _a(data, "parts", list)],
        finish_reason=_a(data, "finishReason", str),
        usage=_usage(data["usage"]),
        warnings=_a(data, "warnings", list),
        response=_a(data, "response", dict),
        model_id=_a(data, "modelId", str),
        provider_metadata=data["providerMetadata"],
        tripwire=None
        if tripwire is None
        else TripwireInfo(
            reason=_a(tripwire, "reason", str),
            processor_id=_a(tripwire, "processorId", str),
            retry=bool(tripwire["retry"]),
            metadata=tripwire["metadata"],
        ),
    )


def _a(data: Mapping[str, Any], key: str, kind: type[T]) -> T:
    value = data[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{key} must be {kind.__name__}, got {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an id must be a string, got {type(value).__name__}")
    return value


def _usage(data: Any) -> Usage:
    usage = Usage.from_dict(data)
    for name in usage.__struct_fields__:
        count = getattr(usage, name)
        if name != "extra" and count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise TypeError(f"usage.{name} must be a number")
    return usage


def _waiting(value: Any) -> Chunk:
    chunk = chunk_from_dict(value)
    if not isinstance(chunk, (ToolCallApproval, ToolCallSuspended)):
        raise ValueError(f"a call waits with an approval or a suspension, not with {chunk.type!r}")
    return chunk


def _json_safe(value: Any) -> Any:
    """``value`` without what JSON cannot hold."""
    if isinstance(value, dict):
        return {
            key: safe
            for key, item in value.items()
            if isinstance(key, str) and (safe := _json_safe(item)) is not _UNSAFE
        }
    if isinstance(value, (list, tuple)):
        return [item for item in map(_json_safe, value) if item is not _UNSAFE]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    try:
        return msgspec.json.decode(msgspec.json.encode(to_json(value)))
    except (TypeError, ValueError, msgspec.MsgspecError):
        return _UNSAFE


_UNSAFE: Any = object()
