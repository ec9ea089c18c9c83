"""Which chunks a run emits, and which of them output processors see (runtime specification, section 5)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import APICallError, tool
from interlock.testing import ScriptedModel, finish, reasoning, text, tool_call, tool_input, types_of
from tests.agent.kit import Drive, Make, Recorder, agent_of, chunks_of, echo, outline, streamed

pytestmark = pytest.mark.anyio

METADATA = {"type": "response-metadata", "payload": {"id": "r1", "modelId": "m-2"}}


async def test_the_chunks_of_a_run_with_one_tool() -> None:
    """R5.3, R5.4"""
    turns = [[METADATA, "a", tool_call("echo")], [METADATA, "b"]]
    outcome = await streamed(agent_of(turns, tools=[echo]))
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(a)",
        "text-end",
        "tool-call",
        "tool-result",
        "step-finish(tool-calls)",
        "step-start",
        "text-start",
        "text-delta(b)",
        "text-end",
        "step-finish(stop)",
        "finish(stop)",
    ]


async def test_every_chunk_carries_the_run_and_its_origin() -> None:
    """R5.1, R5.3"""
    outcome = await streamed(agent_of([["a", tool_call("echo")], "b"], tools=[echo]))
    assert {(chunk.run_id, chunk.from_) for chunk in outcome.chunks} == {(outcome.run_id, "AGENT")}


async def test_start_names_agent_and_message() -> None:
    """R5.3"""
    outcome = await streamed(agent_of(["x"]))
    start = outcome.chunks[0]
    assert start.payload.id == "agent"
    assert start.payload.message_id == outcome.message_list.get.response.db()[0].id


async def test_step_start_comes_when_the_last_request_hook_has_returned(make: Make) -> None:
    """R5.3"""
    order: list[str] = []

    def look(args: Any) -> Any:
        order.append(args.part.type)
        return args.part

    processor = make(process_llm_request=lambda args: order.append("request"), process_output_stream=look)
    agent = agent_of(["x"], input_processors=[processor], output_processors=[processor])
    await streamed(agent)
    assert order[:2] == ["request", "step-start"]


async def test_step_start_is_emitted_when_the_provider_rejects_the_call() -> None:
    """R5.3"""
    outcome = await streamed(agent_of([APICallError("no", status_code=400)]))
    assert outline(outcome.chunks) == ["start", "step-start", "error", "step-finish(error)", "finish(error)"]


async def test_the_one_finish_has_the_total_usage() -> None:
    """R5.4"""
    outcome = await streamed(agent_of([[tool_call("echo")], "b"], tools=[echo]))
    (last,) = chunks_of(outcome.chunks, "finish")
    assert last.payload.output.usage.to_dict() == {"inputTokens": 10, "outputTokens": 6, "totalTokens": 16}


async def test_hooks_see_the_same_chunks_whether_or_not_somebody_reads_the_stream(drive: Drive, make: Make) -> None:
    """R5.9, R11.6: chunks that tell of the run's own doings are made for hooks too."""
    seen: list[str] = []
    kept: list[list[str]] = []

    def look(args: Any) -> Any:
        seen.append(args.part.type)
        return args.part

    agent = agent_of(
        [["a", tool_call("echo")], "b"],
        tools=[echo],
        input_processors=[make(process_llm_response=lambda args: kept.append(types_of(args.chunks)))],
        output_processors=[make(process_output_stream=look)],
    )
    await drive(agent)
    text_span = ["text-start", "text-delta", "text-end"]
    assert seen == [
        *["step-start", *text_span, "tool-call", "tool-result", "step-finish"],
        *["step-start", *text_span, "finish", "step-finish"],
    ]
    assert kept == [["step-start", *text_span, "tool-call", "finish"], ["step-start", *text_span, "finish"]]


@pytest.mark.parametrize("reason", ["stop", "length", "content-filter", "tool-calls", "other", "unknown"])
async def test_finish_reasons_are_passed_on(drive: Drive, reason: str) -> None:
    """R5.5"""
    outcome = await drive(agent_of([["x", finish(reason)]]))
    assert (outcome.finish_reason, outcome.steps[-1].finish_reason) == (reason, reason)


