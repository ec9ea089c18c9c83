"""Tools and process_tool_result."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import THREAD, Drive, Recorder, agent_of, made_sync, stored
from tests.field_reports.cases import Calls, assert_pairs_are_valid, case, results_in, scripted

pytestmark = pytest.mark.anyio


async def test_a_tool_that_does_not_exist_is_an_answer_to_the_model(drive: Drive) -> None:
    """FR-121; R10.4, R10.13"""
    given = case("121")
    expected = given["expect"]
    model, calls, recorder = scripted(given), Calls(given), Recorder()
    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[recorder]))
    assert (outcome.error is not None) is expected["raises"]
    told = results_in(model.prompts[1])["c1"]
    assert (told["type"] == "error-text") is expected["result_c1_is_error"]
    assert expected["result_c1_mentions"] in told["value"]
    assert outcome.text == expected["text"]
    assert recorder.hooks.count("process_tool_result(0)") == 0
    assert recorder.hooks.count("process_tool_result(1)") == 1
    assert "tool-error" in recorder.parts


async def test_a_model_that_keeps_inventing_tools_is_stopped_by_the_step_limit(drive: Drive) -> None:
    """FR-121; R12.12"""
    model = ScriptedModel(lambda request: [tool_call("open_page")])
    outcome = await drive(agent_of(model, tools=Calls(case("121")).tools), max_steps=3)
    assert model.calls == 3
    assert outcome.finish_reason == "tool-calls"


async def test_every_result_reaches_the_model_as_itself(drive: Drive) -> None:
    """FR-122; R4.11, R10.5"""
    given = case("122")
    model = ScriptedModel([[tool_call(name, id=name) for name in given["tools"]], "ok"])
    store = InMemoryStore()
    outcome = await drive(agent_of(model, tools=Calls(given).tools, memory=Memory(store)), memory=THREAD)
    told = results_in(model.prompts[1])
    assert [told[name]["value"] for name in given["tools"]] == given["expect"]["model_sees"]
    assert [told[name]["type"] for name in given["tools"]] == ["json", "json", "text", "json", "json", "json"]
    assert [repr(result.payload.result) for result in outcome.tool_results] == [
        repr(value) for value in given["expect"]["model_sees"]
    ]
    kept = [part for part in (await stored(store))[1].content.parts if isinstance(part, ToolInvocationPart)]
    assert [part.to_dict()["toolInvocation"]["result"] for part in kept] == given["expect"]["model_sees"]


@pytest.mark.parametrize("empty", case("122")["expect"]["model_sees"], ids=repr)
async def test_an_empty_value_that_a_hook_puts_in_place_of_a_result_counts(drive: Drive, empty: Any) -> None:
    """FR-122; R10.7"""

    def replace(args: Any) -> None:
        invocation = ToolInvocation(state="result", tool_call_id=args.tool_call_id, result=empty)
        args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))

    model = ScriptedModel([tool_call("t", id="c1"), "ok"])
    tool = Tool(id="t", execute=lambda args: {"secret": 1})
    agent = agent_of(model, tools=[tool], output_processors=[made_sync(process_tool_result=replace)])
    outcome = await drive(agent)
    assert repr(results_in(model.prompts[1])["c1"]["value"]) == repr(empty)
    assert repr(outcome.tool_results[0].payload.result) == repr(empty)


async def test_the_hooks_around_the_model_run_for_every_call(drive: Drive) -> None:
    """FR-124; R1.1, R1.8"""
    given = case("124")
    counts = {"process_input_step": 0, "process_llm_request": 0}
    requests: list[Any] = []

    def step(args: Any) -> None:
        counts["process_input_step"] += 1

    def request(args: Any) -> None:
        counts["process_llm_request"] += 1
        requests.append(args.prompt)

    guard = made_sync(process_input_step=step, process_llm_request=request)
    model = scripted(given)
    await drive(agent_of(model, tools=Calls(given).tools, input_processors=[guard]))
    wanted = given["expect"]["process_llm_request"]
    assert counts == {"process_input_step": wanted, "process_llm_request": wanted}
    assert model.calls == wanted
    assert given["expect"]["request_2_has_result"] in results_in(requests[1])


async def test_a_run_pauses_until_the_client_has_answered_all_its_calls(drive: Drive) -> None:
    """FR-128; R12.40, R3.5, R3.15"""
    given = case("128")
    expected = given["expect"]
    model, calls, store = scripted(given), Calls(given), InMemoryStore()
    clients = [Tool(id=name) for name in given["client_tools"]]
    agent = agent_of(model, tools=[*calls.tools.values(), *clients], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    assert outcome.finish_reason == "tool-calls"
    assert model.calls == 1
    pending = [call.tool_call_id for call in await stored_calls(store) if call.is_pending]
    assert pending == expected["pending"]
    answers = [
        {"type": "tool-result", "toolCallId": call_id, "toolName": name, "result": f"done {call_id}"}
        for call_id, name in zip(pending, given["client_tools"], strict=True)
    ]
    outcome = await drive(agent, [{"role": "tool", "content": answers}], memory=THREAD)
    assert outcome.text == "all done"
    assert len(calls.executed) == expected["server_runs"]
    assert_pairs_are_valid(model.prompts[1])
    told = {call_id: output["value"] for call_id, output in results_in(model.prompts[1]).items()}
    assert told == {"c1": "done c1", "c2": "done c2", "c3": 1}
    assert [call.state for call in await stored_calls(store)] == ["result", "result", "result"]


async def stored_calls(store: InMemoryStore) -> list[ToolInvocation]:
    parts = (await stored(store))[1].content.parts
    return [part.tool_invocation for part in parts if isinstance(part, ToolInvocationPart)]
