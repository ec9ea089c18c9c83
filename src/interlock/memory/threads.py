"""Threads, and what a storage engine must do for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol

from interlock._json import Record
from interlock.errors import ThreadOwnershipError
from interlock.messages.parts import Message


class Thread(Record, kw_only=True):
    """A stored conversation."""

    id: str
    resource_id: str
    """Whom it belongs to; a thread that was made without a resource belongs to its own id."""
    title: str = ""
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] | None = None

    _times: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at"})


class MemoryStore(Protocol):
    """A storage engine for threads and their messages.

    Message ids are unique within a thread: a message that carries an id of another thread is another message, so that
    no thread can be reached through one's ids. Messages are detached: changing one that was saved or loaded does not
    change what is stored.
    """

    async def get_thread(self, thread_id: str) -> Thread | None:
        """The thread, or ``None``.

        Raises:
            StorageError: the store could not be read.
        """
        ...

    async def list_messages(
        self, thread_id: str, *, resource_id: str | None = None, last: int | None = None
    ) -> list[Message]:
        """Messages of a thread, oldest first; those of one time in the order in which they were saved.

        Args:
            thread_id: The thread; an unknown one has no messages.
            resource_id: Who asks; the thread must be theirs.
            last: Only the newest so many; ``None`` for all.

        Raises:
            ThreadOwnershipError: the thread belongs to another resource.
            StorageError: the store could not be read.
        """
        ...

    async def save(self, thread: Thread, messages: Sequence[Message]) -> None:
        """Insert or replace messages by id, and the thread if it is missing: all of it, or nothing.

        A thread that exists keeps its row, except for ``updated_at``; a message that exists keeps its place among those
        of its time.

        Raises:
            ThreadOwnershipError: the stored thread belongs to another resource.
            StorageError: the store could not be written.
        """
        ...


def owner_of(thread_id: str, resource_id: str | None) -> str:
    """Whom a thread belongs to when a run with this resource creates it."""
    return resource_id or thread_id


def check_owner(thread: Thread | None, thread_id: str, resource_id: str | None) -> None:
    """Refuse a thread that is not the resource's own; a thread that does not exist is nobody's.

    A run without a resource can use threads that were made without one, and no others.

    Raises:
        ThreadOwnershipError: the thread belongs to another resource (R13.1).
    """
    if thread is not None and thread.resource_id != owner_of(thread_id, resource_id):
        as_whom = f"resource {resource_id!r}" if resource_id else "a run without a resource"
        raise ThreadOwnershipError(
            f"thread {thread_id!r} belongs to another resource and cannot be used by {as_whom}: "
            "pass the resource that it was created with, or another thread"
        )
