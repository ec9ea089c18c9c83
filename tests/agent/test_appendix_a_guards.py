"""Appendix A of the runtime specification: guards that block, reject and repeat (A1–A9, A20–A22, A25, A37, A43)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock import Agent, APICallError, Processor, ProcessorError
from interlock.memory import InMemoryStore, Memory
from interlock.messages import MessageList
from interlock.processors import ProcessOutputStepArgs, ProcessOutputStreamArgs
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import (
    THREAD,
    Drive,
    Made,
    Make,
    Recorder,
    agent_of,
    echo,
    feedback_in,
    outline,
    saved,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio


def word_filter(make: Make, word: str) -> Made:
    """A processor with hooks of both sides that blocks a word."""

    def process_input(args: Any) -> None:
        if any(word in part.text for message in args.messages for part in message.content.parts):
            args.abort("blocked input")

    def process_output_stream(args: Any) -> Any:
        if args.part.type == "text-delta" and word in args.part.payload.text:
            args.abort("blocked word")
        return args.part

    return make("filter", process_input=process_input, process_output_stream=process_output_stream)


async def test_a_hybrid_filter_in_the_input_array_alone_never_sees_chunks(drive: Drive, make: Make) -> None:
    """A1: R1.3"""
    agent = agent_of([["fine ", "bomb"]], input_processors=[word_filter(make, "bomb")])
    outcome = await drive(agent)
    assert outcome.text == "fine bomb"
    assert outcome.tripwire is None


async def test_a_hybrid_filter_in_both_arrays_stops_the_stream_at_the_blocked_chunk(make: Make) -> None:
    """A2: R6.5, R6.6"""
    store, guard = InMemoryStore(), word_filter(make, "b")
    agent = agent_of([["a", "b", "c"]], input_processors=[guard], output_processors=[guard], memory=Memory(store))
    outcome = await streamed(agent, memory=THREAD)
    assert outline(outcome.chunks) == ["start", "step-start", "text-start", "text-delta(a)", "tripwire"]
    assert (outcome.text, outcome.finish_reason) == ("", "other")
    assert await saved(store) == []


async def test_generate_returns_the_tripwire_instead_of_raising(make: Make) -> None:
    """A3: R6.5"""
    guard = word_filter(make, "b")
    result = await agent_of([["a", "b", "c"]], output_processors=[guard]).generate("hi")
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "filter"
    assert (result.text, result.finish_reason, result.status) == ("", "other", "tripwire")


class WordCounter:
    """Counts the words of an answer in its state and logs them when the answer is complete."""

    id = "word-counter"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.states: list[dict[str, Any]] = []

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Any:
        count = args.state.setdefault("words", 0)
        if all(args.state is not state for state in self.states):
            self.states.append(args.state)
        if args.part.type == "text-delta":
            args.state["words"] = count + len(args.part.payload.text.split())
        if args.part.type == "finish":
            self.log.append(f"words: {count}")
        return args.part


async def test_a_word_counter_logs_once_for_a_run_of_two_steps(drive: Drive) -> None:
    """A4: R5.10, R8.1"""
    counter = WordCounter()
    turns = [["two words", tool_call("echo")], ["three ", "more ", "words"]]
    agent = agent_of(turns, tools=[echo], output_processors=[counter])
    await drive(agent)
    assert counter.log == ["words: 5"]
    assert len(counter.states) == 1


class QualityGuardrail:
    """Asks for another attempt while the scores are low; ends in ``return []`` as the documentation shows."""

    id = "quality"

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)
        self.seen: list[tuple[int, int]] = []
        """Step number and retry count of each call."""

    async def process_output_step(self, args: ProcessOutputStepArgs) -> Any:
        self.seen.append((args.step_number, args.retry_count))
        score = self.scores.pop(0) if len(self.scores) > 1 else self.scores[0]
        if score < 0.5:
            args.abort("no good", retry=True, metadata={"score": score})
        return []


async def test_a_quality_guardrail_repeats_the_step_with_feedback(drive: Drive) -> None:
    """A5: R7.8, R2.29"""
    store, model = InMemoryStore(), ScriptedModel(["bad", "good"])
    agent = Agent(
        id="agent",
        model=model,
        instructions="SYS",
        memory=Memory(store),
        output_processors=[QualityGuardrail(0.1, 0.9)],
        max_processor_retries=3,
    )
    outcome = await drive(agent, memory=THREAD)
    first, second = model.prompts
    assert told(first) == [("system", "SYS"), ("user", "hi")]
    assert [role for role, _ in told(second)] == ["system", "system", "user"]
    assert len(feedback_in(second)) == 1
    assert "no good" in feedback_in(second)[0]
    assert outcome.text == "good"
    assert [(step.text, step.finish_reason) for step in outcome.steps] == [("", "retry"), ("good", "stop")]
    assert outcome.tripwire is None
    assert await saved(store) == [("user", "hi"), ("assistant", "good")]


async def test_a_retry_without_a_limit_is_a_tripwire(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """A6: R7.1, R7.5"""
    model = ScriptedModel(["bad"])
    with caplog.at_level(logging.WARNING, logger="interlock"):
        outcome = await drive(agent_of(model, output_processors=[QualityGuardrail(0.1)]))
    assert model.calls == 1
    assert outcome.tripwire.retry is True
    assert "max_processor_retries is not set" in caplog.text
    if outcome.chunks:
        assert outcome.chunks[-1].payload.retry is True


async def test_an_idle_error_processor_grants_ten_retries_of_every_kind(drive: Drive, make: Make) -> None:
    """A7: R7.1, R7.4"""
    model = ScriptedModel(lambda request: "bad")
    idle = make("idle", process_api_error=lambda args: None)
    agent = agent_of(model, output_processors=[QualityGuardrail(0.1)], error_processors=[idle])
    outcome = await drive(agent)
    assert model.calls == 11
    assert outcome.tripwire is not None


async def test_step_number_and_retry_count_over_rejections_and_a_second_step(drive: Drive) -> None:
    """A8: R7.3, R7.6, R7.8"""
    model = ScriptedModel(["bad", "worse", [tool_call("echo")], "done"])
    guard = QualityGuardrail(0.1, 0.2, 0.9)
    agent = agent_of(model, tools=[echo], output_processors=[guard], max_processor_retries=5)
    outcome = await drive(agent)
    assert guard.seen == [(0, 0), (0, 1), (0, 2), (1, 2)]
    assert [len(feedback_in(prompt)) for prompt in model.prompts] == [0, 1, 1, 0]
    assert outcome.text == "done"


async def test_a_stream_hook_may_reject_an_attempt_in_the_middle_of_it(make: Make) -> None:
    """A9: R7.7, R7.10"""

    def guard(args: Any) -> Any:
        if args.retry_count == 0 and args.part.type == "text-delta" and args.part.payload.text == "b":
            args.abort("x", retry=True)
        return args.part

    agent = agent_of(
        [["a", "b", "c"], "good"],
        output_processors=[make("guard", process_output_stream=guard)],
        max_processor_retries=1,
    )
    outcome = await streamed(agent)
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(a)",
        "step-finish(retry)",
        "step-start",
        "text-start",
        "text-delta(good)",
        "text-end",
        "step-finish(stop)",
        "finish(stop)",
    ]
    assert outcome.text == "good"
    assert outcome.tripwire is None


async def test_an_error_processor_repairs_the_history_and_the_call_is_repeated(drive: Drive, make: Make) -> None:
    """A20: R7.13–R7.16"""
    model = ScriptedModel([APICallError("too long", status_code=400), "fine"])
    numbers: list[int] = []

    def shorten(args: Any) -> Any:
        numbers.append(args.step_number)
        args.message_list.remove_by_ids([message.id for message in args.messages[:2]])
        return {"retry": True}

    recorder = Recorder()
    agent = agent_of(
        model, input_processors=[recorder], error_processors=[make("shortener", process_api_error=shorten)]
    )
    outcome = await drive(agent, ["one", "two", "three"])
    assert told(model.prompts[0]) == [("user", "one"), ("user", "two"), ("user", "three")]
    assert told(model.prompts[1]) == [("user", "three")]
    assert numbers == [0]
    assert recorder.hooks.count("process_input_step(0)") == 2
    assert (outcome.text, outcome.finish_reason, outcome.error) == ("fine", "stop", None)


async def test_an_error_processor_that_always_retries_stops_at_the_default_limit(make: Make) -> None:
    """A21: R7.15, R7.1"""
    error = APICallError("no", status_code=400)

    def turn(request: Any) -> Any:
        return error

    model, counts = ScriptedModel(turn), []

    def insist(args: Any) -> Any:
        assert args.error is error
        counts.append(args.retry_count)
        return {"retry": True}

    agent = agent_of(model, error_processors=[make("stubborn", process_api_error=insist)])
    with pytest.raises(APICallError, match="no") as raised:
        await agent.generate("hi")
    assert raised.value is error
    assert model.calls == 11
    assert counts == list(range(11))


async def test_partial_text_of_a_failed_attempt_is_gone_after_the_retry(drive: Drive, make: Make) -> None:
    """A22: R7.16"""
    store, model = InMemoryStore(), ScriptedModel([["par", ConnectionError("lost")], "ok"])
    agent = agent_of(
        model,
        memory=Memory(store),
        error_processors=[make("again", process_api_error=lambda args: {"retry": True})],
    )
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == "ok"
    assert await saved(store) == [("user", "hi"), ("assistant", "ok")]
    assert told(model.prompts[1]) == [("user", "hi")]


@pytest.mark.parametrize(
    "hook", ["process_input", "process_input_step", "process_output_step", "process_output_result"]
)
async def test_another_message_list_of_equal_content_is_refused(drive: Drive, make: Make, hook: str) -> None:
    """A25: R3.24"""

    def copied(args: Any) -> Any:
        other = MessageList()
        other.add([message.to_dict() for message in args.messages], "input")
        return other

    agent = agent_of(["x"], **{_array(hook): [make("copier", **{hook: copied})]})
    outcome = await drive(agent)
    assert outcome.error.code == "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST"
    assert (outcome.error.processor_id, outcome.error.hook) == ("copier", hook)


def _array(hook: str) -> str:
    return "input_processors" if hook.startswith("process_input") else "output_processors"


async def test_a_stream_hook_that_crashes_fails_closed(drive: Drive, make: Make) -> None:
    """A37: R17.1–R17.3"""

    def crash(args: Any) -> Any:
        if args.part.type == "text-delta":
            raise ValueError("boom")
        return args.part

    store, model = InMemoryStore(), ScriptedModel([["a", "b"]])
    agent = agent_of(model, memory=Memory(store), output_processors=[make("fragile", process_output_stream=crash)])
    outcome = await drive(agent, memory=THREAD)
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("fragile", "process_output_stream")
    assert isinstance(outcome.error.__cause__, ValueError)
    assert await saved(store) == []
    assert model.open_streams == 0
    if outcome.chunks:
        assert outline(outcome.chunks) == ["start", "step-start", "text-start", "error"]


class Swallower(Processor):
    """Aborts, and eats its own abort."""

    id = "swallower"

    def process_output_step(self, args: ProcessOutputStepArgs) -> Any:
        try:
            args.abort("stop it")
        except Exception:
            return args.message_list


async def test_an_abort_that_the_hook_swallows_still_trips(drive: Drive) -> None:
    """A43: R6.3"""
    outcome = await drive(agent_of(["x"], output_processors=[Swallower()]))
    assert outcome.tripwire.processor_id == "swallower"
    assert outcome.tripwire.reason == "stop it"
    assert outcome.finish_reason == "other"
