"""The request context of a run (runtime specification, section 14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock import RequestContext, ToolContext, tool
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import THREAD, Drive, Make, agent_of, stored, told

pytestmark = pytest.mark.anyio


def test_a_context_is_a_small_mapping() -> None:
    """R14.1"""
    context = RequestContext({"a": 1})
    context.set("b", object())
    assert (context.get("a"), context.get("x"), context.get("x", 7)) == (1, None, 7)
    assert (context.has("a"), context.has("x"), "b" in context) == (True, False, True)
    assert (sorted(context), sorted(context.keys()), len(context)) == (["a", "b"], ["a", "b"], 2)
    assert 1 in list(context.values())
    assert ("a", 1) in list(context.items())
    assert context.to_dict() == {"a": 1}
    assert context.delete("a")
    assert not context.delete("a")
    context.clear()
    assert len(context) == 0


async def test_hooks_tools_functions_and_callbacks_get_one_live_object(drive: Drive, make: Make) -> None:
    """R14.1, R14.3"""
    given, seen = RequestContext(), list[RequestContext]()

    @tool
    async def look(context: ToolContext) -> str:
        """Looks."""
        seen.append(context.request_context)
        return "ok"

    agent = agent_of(
        [[tool_call("look")], "x"],
        tools=[look],
        instructions=lambda arguments: seen.append(arguments.request_context) or "SYS",
        input_processors=[make(process_input=lambda args: seen.append(args.request_context))],
        output_processors=[make(process_output_result=lambda args: seen.append(args.request_context))],
    )
    await drive(agent, request_context=given)
    assert len(seen) == 4
    assert all(context is given for context in seen)


async def test_a_call_without_a_context_gets_an_empty_one(drive: Drive, make: Make) -> None:
    """R14.1"""
    seen: list[Any] = []
    agent = agent_of(["x", "x"], input_processors=[make(process_input=lambda args: seen.append(args.request_context))])
    await drive(agent)
    await drive(agent)
    assert [len(context) for context in seen] == [0, 0]
    assert seen[0] is not seen[1]


async def test_a_mapping_is_wrapped_in_a_new_context(drive: Drive, make: Make) -> None:
    """R14.2"""
    given = {"k": 1}
    setter = make(process_input=lambda args: args.request_context.set("k", 2))
    await drive(agent_of(["x"], input_processors=[setter]), request_context=given)
    assert given == {"k": 1}


async def test_something_else_as_context_is_refused() -> None:
    """R14.2"""
    with pytest.raises(TypeError, match="request_context"):
        await agent_of(["x"]).generate("hi", request_context="text")  # type: ignore[arg-type]


async def test_writes_are_visible_later_in_the_run_and_to_the_caller(drive: Drive, make: Make) -> None:
    """R14.3"""
    given, seen = RequestContext(), list[Any]()
    processors = [
        make("writer", process_input=lambda args: args.request_context.set("k", "v")),
        make("reader", process_input=lambda args: seen.append(args.request_context.get("k"))),
    ]
    await drive(agent_of(["x"], input_processors=processors), request_context=given)
    assert seen == ["v"]
    assert given.get("k") == "v"


async def test_reserved_keys_override_the_memory_option(drive: Drive) -> None:
    """R14.4"""
    store = InMemoryStore()
    context = RequestContext({"mastra__threadId": "t", "mastra__resourceId": "u"})
    agent = agent_of(["x"], memory=Memory(store))
    await drive(agent, request_context=context, memory={"thread": "other", "resource": "somebody"})
    assert len(await stored(store)) == 2
    assert await store.get_thread("other") is None


async def test_the_effective_memory_is_there_before_process_input(drive: Drive, make: Make) -> None:
    """R14.4, R14.5"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        context = args.request_context
        seen.append((context.get("MastraMemory"), context.thread_id, context.resource_id))

    agent = agent_of(["x"], memory=Memory(InMemoryStore()), input_processors=[make(process_input=look)])
    await drive(agent, memory={**THREAD, "options": {"last_messages": 3}})
    assert seen == [
        ({"thread": {"id": "t"}, "resourceId": "u", "memoryConfig": {"last_messages": 3}}, "t", "u"),
    ]


async def test_the_context_reaches_neither_model_nor_store(drive: Drive) -> None:
    """R14.6"""
    store, model = InMemoryStore(), ScriptedModel(["x"])
    await drive(agent_of(model, memory=Memory(store)), request_context={"secret": "hunter2"}, memory=THREAD)
    assert "hunter2" not in str(told(model.prompts[0]))
    assert "hunter2" not in json.dumps([message.to_dict() for message in await stored(store)])
    thread = await store.get_thread("t")
    assert thread is not None
    assert "hunter2" not in json.dumps(thread.to_dict())
