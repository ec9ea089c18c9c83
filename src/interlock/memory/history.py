"""The processor that loads a thread before a run and saves it after the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from interlock._json import by_name
from interlock.context import MEMORY_KEY, RequestContext
from interlock.errors import ConfigurationError
from interlock.memory.threads import MemoryStore, Thread, owner_of
from interlock.messages import MessageList, saved_forms
from interlock.processors import ProcessInputArgs, Processor, ProcessOutputResultArgs

DEFAULT_LAST_MESSAGES = 10

CLOCK_SKEW = timedelta(minutes=1)
"""How far apart the clocks of machines that share a thread may be."""

_TICK = timedelta(milliseconds=1)


class HistoryOptions(msgspec.Struct, kw_only=True, frozen=True):
    """How a thread is loaded and saved (R13.5, R13.14).

    Raises:
        ConfigurationError: a value that cannot work.
    """

    last_messages: int | Literal[False] | None = DEFAULT_LAST_MESSAGES
    """How many messages are loaded; ``None`` for all, ``False`` to neither load nor save."""
    read_only: bool = False
    """Load, but never save."""

    def __post_init__(self) -> None:
        last = self.last_messages
        if last is True or not (last is None or (isinstance(last, int) and last >= 0)):
            raise ConfigurationError(
                f"last_messages must be the number of messages to load, None for all of them or False for no history, "
                f"got {last!r}"
            )
        if not isinstance(self.read_only, bool):
            raise ConfigurationError(f"read_only must be True or False, got {self.read_only!r}")

    def overridden(self, options: Mapping[str, Any]) -> HistoryOptions:
        """These options with those of one call on top, in either spelling.

        Raises:
            ConfigurationError: an unknown option, one in both spellings, or a value that cannot work.
        """
        if not options:
            return self
        try:
            given = by_name(options, self.__struct_fields__)
        except ValueError as error:
            raise ConfigurationError(f"memory options: {error}") from None
        return msgspec.structs.replace(self, **given)


class MessageHistory(Processor):
    """Loads the newest messages of the run's thread, and saves the run's own when it is over (R13.5, R13.9).

    ``Memory`` adds one to an agent by itself. Listed by the user it takes the place of the automatic one on that side
    (R13.3). Thread, resource and the call's options come from the run's request context, so that one object serves any
    number of runs.

    Args:
        store: Where the thread is.
        last_messages: How many messages are loaded; ``None`` for all, ``False`` to neither load nor save.
        read_only: Load, but never save.

    Raises:
        ConfigurationError: an option that cannot work.
    """

    id = "message-history"
    auto_position = "last"

    def __init__(
        self,
        store: MemoryStore,
        *,
        last_messages: int | Literal[False] | None = DEFAULT_LAST_MESSAGES,
        read_only: bool = False,
    ) -> None:
        self.store = store
        self.options = HistoryOptions(last_messages=last_messages, read_only=read_only)

    async def process_input(self, args: ProcessInputArgs) -> None:
        """Add the newest messages of the thread with source ``memory``, oldest first.

        Raises:
            ThreadOwnershipError: the thread belongs to another resource.
            StorageError: the store could not be read.
        """
        context = args.request_context
        thread_id = context.thread_id
        last = self._options(context).last_messages
        if thread_id is None or last is False:
            return
        loaded = await self.store.list_messages(thread_id, resource_id=context.resource_id, last=last)
        args.message_list.add([message for message in loaded if message.role != "system"], "memory")
        _put_behind_history(args.message_list, {message.id for message in loaded})

    async def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """Save the run's input and response as they are now (R13.9); the thread is made if it is missing.

        Raises:
            ThreadOwnershipError: the thread belongs to another resource.
            StorageError: the store could not be written; the thread is as it was before (R13.15).
        """
        context = args.request_context
        thread_id = context.thread_id
        options = self._options(context)
        if thread_id is None or options.last_messages is False or options.read_only:
            return
        messages = args.message_list
        saved = saved_forms(message for message in messages.get.all.db() if messages.is_new_message(message))
        if saved:
            await self.store.save(_thread_of(thread_id, context), saved)

    def _options(self, context: RequestContext) -> HistoryOptions:
        return self.options.overridden(_effective(context).get("memoryConfig") or {})


def _put_behind_history(messages: MessageList, stored_ids: set[str]) -> None:
    """Date what the run was given after the history that it continues (R12.10).

    The history may have been written a moment ago, with dates a millisecond apart (R3.13), or by a machine whose clock
    is ahead; the order of a conversation must not hang on that. A message keeps its date if the caller chose one long
    before, or if it only repeats a stored message.
    """
    remembered = messages.get.remembered.db()
    newest = remembered[-1].created_at if remembered else None
    if newest is None:
        return
    for message in messages.get.all.db():
        source, moment = messages.source_of(message), message.created_at
        if source is None or source == "memory" or message.id in stored_ids or moment is None:
            continue
        if newest - CLOCK_SKEW <= moment <= newest:
            messages.remove_by_ids([message.id])
            message.created_at = moment = newest + _TICK
            messages.add([message], source, merge=False)
        newest = max(newest, moment)


def _effective(context: RequestContext) -> Mapping[str, Any]:
    """The run's thread, resource and memory options, as the runtime left them in the context (R14.4)."""
    effective: Mapping[str, Any] = context.get(MEMORY_KEY) or {}
    return effective


def _thread_of(thread_id: str, context: RequestContext) -> Thread:
    """The row that is written if the thread is missing."""
    described: Mapping[str, Any] = _effective(context).get("thread") or {}
    if described.get("id") != thread_id:
        described = {}
    now = datetime.now(UTC)
    return Thread(
        id=thread_id,
        resource_id=owner_of(thread_id, context.resource_id),
        title=described.get("title") or "",
        created_at=now,
        updated_at=now,
        metadata=described.get("metadata"),
    )