async def test_streamed_input_becomes_exactly_one_call() -> None:
    """R5.6"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    turn = tool_input("note", '{"te', 'xt": "yo"}', id="c1")
    outcome = await streamed(agent_of([turn, "x"], tools=[note]))
    assert types_of(outcome.chunks)[2:8] == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
        "tool-result",
    ]
    (call,) = chunks_of(outcome.chunks, "tool-call")
    assert (call.payload.tool_call_id, call.payload.args) == ("c1", {"text": "yo"})
    assert ran == ["yo"]


async def test_a_call_after_its_streamed_input_only_completes_it() -> None:
    """R5.6"""
    turn = [*tool_input("echo", '{"text": "yo"}', id="c1"), tool_call("echo", {"text": "other"}, id="c1")]
    outcome = await streamed(agent_of([turn, "x"], tools=[echo]))
    (call,) = chunks_of(outcome.chunks, "tool-call")
    assert call.payload.args == {"text": "yo"}
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["yo"]


async def test_arguments_that_are_no_json_fail_the_call(drive: Drive) -> None:
    """R5.6"""
    model = ScriptedModel([tool_input("echo", '{"text": '), "x"])
    outcome = await drive(agent_of(model, tools=[echo]))
    output = model.prompts[1][-1]["content"][0]["output"]
    assert output["type"] == "error-text"
    assert "JSON" in output["value"]
    assert outcome.text == "x"


@pytest.mark.parametrize(
    "turn",
    [["half", finish("error")], [finish("other")], {"type": "error", "payload": {"error": {"message": "broken"}}}],
    ids=["finish error", "empty other", "error chunk"],
)
async def test_a_malformed_stream_is_a_failed_call(drive: Drive, make: Make, turn: Any) -> None:
    """R5.7, R7.14"""
    asked: list[BaseException] = []
    processor = make(process_api_error=lambda args: asked.append(args.error) or {"retry": True})
    outcome = await drive(agent_of([turn, "fine"], error_processors=[processor]))
    assert len(asked) == 1
    assert outcome.text == "fine"


async def test_other_with_content_is_no_failure(drive: Drive) -> None:
    """R5.7"""
    outcome = await drive(agent_of([["x", finish("other")]]))
    assert (outcome.text, outcome.finish_reason, outcome.error) == ("x", "other", None)


async def test_an_empty_delta_is_forwarded() -> None:
    """R5.8"""
    outcome = await streamed(agent_of([text("", "a")]))
    assert outline(outcome.chunks)[3:5] == ["text-delta()", "text-delta(a)"]


async def test_output_processors_see_the_chunks_of_the_list() -> None:
    """R5.9, R5.10"""
    recorder = Recorder()
    turns = [
        [METADATA, *reasoning("hm"), "a", tool_call("echo")],
        [METADATA, {"type": "source", "payload": {"id": "s", "url": "https://x.test"}}, "b"],
    ]
    await streamed(agent_of(turns, tools=[echo], output_processors=[recorder]))
    assert recorder.parts == [
        "step-start",
        "response-metadata",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "tool-call",
        "tool-result",
        "step-finish",
        "step-start",
        "response-metadata",
        "source",
        "text-start",
        "text-delta",
        "text-end",
        "finish",
        "step-finish",
    ]


async def test_start_and_the_end_of_the_run_do_not_pass_output_processors(make: Make) -> None:
    """R5.9"""
    recorder = Recorder()
    tripping = make(process_output_step=lambda args: args.abort("no"))
    outcome = await streamed(agent_of(["x"], output_processors=[recorder, tripping]))
    assert "tripwire" in types_of(outcome.chunks)
    assert not {"start", "tripwire"} & set(recorder.parts)


async def test_an_unrecovered_error_passes_output_processors_and_a_recovered_one_does_not(make: Make) -> None:
    """R5.9"""
    recorder = Recorder()
    error = APICallError("no", status_code=400)
    again = make(process_api_error=lambda args: {"retry": True})
    await streamed(agent_of([error, "x"], output_processors=[recorder], error_processors=[again]))
    assert "error" not in recorder.parts
    await streamed(agent_of([error], output_processors=[recorder]))
    assert recorder.parts.count("error") == 1


RAW = {"type": "raw", "payload": {"event": "x"}}


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_raw_chunks_come_only_when_they_are_asked_for(is_wanted: bool) -> None:
    """R5.9"""
    recorder = Recorder()
    model = ScriptedModel([[RAW, "x"]])
    outcome = await streamed(agent_of(model, output_processors=[recorder]), include_raw_chunks=is_wanted)
    assert model.requests[0].include_raw_chunks is is_wanted
    assert ("raw" in types_of(outcome.chunks), "raw" in recorder.parts) == (is_wanted, is_wanted)


@pytest.mark.parametrize("reason", ["tool-calls", "stop"])
async def test_a_model_level_finish_is_seen_once_whatever_its_reason(reason: str) -> None:
    """R5.10"""
    recorder = Recorder()
    turns = [[tool_call("echo"), finish(reason)], "x"]
    await streamed(agent_of(turns, tools=[echo], output_processors=[recorder]))
    assert recorder.parts.count("finish") == 1
    assert recorder.parts[-2:] == ["finish", "step-finish"]


async def test_the_finish_is_seen_before_the_response_hook() -> None:
    """R5.10"""
    recorder = Recorder()
    await streamed(agent_of(["x"], **recorder.everywhere))
    position = recorder.calls.index("process_output_stream(finish)")
    assert recorder.calls[position + 1] == "process_llm_response(0)"


async def test_changing_a_call_changes_what_runs(drive: Drive, make: Make) -> None:
    """R5.11"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    def change(args: Any) -> Any:
        if args.part.type == "tool-call":
            args.part.payload.args = {"text": "changed"}
        return args.part

    model = ScriptedModel([[tool_call("note", {"text": "one"})], "x"])
    outcome = await drive(agent_of(model, tools=[note], output_processors=[make(process_output_stream=change)]))
    assert ran == ["changed"]
    call = model.prompts[1][-2]["content"][0]
    assert call["input"] == {"text": "changed"}
    assert outcome.tool_calls[0].payload.args == {"text": "changed"}


async def test_tool_input_is_screened_before_the_tool_runs(make: Make) -> None:
    """R5.11"""
    order: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        order.append("ran")
        return text

    def look(args: Any) -> Any:
        if args.part.type.startswith("tool-call"):
            order.append(args.part.type)
        return args.part

    turns = [tool_input("note", '{"text": "yo"}'), "x"]
    await streamed(agent_of(turns, tools=[note], output_processors=[make(process_output_stream=look)]))
    assert order == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
        "ran",
    ]


async def test_unknown_chunk_types_pass_through() -> None:
    """R5.2, R5.9"""
    outcome = await streamed(agent_of([[{"type": "future-thing", "payload": {"a": 1}}, "x"]]))
    (chunk,) = chunks_of(outcome.chunks, "future-thing")
    assert chunk.to_dict()["payload"] == {"a": 1}
    assert outcome.text == "x"
