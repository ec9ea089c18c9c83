"""A store in this process's memory: for tests, examples and conversations that may be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.errors import StorageError
from interlock.memory.threads import Thread, check_owner
from interlock.messages.parts import Message


class InMemoryStore:
    """Keeps threads and messages until the process ends.

    Messages are kept as encoded JSON, in the same shape in which other stores keep them, so that what cannot be stored
    elsewhere cannot be stored here either.
    """

    def __init__(self) -> None:
        self._threads: dict[str, bytes] = {}
        self._messages: dict[str, dict[str, bytes]] = {}

    async def get_thread(self, thread_id: str) -> Thread | None:
        """The thread, or ``None``."""
        stored = self._threads.get(thread_id)
        return None if stored is None else Thread.from_dict(msgspec.json.decode(stored))

    async def list_messages(
        self, thread_id: str, *, resource_id: str | None = None, last: int | None = None
    ) -> list[Message]:
        """Messages of a thread, oldest first; see ``MemoryStore``."""
        check_owner(await self.get_thread(thread_id), thread_id, resource_id)
        rows = self._messages.get(thread_id, {}).values()
        messages = sorted((Message.from_dict(msgspec.json.decode(row)) for row in rows), key=_time)
        return messages if last is None else messages[len(messages) - min(last, len(messages)) :]

    async def save(self, thread: Thread, messages: Sequence[Message]) -> None:
        """Insert or replace messages by id, and the thread if it is missing; see ``MemoryStore``."""
        existing = await self.get_thread(thread.id)
        check_owner(existing, thread.id, thread.resource_id)
        if existing is not None:
            existing.updated_at = thread.updated_at
        # Everything that can fail comes before the first write, so that no thread is ever half saved.
        row = _encode((existing or thread).to_dict(), f"thread {thread.id!r}")
        rows = {message.id: _encode(_row(message, thread), f"message {message.id!r}") for message in messages}
        self._threads[thread.id] = row
        self._messages.setdefault(thread.id, {}).update(rows)

    def __repr__(self) -> str:
        return f"InMemoryStore(threads={len(self._threads)}, messages={sum(map(len, self._messages.values()))})"


def _time(message: Message) -> Any:
    return message.created_at


def _row(message: Message, thread: Thread) -> dict[str, Any]:
    if not message.id or message.created_at is None:
        raise StorageError(f"a message needs an id and a time to be stored, which {message!r} does not have")
    return {**message.to_dict(), "threadId": thread.id, "resourceId": thread.resource_id}


def _encode(data: dict[str, Any], owner: str) -> bytes:
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise StorageError(f"{owner} cannot be stored: {error}") from error
