"""An agent's memory: a store, and the processors that use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from interlock.agent.ports import MemoryCall
from interlock.memory.history import DEFAULT_LAST_MESSAGES, MessageHistory
from interlock.memory.stores.in_memory import InMemoryStore
from interlock.memory.threads import MemoryStore, check_owner


class Memory:
    """What an agent remembers between runs of one thread (section 13).

    ``Agent(memory=Memory(store=...))``, then ``agent.generate("…", memory={"thread": "t1", "resource": "user-1"})``.
    The ``options`` of a call override ``last_messages`` and ``read_only`` for that run.

    Args:
        store: Where threads are kept. Without one they are kept until the process ends.
        last_messages: How many messages of the thread are loaded; ``None`` for all, ``False`` to neither load nor save.
        read_only: Load, but never save.

    Raises:
        ConfigurationError: an option that cannot work.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        last_messages: int | Literal[False] | None = DEFAULT_LAST_MESSAGES,
        read_only: bool = False,
    ) -> None:
        self.store: MemoryStore = InMemoryStore() if store is None else store
        self.history = MessageHistory(self.store, last_messages=last_messages, read_only=read_only)
        """The automatic ``message-history`` processor."""

    async def prepare(self, call: MemoryCall) -> None:
        """Check thread and options of a call before any hook runs.

        Raises:
            ThreadOwnershipError: the thread belongs to another resource (R13.1).
            ConfigurationError: an option is unknown or cannot work.
            StorageError: the store could not be read.
        """
        self.history.options.overridden(call.options)
        check_owner(await self.store.get_thread(call.thread_id), call.thread_id, call.resource_id)

    def input_processors(self, call: MemoryCall) -> Sequence[Any]:
        """The processors before the user's; the same objects for every call (R13.2)."""
        return (self.history,)

    def output_processors(self, call: MemoryCall) -> Sequence[Any]:
        """The processors after the user's; the same objects for every call (R13.2)."""
        return (self.history,)

    def __repr__(self) -> str:
        return f"Memory(store={self.store!r}, last_messages={self.history.options.last_messages!r})"
