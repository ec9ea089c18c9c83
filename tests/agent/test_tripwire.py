"""What an abort does, from whichever hook it comes (runtime specification, section 6)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock import APICallError, InterlockError, ModelFallback, Processor, TripWire, TripwireInfo
from interlock.memory import InMemoryStore, Memory
from interlock.processors import ProcessorViolation
from interlock.testing import ScriptedModel, tool_call, types_of
from tests.agent.kit import (
    NINE_HOOKS,
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    outline,
    saved,
    streamed,
)

pytestmark = pytest.mark.anyio

HOOKS = [*NINE_HOOKS, "flush_output_stream"]


def array_of(hook: str) -> str:
    if hook == "process_api_error":
        return "error_processors"
    return "input_processors" if hook.startswith(("process_input", "process_llm")) else "output_processors"


def turns_for(hook: str) -> list[Any]:
    """A run in which the hook has its turn."""
    return [APICallError("down", status_code=400)] if hook == "process_api_error" else [["a", tool_call("echo")], "b"]


def aborting(reason: str | None = "no", **options: Any) -> Any:
    return lambda args, *_: args.abort(reason, **options)


def run_with(hook: str, processor: Any, **settings: Any) -> Any:
    return agent_of(turns_for(hook), tools=[echo], **{array_of(hook): [processor]}, **settings)


async def test_abort_raises_a_tripwire_with_its_facts(drive: Drive, make: Make) -> None:
    """R6.1"""
    raised: list[TripWire] = []

    def hook(args: Any) -> None:
        try:
            args.abort("why", metadata={"k": 1})
        except TripWire as tripwire:
            raised.append(tripwire)
            raise

    await drive(agent_of(["x"], input_processors=[make("guard", process_input=hook)]))
    (tripwire,) = raised
    assert isinstance(tripwire, InterlockError)
    assert (tripwire.reason, tripwire.retry, tripwire.metadata) == ("why", False, {"k": 1})
    assert (tripwire.processor_id, str(tripwire)) == ("guard", "why")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("reason", [None, ""])
async def test_a_missing_reason_gets_the_default_one(make: Make, hook: str, reason: str | None) -> None:
    """R6.1"""
    outcome = await streamed(run_with(hook, make("guard", **{hook: aborting(reason)})))
    assert outcome.tripwire.reason == "Tripwire triggered by guard"
    assert outcome.chunks[-1].payload.reason == "Tripwire triggered by guard"


@pytest.mark.parametrize("hook", HOOKS)
async def test_raising_a_tripwire_is_the_same_as_aborting(drive: Drive, make: Make, hook: str) -> None:
    """R6.2"""

    def raising(args: Any, *_: Any) -> Any:
        raise TripWire("direct", metadata=1)

    outcome = await drive(run_with(hook, make("guard", **{hook: raising})))
    assert outcome.tripwire.reason == "direct"
    assert (outcome.tripwire.processor_id, outcome.tripwire.metadata) == ("guard", 1)


async def test_a_raised_tripwire_keeps_the_processor_that_it_names(drive: Drive, make: Make) -> None:
    """R6.2"""

    def raising(args: Any) -> Any:
        raise TripWire("direct", processor_id="inner")

    outcome = await drive(agent_of(["x"], output_processors=[make("outer", process_output_step=raising)]))
    assert outcome.tripwire.processor_id == "inner"


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("after", ["returns", "raises"])
async def test_an_abort_cannot_be_swallowed(drive: Drive, make: Make, hook: str, after: str) -> None:
    """R6.3"""

    def swallowing(args: Any, *_: Any) -> Any:
        try:
            args.abort("first")
        except Exception:
            if after == "raises":
                raise ValueError("something else") from None
        try:
            args.abort("second")
        except Exception:
            return getattr(args, "part", None)

    outcome = await drive(run_with(hook, make("guard", **{hook: swallowing})))
    assert outcome.error is None or isinstance(outcome.error, APICallError)
    assert (outcome.tripwire.reason, outcome.tripwire.processor_id) == ("first", "guard")


async def test_what_a_hook_returns_after_its_abort_is_ignored(drive: Drive, make: Make) -> None:
    """R6.3"""
    model = ScriptedModel(["x"])

    def swallowing(args: Any) -> Any:
        try:
            args.abort("no")
        except TripWire:
            return {"nonsense": 1}

    outcome = await drive(agent_of(model, input_processors=[make(process_input_step=swallowing)]))
    assert (outcome.tripwire.reason, outcome.error) == ("no", None)


async def test_a_tripwire_that_the_hook_raises_and_catches_itself_never_reached_the_runtime(
    drive: Drive, make: Make
) -> None:
    """R6.3"""

    def caught(args: Any) -> Any:
        try:
            raise TripWire("mine")
        except TripWire:
            return None

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=caught)]))
    assert (outcome.text, outcome.tripwire) == ("x", None)


async def test_an_abort_from_a_background_task_takes_effect_at_the_next_hook(drive: Drive) -> None:
    """R6.3"""

    class Late(Processor):
        id = "late"

        async def process_input_step(self, args: Any) -> None:
            async def verdict() -> None:
                args.abort("late verdict")

            task = asyncio.ensure_future(verdict())
            await asyncio.wait([task])
            assert isinstance(task.exception(), TripWire)

    outcome = await drive(agent_of(["x"], input_processors=[Late()]))
    assert (outcome.tripwire.reason, outcome.tripwire.processor_id) == ("late verdict", "late")


@pytest.mark.parametrize("hook", HOOKS)
async def test_the_tripwire_chunk_has_run_origin_and_only_the_fields_that_were_given(make: Make, hook: str) -> None:
    """R6.4"""
    outcome = await streamed(run_with(hook, make("guard", **{hook: aborting("no")})))
    assert outcome.chunks[-1].to_dict() == {
        "type": "tripwire",
        "runId": outcome.run_id,
        "from": "AGENT",
        "payload": {"reason": "no", "processorId": "guard"},
    }


async def test_the_tripwire_chunk_has_retry_and_metadata_when_they_were_given(make: Make) -> None:
    """R6.4"""
    guard = make("guard", process_output_step=aborting("no", retry=True, metadata={"score": 0}))
    outcome = await streamed(agent_of(["x"], output_processors=[guard]))
    assert outcome.chunks[-1].to_dict()["payload"] == {
        "reason": "no",
        "processorId": "guard",
        "retry": True,
        "metadata": {"score": 0},
    }


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_tripped_run_ends_the_same_way_from_every_hook(make: Make, hook: str) -> None:
    """R6.5"""
    store, recorder, told = InMemoryStore(), Recorder(), list[tuple[str, Any]]()
    guard = make("guard", **{hook: aborting("no", metadata={"k": 1})})
    calls_at_abort: list[int] = []
    abort = getattr(guard, hook)

    async def noting(args: Any, *rest: Any) -> Any:
        calls_at_abort.append(len(recorder.calls))
        outcome = abort(args, *rest)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    setattr(guard, hook, noting)
    arrays: dict[str, Any] = {
        name: [recorder] for name in ("input_processors", "output_processors", "error_processors")
    }
    arrays[array_of(hook)] = [guard, recorder]
    model = ScriptedModel(turns_for(hook))
    agent = agent_of(model, tools=[echo], memory=Memory(store), **arrays)
    outcome = await streamed(
        agent,
        memory=THREAD,
        on_finish=lambda info: told.append(("finish", info)),
        on_error=lambda info: told.append(("error", info)),
    )
    # 1: one tripwire chunk, the last one, with no finish of step or run beside it
    assert types_of(outcome.chunks).count("tripwire") == 1
    assert outcome.chunks[-1].type == "tripwire"
    assert "finish" not in types_of(outcome.chunks)
    # 2, 3, 4
    assert outcome.tripwire == TripwireInfo(
        reason="no", processor_id="guard", metadata={"k": 1}, cause=outcome.tripwire.cause
    )
    assert (outcome.finish_reason, outcome.status, outcome.error) == ("other", "tripwire", None)
    # 5
    assert len(recorder.calls) == calls_at_abort[-1]
    # 6
    assert await saved(store) == []
    # 7
    ((name, info),) = told
    assert (name, info.finish_reason, info.tripwire.reason) == ("finish", "other", "no")
    assert model.open_streams == 0


@pytest.mark.parametrize("hook", HOOKS)
async def test_generate_does_not_raise_for_a_tripwire(make: Make, hook: str) -> None:
    """R6.5, R12.19"""
    result = await run_with(hook, make("guard", **{hook: aborting()})).generate("hi")
    assert (result.tripwire.processor_id, result.finish_reason) == ("guard", "other")


async def test_a_run_that_succeeds_after_a_retry_has_no_tripwire(drive: Drive, make: Make) -> None:
    """R6.5"""

    def once(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    outcome = await drive(
        agent_of(["a", "b"], output_processors=[make(process_output_step=once)], max_processor_retries=1)
    )
    assert (outcome.tripwire, outcome.status) == (None, "success")


def at_step(number: int, hook: Any) -> Any:
    """The hook, in one step only."""

    def only(args: Any) -> Any:
        return hook(args) if args.step_number == number else getattr(args, "part", None)

    return only


TEXT_UNTIL = {
    "process_input": "",
    "process_input_step": "",
    "process_llm_request": "",
    "process_output_stream": "",
    "process_llm_response": "",
    "process_output_step": "",
    "process_tool_result": "",
    "process_output_result": "",
}


@pytest.mark.parametrize("hook", TEXT_UNTIL)
async def test_the_blocked_attempt_contributes_no_text(drive: Drive, make: Make, hook: str) -> None:
    """R6.6"""
    outcome = await drive(run_with(hook, make("guard", **{hook: aborting()})))
    assert outcome.text == ""
    assert outcome.object is None


@pytest.mark.parametrize(
    "hook",
    [
        "process_input_step",
        "process_llm_request",
        "process_output_stream",
        "process_llm_response",
        "process_output_step",
    ],
)
async def test_the_text_of_accepted_steps_stays(drive: Drive, make: Make, hook: str) -> None:
    """R6.6"""
    guard = make("guard", **{hook: at_step(1, aborting())})
    outcome = await drive(run_with(hook, guard))
    assert outcome.text == "a"
    assert outcome.steps[0].text == "a"


async def test_after_an_abort_of_the_result_hook_nothing_of_the_answer_is_left_but_the_steps(
    drive: Drive, make: Make
) -> None:
    """R6.6"""
    outcome = await drive(run_with("process_output_result", make("g", process_output_result=aborting())))
    assert outcome.text == ""
    assert outcome.response.messages == []
    assert [step.text for step in outcome.steps] == ["a", "b"]


@pytest.mark.parametrize(
    ("hook", "listed"),
    [
        ("process_input", []),
        ("process_input_step", []),
        ("process_llm_request", []),
        ("process_output_stream", []),
        ("process_api_error", []),
        ("process_llm_response", [("", "tripwire")]),
        ("process_output_step", [("", "tripwire")]),
        ("process_tool_result", [("", "tripwire")]),
        ("process_output_result", [("a", "tool-calls"), ("b", "stop")]),
    ],
)
async def test_an_attempt_is_listed_if_it_had_a_response(
    drive: Drive, make: Make, hook: str, listed: list[tuple[str, str]]
) -> None:
    """R6.7"""
    outcome = await drive(run_with(hook, make("guard", **{hook: aborting("no")})))
    assert [(step.text, step.finish_reason) for step in outcome.steps] == listed
    for step in outcome.steps:
        assert (step.tripwire is not None) == (step.finish_reason == "tripwire")
    expected = 3 * len(listed) or None
    assert outcome.usage.output_tokens == expected


async def test_a_rejected_attempt_is_listed_as_a_retry(drive: Drive, make: Make) -> None:
    """R6.7"""

    def once(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True, metadata=7)

    outcome = await drive(
        agent_of(["a", "b"], output_processors=[make("g", process_output_step=once)], max_processor_retries=1)
    )
    first, second = outcome.steps
    assert (first.text, first.finish_reason) == ("", "retry")
    assert first.tripwire == TripwireInfo(reason="again", processor_id="g", retry=True, metadata=7)
    assert (second.text, second.finish_reason, second.tripwire) == ("b", "stop", None)
    assert outcome.usage.output_tokens == 6


SKIPPED = {
    "process_input": ["process_input_step(0)"],
    "process_input_step": ["process_llm_request(0)"],
    "process_llm_request": ["process_output_stream(step-start)", "process_llm_response(0)"],
    "process_output_stream": ["process_llm_response(0)", "process_output_step(0)"],
    "process_llm_response": ["process_output_step(0)", "process_tool_result(0)"],
    "process_output_step": ["process_tool_result(0)", "process_output_stream(tool-result)"],
    "process_tool_result": ["process_output_stream(tool-result)", "process_input_step(1)"],
}


@pytest.mark.parametrize("hook", SKIPPED)
async def test_an_abort_skips_what_comes_after_it(drive: Drive, make: Make, hook: str) -> None:
    """R6.8"""
    recorder, model = Recorder(), ScriptedModel(turns_for(hook))
    arrays: dict[str, Any] = {"input_processors": [recorder], "output_processors": [recorder]}
    arrays[array_of(hook)] = [recorder, make("guard", **{hook: aborting()})]
    outcome = await drive(agent_of(model, tools=[echo], **arrays))
    assert not set(SKIPPED[hook]) & set(recorder.calls)
    # The stream hook aborts at step-start, before the provider is asked for its first chunk.
    assert model.calls == (0 if list(SKIPPED).index(hook) < 4 else 1)
    assert outcome.tool_results == []


async def test_an_abort_of_process_input_leaves_one_chunk() -> None:
    """R6.8"""

    class Guard(Processor):
        id = "guard"

        def process_input(self, args: Any) -> None:
            args.abort("no")

    outcome = await streamed(agent_of(["x"], input_processors=[Guard()]))
    assert types_of(outcome.chunks) == ["tripwire"]
    assert outcome.steps == []


async def test_an_abort_of_the_request_hook_beats_a_cached_response(drive: Drive, make: Make) -> None:
    """R6.8, R11.2"""
    cached = {"response": {"chunks": [{"type": "text-delta", "payload": {"id": "t", "text": "cached"}}]}}
    processors = [
        make("cache", process_llm_request=lambda args: cached),
        make("guard", process_llm_request=aborting()),
    ]
    outcome = await drive(agent_of([], input_processors=processors))
    assert (outcome.tripwire.processor_id, outcome.text) == ("guard", "")


async def test_the_provider_stream_is_cancelled_at_the_offending_chunk(drive: Drive, make: Make) -> None:
    """R6.8"""
    reached: list[str] = []
    model = ScriptedModel([["a", "bad", lambda: reached.append("later"), "b"]])

    def guard(args: Any) -> Any:
        if args.part.type == "text-delta" and args.part.payload.text == "bad":
            args.abort("no")
        return args.part

    await drive(agent_of(model, output_processors=[make(process_output_stream=guard)]))
    assert reached == []
    assert model.open_streams == 0


async def test_results_recorded_before_the_aborted_one_stay_in_the_unsaved_list(drive: Drive, make: Make) -> None:
    """R6.8"""
    calls = [tool_call("echo", {"text": "one"}, id="c1"), tool_call("echo", {"text": "two"}, id="c2")]

    def guard(args: Any) -> None:
        if args.tool_call_id == "c2":
            args.abort("no")

    outcome = await drive(agent_of([calls], tools=[echo], output_processors=[make(process_tool_result=guard)]))
    parts = outcome.message_list.get.response.db()[0].content.parts
    assert [part.tool_invocation.state for part in parts] == ["result", "call"]


async def test_the_api_error_is_kept_as_the_cause(drive: Drive, make: Make) -> None:
    """R6.8"""
    error, second = APICallError("down", status_code=400), ScriptedModel(["x"])
    guard = make("guard", process_api_error=aborting())
    agent = agent_of([], error_processors=[guard])
    outcome = await drive(agent, model=[ModelFallback(ScriptedModel([error])), ModelFallback(second)])
    assert outcome.tripwire.cause is error
    assert outcome.error is None
    assert second.calls == 0


async def test_an_abort_of_the_result_hook_skips_later_processors_and_saving(drive: Drive, make: Make) -> None:
    """R6.8"""
    store, recorder = InMemoryStore(), Recorder()
    processors = [make("guard", process_output_result=aborting()), recorder]
    await drive(agent_of(["x"], memory=Memory(store), output_processors=processors), memory=THREAD)
    assert "process_output_result" not in recorder.calls
    assert await saved(store) == []


async def test_text_that_was_held_back_is_discarded(make: Make) -> None:
    """R6.9, R19.2"""

    class Holder(Processor):
        id = "holder"

        def process_output_stream(self, args: Any) -> Any:
            return None if args.part.type == "text-delta" else args.part

        def flush_output_stream(self, args: Any, reason: str) -> Any:
            return [part for part in args.stream_parts if part.type == "text-delta"]

    guard = make(
        "guard", process_output_stream=lambda args: args.abort("no") if args.part.type == "text-end" else args.part
    )
    outcome = await streamed(agent_of(["held"], output_processors=[Holder(), guard]))
    assert outline(outcome.chunks) == ["start", "step-start", "text-start", "tripwire"]


@pytest.mark.parametrize("hook", HOOKS)
async def test_on_violation_is_called_once_an_abort_before_the_chunk(make: Make, hook: str) -> None:
    """R6.10"""
    events: list[Any] = []
    guard = make("guard", **{hook: aborting("no", metadata={"k": 1})})
    guard.on_violation = events.append
    async with run_with(hook, guard).stream("hi") as stream:
        async for chunk in stream:
            events += [chunk.type]
    (violation,) = [event for event in events if isinstance(event, ProcessorViolation)]
    assert (violation.processor_id, violation.message, violation.detail) == ("guard", "no", {"k": 1})
    assert events[-1] == "tripwire"
    assert events.index(violation) < events.index("tripwire")


async def test_on_violation_is_called_for_each_rejected_attempt(drive: Drive, make: Make) -> None:
    """R6.10"""
    heard: list[str] = []
    guard = make("guard", process_output_step=aborting("no", retry=True))

    async def hear(violation: ProcessorViolation) -> None:
        await asyncio.sleep(0)
        heard.append(violation.message)

    guard.on_violation = hear
    await drive(agent_of(["a", "b", "c"], output_processors=[guard], max_processor_retries=2))
    assert heard == ["no", "no", "no"]


async def test_a_failing_on_violation_changes_nothing(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R6.10"""

    def fail(violation: ProcessorViolation) -> None:
        raise ValueError("reporter broke")

    guard = make("guard", process_output_step=aborting("no"))
    guard.on_violation = fail
    with caplog.at_level(logging.DEBUG, logger="interlock"):
        outcome = await drive(agent_of(["x"], output_processors=[guard]))
    assert outcome.tripwire.reason == "no"
    assert [record.levelno for record in caplog.records if "on_violation" in record.getMessage()] == [logging.DEBUG]


