"""The outcomes of tool calls that are in the list already (R3.20, R10.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock._text import well_formed_data
from interlock.messages._attempt import Attempt
from interlock.messages._merge import find_call, mirror_invocation, two_level, update_invocation
from interlock.messages._model_output import without_output
from interlock.messages._timeline import Timeline
from interlock.messages.parts import Message, ToolInvocation, ToolInvocationPart


def update_call(
    timeline: Timeline, attempt: Attempt | None, update: ToolInvocationPart, metadata: Mapping[str, Any] | None
) -> bool:
    """Bring the newest call with the update's id to its state, in place; whether there is one."""
    call_id = update.tool_invocation.tool_call_id
    found = find_owner(timeline, call_id) or _find_provider_call(timeline, update)
    if found is None:
        return False
    message, call = found
    _before_outcome(timeline, attempt, message)
    former_id = call.tool_invocation.tool_call_id
    if former_id != call_id:
        call.tool_invocation.tool_call_id = call_id
        timeline.drop_index()
    update_invocation(call, update, keep_args=True)
    mirror_invocation(message, call, former_id)
    if metadata:
        message.content.metadata = {**(message.content.metadata or {}), **metadata}
    timeline.touch_part(message, call)
    return True


def set_result(
    timeline: Timeline,
    attempt: Attempt | None,
    part: ToolInvocationPart,
    result: Any,
    metadata: Mapping[str, Any] | None,
) -> bool:
    """``update_call`` with a result and nothing else, if the newest message has the very part as its newest call.

    Returns:
        Whether it has; nothing is changed if not.
    """
    message = timeline.growing
    if message is not None and message.content.parts[-1] is part:
        at = len(message.content.parts) - 1
    else:
        message = timeline.newest
        at = -1 if message is None else _position_of(message, part.tool_invocation.tool_call_id)
        if message is None or at < 0 or message.content.parts[at] is not part:
            return False
    has_mirrors = bool(message.content.tool_invocations)
    is_own = attempt is not None and timeline.waiting is attempt and attempt.has_added(message, at)
    if has_mirrors or not is_own:
        _before_outcome(timeline, attempt, message)
    invocation = part.tool_invocation
    if part.provider_metadata is not None and invocation.result != result:
        part.provider_metadata = without_output(part.provider_metadata)
    invocation.state = "result"
    invocation.result = None if result is None else well_formed_data(result)
    invocation.is_error = invocation.error_text = part.preliminary = None
    if metadata:
        part.provider_metadata = two_level(part.provider_metadata, dict(metadata))
    if has_mirrors:
        mirror_invocation(message, part)
    timeline.touch(message, at)
    return True


def with_result(part: ToolInvocationPart, result: Any, metadata: Mapping[str, Any] | None) -> ToolInvocationPart:
    """What ``update_invocation`` takes to give a call like ``part`` this result."""
    invocation = part.tool_invocation
    return ToolInvocationPart(
        tool_invocation=ToolInvocation(
            state="result",
            tool_call_id=invocation.tool_call_id,
            tool_name=invocation.tool_name,
            args=invocation.args,
            result=result,
            approval=invocation.approval,
        ),
        provider_executed=part.provider_executed,
        provider_metadata=dict(metadata) if metadata else None,
    )


def find_owner(timeline: Timeline, tool_call_id: str) -> tuple[Message, ToolInvocationPart] | None:
    """The newest call with that id, and its message."""
    for message in reversed(timeline.items):
        if message.role == "assistant":
            part = find_call(message.content.parts, tool_call_id)
            if part is not None:
                return message, part
    return None


def _find_provider_call(timeline: Timeline, update: ToolInvocationPart) -> tuple[Message, ToolInvocationPart] | None:
    """The newest unanswered call of the same tool that the provider executes, whatever its id (R3.20)."""
    for message in reversed(timeline.items):
        for part in reversed(message.content.parts):
            if (
                isinstance(part, ToolInvocationPart)
                and part.provider_executed
                and part.tool_invocation.state == "call"
                and part.tool_invocation.tool_name == update.tool_invocation.tool_name
            ):
                return message, part
    return None


def _position_of(message: Message, tool_call_id: str) -> int:
    """Where an assistant message has the newest tool call with that id; -1 if nowhere."""
    if message.role != "assistant" or not tool_call_id:
        return -1
    parts = message.content.parts
    for position in range(len(parts) - 1, -1, -1):
        part = parts[position]
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.tool_call_id == tool_call_id:
            return position
    return -1


def _before_outcome(timeline: Timeline, attempt: Attempt | None, message: Message) -> None:
    """Note what the message is, which will be one of the response; ``context`` stays."""
    timeline.before_change()
    if attempt is not None:
        attempt.remember(message, timeline)
    if timeline.source_of(message) != "context":
        timeline.set_source(message, "response")
