"""Makes a list agree with the list of messages that a hook returned (R3.22, R3.23)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from operator import is_
from typing import Any

from interlock.errors import InvalidMessageError
from interlock.messages._add import add_outcomes
from interlock.messages._input import INVALID_CONTENT, read_message
from interlock.messages._system import SystemMessages
from interlock.messages._timeline import Source, Timeline
from interlock.messages.parts import Message

_TICK = timedelta(milliseconds=1)


def reconcile(
    timeline: Timeline,
    system: SystemMessages,
    returned: Sequence[Message | dict[str, Any]],
    stage: Sequence[Message],
    default_source: Source,
) -> None:
    """Remove what the hook left out of its stage messages, replace what it rewrote, add what is new.

    Raises:
        InvalidMessageError: an element is no message; nothing was changed.
    """
    timeline.settle()
    if len(returned) == len(timeline.items) and all(map(is_, returned, timeline.items)):
        if any(message.role == "system" for message in timeline.items):
            _hoist_system(timeline, system)
        return
    wanted = _last_of_each_id([_element(item) for item in returned])
    _remove_left_out(timeline, stage, wanted)
    wanted_ids = {message.id for message in wanted}
    first = next((message for message in timeline.items if message.id in wanted_ids), None)
    predecessor: Message | None = None
    leading: list[tuple[Message, Source]] = []
    for message in wanted:
        if message.role == "system":
            system.add(message)
            timeline.remove([message, *_namesake(timeline, message)])
            continue
        if message.role == "tool":
            add_outcomes(timeline, message, default_source, merge=False)
            continue
        for old in _namesake(timeline, message):
            if old.content.parts and not message.content.parts:
                # A copy without the parts still has the mirror of their text (R4.2).
                message.content.content = None
        source = (timeline.last_source(message.id) if message.id else None) or default_source
        if timeline.source_of(message) is None:
            timeline.place_in_thread(message)
            if not _put(timeline, message, source, predecessor, first):
                leading.append((message, source))
                continue
        if leading:
            _put_before(timeline, leading, message)
            leading = []
        predecessor = message
    for message, source in leading:
        timeline.remove(_namesake(timeline, message))
        timeline.complete(message)
        timeline.insert(message, source)


def _element(item: Any) -> Message:
    if isinstance(item, str):
        raise InvalidMessageError(
            "a returned list holds Message objects or dicts, not str; message_list.add(text, 'input') adds a text",
            code=INVALID_CONTENT,
        )
    return read_message(item)


def _remove_left_out(timeline: Timeline, stage: Sequence[Message], wanted: Sequence[Message]) -> None:
    kept_ids = {message.id for message in wanted}
    kept_objects = set(map(id, wanted))
    left_out = [known for known in stage if id(known) not in kept_objects and known.id not in kept_ids]
    # What has the id of a stage message goes with it, though a hook may have put another object in its place.
    timeline.remove([timeline.find(known.id) or known for known in left_out])


def _last_of_each_id(messages: list[Message]) -> list[Message]:
    last = {message.id: message for message in messages if message.id}
    return [message for message in messages if not message.id or last[message.id] is message]


def _namesake(timeline: Timeline, message: Message) -> list[Message]:
    known = timeline.find(message.id) if message.id else None
    return [] if known is None or known is message else [known]


def _hoist_system(timeline: Timeline, system: SystemMessages) -> None:
    """Messages that were turned into system messages in place go where these are (R2.9)."""
    for message in [message for message in timeline.items if message.role == "system"]:
        system.add(message)
        timeline.remove([message])


def _put(
    timeline: Timeline, message: Message, source: Source, predecessor: Message | None, first: Message | None
) -> bool:
    """Add one message that is not in the list, in place of its namesake; ``False`` if its place is not yet known.

    ``predecessor`` is the message before it in the returned list, ``first`` the first one of the list that is returned.
    """
    for old in _namesake(timeline, message):
        position = timeline.position(old)
        stays = old is first if predecessor is None else timeline.items[position - 1] is predecessor
        if message.created_at is not None or stays:
            timeline.swap(old, message, source)
            return True
        timeline.remove([old])
    if message.created_at is not None:
        timeline.complete(message)
        timeline.insert(message, source)
    elif predecessor is not None:
        _put_after(timeline, message, source, predecessor)
    else:
        return False
    return True


def _put_after(timeline: Timeline, message: Message, source: Source, predecessor: Message) -> None:
    """Date it a millisecond after its predecessor, or the same if there is no room, and put it there (R3.23)."""
    position = timeline.position(predecessor) + 1
    moment = predecessor.created_at
    assert moment is not None
    following = timeline.items[position].created_at if position < len(timeline.items) else None
    message.created_at = moment if following is not None and moment + _TICK >= following else moment + _TICK
    timeline.complete(message)
    timeline.insert(message, source, position)


def _put_before(timeline: Timeline, leading: list[tuple[Message, Source]], successor: Message) -> None:
    """Put undated messages that begin a returned list directly before the first dated one, in order (R3.23)."""
    for message, _ in leading:
        timeline.remove(_namesake(timeline, message))
    position = timeline.position(successor)
    moment = successor.created_at
    assert moment is not None
    before = timeline.items[position - 1].created_at if position else None
    has_room = before is None or before < moment - len(leading) * _TICK
    for index, (message, source) in enumerate(leading):
        message.created_at = moment - (len(leading) - index) * _TICK if has_room else moment
        timeline.complete(message)
        timeline.insert(message, source, position + index)
