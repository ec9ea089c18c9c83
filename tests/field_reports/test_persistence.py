"""What is stored, in which order, whatever became of the run."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import AbortSignal, Processor, get_text
from interlock.errors import ThreadOwnershipError
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import TextPart, ToolInvocationPart
from interlock.testing import ScriptedModel
from tests.agent.kit import THREAD, Drive, agent_of, generated, made_sync, saved, stored
from tests.field_reports.cases import Calls, assert_pairs_are_valid, case, results_in, scripted, turns

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("way", ["signal", "aclose"])
async def test_pressing_stop_keeps_what_was_shown(way: str) -> None:
    """FR-111; R12.17, R12.28. That the answer was interrupted is told by the run's finish reason; the spec puts no mark
    into storage, and no stored part of the answer can be mistaken for a pending call."""
    given = case("111")
    store, signal = InMemoryStore(), AbortSignal()
    agent = agent_of(scripted(given), memory=Memory(store))
    async with agent.stream("hi", memory=THREAD, abort_signal=signal) as stream:
        seen = 0
        async for chunk in stream.full_stream:
            seen += chunk.type == "text-delta"
            if seen == given["abort_after_chunk"] - 1:
                break
        if way == "signal":
            signal.abort("stop")
            await stream.consume_stream()
        else:
            await stream.aclose()
        assert await stream.finish_reason == "aborted"
        assert await stream.text == given["expect"]["stored_assistant_text"]
    (user, asked), (assistant, answered) = await saved(store)
    assert ((user, asked) == ("user", "hi")) is given["expect"]["stored_user"]
    assert (assistant, answered) == ("assistant", given["expect"]["stored_assistant_text"])


async def test_a_stream_that_nobody_reads_any_more_can_be_driven_to_its_end() -> None:
    """FR-111; R12.17"""
    given = case("111")
    store = InMemoryStore()
    stream = await agent_of(scripted(given), memory=Memory(store)).stream("hi", memory=THREAD)
    async for chunk in stream.full_stream:
        if chunk.type == "text-delta":
            break
    await stream.consume_stream()
    assert await saved(store) == [("user", "hi"), ("assistant", "One two three")]


@pytest.mark.parametrize("arrangement", ["alone", "before", "after", "between"])
async def test_a_processor_finds_its_state_whoever_stands_beside_it(drive: Drive, arrangement: str) -> None:
    """FR-113; R8.1, R8.2"""
    read = []

    class Turn(Processor):
        id = "turn"

        def process_input_step(self, args: Any) -> None:
            args.state["turn"] = "set"

        def process_output_result(self, args: Any) -> None:
            read.append(args.state.get("turn"))

    turn = Turn()
    noop = made_sync("noop", process_input_step=lambda args: None, process_output_result=lambda args: None)
    processors = {"alone": [turn], "before": [noop, turn], "after": [turn, noop], "between": [noop, turn, noop]}
    both = processors[arrangement]
    await drive(agent_of(["ok"], input_processors=both, output_processors=both))
    assert read == [case("113")["expect"]["B_read"]]


async def test_the_last_hook_gets_the_whole_response_and_its_changes_are_saved(drive: Drive) -> None:
    """FR-114; R13.9, R13.14. There are no saves in the middle of a run (R13.16), and a run's answer is one message
    (R3.17), so the hook gets one message with the parts of both steps where the report has two rows."""
    given = case("114")
    store = InMemoryStore()
    received: list[list[str]] = []

    def tag(args: Any) -> None:
        for message in args.messages:
            received.append([part.type for part in message.content.parts])
            message.content.metadata = {**(message.content.metadata or {}), "tag": given["expect"]["stored_tag"]}

    agent = agent_of(
        scripted(given),
        tools=Calls({"tools": {"t": {"returns": "x"}}}).tools,
        output_processors=[made_sync(process_output_result=tag)],
        memory=Memory(store),
    )
    await drive(agent, memory=THREAD)
    assert received == [["tool-invocation", "step-start", "text"]]
    messages = await stored(store)
    assert (messages[1].content.metadata or {})["tag"] == given["expect"]["stored_tag"]
    ids = [message.id for message in messages]
    assert len(ids) - len(set(ids)) == given["expect"]["duplicate_rows"]
    assert len(ids) == 2


async def test_a_forged_thread_id_opens_nobody_elses_thread(drive: Drive) -> None:
    """FR-116, as far as it needs no recall; R13.1"""
    given = case("116")
    owned = given["stored"][0]
    forged = given["queries"][2]
    memory = Memory(InMemoryStore())
    said = owned["message"]["parts"][0]["text"]
    await generated(agent_of([said], memory=memory), memory={"thread": owned["thread"], "resource": owned["resource"]})
    model = ScriptedModel(["never"])
    outcome = await drive(
        agent_of(model, memory=memory), memory={"thread": forged["thread"], "resource": forged["resource"]}
    )
    assert isinstance(outcome.error, ThreadOwnershipError)
    assert said not in str(outcome.error)
    assert model.calls == given["expect"]["results"][2]


async def test_an_id_of_somebody_elses_message_brings_in_nothing_of_it(drive: Drive) -> None:
    """FR-116; R13.1: ids are unique within a thread, not beyond"""
    given = case("116")
    owned, query = given["stored"][0], given["queries"][0]
    memory = Memory(InMemoryStore())
    mine = {"thread": owned["thread"], "resource": owned["resource"]}
    await generated(agent_of(["ok"], memory=memory), ["hi", owned["message"]], memory=mine)
    model = ScriptedModel(["ok"])
    forged = {"id": query["value"], "role": "user", "parts": [{"type": "text", "text": "mine"}]}
    await drive(
        agent_of(model, memory=memory), [forged], memory={"thread": query["thread"], "resource": query["resource"]}
    )
    assert "internal" not in str(model.prompts)
    kept = await memory.store.list_messages(owned["thread"], resource_id=owned["resource"])
    assert [message.id for message in kept] == [kept[0].id, query["value"]]
    assert get_text(kept[1]).startswith("internal")


async def test_a_failed_tool_of_the_providers_is_stored_as_failed(drive: Drive) -> None:
    """FR-117; R4.4, R4.13, R10.12"""
    given = case("117")
    store = InMemoryStore()
    model = ScriptedModel([*turns(given), "fine"])
    agent = agent_of(model, memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == "Sorry"
    call = next(part for part in (await stored(store))[1].content.parts if isinstance(part, ToolInvocationPart))
    assert call.tool_invocation.state == "output-" + given["expect"]["stored_state"]
    assert call.tool_invocation.error_text == given["expect"]["error_text"]
    await drive(agent, "again?", memory=THREAD)
    assert_pairs_are_valid(model.prompts[1])
    assert results_in(model.prompts[1]) == {}
    parts = [part for message in model.prompts[1] if message["role"] == "assistant" for part in message["content"]]
    assert [part["type"] for part in parts[:2]] == ["tool-call", "tool-result"]
    assert parts[1]["output"] == {"type": "error-text", "value": "quota"}


async def test_parts_are_stored_in_the_order_of_the_stream(drive: Drive) -> None:
    """FR-119; R4.6, R3.18"""
    given = case("119")
    store = InMemoryStore()
    tools = Calls({"tools": {"t": {"returns": "x"}}}).tools
    outcome = await drive(agent_of(scripted(given), tools=tools, memory=Memory(store)), memory=THREAD)
    order = []
    for part in (await stored(store))[1].content.parts:
        if isinstance(part, TextPart):
            order.append(part.text)
        elif isinstance(part, ToolInvocationPart):
            order.append(part.tool_invocation.tool_call_id)
    assert order == given["expect"]["stored_order"]
    assert outcome.text == "ABC"
