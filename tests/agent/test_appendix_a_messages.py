"""Appendix A of the runtime specification: prompts, message changes, custom data, caching and set-up.

A17–A19, A23, A26–A29, A34–A36, A39; those of workflows (A30–A33) are beside the compositions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from interlock import Message, RequestContext
from interlock.memory import InMemoryStore, Memory, MessageHistory
from interlock.processors import CachedStepResponse, ProcessLLMRequestArgs, ProcessLLMResponseArgs
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    agent_of,
    chunks_of,
    echo,
    kept,
    part_types,
    saved,
    stored,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio


async def test_system_messages_of_one_step_are_gone_in_the_next(drive: Drive, make: Make) -> None:
    """A17: R2.19"""
    model = ScriptedModel([[tool_call("echo")], "done"])

    def add(args: Any) -> Any:
        return {"system_messages": [*args.system_messages, {"role": "system", "content": f"S{args.step_number}"}]}

    adder = make("adder", process_input_step=add)
    await drive(agent_of(model, tools=[echo], instructions="SYS", input_processors=[adder]))
    assert [words for role, words in told(model.prompts[0]) if role == "system"] == ["SYS", "S0"]
    assert [words for role, words in told(model.prompts[1]) if role == "system"] == ["SYS", "S1"]


async def test_a_part_stripped_from_the_prompt_stays_everywhere_else(drive: Drive, make: Make) -> None:
    """A18: R2.22"""
    store, model = InMemoryStore(), ScriptedModel([[tool_call("echo")], "done"])

    def strip(args: Any) -> Any:
        if args.step_number == 0:
            for message in args.prompt:
                if message["role"] == "user":
                    message["content"] = [part for part in message["content"] if part["type"] != "file"]
            return {"prompt": args.prompt}
        return None

    agent = agent_of(
        model, tools=[echo], memory=Memory(store), input_processors=[make("strip", process_llm_request=strip)]
    )
    question = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "file", "mediaType": "image/png", "data": "aGk="},
        ],
    }
    outcome = await drive(agent, [question], memory=THREAD)
    assert told(model.prompts[0]) == [("user", "look")]
    assert told(model.prompts[1])[0] == ("user", "look image/png")
    assert part_types(outcome.message_list.get.input.db()[0]) == ["text", "file"]
    assert part_types((await stored(store))[0]) == ["text", "file"]


class Cache:
    """Remembers replies by model and prompt."""

    id = "cache"

    def __init__(self) -> None:
        self.replies: dict[str, CachedStepResponse] = {}
        self.from_cache: list[bool] = []

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> Any:
        material = json.dumps([args.model.model_id, args.prompt], sort_keys=True)
        args.state["key"] = key = hashlib.sha256(material.encode()).hexdigest()
        if hit := self.replies.get(key):
            return {"response": hit}
        return None

    def process_llm_response(self, args: ProcessLLMResponseArgs) -> None:
        self.from_cache.append(args.from_cache)
        if not args.from_cache:
            self.replies[args.state["key"]] = CachedStepResponse(chunks=args.chunks, warnings=args.warnings)


async def test_a_cached_reply_saves_the_provider_call(drive: Drive) -> None:
    """A19: R11.2–R11.6"""
    model, cache = ScriptedModel([["one ", "answer"]]), Cache()
    agent = agent_of(model, input_processors=[cache])
    first, second = await drive(agent), await drive(agent)
    assert model.calls == 1
    assert cache.from_cache == [False, True]
    assert first.text == second.text == "one answer"


async def test_custom_chunks_are_streamed_and_only_the_persistent_one_is_stored(make: Make) -> None:
    """A23: R9.3–R9.11"""
    store, model, seen = InMemoryStore(), ScriptedModel([["x", tool_call("echo")], "done"]), list[str]()

    async def write(args: Any) -> Any:
        if args.part.type == "text-delta" and args.step_number == 0:
            await args.writer.custom({"type": "data-kept", "data": {"n": 1}})
            await args.writer.custom({"type": "data-shown", "data": {"n": 2}, "transient": True})
        return args.part

    def watch(args: Any) -> Any:
        seen.append(args.part.type)
        return args.part

    agent = agent_of(
        model,
        tools=[echo],
        memory=Memory(store),
        output_processors=[make("writer", process_output_stream=write), make("watch", process_output_stream=watch)],
    )
    outcome = await streamed(agent, memory=THREAD)
    kinds = [chunk.type for chunk in outcome.chunks]
    assert kinds.index("data-kept") < kinds.index("data-shown") < kinds.index("text-delta")
    assert chunks_of(outcome.chunks, "data-shown")[0].transient is True
    answer = (await stored(store))[-1]
    assert [kind for kind in part_types(answer) if kind.startswith("data-")] == ["data-kept"]
    assert "data-" not in json.dumps(model.prompts[1])
    assert not any(kind.startswith("data-") for kind in seen)


async def test_an_undated_message_keeps_the_place_in_which_it_was_returned(drive: Drive, make: Make) -> None:
    """A26: R3.23"""
    model = ScriptedModel(["x"])

    def prepend(args: Any) -> Any:
        return [{"role": "user", "content": {"parts": [{"type": "text", "text": "first"}]}}, *args.messages]

    await drive(agent_of(model, input_processors=[make("prepend", process_input=prepend)]), ["second", "third"])
    assert told(model.prompts[0]) == [("user", "first"), ("user", "second"), ("user", "third")]


async def test_rewritten_copies_replace_the_originals_and_keep_their_sources(drive: Drive, make: Make) -> None:
    """A27: R3.22"""
    store = InMemoryStore()
    await agent_of(["Old Answer"], memory=Memory(store)).generate("Old Question", memory=THREAD)
    before = await stored(store)
    model = ScriptedModel(["NEW"])

    def lowered(args: Any) -> Any:
        copies = [Message.from_dict(message.to_dict()) for message in args.messages]
        for message in copies:
            for part in message.content.parts:
                part.text = part.text.lower()  # type: ignore[attr-defined]  # all parts of this test are texts
        return copies

    agent = agent_of(model, memory=Memory(store), input_processors=[make("lower", process_input=lowered)])
    outcome = await drive(agent, "New Question", memory=THREAD)
    assert told(model.prompts[0]) == [
        ("user", "old question"),
        ("assistant", "old answer"),
        ("user", "new question"),
    ]
    remembered = outcome.message_list.get.remembered.db()
    assert [message.id for message in remembered] == [message.id for message in before]
    # The history is not saved again; the input of this run is, as rewritten.
    assert await saved(store) == [
        ("user", "Old Question"),
        ("assistant", "Old Answer"),
        ("user", "new question"),
        ("assistant", "NEW"),
    ]


async def test_an_edit_in_place_is_seen_by_everybody_after_it(drive: Drive, make: Make) -> None:
    """A28: R2.2"""
    store, model, seen = InMemoryStore(), ScriptedModel(["x"]), list[str]()

    def edit(args: Any) -> None:
        args.messages[0].content.parts[0].text = "edited"

    processors = [
        make("edit", process_input=edit),
        make("see", process_input=lambda args: seen.append(args.messages[0].content.parts[0].text)),
    ]
    await drive(agent_of(model, memory=Memory(store), input_processors=processors), memory=THREAD)
    assert seen == ["edited"]
    assert told(model.prompts[0]) == [("user", "edited")]
    assert await saved(store) == [("user", "edited"), ("assistant", "x")]


async def test_clearing_the_list_of_messages_changes_nothing(drive: Drive, make: Make) -> None:
    """A29: R2.2"""
    model, seen = ScriptedModel(["x"]), list[int]()
    processors = [
        make("clear", process_input=lambda args: args.messages.clear()),
        make("see", process_input=lambda args: seen.append(len(args.messages))),
    ]
    outcome = await drive(agent_of(model, input_processors=processors))
    assert seen == [1]
    assert told(model.prompts[0]) == [("user", "hi")]
    assert kept(outcome.message_list.get.input.db()) == [("user", "hi")]


async def test_an_empty_override_drops_the_guardrail_and_keeps_the_memory(drive: Drive, make: Make) -> None:
    """A34: R12.9, R13.2"""
    store = InMemoryStore()
    guard = make("guard", process_output_step=lambda args: args.abort("no"))
    agent = agent_of(["x"], memory=Memory(store), output_processors=[guard])
    outcome = await drive(agent, memory=THREAD, output_processors=[])
    assert (outcome.text, outcome.tripwire) == ("x", None)
    assert await saved(store) == [("user", "hi"), ("assistant", "x")]


async def test_a_message_history_of_the_user_replaces_the_automatic_one_on_its_side_only(drive: Drive) -> None:
    """A35: R13.3"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)
    model = ScriptedModel(["d"])
    own = MessageHistory(store, last_messages=1)
    agent = agent_of(model, memory=Memory(store), input_processors=[own])
    await drive(agent, "c", memory=THREAD)
    assert told(model.prompts[0]) == [("assistant", "b"), ("user", "c")]
    assert await saved(store) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_function_gives_a_context_its_processors_once_a_run(drive: Drive, make: Make, is_async: bool) -> None:
    """A36: R12.2"""
    asked: list[str] = []

    def choose(arguments: Any) -> list[Any]:
        tenant = arguments.request_context.get("tenant")
        asked.append(tenant)
        return [make("marker", process_input_step=lambda args: {"system_messages": [tenant]})]

    async def choose_later(arguments: Any) -> list[Any]:
        await asyncio.sleep(0)
        return choose(arguments)

    model = ScriptedModel([[tool_call("echo")], "done", [tool_call("echo")], "done"])
    agent = agent_of(model, tools=[echo], input_processors=choose_later if is_async else choose)
    await drive(agent, request_context=RequestContext({"tenant": "red"}))
    await drive(agent, request_context=RequestContext({"tenant": "blue"}))
    assert asked == ["red", "blue"]
    assert [told(prompt)[0] for prompt in model.prompts] == [
        ("system", "red"),
        ("system", "red"),
        ("system", "blue"),
        ("system", "blue"),
    ]


async def test_two_concurrent_runs_count_for_themselves(drive: Drive, make: Make) -> None:
    """A39: R8.3"""
    logged: list[int] = []
    barrier = asyncio.Barrier(2)

    async def count(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.state["words"] = args.state.get("words", 0) + 1
            await barrier.wait()
        if args.part.type == "finish":
            logged.append(args.state["words"])
        return args.part

    agent = agent_of(
        lambda request: ["one ", "two ", "three"], output_processors=[make("counter", process_output_stream=count)]
    )
    await asyncio.gather(drive(agent), drive(agent))
    assert logged == [3, 3]
