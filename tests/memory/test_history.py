"""Loading a thread before a run and saving it after the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interlock.agent.ports import MemoryCall, resolve_memory
from interlock.context import THREAD_KEY, RequestContext
from interlock.errors import ConfigurationError, StorageError, ThreadOwnershipError
from interlock.memory import InMemoryStore, Memory, MessageHistory, Thread
from interlock.messages import Message, MessageList
from interlock.messages.parts import MessageContent, TextPart, ToolInvocation, ToolInvocationPart

pytestmark = pytest.mark.anyio

START = datetime(2026, 1, 2, tzinfo=UTC)
MINE = {"thread": "t1", "resource": "u1"}


@dataclass
class Run:
    """What the two hooks use of a run."""

    memory: dict[str, Any] = field(default_factory=lambda: dict(MINE))
    request_context: RequestContext = field(default_factory=RequestContext)
    message_list: MessageList = field(default_factory=MessageList)

    def __post_init__(self) -> None:
        self.call = resolve_memory(self.memory, self.request_context)

    @property
    def thread_call(self) -> MemoryCall:
        assert self.call is not None
        return self.call

    def texts(self) -> list[str]:
        return [text(message) for message in self.message_list.get.all.db()]


def text(message: Message) -> str:
    return "".join(part.text for part in message.content.parts if isinstance(part, TextPart))


def message(said: str, role: str = "user", *, after_s: float = 0) -> Message:
    content = MessageContent(parts=[TextPart(text=said)])
    return Message(role=role, id=said, content=content, created_at=START + timedelta(seconds=after_s))


async def store_with(*messages: Message) -> InMemoryStore:
    store = InMemoryStore()
    await store.save(Thread(id="t1", resource_id="u1", created_at=START, updated_at=START), messages)
    return store


async def stored(store: InMemoryStore, thread_id: str = "t1", resource_id: str | None = "u1") -> list[str]:
    return [text(found) for found in await store.list_messages(thread_id, resource_id=resource_id)]


def said(run: Run) -> Run:
    run.message_list.add("question", "input")
    run.message_list.add({"role": "assistant", "content": "answer"}, "response")
    return run


async def test_the_newest_messages_are_loaded_oldest_first_with_source_memory() -> None:
    """R13.5"""
    store = await store_with(*[message(f"m{n:02}", after_s=n) for n in range(12)])
    run = Run()
    run.message_list.add("now", "input")
    await MessageHistory(store).process_input(run)
    assert run.texts() == [*[f"m{n:02}" for n in range(2, 12)], "now"]
    assert {run.message_list.source_of(found) for found in run.message_list.get.remembered.db()} == {"memory"}


@pytest.mark.parametrize(("last", "loaded"), [(None, 12), (3, 3), (0, 0), (False, 0)])
async def test_how_much_is_loaded_can_be_set(last: Any, loaded: int) -> None:
    """R13.5"""
    store = await store_with(*[message(f"m{n:02}", after_s=n) for n in range(12)])
    run = Run()
    await MessageHistory(store, last_messages=last).process_input(run)
    assert len(run.texts()) == loaded


@pytest.mark.parametrize("name", ["last_messages", "lastMessages"])
async def test_an_option_of_the_call_comes_before_the_processors_own(name: str) -> None:
    """R13.1, R0.5"""
    store = await store_with(message("a"), message("b", after_s=1))
    run = Run(memory={**MINE, "options": {name: 1}})
    await MessageHistory(store).process_input(run)
    assert run.texts() == ["b"]


async def test_stored_system_messages_are_not_loaded() -> None:
    """R13.5"""
    store = await store_with(message("a"), message("be nice", "system", after_s=1))
    run = Run()
    await MessageHistory(store).process_input(run)
    assert run.texts() == ["a"]
    assert run.message_list.get_all_system_messages() == []


async def test_input_and_response_are_saved_as_they_are_at_the_end() -> None:
    """R13.9"""
    store = InMemoryStore()
    run = said(Run())
    for found in run.message_list.get.all.db():
        found.content.parts[0] = TextPart(text=text(found).upper())
    await MessageHistory(store).process_output_result(run)
    assert await stored(store) == ["QUESTION", "ANSWER"]


async def test_context_and_system_messages_are_not_saved() -> None:
    """R13.12"""
    store = InMemoryStore()
    run = Run()
    run.message_list.add_system("be nice")
    run.message_list.add("background", "context")
    await MessageHistory(store).process_output_result(said(run))
    assert await stored(store) == ["question", "answer"]


async def test_what_is_not_for_storage_is_left_out() -> None:
    """R13.12"""
    store = InMemoryStore()
    run = Run()
    run.message_list.add(message("Hi<working_memory>secret</working_memory>"), "input")
    call = ToolInvocation(state="partial-call", tool_call_id="c", tool_name="t")
    content = MessageContent(parts=[ToolInvocationPart(tool_invocation=call)])
    run.message_list.add(Message(role="assistant", content=content), "response")
    await MessageHistory(store).process_output_result(run)
    assert await stored(store) == ["Hi"]


async def test_edits_of_remembered_messages_are_not_saved() -> None:
    """R13.13"""
    store = await store_with(message("old"))
    run = Run()
    history = MessageHistory(store)
    await history.process_input(run)
    run.message_list.get.remembered.db()[0].content.parts[0] = TextPart(text="edited")
    await history.process_output_result(said(run))
    assert await stored(store) == ["old", "question", "answer"]


async def test_saving_twice_changes_nothing() -> None:
    """R13.14"""
    store = InMemoryStore()
    run = said(Run())
    history = MessageHistory(store)
    await history.process_output_result(run)
    await history.process_output_result(run)
    assert await stored(store) == ["question", "answer"]


@pytest.mark.parametrize("options", [{"read_only": True}, {"readOnly": True}, {"last_messages": False}])
async def test_a_read_only_run_saves_nothing(options: dict[str, Any]) -> None:
    """R13.14, R13.5"""
    store = await store_with(message("old"))
    run = said(Run(memory={**MINE, "options": options}))
    await MessageHistory(store).process_output_result(run)
    assert await stored(store) == ["old"]


async def test_a_run_without_a_thread_loads_and_saves_nothing() -> None:
    """R13.1"""
    store = await store_with(message("old"))
    run = Run(memory={"resource": "u1"})
    history = MessageHistory(store)
    await history.process_input(run)
    await history.process_output_result(said(run))
    assert run.texts() == ["question", "answer"]
    assert await stored(store) == ["old"]


async def test_a_missing_thread_is_made_as_the_call_describes_it() -> None:
    """R13.1"""
    store = InMemoryStore()
    run = said(Run(memory={"thread": {"id": "t1", "title": "Trip", "metadata": {"k": 1}}, "resource": "u1"}))
    await MessageHistory(store).process_output_result(run)
    made = await store.get_thread("t1")
    assert made is not None
    assert (made.title, made.metadata, made.resource_id) == ("Trip", {"k": 1}, "u1")


async def test_a_thread_made_without_a_resource_belongs_to_its_own_id() -> None:
    """R13.1"""
    store = InMemoryStore()
    await MessageHistory(store).process_output_result(said(Run(memory={"thread": "t1"})))
    made = await store.get_thread("t1")
    assert made is not None
    assert made.resource_id == "t1"
    assert await stored(store, resource_id=None) == ["question", "answer"]


async def test_a_run_that_has_nothing_to_store_makes_no_thread() -> None:
    """R13.1"""
    store = InMemoryStore()
    await MessageHistory(store).process_output_result(Run())
    assert await store.get_thread("t1") is None


async def test_a_save_that_fails_is_raised_and_leaves_the_thread_as_it_was() -> None:
    """R13.15"""
    store = await store_with(message("old"))
    run = said(Run())
    run.message_list.get.response.db()[0].content.metadata = {"handle": object()}
    with pytest.raises(StorageError, match="cannot be stored"):
        await MessageHistory(store).process_output_result(run)
    assert await stored(store) == ["old"]


async def test_a_thread_of_another_resource_is_neither_read_nor_written() -> None:
    """R13.1"""
    store = await store_with(message("secret"))
    run = said(Run(memory={"thread": "t1", "resource": "u2"}))
    history = MessageHistory(store)
    with pytest.raises(ThreadOwnershipError):
        await history.process_input(run)
    with pytest.raises(ThreadOwnershipError):
        await history.process_output_result(run)
    assert await stored(store) == ["secret"]


async def test_a_thread_named_by_a_hook_does_not_get_the_title_of_another() -> None:
    """R14.4"""
    store = InMemoryStore()
    run = said(Run(memory={"thread": {"id": "t1", "title": "Trip"}, "resource": "u1"}))
    run.request_context.set(THREAD_KEY, "t2")
    await MessageHistory(store).process_output_result(run)
    made = await store.get_thread("t2")
    assert made is not None
    assert made.title == ""


async def test_a_turn_is_remembered_in_the_next_run() -> None:
    """R13.4"""
    memory = Memory()
    first, second = said(Run()), Run()
    for processor in memory.output_processors(first.thread_call):
        await processor.process_output_result(first)
    second.message_list.add("and now?", "input")
    for processor in memory.input_processors(second.thread_call):
        await processor.process_input(second)
    assert second.texts() == ["question", "answer", "and now?"]
    assert [text(found) for found in second.message_list.get.remembered.db()] == ["question", "answer"]


async def test_input_follows_a_history_that_is_dated_later() -> None:
    """R12.10"""
    store = await store_with(message("old", after_s=5), message("newest", after_s=9))
    run = Run()
    run.message_list.add(
        [message("first", after_s=8), message("second", after_s=9), message("third", after_s=20)], "input"
    )
    run.message_list.add(message("background", after_s=7), "context")
    await MessageHistory(store).process_input(run)
    assert run.texts() == ["old", "newest", "background", "first", "second", "third"]
    sources = [run.message_list.source_of(found) for found in run.message_list.get.all.db()]
    assert sources == ["memory", "memory", "context", "input", "input", "input"]


async def test_input_of_long_ago_keeps_its_date() -> None:
    """R3.14"""
    store = await store_with(message("stored", after_s=3600))
    run = Run()
    run.message_list.add([message("long ago", after_s=1), message("now", after_s=7200)], "input")
    await MessageHistory(store).process_input(run)
    assert run.texts() == ["long ago", "stored", "now"]


async def test_history_that_the_client_sent_again_stays_where_it_is() -> None:
    """R3.15"""
    store = await store_with(message("old", after_s=5), message("gap", after_s=6), message("newest", after_s=9))
    run = Run()
    run.message_list.add([message("old", after_s=5), message("newest", after_s=9), message("now", after_s=10)], "input")
    await MessageHistory(store).process_input(run)
    assert run.texts() == ["old", "gap", "newest", "now"]


async def test_memory_refuses_a_foreign_thread_before_the_run() -> None:
    """R13.1"""
    memory = Memory(await store_with(message("secret")))
    await memory.prepare(Run().thread_call)
    for foreign in ({"thread": "t1", "resource": "u2"}, {"thread": "t1"}):
        with pytest.raises(ThreadOwnershipError, match="thread 't1' belongs to another resource"):
            await memory.prepare(Run(memory=foreign).thread_call)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"last_message": 3},
            "unknown key 'last_message'; the known ones are last_messages, read_only",
        ),
        ({"last_messages": 3, "lastMessages": 4}, "'last_messages' is given in two spellings"),
        ({"last_messages": -1}, "last_messages must be the number of messages to load.* got -1"),
        ({"last_messages": True}, "last_messages must be .* got True"),
        ({"last_messages": "3"}, "last_messages must be .* got '3'"),
        ({"read_only": "yes"}, "read_only must be True or False, got 'yes'"),
    ],
)
async def test_options_that_cannot_work_are_refused_before_the_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await Memory().prepare(Run(memory={**MINE, "options": options}).thread_call)


def test_options_that_cannot_work_are_refused_when_memory_is_made() -> None:
    with pytest.raises(ConfigurationError, match=r"last_messages must be .* got -1"):
        Memory(last_messages=-1)


def test_every_call_gets_the_same_processors() -> None:
    """R13.2"""
    memory = Memory()
    processors: list[Sequence[Any]] = []
    for run in (Run(), Run(memory={**MINE, "options": {"read_only": True}})):
        processors += [memory.input_processors(run.thread_call), memory.output_processors(run.thread_call)]
    assert all(list(found) == [memory.history] for found in processors)
    assert memory.history.id == "message-history"
