"""The store that keeps threads in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock.errors import StorageError, ThreadOwnershipError
from interlock.memory import InMemoryStore, MemoryStore, Thread
from interlock.messages.parts import Message, MessageContent, TextPart

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def thread(thread_id: str = "t1", resource: str = "u1", **fields: Any) -> Thread:
    return Thread(id=thread_id, resource_id=resource, **({"created_at": START, "updated_at": START} | fields))


def message(message_id: str, text: str = "", *, after_s: float = 0, **fields: Any) -> Message:
    content = MessageContent(parts=[TextPart(text=text or message_id)])
    return Message(role="user", id=message_id, content=content, created_at=START + timedelta(seconds=after_s), **fields)


async def ids(store: MemoryStore, **options: Any) -> list[str]:
    return [stored.id for stored in await store.list_messages("t1", resource_id="u1", **options)]


async def test_messages_come_back_in_the_order_of_time() -> None:
    """R13.5"""
    store = InMemoryStore()
    await store.save(thread(), [message("b", after_s=2), message("a", after_s=1), message("c", after_s=3)])
    assert await ids(store) == ["a", "b", "c"]
    assert await ids(store, last=2) == ["b", "c"]
    assert await ids(store, last=9) == ["a", "b", "c"]
    assert await ids(store, last=0) == []


async def test_messages_of_one_time_keep_the_order_in_which_they_were_saved() -> None:
    """FR-084"""
    store = InMemoryStore()
    await store.save(thread(), [message(name) for name in ("z", "b", "x")])
    await store.save(thread(), [message("b", "changed"), message("a")])
    assert await ids(store) == ["z", "b", "x", "a"]


async def test_a_message_is_replaced_by_its_id() -> None:
    """R13.14"""
    store = InMemoryStore()
    await store.save(thread(), [message("a", "old")])
    await store.save(thread(), [message("a", "new")])
    stored = await store.list_messages("t1", resource_id="u1")
    assert [m.content.parts for m in stored] == [[TextPart(text="new")]]


async def test_a_stored_message_is_complete() -> None:
    """R13.14"""
    store = InMemoryStore()
    given = message("a")
    given.content.metadata = {"k": [1]}
    await store.save(thread(), [given])
    [stored] = await store.list_messages("t1", resource_id="u1")
    assert stored.to_dict() == {**given.to_dict(), "threadId": "t1", "resourceId": "u1"}


async def test_a_message_belongs_to_the_thread_it_is_saved_to() -> None:
    """FR-116"""
    store = InMemoryStore()
    await store.save(thread("t2", "u2"), [message("a", "theirs")])
    await store.save(thread(), [message("a", "mine", thread_id="t2", resource_id="u2")])
    [theirs] = await store.list_messages("t2", resource_id="u2")
    [mine] = await store.list_messages("t1", resource_id="u1")
    assert (theirs.content.parts, theirs.thread_id) == ([TextPart(text="theirs")], "t2")
    assert (mine.content.parts, mine.thread_id, mine.resource_id) == ([TextPart(text="mine")], "t1", "u1")


async def test_what_is_stored_is_out_of_reach() -> None:
    store = InMemoryStore()
    given = message("a")
    given.content.metadata = {"k": [1]}
    await store.save(thread(), [given])
    given.content.metadata["k"].append(2)
    [loaded] = await store.list_messages("t1", resource_id="u1")
    assert loaded.content.metadata == {"k": [1]}
    loaded.content.metadata["k"].clear()
    [again] = await store.list_messages("t1", resource_id="u1")
    assert again.content.metadata == {"k": [1]}


async def test_a_thread_is_made_once_and_then_only_its_time_changes() -> None:
    """R13.1"""
    store = InMemoryStore()
    assert await store.get_thread("t1") is None
    await store.save(thread(title="Trip", metadata={"k": 1}), [])
    later = START + timedelta(days=1)
    await store.save(thread(title="Other", created_at=later, updated_at=later), [message("a")])
    stored = await store.get_thread("t1")
    assert stored == thread(title="Trip", metadata={"k": 1}, updated_at=later)


async def test_a_thread_is_kept_from_other_resources() -> None:
    """R13.1, FR-116"""
    store = InMemoryStore()
    await store.save(thread(), [message("a")])
    with pytest.raises(ThreadOwnershipError, match=r"thread 't1' belongs to another resource .* by resource 'u2'"):
        await store.list_messages("t1", resource_id="u2")
    with pytest.raises(ThreadOwnershipError, match="cannot be used by a run without a resource"):
        await store.list_messages("t1")
    with pytest.raises(ThreadOwnershipError):
        await store.save(thread(resource="u2"), [message("b")])
    assert await ids(store) == ["a"]


async def test_a_save_that_fails_leaves_the_thread_as_it_was() -> None:
    """R13.15"""
    store = InMemoryStore()
    await store.save(thread(), [message("a", "old")])
    unstorable = message("c")
    unstorable.content.metadata = {"k": object()}
    with pytest.raises(StorageError, match=r"message 'c' cannot be stored: .*object"):
        await store.save(thread(updated_at=START + timedelta(days=1)), [message("a", "new"), message("b"), unstorable])
    [stored] = await store.list_messages("t1", resource_id="u1")
    assert stored.content.parts == [TextPart(text="old")]
    assert await store.get_thread("t1") == thread()


async def test_a_save_that_fails_does_not_make_the_thread() -> None:
    """R13.15"""
    store = InMemoryStore()
    with pytest.raises(StorageError, match=r"'a' cannot be stored: .*surrogates"):
        await store.save(thread(), [message("a", "\ud83d")])
    assert await store.get_thread("t1") is None


async def test_a_message_without_id_or_time_cannot_be_stored() -> None:
    store = InMemoryStore()
    with pytest.raises(StorageError, match="needs an id and a time"):
        await store.save(thread(), [Message(role="user", content=MessageContent(parts=[]))])


async def test_an_unknown_thread_has_no_messages() -> None:
    assert await ids(InMemoryStore()) == []
