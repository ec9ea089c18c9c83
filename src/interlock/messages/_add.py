"""What becomes of one message that is added to a list (R3.5, R3.15 to R3.18)."""

from __future__ import annotations

from interlock.messages._merge import (
    can_merge,
    find_call,
    merge_message,
    mirror_invocation,
    pending_tool_invocations,
    same_content,
    take_outcomes,
    update_invocation,
)
from interlock.messages._timeline import Source, Timeline
from interlock.messages.parts import Message, MessageContent, Part, ToolInvocationPart


def add_message(timeline: Timeline, message: Message, source: Source, *, merge: bool) -> None:
    """Add a user, assistant or signal message."""
    if timeline.orphans:
        source = _claim_orphans(timeline, message, source)
    known = timeline.find(message.id) if message.id else None
    if known is not None:
        _meet(timeline, known, message, source, merge=merge)
        return
    timeline.place_in_thread(message)
    if merge and _try_merge(timeline, message, source):
        return
    timeline.complete(message)
    timeline.insert(message, source)


def add_outcomes(timeline: Timeline, message: Message, source: Source, *, merge: bool) -> None:
    """Put the tool results of a ``tool`` message into the calls they answer (R3.5).

    A second result of a call is ignored. Results without a call become an assistant message, so that nothing is lost.
    """
    rest: list[Part] = []
    for part in message.content.parts:
        holder = _holder(timeline, part) if isinstance(part, ToolInvocationPart) else None
        if holder is None:
            rest.append(part)
            continue
        owner, call = holder
        if call.tool_invocation.is_pending:
            update_invocation(call, part, keep_args=call.tool_invocation.args not in (None, {}))  # type: ignore[arg-type]
            mirror_invocation(owner, call)
            timeline.touch(owner)
            if source not in ("memory", "context") and timeline.source_of(owner) != "context":
                timeline.set_source(owner, source)
    if not rest:
        return
    is_free = bool(message.id) and timeline.find(message.id) is None
    made = Message(
        role="assistant",
        content=MessageContent(parts=rest),
        id=message.id if is_free else "",
        created_at=message.created_at,
        thread_id=message.thread_id,
        resource_id=message.resource_id,
    )
    add_message(timeline, made, source, merge=merge)
    for part in rest:
        if isinstance(part, ToolInvocationPart):
            home = _holder(timeline, part)
            if home is not None:
                timeline.orphans[part.tool_invocation.tool_call_id] = home[0]


def _holder(timeline: Timeline, outcome: ToolInvocationPart) -> tuple[Message, ToolInvocationPart] | None:
    """The call that an outcome answers: a pending one if there is one, in the newest message that has such a call.

    Providers repeat ids, or give empty ones; several calls of one message that share an id are answered in order.
    """
    answered: tuple[Message, ToolInvocationPart] | None = None
    call_id, name = outcome.tool_invocation.tool_call_id, outcome.tool_invocation.tool_name
    for message in reversed(timeline.items):
        if message.role != "assistant":
            continue
        for part in message.content.parts:
            if not isinstance(part, ToolInvocationPart) or part.tool_invocation.tool_call_id != call_id:
                continue
            if part.tool_invocation.is_pending and (call_id or part.tool_invocation.tool_name == name):
                return message, part
            if call_id and answered is None:
                answered = message, part
    return answered


def _meet(timeline: Timeline, known: Message, message: Message, source: Source, *, merge: bool) -> None:
    """A message arrives whose id is in the list (R3.15, R3.16)."""
    timeline.place_in_thread(message)
    if known is message or same_content(known, message):
        return
    if source == "memory" and timeline.source_of(known) != "memory":
        if take_outcomes(known, message):
            timeline.touch(known)
        return
    if merge and known is timeline.newest and _try_merge(timeline, message, source):
        return
    timeline.swap(known, message, source)


def _try_merge(timeline: Timeline, message: Message, source: Source) -> bool:
    latest = timeline.newest
    if latest is None or source == "memory" or not can_merge(latest, message):
        return False
    # Context is never saved and everything else may be, so the two stay apart.
    if (source == "context") is not (timeline.source_of(latest) == "context"):
        return False
    timeline.touch(latest)
    merge_message(latest, message)
    timeline.set_source(latest, source)
    return True


def _claim_orphans(timeline: Timeline, message: Message, source: Source) -> Source:
    """Give pending calls of ``message`` the results that arrived before it; the source it has then (R3.15).

    A client that sends only the result of its tool, while the call is in stored history, resolves the stored call: the
    stored message then counts as new, and is saved with its result.
    """
    for part in pending_tool_invocations(message):
        call_id = part.tool_invocation.tool_call_id
        holder = timeline.orphans.pop(call_id, None)
        held_as = timeline.source_of(holder) if holder is not None else None
        if holder is None or held_as is None:
            continue
        outcome = find_call(holder.content.parts, call_id)
        if outcome is None:
            continue
        update_invocation(part, outcome, keep_args=part.tool_invocation.args not in (None, {}))
        mirror_invocation(message, part)
        holder.content.parts = [part for part in holder.content.parts if part is not outcome]
        if all(part.type == "step-start" for part in holder.content.parts):
            timeline.remove([holder])
        else:
            timeline.touch(holder)
        if source == "memory" and held_as != "context":
            source = held_as
    return source
