"""What a run adds to its response while it goes on (R3.17 to R3.19, R4.7, R9.4 to R9.7)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock._text import well_formed, well_formed_data
from interlock.messages._attempt import Attempt
from interlock.messages._merge import can_grow, fold_parts
from interlock.messages._timeline import Timeline
from interlock.messages.parts import (
    DataPart,
    Message,
    MessageContent,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolInvocationPart,
)


def append_response(
    timeline: Timeline, attempt: Attempt | None, parts: Sequence[Part], message_id: str, model: str | None
) -> Message:
    """Put an attempt's parts into the response message; the message."""
    texts = []
    for part in parts:
        _mend(part)
        if part.__class__ is TextPart and part.type == "text":
            texts.append(part.text)
    latest = timeline.newest
    message = _target(timeline, latest, message_id)
    content = message.content
    if attempt is not None:
        if message is not latest:
            attempt.made.add(message.id)
        attempt.remember(message, timeline)
    if (attempt is not None and attempt.has_opened) or not _open_step(timeline, attempt, message, parts, model):
        timeline.touch(message, len(content.parts) - 1 if content.parts else 0)
    timeline.set_source(message, "response")
    if attempt is not None:
        attempt.has_opened = True
    for call in fold_parts(timeline.index_of(message), parts):
        timeline.touch_part(message, call)
    if texts:
        content.content = "\n".join(texts)
    return message


def append_data_part(timeline: Timeline, attempt: Attempt | None, part: DataPart, message_id: str | None) -> Message:
    """Put a data part into the message of that id, or into the current response message; the message."""
    known = timeline.find(message_id) if message_id is not None else _current_response(timeline)
    message = known or _new_response(timeline, message_id or "")
    source = timeline.source_of(message)
    if attempt is not None:
        if known is None:
            attempt.made.add(message.id)
        attempt.remember(message, timeline)
    timeline.append_part(message, part)
    if source == "memory":
        # What nobody saves again would be lost.
        timeline.set_source(message, "response" if message.role == "assistant" else "input")
    elif source == "input" and message.role == "assistant":
        timeline.set_source(message, "response")
    return message


def _target(timeline: Timeline, latest: Message | None, message_id: str) -> Message:
    """The last message if a response may be folded into it, else a new one."""
    if (
        latest is not None
        and can_grow(latest, message_id, timeline.thread_id)
        and timeline.source_of(latest) != "context"
    ):
        return latest
    return _new_response(timeline, message_id)


def _new_response(timeline: Timeline, message_id: str) -> Message:
    """A new message at the end; it never takes the id, and so the place, of another one."""
    is_free = timeline.find(message_id) is None
    message = Message(role="assistant", content=MessageContent(parts=[]), id=message_id if is_free else "")
    timeline.complete(message)
    timeline.insert(message, "response")
    return message


def _current_response(timeline: Timeline) -> Message | None:
    responses = [message for message in timeline.of_source("response") if message.role == "assistant"]
    return responses[-1] if responses else None


def _open_step(
    timeline: Timeline, attempt: Attempt | None, message: Message, parts: Sequence[Part], model: str | None
) -> bool:
    """Put a ``step-start`` before the attempt's parts if there are others before them (R3.19); whether it did."""
    held = message.content.parts
    # Data that was written while the reply was streamed is there already, and belongs to the new step.
    size = len(held) if attempt is None else attempt.size_of(message)
    if not size or held[size - 1].type == "step-start" or parts[0].type == "step-start":
        return False
    timeline.open_step(message, size, StepStartPart(model=model))
    return True


def _mend(part: Part) -> None:
    """Streams break characters in two; what is stored and sent must be whole."""
    if isinstance(part, TextPart):
        part.text = well_formed(part.text)
    elif isinstance(part, ToolInvocationPart):
        invocation = part.tool_invocation
        invocation.args = well_formed_data(invocation.args)
        if invocation.result is not None:
            invocation.result = well_formed_data(invocation.result)
    elif isinstance(part, ReasoningPart):
        part.reasoning = well_formed(part.reasoning)