async def test_a_processor_reports_a_detection_that_does_not_abort(drive: Drive) -> None:
    """R6.11"""
    heard: list[Any] = []

    class Warner(Processor):
        id = "warner"

        async def process_output_step(self, args: Any) -> None:
            await self.report_violation("looks odd", {"k": 1})

    warner = Warner()
    warner.on_violation = lambda violation: heard.append((violation.message, violation.detail)) or 1 / 0
    outcome = await drive(agent_of(["x"], output_processors=[warner]))
    assert heard == [("looks odd", {"k": 1})]
    assert (outcome.text, outcome.tripwire) == ("x", None)


async def test_no_chunk_follows_when_the_first_chunk_trips() -> None:
    """R6.5"""

    class Guard(Processor):
        id = "guard"

        def process_output_stream(self, args: Any) -> Any:
            args.abort("no")

    outcome = await streamed(agent_of(["x"], output_processors=[Guard()]))
    assert types_of(outcome.chunks) == ["start", "tripwire"]
    assert chunks_of(outcome.chunks, "step-finish") == []


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        ("text-delta", []),
        ("finish", [("", "tripwire")]),
        ("tool-result", [("", "tripwire")]),
        ("step-finish", [("", "tripwire")]),
    ],
)
async def test_an_attempt_stopped_in_the_stream_is_listed_once_its_reply_was_complete(
    drive: Drive, make: Make, kind: str, listed: list[tuple[str, str]]
) -> None:
    """R6.7, R0.6"""
    turns = ["x"] if kind == "finish" else [["a", tool_call("echo")], "b"]

    def stop(args: Any) -> Any:
        return args.abort("no") if args.part.type == kind else args.part

    outcome = await drive(agent_of(turns, tools=[echo], output_processors=[make(process_output_stream=stop)]))
    assert [(step.text, step.finish_reason) for step in outcome.steps] == listed
    assert outcome.usage.output_tokens == (3 if listed else None)
    assert outcome.text == ""


@pytest.mark.parametrize("kind", ["finish", "tool-result", "step-finish"])
async def test_a_late_rejection_in_the_stream_repeats_the_whole_attempt(make: Make, kind: str) -> None:
    """R7.7, R7.9"""
    store = InMemoryStore()

    def reject(args: Any) -> Any:
        if args.retry_count == 0 and args.part.type == kind:
            args.abort("no", retry=True)
        return args.part

    turns = ["bad", "good"] if kind == "finish" else [["bad", tool_call("echo")], "good"]
    agent = agent_of(
        turns,
        tools=[echo],
        memory=Memory(store),
        output_processors=[make(process_output_stream=reject)],
        max_processor_retries=1,
    )
    outcome = await streamed(agent, memory=THREAD)
    assert (outcome.text, outcome.tripwire) == ("good", None)
    assert outcome.tool_calls == []
    assert [(step.text, step.finish_reason) for step in outcome.steps] == [("", "retry"), ("good", "stop")]
    assert await saved(store) == [("user", "hi"), ("assistant", "good")]
