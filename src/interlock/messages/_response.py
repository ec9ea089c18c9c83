"""What a run adds to its response while it goes on (R3.17 to R3.19, R4.7, R9.4 to R9.7)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock._text import well_formed, well_formed_data
from interlock.messages._attempt import Attempt
from interlock.messages._merge import append_part, can_grow, fold_parts
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
    texts, call_ids = _mend(parts)
    message = None
    if attempt is not None and timeline.waiting is attempt and not attempt.has_opened:
        message = _grow(timeline, attempt, parts, call_ids, message_id, model)
    if message is None:
        timeline.before_change()
        message = _fold(timeline, attempt, parts, message_id, model)
    if texts:
        message.content.content = texts[0] if len(texts) == 1 else "\n".join(texts)
    return message


def _grow(
    timeline: Timeline,
    attempt: Attempt,
    parts: Sequence[Part],
    call_ids: list[str],
    message_id: str,
    model: str | None,
) -> Message | None:
    """The ordinary step: it begins the response, or puts its parts behind those of the step before.

    The attempt's snapshot still waits. So nothing changed since the attempt began, and nobody but the list can have
    changed anything before: there is no data of this step in the response, and no edit of a hook.

    Returns:
        The message; ``None``, with nothing changed, if the step needs a closer look.
    """
    message = timeline.growing
    if message is None or message.id != message_id:
        newest = timeline.items[-1] if timeline.items else None
        if newest is not None and newest.role == "assistant":
            if newest.id != message_id or timeline.source_of(newest) != "response":
                return None
            if not can_grow(newest, message_id, timeline.thread_id):
                return None
            message = newest
        elif timeline.find(message_id) is not None:
            return None
        else:
            message = None
    if call_ids:
        known = timeline.index_of(message).calls if message is not None else {}
        if len(set(call_ids)) < len(call_ids) or not known.keys().isdisjoint(call_ids):
            return None
    if message is None:
        message = timeline.begin("assistant", MessageContent(parts=[]), message_id, "response")
        attempt.made.add(message.id)
    timeline.growing = message
    attempt.grow(message)
    attempt.has_opened = True
    held = message.content.parts
    if held:
        if held[-1].type == "step-start" or parts[0].type == "step-start":
            timeline.touch(message, len(held) - 1)
        else:
            timeline.touch(message, len(held))
            held.append(StepStartPart(model=model))
    held.append(parts[0])
    for part in parts[1:]:
        append_part(held, part)
    return message


def _fold(
    timeline: Timeline, attempt: Attempt | None, parts: Sequence[Part], message_id: str, model: str | None
) -> Message:
    """Any step: parts are folded into what is there, which hooks may have changed meanwhile; the message."""
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
    return message


def append_data_part(timeline: Timeline, attempt: Attempt | None, part: DataPart, message_id: str | None) -> Message:
    """Put a data part into the message of that id, or into the current response message; the message."""
    timeline.before_change()
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
    return timeline.begin("assistant", MessageContent(parts=[]), message_id if is_free else "", "response")


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


def _mend(parts: Sequence[Part]) -> tuple[list[str], list[str]]:
    """Make the parts whole, as what is stored and sent must be: streams break characters in two.

    Returns:
        Their texts, and the ids of their tool calls.
    """
    texts: list[str] = []
    call_ids: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            if not part.text.isascii():
                part.text = well_formed(part.text)
            if part.type == "text":
                texts.append(part.text)
        elif isinstance(part, ToolInvocationPart):
            invocation = part.tool_invocation
            call_ids.append(invocation.tool_call_id)
            invocation.args = well_formed_data(invocation.args)
            if invocation.result is not None:
                invocation.result = well_formed_data(invocation.result)
        elif isinstance(part, ReasoningPart):
            part.reasoning = well_formed(part.reasoning)
    return texts, call_ids
