"""When hooks run, in which order, and when the loop goes on (runtime specification, section 1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, ModelFallback, ProcessorError, Tool, tool
from interlock.models import as_streaming
from interlock.models.base import ModelReply
from interlock.testing import ScriptedModel, finish, tool_call
from tests.agent.kit import NINE_HOOKS, Drive, Make, Recorder, agent_of, echo, kept, made_sync, streamed, told

pytestmark = pytest.mark.anyio


def recorded(model: Any, recorder: Recorder, **settings: Any) -> Any:
    return agent_of(model, tools=[echo], **recorder.everywhere, **settings)


INPUT = ["process_input", "process_input_step", "process_llm_request", "process_llm_response"]
OUTPUT = ["process_output_stream", "process_output_step", "process_tool_result", "process_output_result"]


ARRAYS = {"input_processors": INPUT, "output_processors": OUTPUT}


@pytest.mark.parametrize("array", ["input_processors", "output_processors", "error_processors"])
async def test_each_array_supplies_its_own_hooks_only(drive: Drive, array: str) -> None:
    """R1.1, R1.3"""
    recorder = Recorder()
    model = ScriptedModel([[tool_call("echo")], "x"])
    await drive(agent_of(model, tools=[echo], **{array: [recorder]}))
    called = {call.split("(")[0] for call in recorder.calls}
    assert called == set(ARRAYS.get(array, ()))


async def test_only_an_error_processor_is_asked_about_errors(drive: Drive) -> None:
    """R1.3"""
    outsider, insider = Recorder("outsider"), Recorder("insider")
    agent = agent_of(
        [APICallError("no", status_code=400)],
        input_processors=[outsider],
        output_processors=[outsider],
        error_processors=[insider],
    )
    await drive(agent)
    assert "process_api_error" not in outsider.calls
    assert insider.calls == ["process_api_error"]


async def test_processors_of_a_hook_run_in_list_order_one_after_the_other(drive: Drive) -> None:
    """R1.2"""
    running: list[str] = []

    def slow(name: str) -> Any:
        async def hook(args: Any) -> Any:
            running.append(f"{name} begins")
            await asyncio.sleep(0)
            running.append(f"{name} ends")
            return getattr(args, "part", None)

        return hook

    for hook in NINE_HOOKS:
        running.clear()
        array = (
            "error_processors"
            if hook == "process_api_error"
            else f"{'input' if hook in INPUT else 'output'}_processors"
        )
        processors = [made_sync(name, **{hook: slow(name)}) for name in ("a", "b")]
        turns = [APICallError("no", status_code=400)] if hook == "process_api_error" else [[tool_call("echo")], "x"]
        await drive(agent_of(turns, tools=[echo], **{array: processors}))
        assert running, hook
        assert running == ["a begins", "a ends", "b begins", "b ends"] * (len(running) // 4), hook


async def test_the_order_of_a_run_of_two_steps() -> None:
    """R1.4, R1.9, R1.10"""
    recorder = Recorder()

    @tool(in_thread=False)
    def work() -> str:
        """Notes that it ran."""
        recorder.calls.append("tool.execute")
        return "ok"

    def prepare_step(args: Any) -> None:
        recorder.calls.append(f"prepare_step({args.step_number})")

    agent = agent_of([["a", tool_call("work")], "b"], tools=[work], **recorder.everywhere)
    await streamed(agent, prepare_step=prepare_step)
    assert recorder.calls == [
        "process_input",
        "process_input_step(0)",
        "prepare_step(0)",
        "process_llm_request(0)",
        "process_output_stream(step-start)",
        "process_output_stream(text-start)",
        "process_output_stream(text-delta)",
        "process_output_stream(text-end)",
        "process_output_stream(tool-call)",
        "process_llm_response(0)",
        "process_output_step(0)",
        "tool.execute",
        "process_tool_result(0)",
        "process_output_stream(tool-result)",
        "process_output_stream(step-finish)",
        "process_input_step(1)",
        "prepare_step(1)",
        "process_llm_request(1)",
        "process_output_stream(step-start)",
        "process_output_stream(text-start)",
        "process_output_stream(text-delta)",
        "process_output_stream(text-end)",
        "process_output_stream(finish)",
        "process_llm_response(1)",
        "process_output_step(1)",
        "process_output_stream(step-finish)",
        "process_output_result",
    ]


async def test_generate_and_stream_run_the_same_hooks_in_the_same_order() -> None:
    """R1.18"""
    traces = []
    for run in ("generate", "stream"):
        recorder = Recorder()
        agent = recorded([["a", tool_call("echo")], "b"], recorder)
        if run == "generate":
            await agent.generate("hi")
        else:
            await streamed(agent)
        traces.append(recorder.calls)
    assert traces[0] == traces[1]


async def test_process_input_runs_once_over_retries_steps_and_fallbacks(drive: Drive) -> None:
    """R1.5"""
    recorder = Recorder()
    failing = ScriptedModel(lambda request: APICallError("down", status_code=400))
    model = ScriptedModel(["bad", [tool_call("echo")], "x"])

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        [],
        tools=[echo],
        input_processors=[recorder],
        output_processors=[made_sync("reject", process_output_step=reject)],
        max_processor_retries=1,
    )
    await drive(agent, model=[ModelFallback(failing), ModelFallback(model)])
    assert recorder.calls.count("process_input") == 1
    assert recorder.calls.count("process_input_step(0)") > 1


async def test_process_input_runs_after_all_input_is_in_the_list(drive: Drive, make: Make) -> None:
    """R1.5"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        seen.append(kept(args.messages))
        seen.append([message["content"] for message in args.system_messages])

    agent = agent_of(["x"], instructions="I", input_processors=[make(process_input=look)])
    await drive(agent, "in", context=["ctx"], system="S")
    assert seen == [[("user", "ctx"), ("user", "in")], ["I", "S"]]


