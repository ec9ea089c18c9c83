"""The messages of a list in order of time, each of one source, with unique ids (R3.2, R3.12 to R3.14)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from operator import attrgetter, le
from time import time_ns
from typing import Literal, Protocol

import msgspec

from interlock.messages._part_index import PartIndex
from interlock.messages.parts import Message, MessageContent, Part, StepStartPart, TextPart

Source = Literal["input", "response", "memory", "context"]

SOURCES: tuple[Source, ...] = ("input", "response", "memory", "context")
_MESSAGE_ROLES = frozenset({"user", "assistant", "signal"})
_TICK = timedelta(milliseconds=1)
_SKEW = timedelta(seconds=5)
"""How far the clock of whoever wrote the history may be ahead of ours."""
_created_at = attrgetter("created_at")

Change = tuple[int, int]
"""Position of a message and of a part in it: everything before is as it was."""
_NO_CHANGE: Change = (2**62, 0)


class Snapshot(Protocol):
    """What has to know the messages as they are before somebody changes them."""

    def take(self, timeline: Timeline) -> None:
        """Note what the messages are."""
        ...


class Timeline(msgspec.Struct, eq=False):
    """Sorted by ``created_at``, ties in order of insertion."""

    thread_id: str | None
    """Given to messages that have none."""
    resource_id: str | None
    """Given to messages that have none."""
    generate_id: Callable[[], str]
    """Makes ids for messages that have none."""
    items: list[Message] = []
    is_exposed: bool = False
    """Whether somebody outside may hold messages of the list, and edit them in place; set by ``expose``."""
    waiting: Snapshot | None = None
    """A snapshot that is taken before the first change that it does not follow by itself."""
    growing: Message | None = None
    """The response, the newest message, as long as nothing but steps of the run that add to it changes the list."""
    orphans: dict[str, Message] = {}
    """Call id → the message made of a tool result whose call is not in the list (R3.5)."""
    revision: int = 0
    """Changes so far that were made through the list."""
    _by_id: dict[str, Message] = {}
    # Keyed by identity, because an id can be edited in place.
    _sources: dict[int, Source] = {}
    _counts: dict[Source, int] = msgspec.field(default_factory=dict.fromkeys(SOURCES, 0).copy)
    """How many messages each source has."""
    by_source: dict[Source | None, list[Message]] = {}
    """What ``of_source`` found since a message last came, went or moved."""
    _former: dict[str, Source] = {}
    _change: Change = _NO_CHANGE
    _index: PartIndex | None = None
    _dated: list[Message] = []
    """Messages that came without a date."""

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> Message | None:
        """The last message."""
        return self.items[-1] if self.items else None

    def find(self, message_id: str) -> Message | None:
        """The message of that id."""
        return self._by_id.get(message_id)

    def source_of(self, message: Message) -> Source | None:
        """The source of this very object; ``None`` if it is not in the list."""
        return self._sources.get(id(message))

    def last_source(self, message_id: str) -> Source | None:
        """The source of the message of that id, or the one it had when it was removed."""
        message = self._by_id.get(message_id)
        return self._former.get(message_id) if message is None else self.source_of(message)

    def count(self, source: Source) -> int:
        """How many messages one source has."""
        return self._counts[source]

    def of_source(self, source: Source | None) -> list[Message]:
        """The messages of one source or of all, as they are now, in order, for reading only.

        It is the same list for as long as no message comes, goes or moves.
        """
        found = self.by_source.get(source)
        if found is None:
            found = self.by_source[source] = list(self.items) if source is None else self._seek(source)
        return found

    def _seek(self, source: Source) -> list[Message]:
        """Costs as much as the list is long behind the first of the messages."""
        sources, wanted = self._sources, self._counts[source]
        if wanted == len(self.items):
            return list(self.items)
        found: list[Message] = []
        for message in reversed(self.items):
            if len(found) == wanted:
                break
            if sources.get(id(message)) == source:
                found.append(message)
        found.reverse()
        return found

    def position(self, message: Message) -> int:
        """Where this very object is, sought from the newest; -1 if it is not in the list."""
        items = self.items
        for position in range(len(items) - 1, -1, -1):
            if items[position] is message:
                return position
        return -1

    def index_of(self, message: Message) -> PartIndex:
        """An index of the message's parts, for now; the last one is kept while only the list can change messages."""
        index, parts = self._index, message.content.parts
        if index is None or index.parts is not parts or self.is_exposed:
            index = self._index = PartIndex(parts)
        else:
            index.read_on()
        return index

    def take_change(self) -> Change:
        """From where on the list changed since this was last asked."""
        change = self._change
        self._change = _NO_CHANGE
        return change

    # -- changing ------------------------------------------------------------------------------------------------

    def before_change(self) -> None:
        """To be called before any change but that of an ordinary step: takes the snapshot that waits."""
        self.growing = None
        snapshot = self.waiting
        if snapshot is not None:
            self.waiting = None
            snapshot.take(self)

    def expose(self) -> None:
        """From now on somebody outside may hold messages of the list, and edit them in place."""
        self.before_change()
        self.is_exposed = True

    def begin(self, role: str, content: MessageContent, message_id: str, source: Source) -> Message:
        """A new message of this moment, at the end. The id must be free; one is made if it is empty."""
        message = Message(
            role=role,
            content=content,
            id=message_id or self.generate_id(),
            created_at=self.next_time(),
            thread_id=self.thread_id,
            resource_id=self.resource_id,
        )
        self._dated.append(message)
        items = self.items
        self._by_id[message.id] = message
        self._sources[id(message)] = source
        self._counts[source] += 1
        self._note_order(len(items))
        items.append(message)
        return message

    def complete(self, message: Message) -> None:
        """Fill in what the message has not: id, date, thread, resource, parts (R3.5, R3.12, R3.13, R4.20)."""
        content = message.content
        if not content.parts and content.content:
            content.parts = [TextPart(text=content.content)]
        if not message.id:
            message.id = self.generate_id()
        moment = message.created_at
        if moment is None:
            message.created_at = self.next_time()
            self._dated.append(message)
        elif moment.tzinfo is None:
            message.created_at = moment.replace(tzinfo=UTC)
        self.place_in_thread(message)

    def place_in_thread(self, message: Message) -> None:
        """Fill in thread and resource (R3.5)."""
        if message.thread_id is None:
            message.thread_id = self.thread_id
        if message.resource_id is None:
            message.resource_id = self.resource_id

    def next_time(self) -> datetime:
        """Now, or a millisecond after the newest message (R3.13). JSON has milliseconds, so nothing finer."""
        now = datetime.fromtimestamp(time_ns() // 1_000_000 / 1000, UTC)
        newest = self.items[-1].created_at if self.items else None
        if newest is not None and (next_tick := newest + _TICK) > now:
            return next_tick
        return now

    def insert(self, message: Message, source: Source, position: int | None = None) -> None:
        """Put a complete message at its time, or at ``position``, which must fit its time."""
        items = self.items
        if position is None:
            if not items or message.created_at >= items[-1].created_at:  # type: ignore[operator]  # complete
                position = len(items)
            else:
                position = bisect_right(items, message.created_at, key=_created_at)
        items.insert(position, message)
        self._by_id[message.id] = message
        self._sources[id(message)] = source
        self._counts[source] += 1
        self._note_order(position)

    def extend(self, batch: list[Message], source: Source, *, merge: bool) -> bool:
        """Take in a whole batch at once, if nothing in it needs a closer look; otherwise do nothing.

        A closer look is needed for anything but new, dated, sorted user and assistant messages that merge with nothing.
        """
        if set(map(type, batch)) != {Message} or self.orphans:
            return False
        roles = [message.role for message in batch]
        if not _MESSAGE_ROLES.issuperset(roles) or (merge and source != "memory" and self._may_merge(roles)):
            return False
        by_id = {message.id: message for message in batch}
        if len(by_id) != len(batch) or "" in by_id or not self._by_id.keys().isdisjoint(by_id):
            return False
        if [message for message in batch if not message.content.parts]:
            return False
        position = self._place_of([message.created_at for message in batch])
        if position is None:
            return False
        if self.thread_id is not None or self.resource_id is not None:
            for message in batch:
                self.place_in_thread(message)
        self.items[position:position] = batch
        self._by_id.update(by_id)
        self._sources.update(zip(map(id, batch), repeat(source), strict=False))
        self._counts[source] += len(batch)
        self._note_order(position)
        return True

    def swap(self, old: Message, new: Message, source: Source) -> None:
        """Put ``new`` in the place of ``old``; it moves if it has a date that does not fit there (R3.15)."""
        position = self.position(old)
        if new.created_at is None:
            new.created_at = old.created_at
        new.id = new.id or old.id
        self.complete(new)
        self._forget(old)
        if new.created_at == old.created_at or self.fits(position, new.created_at):  # type: ignore[arg-type]  # complete
            self.items[position] = new
            self._by_id[new.id] = new
            self._sources[id(new)] = source
            self._counts[source] += 1
            self._note_order(position)
        else:
            del self.items[position]
            self._note_order(position)
            self.insert(new, source)

    def fits(self, position: int, moment: datetime) -> bool:
        """Whether the message at ``position`` could have that date."""
        items = self.items
        after = items[position + 1].created_at if position + 1 < len(items) else None
        before = items[position - 1].created_at if position else None
        return (before is None or before <= moment) and (after is None or moment <= after)

    def remove(self, messages: Iterable[Message]) -> list[Message]:
        """Remove these very objects; those that were in the list are returned in its order."""
        doomed = {id(message) for message in messages}
        removed = [message for message in self.items if id(message) in doomed] if doomed else []
        if removed:
            position = self.position(removed[0])
            self.items = [message for message in self.items if id(message) not in doomed]
            for message in removed:
                self._forget(message)
            self._note_order(position)
        return removed

    def set_source(self, message: Message, source: Source) -> None:
        """Move a message to another source."""
        former = self._sources.get(id(message))
        if former == source:
            return
        if former is not None:
            self._counts[former] -= 1
        self._sources[id(message)] = source
        self._counts[source] += 1
        self.by_source.clear()
        self.revision += 1

    def date_after_history(self) -> None:
        """Put this run's messages that came without a date behind history that seems to be a little newer.

        The previous answer may have been dated by a machine whose clock is ahead, or only a millisecond ago. What came
        without a date is said now, after all of history.
        """
        own = [message for message in self._dated if self.source_of(message) not in (None, "memory")]
        if not own:
            return
        undated = set(map(id, self._dated))
        stored = [message.created_at for message in self.of_source("memory") if id(message) not in undated]
        latest, moved = stored[-1] if stored else None, False
        for message in own:
            moment = message.created_at
            if latest is not None and moment is not None and moment <= latest <= moment + _SKEW:
                message.created_at = latest = latest + _TICK
                moved = True
        if moved:
            self.items.sort(key=_created_at)
            self._note_order(0)

    def touch(self, message: Message, part: int = 0) -> None:
        """Note that a message changed from a part on."""
        items = self.items
        is_newest = bool(items) and items[-1] is message
        change = (len(items) - 1 if is_newest else self.position(message), part)
        if change < self._change:
            self._change = change
        self.revision += 1

    def touch_part(self, message: Message, part: Part) -> None:
        """Note that this part of a message changed."""
        parts = message.content.parts
        position = len(parts) - 1
        while position > 0 and parts[position] is not part:
            position -= 1
        self.touch(message, position)

    def settle(self) -> None:
        """Take in ids and dates that were edited in place: sort again, find messages by their new ids."""
        items = self.items
        if not items:
            return
        moments = [message.created_at for message in items]
        if not _is_sorted(moments):
            for message in items:
                self.complete(message)
            items.sort(key=_created_at)
            self._note_order(0)
        if list(map(self._by_id.get, [message.id for message in items])) != items:
            self._by_id = {message.id: message for message in items}

    def drop_index(self) -> None:
        """Read parts again: they changed in another way than an index can follow."""
        self._index = None

    def open_step(self, message: Message, position: int, part: StepStartPart) -> None:
        """Begin a new step in a message of the list; what is before it stays as it was."""
        self.touch(message, position)
        parts = message.content.parts
        if position < len(parts):
            self.drop_index()
        parts.insert(position, part)

    def cut_parts(self, message: Message, position: int) -> None:
        """Remove a message's parts from a position on, and note the change."""
        self.touch(message, max(0, position - 1))
        del message.content.parts[position:]
        self.drop_index()

    def append_part(self, message: Message, part: Part) -> None:
        """Append one part to a message of the list, and note the change."""
        self.touch(message, max(0, len(message.content.parts) - 1))
        message.content.parts.append(part)

    def _may_merge(self, roles: list[str]) -> bool:
        newest = self.newest
        if newest is not None and newest.role == roles[0] == "assistant":
            return True
        return "assistant assistant" in " ".join(roles)

    def _place_of(self, moments: list[datetime | None]) -> int | None:
        """Where a sorted batch fits as a whole; ``None`` if it is not sorted, or does not fit in one piece."""
        first, last = moments[0], moments[-1]
        if first is None or last is None or first.tzinfo is None or not _is_sorted(moments):
            return None
        items = self.items
        if not items or items[-1].created_at <= first:  # type: ignore[operator]  # complete
            return len(items)
        position = bisect_right(items, first, key=_created_at)
        return position if bisect_right(items, last, key=_created_at) == position else None

    def _forget(self, message: Message) -> None:
        source = self._sources.pop(id(message), None)
        if source is not None:
            self._counts[source] -= 1
            self._former[message.id] = source
        if self._by_id.get(message.id) is message:
            del self._by_id[message.id]

    def _note_order(self, position: int) -> None:
        """Note that messages came, went or moved from a position on."""
        self.by_source.clear()
        change = (position, 0)
        if change < self._change:
            self._change = change
        self.revision += 1


def _is_sorted(moments: list[datetime | None]) -> bool:
    """Whether all are dates that can be compared, in order."""
    try:
        return all(map(le, moments, islice(moments, 1, None))) and moments[-1] is not None  # type: ignore[arg-type]
    except TypeError:
        return False
