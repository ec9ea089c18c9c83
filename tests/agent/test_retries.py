"""Retries that processors cause (runtime specification, section 7)."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import pytest

from interlock import APICallError, ModelFallback, tool
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, finish, tool_call, types_of
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    feedback_in,
    kept,
    outline,
    part_types,
    saved,
    stored,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio

DOWN = APICallError("down", status_code=400)


def rejecting(times: float = 1, reason: str = "no good", **options: Any) -> Any:
    """A hook that asks for another attempt so many times; in the stream at the first text."""

    def hook(args: Any) -> Any:
        part = getattr(args, "part", None)
        if args.retry_count < times and (part is None or part.type == "text-delta"):
            args.abort(reason, retry=True, **options)
        return part

    return hook


always = rejecting(math.inf)


def idle(make: Make) -> Any:
    """An error processor that asks for nothing."""
    return make("idle", process_api_error=lambda args: None)


async def test_the_limit_of_the_call_beats_the_agents(drive: Drive, make: Make) -> None:
    """R7.1"""
    model = ScriptedModel(lambda request: "bad")
    agent = agent_of(model, output_processors=[make(process_output_step=always)], max_processor_retries=5)
    await drive(agent, max_processor_retries=1)
    assert model.calls == 2
    await drive(agent)
    assert model.calls == 2 + 6


async def test_zero_disables_retries_even_with_error_processors(drive: Drive, make: Make) -> None:
    """R7.1"""
    model = ScriptedModel(lambda request: "bad")
    agent = agent_of(model, output_processors=[make(process_output_step=always)], error_processors=[idle(make)])
    outcome = await drive(agent, max_processor_retries=0)
    assert model.calls == 1
    assert outcome.tripwire.retry is True


async def test_the_default_follows_the_effective_error_processors_of_the_call(drive: Drive, make: Make) -> None:
    """R7.1, R12.9"""
    model = ScriptedModel(lambda request: "bad")
    guard = make("guard", process_output_step=always)
    await drive(agent_of(model, output_processors=[guard], error_processors=[idle(make)]), error_processors=[])
    assert model.calls == 1
    await drive(agent_of(model, output_processors=[guard]), error_processors=[idle(make)])
    assert model.calls == 1 + 11


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
async def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    """R7.1"""
    with pytest.raises(ValueError, match="max_processor_retries"):
        agent_of(["x"], max_processor_retries=limit)
    with pytest.raises(ValueError, match="max_processor_retries"):
        await agent_of(["x"]).generate("hi", max_processor_retries=limit)


async def test_both_kinds_of_retry_count_on_one_counter(drive: Drive, make: Make) -> None:
    """R7.2, R7.3"""
    counts: list[tuple[str, int]] = []

    def ask(args: Any) -> Any:
        counts.append(("error", args.retry_count))
        return {"retry": True}

    def judge(args: Any) -> None:
        counts.append(("step", args.retry_count))
        if args.text == "bad":
            args.abort("no", retry=True)

    model = ScriptedModel([DOWN, "bad", DOWN, "good"])
    agent = agent_of(
        model,
        output_processors=[make("judge", process_output_step=judge)],
        error_processors=[make("ask", process_api_error=ask)],
    )
    outcome = await drive(agent)
    assert counts == [("error", 0), ("step", 1), ("error", 2), ("step", 3)]
    assert outcome.text == "good"


async def test_an_accepted_step_does_not_reset_the_counter_and_every_hook_sees_it(drive: Drive) -> None:
    """R7.3"""
    counts: dict[str, list[int]] = {}

    class Counting(Recorder):
        pass

    def noting(hook: str) -> Any:
        def note(args: Any) -> Any:
            counts.setdefault(hook, []).append(args.retry_count)
            if hook == "process_output_step" and args.retry_count == 0:
                args.abort("again", retry=True)
            return getattr(args, "part", None)

        return note

    processor = Counting()
    for hook in ("process_input_step", "process_output_stream", "process_output_step", "process_tool_result"):
        setattr(processor, hook, noting(hook))
    processor.process_output_result = noting("process_output_result")  # type: ignore[method-assign]
    agent = agent_of(["bad", [tool_call("echo")], "x"], tools=[echo], **processor.everywhere)
    await drive(agent, max_processor_retries=3)
    assert counts["process_input_step"] == [0, 1, 1]
    assert counts["process_output_step"] == [0, 1, 1]
    assert counts["process_tool_result"] == [1]
    assert counts["process_output_result"] == [1]
    assert counts["process_output_stream"] == sorted(counts["process_output_stream"])
    assert set(counts["process_output_stream"]) == {0, 1}


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_limit_of_n_means_n_plus_one_attempts(drive: Drive, make: Make, limit: int) -> None:
    """R7.4"""
    model = ScriptedModel(lambda request: "bad")
    agent = agent_of(model, output_processors=[make(process_output_step=always)], max_processor_retries=limit)
    outcome = await drive(agent)
    assert model.calls == limit + 1
    assert outcome.tripwire is not None


@pytest.mark.parametrize(
    ("limit", "why"), [(None, "max_processor_retries is not set"), (0, "exhausted"), (1, "exhausted")]
)
async def test_a_retry_that_is_not_granted_is_a_tripwire_with_a_warning(
    make: Make, limit: int | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R7.5"""
    agent = agent_of(
        lambda request: "bad",
        output_processors=[make("guard", process_output_step=always)],
        max_processor_retries=limit,
    )
    with caplog.at_level(logging.WARNING, logger="interlock"):
        outcome = await streamed(agent)
    assert outcome.chunks[-1].payload.retry is True
    assert (outcome.tripwire.retry, outcome.finish_reason) == (True, "other")
    (record,) = [record for record in caplog.records if "guard" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert why in record.getMessage()


RETRYING = [
    "process_input_step",
    "process_llm_request",
    "process_output_stream",
    "process_llm_response",
    "process_output_step",
    "process_tool_result",
]


def array_of(hook: str) -> str:
    return "input_processors" if hook.startswith(("process_input", "process_llm")) else "output_processors"


@pytest.mark.parametrize("hook", RETRYING)
async def test_these_hooks_may_ask_for_a_retry(drive: Drive, make: Make, hook: str) -> None:
    """R7.6, R7.7"""
    recorder = Recorder()
    model = ScriptedModel(lambda request: "x" if told(request.prompt)[-1][0] == "tool" else ["a", tool_call("echo")])
    arrays: dict[str, Any] = {"input_processors": [recorder], "output_processors": [recorder]}
    arrays[array_of(hook)] = [recorder, make("guard", **{hook: rejecting()})]
    outcome = await drive(agent_of(model, tools=[echo], max_processor_retries=1, **arrays))
    assert outcome.tripwire is None
    assert outcome.text == "ax"
    assert recorder.hooks.count("process_input_step(0)") == 2
    assert recorder.hooks.count("process_input_step(1)") == 1
    assert model.calls == (2 if hook in ("process_input_step", "process_llm_request") else 3)


@pytest.mark.parametrize("hook", ["process_input", "process_output_result", "process_api_error"])
async def test_in_these_hooks_asking_for_a_retry_is_a_plain_abort(
    drive: Drive, make: Make, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R7.7"""
    array = "error_processors" if hook == "process_api_error" else f"{hook.split('_')[1]}_processors"
    model = ScriptedModel([DOWN] if hook == "process_api_error" else ["x"])
    guard = make("guard", **{hook: rejecting()})
    with caplog.at_level(logging.WARNING, logger="interlock"):
        outcome = await drive(agent_of(model, max_processor_retries=3, **{array: [guard]}))
    assert (outcome.tripwire.retry, outcome.finish_reason) == (True, "other")
    assert model.calls == (0 if hook == "process_input" else 1)
    assert "guard" in caplog.text


async def test_a_retry_resets_the_system_messages(drive: Drive, make: Make) -> None:
    """R7.6, R2.19"""
    model = ScriptedModel(["bad", "good"])

    def add(args: Any) -> Any:
        return {"system_messages": [*args.system_messages, f"try {args.retry_count}"]}

    processor = make("p", process_input_step=add, process_output_step=rejecting())
    agent = agent_of(
        model,
        instructions="SYS",
        input_processors=[processor],
        output_processors=[processor],
        max_processor_retries=1,
    )
    await drive(agent)
    systems = [
        [words for role, words in told(prompt) if role == "system" and not words.startswith("[Processor")]
        for prompt in model.prompts
    ]
    assert systems == [["SYS", "try 0"], ["SYS", "try 1"]]


async def test_feedback_is_the_last_system_message_and_only_the_newest_is_there(drive: Drive, make: Make) -> None:
    """R7.8"""
    model = ScriptedModel(["a", "b", "c"])

    def reject(args: Any) -> None:
        if args.retry_count < 2:
            args.abort(f"reason {args.retry_count}", retry=True)

    tagger = make(process_input=lambda args: args.message_list.add_system("tagged", "memory") and None)
    agent = agent_of(
        model,
        instructions="SYS",
        input_processors=[tagger],
        output_processors=[make(process_output_step=reject)],
        max_processor_retries=2,
    )
    outcome = await drive(agent)
    for number, prompt in enumerate(model.prompts[1:]):
        systems = [words for role, words in told(prompt) if role == "system"]
        assert systems[:2] == ["SYS", "tagged"]
        assert len(systems) == 3
        assert systems[2].startswith("[Processor Feedback]")
        assert f"reason {number}" in systems[2]
    assert outcome.message_list.get_system_messages("processor-retry-feedback") == []


async def test_feedback_has_its_tag_while_the_attempt_runs(drive: Drive, make: Make) -> None:
    """R7.8"""
    seen: list[int] = []

    def look(args: Any) -> None:
        seen.append(len(args.message_list.get_system_messages("processor-retry-feedback")))

    processor = make("p", process_input_step=look, process_output_step=rejecting())
    agent = agent_of(["a", "b"], input_processors=[processor], output_processors=[processor], max_processor_retries=1)
    await drive(agent)
    assert seen == [0, 1]


async def test_an_error_retry_of_the_same_step_leaves_the_feedback(drive: Drive, make: Make) -> None:
    """R7.8, R7.16"""
    model = ScriptedModel(["bad", DOWN, "good"])
    agent = agent_of(
        model,
        output_processors=[make("guard", process_output_step=rejecting())],
        error_processors=[make("again", process_api_error=lambda args: {"retry": True})],
    )
    await drive(agent)
    assert [len(feedback_in(prompt)) for prompt in model.prompts] == [0, 1, 1]


async def test_a_rejected_response_is_gone_from_list_prompt_text_and_store(drive: Drive, make: Make) -> None:
    """R7.9"""
    store, model = InMemoryStore(), ScriptedModel([["one ", tool_call("echo", id="c1")], "bad", "good"])

    async def reject(args: Any) -> None:
        if args.text == "bad":
            await args.writer.custom({"type": "data-note", "data": 1})
            args.abort("no", retry=True)

    agent = agent_of(
        model,
        tools=[echo],
        memory=Memory(store),
        input_processors=[make("adder", process_input_step=lambda args: add_once(args))],
        output_processors=[make("guard", process_output_step=reject)],
        max_processor_retries=1,
    )

    def add_once(args: Any) -> None:
        if args.step_number == 1 and args.retry_count == 0:
            args.message_list.add("stays", "context")

    outcome = await drive(agent, memory=THREAD)
    assert "bad" not in str(model.prompts[2])
    assert ("user", "stays") in told(model.prompts[2])
    assert ("tool", "hey") in told(model.prompts[2])
    assert outcome.text == "one good"
    # The message that the input hook added parts the two steps.
    assert await saved(store) == [("user", "hi"), ("assistant", "one "), ("assistant", "good")]
    assert "data-note" not in part_types((await stored(store))[-1])


async def test_the_client_sees_a_step_finish_of_reason_retry(make: Make) -> None:
    """R7.10"""
    guard = make("guard", process_output_step=rejecting(metadata={"score": 1}))
    outcome = await streamed(agent_of(["bad", "good"], output_processors=[guard], max_processor_retries=1))
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(bad)",
        "text-end",
        "step-finish(retry)",
        "step-start",
        "text-start",
        "text-delta(good)",
        "text-end",
        "step-finish(stop)",
        "finish(stop)",
    ]
    outcome_of_attempt = chunks_of(outcome.chunks, "step-finish")[0].payload.step_result
    assert outcome_of_attempt.retry_reason == "no good"
    assert outcome_of_attempt.retry_processor_id == "guard"
    assert outcome_of_attempt.retry_metadata == {"score": 1}


async def test_a_stream_hook_that_rejects_every_chunk_is_granted_each_retry_once(drive: Drive, make: Make) -> None:
    """R7.4, R7.10"""
    steps_begun: list[int] = []

    def reject(args: Any) -> Any:
        args.abort("no", retry=True)

    processor = make(
        "p", process_input_step=lambda args: steps_begun.append(args.retry_count), process_output_stream=reject
    )
    agent = agent_of(["x"], input_processors=[processor], output_processors=[processor], max_processor_retries=2)
    outcome = await drive(agent)
    assert steps_begun == [0, 1, 2]
    assert outcome.tripwire.reason == "no"


async def test_open_parts_of_a_rejected_attempt_are_not_closed(make: Make) -> None:
    """R7.10"""

    def reject(args: Any) -> Any:
        if args.retry_count == 0 and args.part.type == "text-delta":
            args.abort("no", retry=True)
        return args.part

    guard = make("guard", process_output_stream=reject)
    outcome = await streamed(agent_of(["bad", "good"], output_processors=[guard], max_processor_retries=1))
    assert outline(outcome.chunks)[:5] == ["start", "step-start", "text-start", "step-finish(retry)", "step-start"]


@pytest.mark.parametrize("hook", ["process_input_step", "process_llm_request"])
async def test_an_attempt_that_never_started_has_no_step_finish(make: Make, hook: str) -> None:
    """R7.10"""
    guard = make("guard", **{hook: rejecting()})
    outcome = await streamed(agent_of(["x"], input_processors=[guard], max_processor_retries=1))
    assert [kind for kind in outline(outcome.chunks) if kind.startswith("step")] == ["step-start", "step-finish(stop)"]


async def test_the_step_finish_passes_the_stream_hooks_with_the_counter_of_its_attempt(make: Make) -> None:
    """R7.10"""
    counts: list[int] = []

    def look(args: Any) -> Any:
        if args.part.type == "step-finish":
            counts.append(args.retry_count)
        return args.part

    processor = make("p", process_output_stream=look, process_output_step=rejecting())
    await streamed(agent_of(["bad", "good"], output_processors=[processor], max_processor_retries=1))
    assert counts == [0, 1]


async def test_the_text_stream_is_not_rewound(make: Make) -> None:
    """R7.10"""
    guard = make("guard", process_output_step=rejecting())
    agent = agent_of(["bad", "good"], output_processors=[guard], max_processor_retries=1)
    async with agent.stream("hi") as stream:
        assert [text async for text in stream.text_stream] == ["bad", "good"]
        assert await stream.text == "good"


async def test_no_tool_of_an_attempt_rejected_before_has_run(drive: Drive, make: Make) -> None:
    """R7.11"""
    ran: list[int] = []

    @tool(in_thread=False)
    def work() -> str:
        """Notes that it ran."""
        ran.append(1)
        return "ok"

    guard = make("guard", process_output_step=rejecting())
    agent = agent_of([[tool_call("work")], "x"], tools=[work], output_processors=[guard], max_processor_retries=1)
    outcome = await drive(agent)
    assert ran == []
    assert outcome.text == "x"


async def test_after_a_rejected_result_the_whole_attempt_is_removed(drive: Drive, make: Make) -> None:
    """R7.11"""
    ran: list[str] = []

    @tool(in_thread=False)
    def work(name: str) -> str:
        """Notes that it ran."""
        ran.append(name)
        return name

    calls = [tool_call("work", {"name": "a"}, id="c1"), tool_call("work", {"name": "b"}, id="c2")]
    model = ScriptedModel([calls, "x"])

    def guard(args: Any) -> None:
        if args.tool_call_id == "c2":
            args.abort("no", retry=True)

    agent = agent_of(
        model, tools=[work], output_processors=[make("g", process_tool_result=guard)], max_processor_retries=1
    )
    outcome = await drive(agent)
    assert sorted(ran) == ["a", "b"]
    assert [role for role, _ in told(model.prompts[1])] == ["system", "user"]
    assert [part_types(message) for message in outcome.message_list.get.response.db()] == [["text"]]
    assert outcome.tool_calls == outcome.tool_results == []


async def test_a_retried_attempt_does_not_count_towards_max_steps_but_its_usage_counts(
    drive: Drive, make: Make
) -> None:
    """R7.12"""
    model = ScriptedModel(["bad", "worse", "good"])
    agent = agent_of(model, output_processors=[make(process_output_step=rejecting(2))], max_processor_retries=2)
    outcome = await drive(agent, max_steps=1)
    assert (outcome.text, outcome.finish_reason) == ("good", "stop")
    assert outcome.total_usage.output_tokens == 9
    assert outcome.steps[-1].usage.output_tokens == 3


async def test_usage_of_a_failed_attempt_that_reached_no_finish_is_unknown(drive: Drive, make: Make) -> None:
    """R7.12, R6.7"""
    again = make("again", process_api_error=lambda args: {"retry": True})
    outcome = await drive(agent_of([["par", DOWN], "ok"], error_processors=[again]))
    assert outcome.usage.output_tokens == 3
    assert [step.text for step in outcome.steps] == ["ok"]


@pytest.mark.parametrize("kind", ["before any output", "after some output", "malformed", "retryable"])
async def test_error_processors_are_asked_about_every_failure_that_is_left(drive: Drive, make: Make, kind: str) -> None:
    """R7.13, R7.14"""
    busy = APICallError("busy", status_code=503)
    turn = {
        "before any output": DOWN,
        "after some output": ["par", DOWN],
        "malformed": [finish("error")],
        "retryable": busy,
    }[kind]
    asked: list[BaseException] = []
    processor = make(process_api_error=lambda args: asked.append(args.error) or {"retry": True})
    outcome = await drive(agent_of([turn, "fine"], error_processors=[processor]))
    assert len(asked) == 1
    if kind != "malformed":
        assert asked[0] in (DOWN, busy)
    assert outcome.text == "fine"


async def test_error_processors_get_the_last_error_after_the_client_retries(drive: Drive, make: Make) -> None:
    """R7.13, R7.14"""
    errors = [APICallError(f"busy {n}", status_code=503, retry_after_s=0) for n in range(3)]
    asked: list[Any] = []
    processor = make(process_api_error=lambda args: asked.append((args.error, args.retry_count)) or {"retry": True})
    outcome = await drive(agent_of([*errors, "fine"], error_processors=[processor], max_retries=2))
    assert asked == [(errors[2], 0)]
    assert outcome.text == "fine"


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, 1),
        ({"model_settings": {"max_retries": 1}}, 2),
        ({"max_retries": 2, "model_settings": {"max_retries": 1}}, 3),
        ({"entry": 0, "max_retries": 2}, 1),
    ],
)
async def test_the_client_retries_come_from_entry_agent_or_settings_in_this_order(
    drive: Drive, options: dict[str, Any], calls: int
) -> None:
    """R7.13"""
    model = ScriptedModel(lambda request: APICallError("busy", status_code=503, retry_after_s=0))
    entry = ModelFallback(model, max_retries=options.get("entry"))
    agent = agent_of([], max_retries=options.get("max_retries"))
    settings = options.get("model_settings", {})
    await drive(agent, model=[entry], model_settings=settings)
    assert model.calls == calls


def crash(args: Any) -> Any:
    raise ValueError("boom")


def trip(args: Any) -> Any:
    args.abort("no")


@pytest.mark.parametrize("end", [crash, trip])
async def test_error_processors_are_not_asked_about_hooks(drive: Drive, make: Make, end: Any) -> None:
    """R7.14, R17.1"""
    recorder = Recorder()
    agent = agent_of(["x"], output_processors=[make(process_output_step=end)], error_processors=[recorder])
    await drive(agent)
    assert recorder.calls == []


async def test_a_request_without_a_grant_is_ignored_but_the_hook_is_called(make: Make) -> None:
    """R7.15"""
    counts: list[int] = []
    processor = make(process_api_error=lambda args: counts.append(args.retry_count) or {"retry": True})
    agent = agent_of(lambda request: DOWN, error_processors=[processor], max_processor_retries=2)
    with pytest.raises(APICallError, match="down"):
        await agent.generate("hi")
    assert counts == [0, 1, 2]


async def test_an_error_retry_adds_no_feedback_and_shows_its_reason(make: Make) -> None:
    """R7.16"""
    model = ScriptedModel([["par", DOWN], "ok"])
    again = make("again", process_api_error=lambda args: {"retry": True})
    outcome = await streamed(agent_of(model, error_processors=[again]))
    assert feedback_in(model.prompts[1]) == []
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(par)",
        "step-finish(retry)",
        "step-start",
        "text-start",
        "text-delta(ok)",
        "text-end",
        "step-finish(stop)",
        "finish(stop)",
    ]
    assert chunks_of(outcome.chunks, "step-finish")[0].payload.step_result.retry_reason == "down"
    assert "error" not in types_of(outcome.chunks)
    assert kept(outcome.message_list.get.response.db()) == [("assistant", "ok")]


async def test_each_fallback_model_fails_through_the_error_processors(drive: Drive, make: Make) -> None:
    """R7.17"""
    first, second = ScriptedModel(lambda request: DOWN), ScriptedModel(["x"])
    asked: list[int] = []

    def once(args: Any) -> Any:
        asked.append(args.retry_count)
        return {"retry": args.retry_count == 0}

    outcome = await drive(
        agent_of([], error_processors=[make(process_api_error=once)]),
        model=[ModelFallback(first), ModelFallback(second)],
    )
    assert asked == [0, 1]
    assert (first.calls, second.calls, outcome.text) == (2, 1, "x")


async def test_without_a_grant_left_the_last_model_raises_its_own_error(make: Make) -> None:
    """R7.17, R7.13"""
    errors = [APICallError("first", status_code=400), APICallError("second", status_code=400)]
    agent = agent_of([])
    with pytest.raises(APICallError, match="second"):
        await agent.generate("hi", model=[ScriptedModel([errors[0]]), ScriptedModel([errors[1]])])


async def test_an_error_processor_that_fails_is_logged_and_the_next_one_asked(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R7.18"""
    processors = [
        make("broken", process_api_error=crash),
        make("again", process_api_error=lambda args: {"retry": True}),
    ]
    with caplog.at_level(logging.WARNING, logger="interlock"):
        outcome = await drive(agent_of([DOWN, "fine"], error_processors=processors))
    assert outcome.text == "fine"
    assert "broken" in caplog.text


@pytest.mark.parametrize("failing", [crash, lambda args: 42], ids=["raises", "returns nonsense"])
async def test_the_original_error_surfaces_when_an_error_processor_fails(make: Make, failing: Any) -> None:
    """R7.18"""
    agent = agent_of([DOWN], error_processors=[make("broken", process_api_error=failing)])
    with pytest.raises(APICallError) as raised:
        await agent.generate("hi")
    assert raised.value is DOWN


async def test_no_pause_is_added_before_a_retry(drive: Drive, make: Make) -> None:
    """R7.19"""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    agent = agent_of([DOWN] * 10 + ["x"], error_processors=[make(process_api_error=lambda args: {"retry": True})])
    outcome = await drive(agent)
    assert outcome.text == "x"
    assert loop.time() - begun < 5


async def test_an_error_processor_may_wait_itself(drive: Drive) -> None:
    """R7.19"""

    class Patient:
        id = "patient"

        async def process_api_error(self, args: Any) -> Any:
            await asyncio.sleep(0)
            return {"retry": True}

    outcome = await drive(agent_of([DOWN, "x"], error_processors=[Patient()]))
    assert outcome.text == "x"


async def test_a_model_that_refuses_at_once_is_a_failed_call(drive: Drive, make: Make) -> None:
    """R7.14"""

    class Refusing(ScriptedModel):
        def stream(self, request: Any) -> Any:
            raise DOWN

    asked: list[BaseException] = []
    again = make(process_api_error=lambda args: asked.append(args.error) or {"retry": True, "model": model})
    model = ScriptedModel(["fine"])
    outcome = await drive(agent_of(Refusing([]), error_processors=[again]))
    assert (asked, outcome.text) == ([DOWN], "fine")


async def test_a_rejection_after_a_fallback_stays_with_the_model_that_answered(drive: Drive, make: Make) -> None:
    """R7.6, R7.17"""
    first, second = ScriptedModel(lambda request: DOWN), ScriptedModel(["bad", "good"])
    agent = agent_of([], output_processors=[make(process_output_step=rejecting())], max_processor_retries=1)
    outcome = await drive(agent, model=[ModelFallback(first), ModelFallback(second)])
    assert (outcome.text, first.calls, second.calls) == ("good", 1, 2)