async def test_prepare_step_is_the_last_input_step_processor_with_the_same_returns(drive: Drive, make: Make) -> None:
    """R1.6, R12.13"""
    model, seen = ScriptedModel(["x"]), list[Any]()

    def prepare_step(args: Any) -> Any:
        seen.append(args.tool_choice)
        return {"tool_choice": "none", "system_messages": ["from prepare"]}

    first = make(process_input_step=lambda args: {"tool_choice": "required"})
    await drive(agent_of(model, tools=[echo], input_processors=[first]), prepare_step=prepare_step)
    assert seen == ["required"]
    assert model.requests[0].tool_choice == "none"
    assert told(model.prompts[0])[0] == ("system", "from prepare")


async def test_only_processors_marked_as_last_follow_prepare_step(drive: Drive, make: Make) -> None:
    """R1.6, R19.6"""
    order: list[str] = []
    last = make("last", auto_position="last", process_input_step=lambda args: order.append("last"))
    user = make("user", process_input_step=lambda args: order.append("user"))
    agent = agent_of(["x"], input_processors=[last, user])
    await drive(agent, prepare_step=lambda args: order.append("prepare"))
    assert order == ["user", "prepare", "last"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_errors_of_prepare_step_name_it(drive: Drive, is_async: bool) -> None:
    """R1.6, R17.1"""

    def fail(args: Any) -> Any:
        raise ValueError("boom")

    async def fail_later(args: Any) -> Any:
        fail(args)

    outcome = await drive(agent_of(["x"]), prepare_step=fail_later if is_async else fail)
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("prepare-step", "process_input_step")


async def test_what_input_step_hooks_changed_is_in_the_prompt(drive: Drive, make: Make) -> None:
    """R1.7"""
    model = ScriptedModel(["x"])
    processor = make(process_input_step=lambda args: args.message_list.add("late", "input") and None)
    await drive(agent_of(model, input_processors=[processor]))
    assert told(model.prompts[0]) == [("user", "hi"), ("user", "late")]


async def test_retries_of_the_model_client_do_not_run_the_request_hook_again(drive: Drive) -> None:
    """R1.8, R7.13"""
    recorder = Recorder()
    error = APICallError("busy", status_code=503, retry_after_s=0)
    model = ScriptedModel([error, error, "x"])
    outcome = await drive(recorded(model, recorder, max_retries=2))
    assert outcome.text == "x"
    assert model.calls == 3
    assert recorder.calls.count("process_llm_request(0)") == 1


async def test_a_fallback_model_starts_a_new_attempt_from_process_input_step(drive: Drive) -> None:
    """R1.8"""
    recorder = Recorder()
    failing, good = ScriptedModel([APICallError("no", status_code=400)]), ScriptedModel(["x"])
    outcome = await drive(recorded([], recorder), model=[ModelFallback(failing), ModelFallback(good)])
    assert outcome.text == "x"
    assert recorder.hooks[:6] == [
        "process_input",
        "process_input_step(0)",
        "process_llm_request(0)",
        "process_api_error",
        "process_input_step(0)",
        "process_llm_request(0)",
    ]


async def test_the_response_is_assembled_from_the_chunks_that_survived_before_it_is_judged(
    drive: Drive, make: Make
) -> None:
    """R1.9"""
    seen: list[Any] = []

    def drop_b(args: Any) -> Any:
        is_b = args.part.type == "text-delta" and args.part.payload.text == "b"
        return None if is_b else args.part

    agent = agent_of(
        [["a", "b", "c"]],
        input_processors=[make(process_llm_response=lambda args: seen.append(args.steps[-1].text))],
        output_processors=[make(process_output_stream=drop_b)],
    )
    outcome = await drive(agent)
    assert seen == ["ac"]
    assert kept(outcome.message_list.get.response.db()) == [("assistant", "ac")]


async def test_no_tool_starts_before_every_output_step_hook_returned(drive: Drive) -> None:
    """R1.11"""
    order: list[str] = []

    @tool
    async def work() -> str:
        """Notes that it ran."""
        order.append("tool")
        return "ok"

    async def slow(args: Any) -> None:
        await asyncio.sleep(0)
        order.append(f"hook {args.step_number}")

    processors = [made_sync("a", process_output_step=slow), made_sync("b", process_output_step=slow)]
    await drive(agent_of([[tool_call("work")], "x"], tools=[work], output_processors=processors))
    assert order == ["hook 0", "hook 0", "tool", "hook 1", "hook 1"]


@pytest.mark.parametrize(
    ("reason", "goes_on"),
    [("tool-calls", True), ("stop", True), ("unknown", True), ("length", False), ("content-filter", False)],
)
async def test_the_loop_goes_on_after_a_resolved_call_unless_the_reply_ended_badly(
    drive: Drive, reason: str, goes_on: bool
) -> None:
    """R1.12"""
    model = ScriptedModel([[tool_call("echo"), finish(reason)], "x"])
    outcome = await drive(agent_of(model, tools=[echo]))
    assert model.calls == (2 if goes_on else 1)
    assert outcome.finish_reason == ("stop" if goes_on else reason)
    assert len(outcome.tool_results) == 1


PROVIDER_CALL = {
    "type": "tool-call",
    "payload": {"toolCallId": "p1", "toolName": "web_search", "args": {"q": "x"}, "providerExecuted": True},
}
PROVIDER_RESULT = {
    "type": "tool-result",
    "payload": {"toolCallId": "p1", "toolName": "web_search", "result": {"hits": 2}, "providerExecuted": True},
}


async def test_a_call_that_the_provider_executed_does_not_continue_the_loop(drive: Drive) -> None:
    """R1.12"""
    model = ScriptedModel([[PROVIDER_CALL, PROVIDER_RESULT, "found", finish("stop")]])
    outcome = await drive(agent_of(model))
    assert (model.calls, outcome.text, outcome.finish_reason) == (1, "found", "stop")


@pytest.mark.parametrize("reason", ["tool-calls", "stop"])
async def test_a_reply_without_a_surviving_call_ends_the_loop(drive: Drive, reason: str) -> None:
    """R1.13"""
    model = ScriptedModel([["x", finish(reason)]])
    outcome = await drive(agent_of(model))
    assert (model.calls, outcome.finish_reason, outcome.text) == (1, reason, "x")


async def test_the_result_hook_runs_once_at_the_end_of_a_completed_run(drive: Drive) -> None:
    """R1.14"""
    recorder = Recorder()
    await drive(recorded([[tool_call("echo")], "x"], recorder))
    assert recorder.calls.count("process_output_result") == 1
    assert recorder.calls[-1] == "process_output_result"


async def test_the_result_hook_runs_at_the_step_limit(drive: Drive) -> None:
    """R1.14, R12.12"""
    recorder = Recorder()
    outcome = await drive(recorded([[tool_call("echo")]], recorder), max_steps=1)
    assert recorder.calls.count("process_output_result") == 1
    assert outcome.finish_reason == "tool-calls"


async def test_the_result_hook_runs_after_an_unrecovered_model_error(make: Make) -> None:
    """R1.14"""
    reasons: list[str] = []
    watcher = make(process_output_result=lambda args: reasons.append(args.result.finish_reason))
    outcome = await streamed(agent_of([APICallError("no", status_code=400)], output_processors=[watcher]))
    assert reasons == ["error"]
    assert outcome.finish_reason == "error"


async def test_the_result_hook_runs_after_a_cancellation(drive: Drive, make: Make) -> None:
    """R1.14"""
    reasons: list[str] = []
    signal = AbortSignal()
    model = ScriptedModel([["a", signal.abort, "b"]])
    watcher = make(process_output_result=lambda args: reasons.append(args.result.finish_reason))
    await drive(agent_of(model, output_processors=[watcher]), abort_signal=signal)
    assert reasons == ["aborted"]


def trip(args: Any) -> Any:
    args.abort("no")


def crash(args: Any) -> Any:
    raise ValueError("boom")


@pytest.mark.parametrize("end", [trip, crash])
async def test_the_result_hook_does_not_run_after_a_tripwire_or_a_failed_hook(
    drive: Drive, make: Make, end: Any
) -> None:
    """R1.14"""
    recorder = Recorder()
    await drive(recorded(["x"], recorder), output_processors=[recorder, make("end", process_output_step=end)])
    assert "process_output_result" not in recorder.calls


async def test_the_result_hook_does_not_run_when_the_run_is_suspended(drive: Drive) -> None:
    """R1.14, R12.36"""
    recorder = Recorder()
    outcome = await drive(recorded([[tool_call("echo")]], recorder), require_tool_approval=True)
    assert outcome.finish_reason == "suspended"
    assert "process_output_result" not in recorder.calls


async def test_a_missing_hook_is_skipped(drive: Drive, make: Make) -> None:
    """R1.15"""
    recorder = Recorder()
    lacking = make("lacking", process_output_result=lambda args: None)
    outcome = await drive(agent_of(["x"], output_processors=[lacking, recorder]))
    assert outcome.text == "x"
    assert recorder.calls[-1] == "process_output_result"


class OneShot:
    """A model that does not stream."""

    provider = "one"
    model_id = "shot"

    async def generate(self, request: Any) -> ModelReply:
        return ModelReply(content=[{"type": "text", "text": "whole answer"}], usage={"inputTokens": 1})


@pytest.mark.parametrize("model", [OneShot(), as_streaming(OneShot())], ids=["as it is", "lifted"])
async def test_a_model_that_does_not_stream_is_turned_into_chunks(drive: Drive, model: Any) -> None:
    """R1.18"""
    recorder = Recorder()
    agent = agent_of([], output_processors=[recorder])
    outcome = await drive(agent, model=model)
    assert outcome.text == "whole answer"
    assert [part for part in recorder.parts if part.startswith("text")] == ["text-start", "text-delta", "text-end"]


async def test_steps_are_sequential(drive: Drive) -> None:
    """R1.19"""
    recorder = Recorder()
    await drive(recorded([[tool_call("echo")], [tool_call("echo")], "x"], recorder))
    numbers = [int(call[-2]) for call in recorder.hooks if call[-1] == ")"]
    assert numbers == sorted(numbers)


async def test_concurrent_runs_share_nothing_but_the_processors(drive: Drive) -> None:
    """R1.19"""
    barrier = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Wait for the other run."""
        await barrier.wait()
        return f"met as {name}"

    def answer(request: Any) -> Any:
        name, last = told(request.prompt)[0][1], told(request.prompt)[-1]
        return f"{name} {last[1]}" if last[0] == "tool" else [tool_call("meet", {"name": name})]

    agent = agent_of(answer, tools=[meet])
    first, second = await asyncio.gather(drive(agent, "Ann"), drive(agent, "Bob"))
    assert (first.text, second.text) == ("Ann met as Ann", "Bob met as Bob")
    assert first.run_id != second.run_id


async def test_a_client_tool_ends_the_run_at_its_call(drive: Drive) -> None:
    """R1.12, R12.40"""
    model = ScriptedModel([["over to you", tool_call("open", {"page": 2})]])
    client_tool = Tool(id="open", input_schema={"type": "object", "properties": {"page": {"type": "integer"}}})
    outcome = await drive(agent_of(model), client_tools=[client_tool])
    assert (model.calls, outcome.finish_reason) == (1, "tool-calls")
    part = outcome.message_list.get.response.db()[0].content.parts[-1]
    assert part.tool_invocation.state == "call"
