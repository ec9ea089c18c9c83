"""What response messages were before an attempt, so that a rejected attempt can be taken out again (R7.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from interlock.messages._copying import copy_data
from interlock.messages._part_index import PartIndex
from interlock.messages._timeline import Source, Timeline
from interlock.messages.parts import Message, Part, ToolInvocation, ToolInvocationPart


class _Before(msgspec.Struct):
    """One message before the attempt."""

    source: Source
    size: int
    """Number of its parts."""
    steps: int
    """Number of ``step-start`` parts among them."""
    pending: list[tuple[int, ToolInvocationPart]]
    """Copies of the calls that had no outcome, each with how many calls of its id were before it."""
    content: str | None
    metadata: dict[str, Any] | None
    mirror: list[dict[str, Any]] | None
    held: list[Part] = []
    """The parts themselves, as long as the attempt is not restored from JSON."""


class Attempt(msgspec.Struct, eq=False):
    """A snapshot of the messages that an attempt may add to. Plain data, keyed by message id.

    Most attempts add their parts to the response and are accepted. So the snapshot waits: as long as nothing but the
    attempt itself adds to the newest message, all there is to know is where the attempt's parts begin. ``take`` makes
    it whole before anything else changes a message, or can.
    """

    made: set[str] = set()
    """Ids of messages that the attempt began."""
    has_opened: bool = False
    """Whether the attempt has put its ``step-start`` or its first parts into the list."""
    _before: dict[str, _Before] = {}
    _grown: Message | None = None
    """The message that the attempt added to while the snapshot waited."""
    _size: int = 0
    """How many parts it had, and what its text was."""
    _text: str | None = None

    def grow(self, message: Message) -> None:
        """Note that from now on the attempt adds parts to this message; nothing of what it has is changed."""
        self._grown, self._size, self._text = message, len(message.content.parts), message.content.content

    def has_added(self, message: Message, position: int) -> bool:
        """Whether the message's part at ``position`` is the attempt's own, added while the snapshot waited."""
        return message is self._grown and position >= self._size

    def take(self, timeline: Timeline) -> None:
        """Take the snapshot: response messages, and the assistant message that a response may be merged into."""
        newest, seen = timeline.newest, 0
        if newest is not None and newest.role == "assistant":
            self.remember(newest, timeline)
            seen = int(timeline.source_of(newest) == "response")
        if timeline.count("response") > seen:
            for message in timeline.of_source("response"):
                self.remember(message, timeline)
        self._grown = None

    def remember(self, message: Message, timeline: Timeline) -> None:
        """Note what a message is before the attempt changes it, once."""
        message_id = message.id
        if message_id in self._before or message_id in self.made:
            return
        source = timeline.source_of(message)
        if source is None:
            return
        content = message.content
        if message is self._grown:
            held, text = content.parts[: self._size], self._text
            index = PartIndex(held)
        else:
            held, text = list(content.parts), content.content
            index = timeline.index_of(message)
        self._before[message_id] = _Before(
            source,
            len(held),
            index.steps,
            _pending_copies(held) if index.has_open_calls() else [],
            text,
            None if content.metadata is None else dict(content.metadata),
            None if content.tool_invocations is None else list(content.tool_invocations),
            held,
        )

    def size_of(self, message: Message) -> int:
        """How many parts the message had before the attempt."""
        before = self._before.get(message.id)
        return 0 if before is None else min(before.size, len(message.content.parts))

    def undo(self, timeline: Timeline) -> None:
        """Take out what response messages gained, and put pending calls back to what they were."""
        timeline.remove([message for message in timeline.of_source("response") if message.id not in self._before])
        for message_id, before in self._before.items():
            message = timeline.find(message_id)
            if message is None or message.role != "assistant":
                continue  # somebody removed it, or put a message in its place that no attempt adds to
            content = message.content
            timeline.cut_parts(message, min(_cut(message, before), len(content.parts)))
            if before.pending:
                calls = {(nth, part.tool_invocation.tool_call_id): part for nth, part in _numbered(content.parts)}
                for nth, kept in before.pending:
                    part = calls.get((nth, kept.tool_invocation.tool_call_id))
                    if part is not None:
                        _put_back(part, kept)
                        timeline.touch_part(message, part)
            content.content, content.metadata, content.tool_invocations = before.content, before.metadata, before.mirror
            timeline.set_source(message, before.source)
        self.has_opened = False

    def to_dict(self) -> dict[str, Any]:
        """JSON form, for ``from_dict``."""
        return {
            "hasOpened": self.has_opened,
            "made": sorted(self.made),
            "before": {
                message_id: {
                    "source": before.source,
                    "size": before.size,
                    "steps": before.steps,
                    "pending": [{"nth": nth, "part": part.to_dict()} for nth, part in before.pending],
                    "content": before.content,
                    "metadata": copy_data(before.metadata),
                    "toolInvocations": copy_data(before.mirror),
                }
                for message_id, before in self._before.items()
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """Read the JSON form."""
        attempt = cls()
        attempt.has_opened = data["hasOpened"]
        attempt.made = set(data["made"])
        for message_id, before in data["before"].items():
            pending = [(entry["nth"], ToolInvocationPart.from_dict(entry["part"])) for entry in before["pending"]]
            attempt._before[message_id] = _Before(
                source=before["source"],
                size=before["size"],
                steps=before["steps"],
                pending=pending,
                content=before["content"],
                metadata=copy_data(before["metadata"]),
                mirror=copy_data(before["toolInvocations"]),
            )
        return attempt


def _pending_copies(parts: Iterable[Part]) -> list[tuple[int, ToolInvocationPart]]:
    return [(nth, copy_data(part)) for nth, part in _numbered(parts) if part.tool_invocation.is_pending]


def _numbered(parts: Iterable[Part]) -> Iterator[tuple[int, ToolInvocationPart]]:
    """The tool calls among a message's parts, each with how many calls of its id were before it."""
    seen: Counter[str] = Counter()
    for part in parts:
        if isinstance(part, ToolInvocationPart):
            call_id = part.tool_invocation.tool_call_id
            yield seen[call_id], part
            seen[call_id] += 1


def _cut(message: Message, before: _Before) -> int:
    """Where the attempt's parts begin.

    Hooks may have replaced, edited or removed parts meanwhile. The ``step-start`` that opened the attempt is the border
    that survives most of this; without one, the last part that was there before is; without that, their number.
    """
    steps = 0
    for position, part in enumerate(message.content.parts):
        if part.type == "step-start":
            steps += 1
            if steps > before.steps:
                return position
    held, calls = set(map(id, before.held)), set(_call_ids(before.held))
    parts = message.content.parts
    known = [at for at, part in enumerate(parts) if id(part) in held or not calls.isdisjoint(_call_ids([part]))]
    return known[-1] + 1 if known else before.size


def _call_ids(parts: Iterable[Part]) -> list[str]:
    return [part.tool_invocation.tool_call_id for part in parts if isinstance(part, ToolInvocationPart)]


def _put_back(part: ToolInvocationPart, kept: ToolInvocationPart) -> None:
    invocation: ToolInvocation = copy_data(kept.tool_invocation)
    current = part.tool_invocation
    for name in current.__struct_fields__:
        setattr(current, name, getattr(invocation, name))
    for name in ("provider_executed", "title", "preliminary", "provider_metadata"):
        setattr(part, name, copy_data(getattr(kept, name)))
