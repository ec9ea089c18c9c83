"""``MessageList``: the one place where a run's conversation lives (runtime-spec section 3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from interlock._ids import new_id
from interlock.errors import InvalidMessageError
from interlock.messages._add import add_message, add_outcomes
from interlock.messages._attempt import Attempt
from interlock.messages._copying import copy_message
from interlock.messages._input import read_message, read_messages, text_content
from interlock.messages._model_output import is_stale, without_output
from interlock.messages._outcomes import find_owner, set_result, update_call, with_result
from interlock.messages._prompt_cache import PromptCache
from interlock.messages._reconcile import reconcile
from interlock.messages._response import append_data_part, append_response
from interlock.messages._system import FEEDBACK_TAG, SystemMessage, SystemMessages
from interlock.messages._timeline import SOURCES, Source, Timeline
from interlock.messages._views import Removals, Views
from interlock.messages.parts import DataPart, Message, Part, ReasoningPart, ToolInvocationPart, part_from_dict
from interlock.messages.prompt import PromptMessage
from interlock.messages.text import follow_reasoning, mirrored_text, texts_of

_log = logging.getLogger("interlock")

_SOURCE_NAMES: dict[str, Source] = {**{source: source for source in SOURCES}, "user": "input"}


class Changes(Protocol):
    """What tells whether the messages of a list can have changed."""

    @property
    def revision(self) -> int:
        """Rises with every change made through the list."""
        ...

    @property
    def is_exposed(self) -> bool:
        """Whether somebody outside may hold messages of the list, and edit them in place."""
        ...


class MessageList:
    """Messages of a conversation in order of time, each of one source, and the system messages before them.

    Sources are ``input`` (this call's messages; ``user`` is another name), ``response`` (what the run produced),
    ``memory`` (loaded history and recall) and ``context`` (sent, never saved). ``Message`` objects that are added are
    kept, not copied: what they lack (id, date, thread) is filled in, and later edits of them count. Not thread-safe
    (R3.27).

    Args:
        thread_id: Given to messages that have none.
        resource_id: Given to messages that have none.
        generate_message_id: Makes the ids of messages that have none; random UUIDs otherwise.
    """

    __slots__ = ("_attempt", "_cache", "_system", "_timeline", "changes")

    def __init__(
        self,
        thread_id: str | None = None,
        resource_id: str | None = None,
        generate_message_id: Callable[[], str] | None = None,
    ) -> None:
        self._timeline = Timeline(thread_id, resource_id, generate_message_id or new_id)
        self.changes: Changes = self._timeline
        """What the runtime looks at after every hook, without a call: whether anything can have changed."""
        self._system = SystemMessages()
        self._cache = PromptCache(self._timeline)
        self._attempt: Attempt | None = None

    def add(self, messages: Any, source: str, *, merge: bool = True) -> Self:
        """Add a string (a user's), a message of any shape, or a nested list of these (R3.3).

        ``None``, ``""`` and ``[]`` add nothing.
        An assistant message is folded into the last message of the list where that is one too (R3.17), unless ``merge``
        is false or the source is ``memory``. System messages go to the untagged system messages, those from ``memory``
        nowhere (R3.4). Tool results go into the calls they answer (R3.5), in the form of Chat Completions too.

        Raises:
            ValueError: there is no such source.
            InvalidMessageError: something is no message, or a content part of it has a type that nobody knows; the
                text tells the place. Nothing was added.
        """
        if _may_be_held(messages):
            self.expose()
        return self.take_over(messages, source, merge=merge)

    def take_over(self, messages: Any, source: str, *, merge: bool = True) -> Self:
        """``add`` for messages that nobody else holds: the list need not look whether somebody has edited them."""
        if source == "system":
            return self._add_only_system(messages)
        known_source = _source(source)
        timeline = self._timeline
        timeline.before_change()
        history, rest = _split(messages)
        is_plain = rest.__class__ is str and known_source != "memory"
        if is_plain and (not history or timeline.extend(history, known_source, merge=merge)):
            # What most calls give: a text, alone or behind earlier messages.
            if rest:
                timeline.begin("user", text_content(rest), "", known_source)
            return self
        read = list(read_messages(rest, len(history)))
        if history and not timeline.extend(history, known_source, merge=merge):
            read = [*read_messages(history), *read]
        for message in read:
            if message.role == "system":
                if known_source != "memory":
                    self._system.add(message)
            elif message.role == "tool":
                add_outcomes(timeline, message, known_source, merge=merge)
            else:
                add_message(timeline, message, known_source, merge=merge)
        if known_source == "memory":
            timeline.date_after_history()
        return self

    @property
    def get(self) -> Views:
        """``get.<all|input|response|remembered>.<db|ui|core|model>()`` (R3.6).

        ``get.all`` also has ``prompt()`` and ``llm_prompt()``.
        """
        return Views(self._timeline, self._system, self._cache)

    @property
    def clear(self) -> Removals:
        """``clear.<all|input|response>.db()`` removes and returns messages; system messages stay (R3.21)."""
        return Removals(self._timeline)

    # -- single messages -----------------------------------------------------------------------------------------

    def get_by_id(self, message_id: str) -> Message | None:
        """The live message of that id."""
        self.expose()
        return self._timeline.find(message_id)

    def parts_of(self, message_id: str) -> list[Part]:
        """The live parts of the message of that id, for reading only; none if there is no such message."""
        message = self._timeline.find(message_id)
        return [] if message is None else message.content.parts

    @property
    def revision(self) -> int:
        """A number that rises with every change made through the list; edits of live messages do not count."""
        return self._timeline.revision

    def remove_by_ids(self, ids: Iterable[str]) -> list[Message]:
        """Remove messages; those that were there are returned in order (R3.21)."""
        self._timeline.before_change()
        found = [self._timeline.find(message_id) for message_id in ([ids] if isinstance(ids, str) else ids)]
        return self._timeline.remove([message for message in found if message is not None])

    def replace(self, message_id: str, message: Message | Mapping[str, Any]) -> bool:
        """Put ``message`` in the place of the one of that id; whether there was one (R3.21).

        It takes over source and id, and the date if its own would move it.
        """
        self.expose()
        old = self._timeline.find(message_id)
        if old is None:
            return False
        new = read_message(message)
        if new is not old:
            self._timeline.before_change()
            source = self._timeline.source_of(old)
            assert source is not None
            new.id = old.id
            moment = new.created_at
            if moment is None or moment.tzinfo is None or not self._timeline.fits(self._timeline.position(old), moment):
                new.created_at = old.created_at
            self._timeline.swap(old, new, source)
        return True

    def source_of(self, message: Message | str) -> Source | None:
        """The source of a message, or of the message of that id; ``None`` if it is not in the list (R19.8)."""
        if isinstance(message, str):
            found = self._timeline.find(message)
        else:
            source = self._timeline.source_of(message)
            if source is not None:
                return source
            found = self._timeline.find(message.id)
        return None if found is None else self._timeline.source_of(found)

    def is_new_message(self, message: Message | str) -> bool:
        """Whether the message is of this run: source ``input`` or ``response`` (R3.26)."""
        return self.source_of(message) in ("input", "response")

    def make_source_checker(self) -> Callable[[Message | str], Source | None]:
        """A function that tells the source that a message, or the message of an id, has at this moment (R3.26)."""
        sources = {message.id: self._timeline.source_of(message) for message in self._timeline.items}
        return lambda message: sources.get(message if isinstance(message, str) else message.id)

    # -- tool calls ----------------------------------------------------------------------------------------------

    def find_tool_invocation(self, tool_call_id: str) -> ToolInvocationPart | None:
        """The newest call with that id, live."""
        part = self.peek_tool_invocation(tool_call_id)
        if part is not None:
            self.expose()
        return part

    def peek_tool_invocation(self, tool_call_id: str) -> ToolInvocationPart | None:
        """``find_tool_invocation`` for reading only."""
        found = find_owner(self._timeline, tool_call_id)
        return None if found is None else found[1]

    def update_tool_invocation(
        self, part: ToolInvocationPart | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Bring the newest call with the part's id to the part's state, in place (R3.20).

        The call's own arguments, title and ``provider_executed`` are kept, provider metadata is merged by namespace and
        key, and the message becomes one of source ``response`` (``context`` stays).

        Args:
            part: The new state.
            metadata: Merged into the message's ``content.metadata``.

        Returns:
            Whether there was such a call. If not, nothing is changed and a warning is logged.
        """
        update = part if isinstance(part, ToolInvocationPart) else part_from_dict(dict(part))
        if not isinstance(update, ToolInvocationPart) or not update.tool_invocation.tool_call_id:
            return False
        if update_call(self._timeline, self._attempt, update, metadata):
            return True
        call_id = update.tool_invocation.tool_call_id
        _log.warning("update_tool_invocation: no message has a tool call with id %r; nothing was changed", call_id)
        return False

    def record_result(self, part: ToolInvocationPart, result: Any, metadata: Mapping[str, Any] | None = None) -> bool:
        """Put a result into the newest call with the part's id, as ``update_tool_invocation`` does (R3.20, R10.7).

        Args:
            part: The call as the run knows it, most often the very part that the newest message has.
            result: What came of it.
            metadata: Merged into the call's provider metadata.

        Returns:
            Whether there was such a call.
        """
        if set_result(self._timeline, self._attempt, part, result, metadata):
            return True
        return self.update_tool_invocation(with_result(part, result, metadata))

    # -- system messages -----------------------------------------------------------------------------------------

    def add_system(self, messages: Any, tag: str | None = None) -> Self:
        """Add a string, a message or a list of these; what the bucket has already is not added again (R3.28).

        Raises:
            InvalidMessageError: one is no system message, or its content is not text.
        """
        self._system.add(messages, tag)
        return self

    def get_system_messages(self, tag: str | None = None) -> list[SystemMessage]:
        """Copies of the untagged system messages, or of one bucket (R3.29)."""
        return self._system.get(tag)

    def get_all_system_messages(self) -> list[SystemMessage]:
        """Copies of all system messages in the order of the prompt: untagged, then tagged (R3.29, R3.30)."""
        return self._system.get_all()

    def clear_system_messages(self, tag: str | None = None) -> None:
        """Remove the untagged system messages, or one bucket (R3.29)."""
        self._system.clear(tag)

    def replace_all_system_messages(self, messages: Iterable[Any]) -> None:
        """Make these the untagged system messages; entries of another role are skipped (R3.29)."""
        self._system.replace_untagged(messages)

    def set_feedback(self, text: str) -> None:
        """Tell the model why its attempt was rejected: one system message, after all others (R7.8)."""
        self._system.set_feedback(text)

    def clear_feedback(self) -> None:
        """Remove the feedback, once the step is accepted (R7.8)."""
        self._system.clear(FEEDBACK_TAG)

    # -- for the run ---------------------------------------------------------------------------------------------

    def stage(self, source: Source | None = None) -> list[Message]:
        """What a hook is given, of one source or of all, to ``reconcile`` against: for reading only.

        Only for that: unlike ``get``, it does not count as handing the messages out.
        """
        found = self._timeline.by_source.get(source)
        return self._timeline.of_source(source) if found is None else found

    def is_still(self, revision: int) -> bool:
        """Whether nothing can have changed since that ``revision``: through the list, or by an edit in place."""
        return revision == self._timeline.revision and not self._timeline.is_exposed

    def reconcile(
        self, returned: Sequence[Message | dict[str, Any]], stage: Sequence[Message], default_source: str
    ) -> None:
        """Make the list agree with what a hook returned (R3.22, R3.23).

        Args:
            returned: The hook's list.
            stage: The messages that the hook was given, as they were before it ran; another list than it could change.
            default_source: Source of messages that are new.

        Raises:
            InvalidMessageError: an element is no message; nothing was changed.
        """
        self._timeline.before_change()
        self.expose()
        reconcile(self._timeline, self._system, returned, stage, _source(default_source))

    def refresh_mirrors(self) -> None:
        """Make what is noted beside the parts of messages that hooks may have edited follow these parts.

        That is the legacy ``content.content`` (R4.2), what models are told in place of a tool's result (R4.11), and the
        details of reasoning (R4.15).
        """
        if not self._timeline.is_exposed:
            return
        for message in self._timeline.items:
            content = message.content
            if content.content is not None:
                content.content = mirrored_text(content)
            for part in content.parts:
                if part.__class__ is ReasoningPart:
                    follow_reasoning(part)
            for part in content.parts:
                if part.provider_metadata is not None and isinstance(part, ToolInvocationPart) and is_stale(part):
                    part.provider_metadata = without_output(part.provider_metadata)

    def forget_removed_texts(self) -> None:
        """Empty the legacy mirror of messages whose parts were all removed in place: the parts are the truth (R4.2).

        Without parts, the mirror would count as the text (R4.20); messages that came so have it as a part.
        """
        if not self._timeline.is_exposed:
            return
        for message in self._timeline.items:
            content = message.content
            if not content.parts and content.content is not None:
                content.content = None

    def expose(self) -> None:
        """Somebody is handed live messages, and may edit them in place."""
        self._timeline.expose()

    def append_response(self, parts: list[Part], *, message_id: str, model: str | None = None) -> Message | None:
        """Add what an attempt produced, as ``add`` adds an assistant message of source ``response`` (R3.17 to R3.19).

        Args:
            parts: The parts; they are kept, not copied.
            message_id: Id of the response message if it is a new one. If another message has it that is not the last
                one any more, the new one gets an id of its own.
            model: Recorded on the ``step-start`` that is put before the parts if the message has parts already.

        Returns:
            The live message that holds the parts, to be changed only through the list; ``None`` if there are no parts.
        """
        return append_response(self._timeline, self._attempt, parts, message_id, model) if parts else None

    def append_data_part(self, part: DataPart, *, message_id: str | None = None) -> Message:
        """Add a data part to the message of that id, else to the current response message; both are made if missing.

        The message that is made has the given id (R9.4, R9.6).
        """
        return append_data_part(self._timeline, self._attempt, part, message_id)

    def response_parts(self) -> list[Part]:
        """All parts of the response messages, live, for reading only."""
        return [part for message in self._timeline.of_source("response") for part in message.content.parts]

    def response_text(self) -> str:
        """All text of the response messages, without anything between (R12.20)."""
        messages = self._timeline.of_source("response")
        return "".join(text for message in messages for text in texts_of(message.content.parts))

    def prompt_for_model(self) -> list[PromptMessage]:
        """The provider prompt, as ``get.all.llm_prompt()``, but converted only once and shared.

        The list is new, the messages in it are for reading: an edit of one would be in later prompts too.
        """
        system = self._system
        return [*system.get_all(), *self._cache.prompt()] if system else self._cache.prompt()

    @property
    def has_sent_files(self) -> bool:
        """Whether a message with a file was ever part of the prompt."""
        return self._cache.has_files

    def response_snapshot(self) -> Attempt:
        """Remember the response before an attempt, for ``restore_response`` (R7.9)."""
        self._attempt = attempt = Attempt()
        attempt.take(self._timeline)
        self._timeline.waiting = None
        return attempt

    def begin_attempt(self) -> None:
        """``response_snapshot`` of what only the next ``restore_response`` may need: it waits for the first change."""
        self._attempt = self._timeline.waiting = Attempt()
        if self._timeline.is_exposed:
            self._timeline.before_change()

    def restore_response(self, snapshot: Attempt | None = None) -> None:
        """Take out what response messages gained since the snapshot, by default the last one taken (R7.9).

        Parts, data parts, results of calls that were pending, and messages of source ``response`` that were not there.
        Everything of another source stays, and what was removed since stays removed.
        """
        attempt = snapshot or self._attempt
        if attempt is not None:
            self._timeline.before_change()
            attempt.undo(self._timeline)

    # -- copies --------------------------------------------------------------------------------------------------

    def fork(self) -> MessageList:
        """A deep copy, for a branch that must not be seen by others (R16.6)."""
        twin = MessageList(self._timeline.thread_id, self._timeline.resource_id, self._timeline.generate_id)
        twin._system = SystemMessages.from_dict(self._system.to_dict())
        for message in self._timeline.items:
            source = self._timeline.source_of(message)
            assert source is not None
            twin._timeline.insert(copy_message(message), source, len(twin._timeline.items))
        return twin

    def adopt(self, fork: MessageList) -> None:
        """Become what ``fork`` has become: its messages, their sources, its system messages (R16.6).

        What the branch left as it was, messages and parts of them, stays the same object; what it changed is its own.
        """
        timeline, branch = self._timeline, fork._timeline
        timeline.before_change()
        branch.settle()
        timeline.settle()
        timeline.remove([message for message in timeline.items if branch.find(message.id) is None])
        for message in list(branch.items):
            source = branch.source_of(message)
            assert source is not None
            known = timeline.find(message.id)
            if known is None:
                timeline.insert(message, source)
            elif known != message:
                if self._attempt is not None:
                    self._attempt.remember(known, timeline)
                message.content.parts = _unchanged(known.content.parts, message.content.parts)
                timeline.swap(known, message, source)
            else:
                timeline.set_source(known, source)
        self._system = SystemMessages.from_dict(fork._system.to_dict())

    def serialize(self) -> dict[str, Any]:
        """All messages, their sources and the system messages as JSON data (R3.26)."""
        self._timeline.before_change()
        self._timeline.settle()
        out: dict[str, Any] = {
            "threadId": self._timeline.thread_id,
            "resourceId": self._timeline.resource_id,
            "messages": [
                {"source": self._timeline.source_of(message), "message": message.to_dict()}
                for message in self._timeline.items
            ],
            "system": self._system.to_dict(),
        }
        if self._attempt is not None:
            out["attempt"] = self._attempt.to_dict()
        return out

    @classmethod
    def deserialize(cls, data: Mapping[str, Any], generate_message_id: Callable[[], str] | None = None) -> MessageList:
        """The list that ``serialize`` made ``data`` of.

        Raises:
            ValueError: a source in ``data`` is none.
        """
        restored = cls(data.get("threadId"), data.get("resourceId"), generate_message_id)
        restored._system = SystemMessages.from_dict(data["system"])
        for entry in data["messages"]:
            message = Message.from_dict(entry["message"])
            restored._timeline.insert(message, _source(entry["source"]), len(restored._timeline.items))
        if data.get("attempt") is not None:
            restored._attempt = Attempt.from_dict(data["attempt"])
        return restored

    def __len__(self) -> int:
        return len(self._timeline.items)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        counts = {source: len(self._timeline.of_source(source)) for source in SOURCES}
        told = ", ".join(f"{source}={count}" for source, count in counts.items() if count)
        return f"MessageList(thread_id={self._timeline.thread_id!r}{', ' if told else ''}{told})"

    def _add_only_system(self, messages: Any) -> Self:
        read = list(read_messages(messages))
        for message in read:
            if message.role != "system":
                raise InvalidMessageError(
                    f"source 'system' is for messages of role 'system', not {message.role!r}; "
                    "use add_system(text) for a system text, or source 'input'",
                    code="INVALID_SYSTEM_MESSAGE_FORMAT",
                )
        for message in read:
            self._system.add(message)
        return self


def _unchanged(parts: list[Part], changed: list[Part]) -> list[Part]:
    """``changed``, with the objects of ``parts`` where they are equal."""
    return [parts[i] if i < len(parts) and parts[i] == part else part for i, part in enumerate(changed)]


def _split(messages: Any) -> tuple[list[Any], Any]:
    """What a store may have given, to be taken in at once, and what was said since: texts, messages without a date."""
    if messages.__class__ is not list:
        return [], messages
    size = len(messages)
    while size and (messages[size - 1].__class__ is not Message or messages[size - 1].created_at is None):
        size -= 1
    rest = messages[size:]
    return messages[:size], rest[0] if len(rest) == 1 and rest[0].__class__ is str else rest


def _may_be_held(given: Any) -> bool:
    """Whether whoever gave messages may edit them later: anything but texts can be held and changed."""
    if given is None or isinstance(given, str):
        return False
    if isinstance(given, (list, tuple)):
        return any(map(_may_be_held, given))
    return not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values())


def _source(name: str) -> Source:
    source = _SOURCE_NAMES.get(name)
    if source is None:
        known = ", ".join(repr(known) for known in (*SOURCES, "user", "system"))
        raise ValueError(f"there is no message source {name!r}; the sources are {known}")
    return source
