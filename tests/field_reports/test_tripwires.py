"""Tripwires: abort, block, retry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Processor, ProcessorError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, drain, text, tool_call, types_of
from tests.agent.kit import THREAD, Drive, Outcome, agent_of, generated, made_sync, saved, streamed
from tests.field_reports.cases import Calls, api_error, case, kept_in, scripted, shown, turns

pytestmark = pytest.mark.anyio


def stopping_at(word: str, **abort: Any) -> Processor:
    """Aborts at the first delta that has the word."""

    def process(args: Any) -> Any:
        if args.part.type == "text-delta" and word in args.part.payload.text:
            args.abort(f"the answer has {word!r}", **abort)
        return args.part

    return made_sync("stopping", process_output_stream=process)


async def test_a_block_shows_in_the_stream_as_it_does_in_the_result(drive: Drive) -> None:
    """FR-025; R6.4, R6.5, R6.8"""
    given = case("025")
    expected = given["expect"]
    model = ScriptedModel(["never"])
    guard = made_sync("guard", process_input=lambda args: args.abort("not allowed", metadata={"category": "demo"}))
    outcome = await drive(agent_of(model, input_processors=[guard]), given["messages"])
    assert model.calls == expected["model_calls"]
    assert outcome.error is None
    assert outcome.tripwire.reason == expected["reason"]
    assert bool(outcome.tripwire.processor_id) is expected["processor_id_present"]
    assert outcome.tripwire.metadata == expected["metadata"]
    assert outcome.finish_reason == expected["generate_finish_reason"]
    if outcome.chunks:
        assert types_of(outcome.chunks) == expected["stream_types"]
        payload = outcome.chunks[0].to_dict()["payload"]
        assert payload == {"reason": "not allowed", "metadata": {"category": "demo"}, "processorId": "guard"}


async def test_whoever_reads_only_text_learns_of_the_block() -> None:
    """FR-026, as far as it needs no adapter; R6.5, R12.15"""
    given = case("026")
    async with agent_of(scripted(given), output_processors=[stopping_at("bad")]).stream("hi") as stream:
        assert "".join(await drain(stream.text_stream)) == "one two "
        assert stream.tripwire is not None
        assert "bad" in stream.tripwire.reason
        assert stream.status == "tripwire"
        everything = Outcome(await stream.get_full_output(), None, await drain(stream.full_stream))
        assert given["expect"]["must_not_emit"] not in shown(everything)


async def test_a_broad_except_around_abort_swallows_nothing(drive: Drive) -> None:
    """FR-027; R6.3"""
    given = case("027")
    store = InMemoryStore()

    def scrub(args: Any) -> Any:
        try:
            if args.part.type == "text-delta" and "never" in args.part.payload.text:
                args.abort("the rules were told")
        except Exception:
            return args.part
        return args.part

    guard = made_sync("scrubber", process_output_stream=scrub)
    outcome = await drive(agent_of(scripted(given), output_processors=[guard], memory=Memory(store)), memory=THREAD)
    assert (outcome.tripwire is not None) is given["expect"]["tripwire"]
    assert outcome.tripwire.processor_id == "scrubber"
    assert given["expect"]["must_not_emit"] not in shown(outcome) + await kept_in(store)


@pytest.mark.parametrize("hook", ["process_input", "process_input_step", "process_llm_response", "process_output_step"])
async def test_no_tool_starts_before_every_check_has_passed(drive: Drive, hook: str) -> None:
    """FR-029; R1.11, R6.8"""
    given = case("029")
    calls = Calls({"tools": {"send_money": {"returns": "sent"}}})

    async def check(args: Any) -> None:
        await asyncio.sleep(0)
        args.abort("no")

    side = "output_processors" if hook == "process_output_step" else "input_processors"
    outcome = await drive(agent_of(scripted(given), tools=calls.tools, **{side: [made_sync(**{hook: check})]}))
    assert len(calls.executed) == given["expect"]["tool_calls_executed"]
    assert (outcome.tripwire is not None) is given["expect"]["tripwire"]


async def test_a_check_that_runs_beside_the_model_is_waited_for_before_tools(drive: Drive) -> None:
    """FR-029; R1.11, R19.4: whoever checks in parallel collects the verdict in process_output_step"""
    given = case("029")
    calls = Calls({"tools": {"send_money": {"returns": "sent"}}})

    class Parallel(Processor):
        id = "parallel"

        def process_input_step(self, args: Any) -> None:
            args.state["verdict"] = args.create_task(self._check())

        async def process_output_step(self, args: Any) -> None:
            if await args.state["verdict"] == "bad":
                args.abort("the check failed")

        async def _check(self) -> str:
            for _ in range(given["processor"]["check_ms"]):
                await asyncio.sleep(0)
            return "bad"

    guard = Parallel()
    agent = agent_of(scripted(given), tools=calls.tools, input_processors=[guard], output_processors=[guard])
    outcome = await drive(agent)
    assert len(calls.executed) == given["expect"]["tool_calls_executed"]
    assert (outcome.tripwire is not None) is given["expect"]["tripwire"]


def judge_of(outcome: str) -> Processor:
    """An output guard that passes, trips, or fails."""

    def judge(args: Any) -> None:
        if outcome == "trip":
            args.abort("rejected")
        if outcome == "detector_error":
            raise ConnectionError("the detector is away")

    return made_sync("judge", process_output_step=judge)


async def test_both_modes_store_the_same_whatever_the_verdict() -> None:
    """FR-031; R1.18, R13.9, R17.2"""
    given = case("031")
    for verdict in given["outcomes"]:
        kept = []
        for drive in (generated, streamed):
            store = InMemoryStore()
            agent = agent_of(scripted(given), output_processors=[judge_of(verdict)], memory=Memory(store))
            outcome = await drive(agent, memory=THREAD)
            kept.append(await saved(store))
            assert isinstance(outcome.error, ProcessorError) is (verdict == "detector_error")
            if verdict == "trip":
                assert outcome.tripwire.reason == "rejected"
                assert given["expect"]["trip_store_must_not_contain"] not in await kept_in(store)
        assert (kept[0] == kept[1]) is given["expect"]["stored_equal_between_generate_and_stream"]
        assert kept[0] == ([("user", "hi"), ("assistant", "answer 42")] if verdict == "pass" else [])


async def test_a_run_that_the_step_limit_ends_passes_the_same_output_hooks(drive: Drive) -> None:
    """FR-031; R1.14, R12.12"""
    store = InMemoryStore()
    calls = Calls({"tools": {"t": {"returns": "x"}}})
    mask = made_sync(process_output_result=lambda args: [_shouted(message) for message in args.messages])
    agent = agent_of([["looking", tool_call("t")]], tools=calls.tools, output_processors=[mask], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD, max_steps=1)
    assert outcome.finish_reason == "tool-calls"
    assert outcome.text == "LOOKING"
    assert await saved(store) == [("user", "hi"), ("assistant", "LOOKING")]


def _shouted(message: Any) -> Any:
    for part in message.content.parts:
        if part.type == "text":
            part.text = part.text.upper()
    return message


async def test_an_abort_at_a_tool_result_is_followed_by_no_model_call(drive: Drive) -> None:
    """FR-032; R6.8, R10.14"""
    given = case("032")
    calls, model = Calls(given), scripted(given)
    stop = made_sync("stop", process_tool_result=lambda args: args.abort("stop"))
    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[stop]))
    assert model.calls == given["expect"]["model_calls"]
    assert len(calls.executed) == 1
    assert outcome.tripwire.reason == "stop"
    assert given["expect"]["must_not_emit"] not in shown(outcome)


async def test_no_tool_call_is_shown_or_executed_after_a_violation(drive: Drive) -> None:
    """FR-035; R6.8"""
    given = case("035")
    calls = Calls({"tools": {"t": {"returns": "x"}}})
    outcome = await drive(agent_of(scripted(given), tools=calls.tools, output_processors=[stopping_at("bad")]))
    assert outcome.tripwire is not None
    assert not set(types_of(outcome.chunks)) & set(given["expect"]["types_absent_after_tripwire"])
    assert calls.executed == given["expect"]["tools_executed"]


async def test_no_tool_is_executed_after_a_provider_error(drive: Drive) -> None:
    """FR-035; R17.5"""
    given = case("035")
    calls = Calls({"tools": {"t": {"returns": "x"}}})
    store = InMemoryStore()
    error = api_error({"status": 500, "body": {"message": "upstream"}})
    model = ScriptedModel([[*turns(given)[0][:-1], error]])
    outcome = await drive(agent_of(model, tools=calls.tools, memory=Memory(store)), memory=THREAD)
    assert outcome.error is error
    assert calls.executed == given["expect"]["tools_executed"]
    assert '"output-error"' in await kept_in(store)


async def test_a_violation_while_a_call_is_streamed_leaves_no_call(drive: Drive) -> None:
    """FR-035; R6.8, R11.7"""
    calls = Calls({"tools": {"t": {"returns": "x"}}})
    model = ScriptedModel([[tool_call("t"), text("bad")]])
    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[stopping_at("bad")]))
    assert calls.executed == []
    assert outcome.response.messages == []
    assert outcome.tool_calls == []
