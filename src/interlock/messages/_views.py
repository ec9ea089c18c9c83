"""What ``message_list.get`` and ``message_list.clear`` offer (R3.6 to R3.8, R3.21)."""

from __future__ import annotations

from typing import Any

from interlock.messages._copying import copy_data
from interlock.messages._core import core_messages, model_messages
from interlock.messages._prompt_cache import PromptCache
from interlock.messages._system import SystemMessages
from interlock.messages._timeline import Source, Timeline
from interlock.messages._ui import to_ui_message
from interlock.messages.parts import Message
from interlock.messages.prompt import PromptMessage


class View:
    """Some of a list's messages, in order, in any format. Every call builds a new list."""

    __slots__ = ("_source", "_timeline")

    def __init__(self, timeline: Timeline, source: Source | None) -> None:
        self._timeline = timeline
        self._source = source

    def db(self) -> list[Message]:
        """The live messages: an edit of one is seen by everybody."""
        self._timeline.expose()
        return list(self._messages())

    def ui(self) -> list[dict[str, Any]]:
        """Copies as a chat client shows them (R3.10)."""
        return [to_ui_message(message) for message in self._messages()]

    def core(self) -> list[dict[str, Any]]:
        """Copies in core shape: calls have ``args``, results ``result``."""
        return [one for message in self._messages() for one in core_messages(message)]

    def model(self) -> list[dict[str, Any]]:
        """Copies in model shape: calls have ``input``, results ``output``."""
        return [one for message in self._messages() for one in model_messages(message)]

    def _messages(self) -> list[Message]:
        return self._timeline.items if self._source is None else self._timeline.of_source(self._source)


class AllView(View):
    """All messages; only they make a prompt."""

    __slots__ = ("_cache", "_system")

    def __init__(self, timeline: Timeline, system: SystemMessages, cache: PromptCache) -> None:
        super().__init__(timeline, None)
        self._system = system
        self._cache = cache

    def prompt(self) -> list[dict[str, Any]]:
        """System messages and the messages in model shape, without unanswered calls."""
        converted = [one for message in self._messages() for one in model_messages(message, keep_pending=False)]
        return [*self._system.get_all(), *converted]

    def llm_prompt(self) -> list[PromptMessage]:
        """The provider prompt (R4.9), as a copy that may be edited."""
        return [*self._system.get_all(), *map(copy_data, self._cache.prompt())]


class Views:
    """``message_list.get``."""

    __slots__ = ("_cache", "_system", "_timeline")

    def __init__(self, timeline: Timeline, system: SystemMessages, cache: PromptCache) -> None:
        self._timeline = timeline
        self._system = system
        self._cache = cache

    @property
    def all(self) -> AllView:
        """Every message."""
        return AllView(self._timeline, self._system, self._cache)

    @property
    def input(self) -> View:
        """This call's messages."""
        return View(self._timeline, "input")

    @property
    def response(self) -> View:
        """What this run produced."""
        return View(self._timeline, "response")

    @property
    def remembered(self) -> View:
        """Loaded history and recall."""
        return View(self._timeline, "memory")


class Removal:
    """Some of a list's messages, to be removed."""

    __slots__ = ("_source", "_timeline")

    def __init__(self, timeline: Timeline, source: Source | None) -> None:
        self._timeline = timeline
        self._source = source

    def db(self) -> list[Message]:
        """Remove them; they are returned in order."""
        self._timeline.before_change()
        return self._timeline.remove(self._timeline.of_source(self._source))


class Removals:
    """``message_list.clear``; system messages stay."""

    __slots__ = ("_timeline",)

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    @property
    def all(self) -> Removal:
        """Every message, ``context`` and ``memory`` too."""
        return Removal(self._timeline, None)

    @property
    def input(self) -> Removal:
        """This call's messages."""
        return Removal(self._timeline, "input")

    @property
    def response(self) -> Removal:
        """What this run produced."""
        return Removal(self._timeline, "response")
