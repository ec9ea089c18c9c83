"""When a run is saved, and what of it (runtime specification, section 13)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import ThreadOwnershipError
from interlock.memory import InMemoryStore, Memory, MessageHistory
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import THREAD, Drive, Make, agent_of, echo, saved, told

pytestmark = pytest.mark.anyio


async def test_without_a_thread_nothing_is_loaded_or_saved(drive: Drive) -> None:
    """R13.1"""
    store = InMemoryStore()
    outcome = await drive(agent_of(["x"], memory=Memory(store)))
    assert outcome.text == "x"
    assert await store.get_thread("t") is None


async def test_the_thread_of_another_resource_is_refused_before_any_hook(drive: Drive, make: Make) -> None:
    """R13.1"""
    store, ran = InMemoryStore(), list[str]()
    await agent_of(["x"], memory=Memory(store)).generate("hi", memory=THREAD)
    early = make("early", stage="pre_memory", process_input=lambda args: ran.append("input"))
    agent = agent_of([], memory=Memory(store), input_processors=[early])
    outcome = await drive(agent, memory={"thread": "t", "resource": "somebody else"})
    assert isinstance(outcome.error, ThreadOwnershipError)
    assert ran == []


async def test_user_processors_see_the_history_and_run_before_saving(drive: Drive, make: Make) -> None:
    """R13.2, R13.4, R13.17"""
    store, seen = InMemoryStore(), list[Any]()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)

    def redact(args: Any) -> None:
        args.messages[-1].content.parts[0].text = "redacted"

    agent = agent_of(
        ["secret"],
        memory=Memory(store),
        input_processors=[make("in", process_input=lambda args: seen.append(len(args.messages)))],
        output_processors=[make("out", process_output_result=redact)],
    )
    await drive(agent, "c", memory=THREAD)
    assert seen == [3]
    assert await saved(store) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "redacted")]


async def test_a_history_in_the_users_output_list_saves_at_its_own_place(drive: Drive, make: Make) -> None:
    """R13.3, R13.17"""
    store = InMemoryStore()

    def late(args: Any) -> None:
        args.messages[-1].content.parts[0].text = "changed too late"

    agent = agent_of(
        ["raw"],
        memory=Memory(store),
        output_processors=[MessageHistory(store), make("late", process_output_result=late)],
    )
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == "changed too late"
    assert await saved(store) == [("user", "hi"), ("assistant", "raw")]


async def test_nothing_is_saved_in_the_middle_of_a_run(drive: Drive, make: Make) -> None:
    """R13.9, R13.16"""
    store, counts = InMemoryStore(), list[int]()

    async def look(args: Any) -> None:
        counts.append(len(await saved(store)))

    agent = agent_of(
        [[tool_call("echo")], "x"],
        tools=[echo],
        memory=Memory(store),
        output_processors=[make(process_output_step=look, process_tool_result=look, process_output_result=look)],
    )
    await drive(agent, memory=THREAD)
    assert counts == [0, 0, 0, 0]
    assert len(await saved(store)) == 2


async def test_a_suspended_run_is_saved_when_it_completes() -> None:
    """R13.9"""
    store = InMemoryStore()
    agent = agent_of([["hm ", tool_call("echo", id="c1")], "x"], tools=[echo], memory=Memory(store))
    waiting = await agent.generate("hi", memory=THREAD, require_tool_approval=True)
    assert await saved(store) == []
    await agent.approve_tool_call_generate(waiting.run_id, "c1")
    assert await saved(store) == [("user", "hi"), ("assistant", "hm x")]


async def test_system_context_and_feedback_are_never_saved(drive: Drive, make: Make) -> None:
    """R13.12"""
    store = InMemoryStore()

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        ["bad", "good"],
        instructions="SYS",
        memory=Memory(store),
        output_processors=[make(process_output_step=reject)],
        max_processor_retries=1,
    )
    await drive(agent, memory=THREAD, context=["ctx"], system="more")
    assert await saved(store) == [("user", "hi"), ("assistant", "good")]


async def test_an_edit_of_a_remembered_message_is_in_the_prompt_and_not_in_the_store(drive: Drive, make: Make) -> None:
    """R13.13"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)

    def edit(args: Any) -> None:
        args.messages[0].content.parts[0].text = "edited"

    model = ScriptedModel(["d"])
    agent = agent_of(model, memory=Memory(store), input_processors=[make(process_input=edit)])
    await drive(agent, "c", memory=THREAD)
    assert told(model.prompts[0])[0] == ("user", "edited")
    assert (await saved(store))[0] == ("user", "a")


async def test_read_only_loads_and_never_saves(drive: Drive) -> None:
    """R13.14"""
    store, model = InMemoryStore(), ScriptedModel(["d"])
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)
    agent = agent_of(model, memory=Memory(store))
    await drive(agent, "c", memory={**THREAD, "options": {"read_only": True}})
    assert len(told(model.prompts[0])) == 3
    assert await saved(store) == [("user", "a"), ("assistant", "b")]


async def test_the_next_run_of_the_thread_goes_on_where_this_one_ended(drive: Drive) -> None:
    """R13.5, R3.11"""
    store, model = InMemoryStore(), ScriptedModel([["one ", tool_call("echo", id="c1")], "two", "three"])
    agent = agent_of(model, tools=[echo], memory=Memory(store))
    await drive(agent, "first", memory=THREAD)
    await drive(agent, "second", memory=THREAD)
    assert told(model.prompts[2]) == [
        ("user", "first"),
        ("assistant", "one  call echo"),
        ("tool", "hey"),
        ("assistant", "two"),
        ("user", "second"),
    ]
