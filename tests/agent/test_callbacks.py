"""The callbacks of a call (runtime specification, section 12.4)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock import AbortSignal, APICallError
from interlock.testing import ScriptedModel, reasoning, tool_call, tool_input
from tests.agent.kit import Drive, Make, agent_of, chunks_of, echo, streamed

pytestmark = pytest.mark.anyio


class Heard:
    """Callbacks that note what they are told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def options(self, *names: str) -> dict[str, Any]:
        return {name: self._noting(name) for name in names or ALL}

    def _noting(self, name: str) -> Any:
        return lambda payload: self.calls.append((name, payload))

    def of(self, name: str) -> list[Any]:
        return [payload for called, payload in self.calls if called == name]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls if name not in ("on_chunk", "on_step_finish")]


ALL = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort")


async def test_on_chunk_is_told_of_content_after_output_processing(drive: Drive, make: Make) -> None:
    """R12.26"""
    heard = Heard()

    def shout(args: Any) -> Any:
        if args.part.type == "text-delta":
            if args.part.payload.text == "drop":
                return None
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    source = {"type": "source", "payload": {"id": "s", "url": "https://x.test"}}
    turns = [[*reasoning("hm"), "a", "drop", source, *tool_input("echo", "{}", id="c1")], "b"]
    agent = agent_of(turns, tools=[echo], output_processors=[make(process_output_stream=shout)])
    await drive(agent, **heard.options("on_chunk"))
    chunks = heard.of("on_chunk")
    assert [chunk.type for chunk in chunks] == [
        "reasoning-delta",
        "text-delta",
        "source",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call",
        "tool-result",
        "text-delta",
    ]
    assert [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"] == ["A", "B"]


async def test_on_chunk_is_the_same_without_processors(drive: Drive) -> None:
    """R12.26"""
    heard = Heard()
    await drive(agent_of([["a", tool_call("echo")], "b"], tools=[echo]), **heard.options("on_chunk"))
    assert [chunk.type for chunk in heard.of("on_chunk")] == ["text-delta", "tool-call", "tool-result", "text-delta"]


async def test_on_chunk_is_told_of_raw_chunks_that_were_asked_for(drive: Drive) -> None:
    """R12.26"""
    heard = Heard()
    raw = {"type": "raw", "payload": {"event": 1}}
    await drive(agent_of([[raw, "a"]]), include_raw_chunks=True, **heard.options("on_chunk"))
    assert [chunk.type for chunk in heard.of("on_chunk")] == ["raw", "text-delta"]


async def test_on_step_finish_is_told_of_each_attempt_with_a_step_finish(drive: Drive, make: Make) -> None:
    """R12.26"""
    heard = Heard()

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        ["bad", ["a", tool_call("echo")], "b"],
        tools=[echo],
        output_processors=[make(process_output_step=reject)],
        max_processor_retries=1,
    )
    await drive(agent, **heard.options("on_step_finish"))
    steps = heard.of("on_step_finish")
    assert [(step.text, step.finish_reason) for step in steps] == [("", "retry"), ("a", "tool-calls"), ("b", "stop")]


async def test_a_completed_run_finishes_once(drive: Drive) -> None:
    """R12.26"""
    heard = Heard()
    outcome = await drive(agent_of([["a", tool_call("echo")], "b"], tools=[echo]), **heard.options())
    (info,) = heard.of("on_finish")
    assert (info.text, info.finish_reason, info.run_id) == ("ab", "stop", outcome.run_id)
    assert (len(info.steps), info.usage.output_tokens, info.tripwire, info.error) == (2, 6, None, None)
    assert heard.names == ["on_finish"]


@pytest.mark.parametrize("hook", ["process_input", "process_output_step"])
async def test_a_tripped_run_finishes_once_without_an_error(drive: Drive, make: Make, hook: str) -> None:
    """R12.26, R6.5"""
    heard = Heard()
    array = "input_processors" if hook == "process_input" else "output_processors"
    guard = make("guard", **{hook: lambda args: args.abort("no")})
    await drive(agent_of(["x"], **{array: [guard]}), **heard.options())
    (info,) = heard.of("on_finish")
    assert (info.finish_reason, info.tripwire.reason, info.text) == ("other", "no", "")
    assert heard.names == ["on_finish"]


async def test_a_failed_model_call_is_an_error_then_the_finish(drive: Drive) -> None:
    """R12.26"""
    heard, error = Heard(), APICallError("down", status_code=400)
    await drive(agent_of([error]), **heard.options())
    assert heard.names == ["on_error", "on_finish"]
    assert heard.of("on_error") == [{"error": error}]
    (info,) = heard.of("on_finish")
    assert (info.finish_reason, info.error) == ("error", error)


async def test_a_failed_hook_is_an_error_then_the_finish(drive: Drive, make: Make) -> None:
    """R12.26, R17.2"""
    heard = Heard()

    def crash(args: Any) -> Any:
        raise ValueError("boom")

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=crash)]), **heard.options())
    assert heard.names == ["on_error", "on_finish"]
    assert heard.of("on_error") == [{"error": outcome.error}]


async def test_a_failed_process_input_calls_nothing(drive: Drive, make: Make) -> None:
    """R12.26"""
    heard = Heard()

    def crash(args: Any) -> Any:
        raise ValueError("boom")

    await drive(agent_of(["x"], input_processors=[make(process_input=crash)]), **heard.options())
    assert heard.calls == []


async def test_a_cancelled_run_aborts_then_finishes(drive: Drive) -> None:
    """R12.26"""
    heard, signal = Heard(), AbortSignal()
    model = ScriptedModel([["one ", tool_call("echo")], ["tw", signal.abort, "o"]])
    await drive(agent_of(model, tools=[echo]), abort_signal=signal, **heard.options())
    assert heard.names == ["on_abort", "on_finish"]
    (told,) = heard.of("on_abort")
    assert told["text"] == "one tw"
    assert [step.text for step in told["steps"]] == ["one "]
    assert heard.of("on_finish")[0].finish_reason == "aborted"


async def test_a_suspended_run_finishes_once(drive: Drive) -> None:
    """R12.26"""
    heard = Heard()
    await drive(agent_of([[tool_call("echo")]], tools=[echo]), require_tool_approval=True, **heard.options())
    assert heard.names == ["on_finish"]
    assert heard.of("on_finish")[0].finish_reason == "suspended"


async def test_the_finish_comes_after_the_result_hooks(drive: Drive, make: Make) -> None:
    """R12.26"""
    heard = Heard()

    def edit(args: Any) -> None:
        args.messages[0].content.parts[0].text = "edited"

    await drive(agent_of(["x"], output_processors=[make(process_output_result=edit)]), **heard.options("on_finish"))
    assert heard.of("on_finish")[0].text == "edited"


@pytest.mark.parametrize("is_async", [False, True])
async def test_callbacks_are_awaited_in_turn(drive: Drive, is_async: bool) -> None:
    """R12.27"""
    order: list[str] = []

    async def later(payload: Any) -> None:
        order.append("begin")
        await asyncio.sleep(0)
        order.append("end")

    def at_once(payload: Any) -> None:
        order.extend(["begin", "end"])

    callback = later if is_async else at_once
    await drive(agent_of([["a", "b"]]), on_chunk=callback, on_step_finish=callback, on_finish=callback)
    assert order == ["begin", "end"] * 4


@pytest.mark.parametrize("name", ALL)
async def test_a_failing_callback_is_logged_and_changes_nothing(
    drive: Drive, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R12.27"""

    def fail(payload: Any) -> None:
        raise ValueError("callback broke")

    signal = AbortSignal()
    options: dict[str, Any] = {name: fail}
    turn: Any = ["a", "b"]
    if name == "on_error":
        turn = [APICallError("down", status_code=400)]
    elif name == "on_abort":
        turn = ["ab", signal.abort, "c"]
        options["abort_signal"] = signal
    with caplog.at_level(logging.ERROR, logger="interlock"):
        outcome = await drive(agent_of([turn]), **options)
    assert name in caplog.text
    assert "callback broke" in caplog.text
    if name == "on_error":
        assert isinstance(outcome.error, APICallError)
    else:
        assert outcome.text == "ab"


@pytest.mark.parametrize("kind", ["rejected in the stream", "failed and repeated", "failed for good"])
async def test_on_step_finish_is_told_whenever_a_step_finish_is_emitted(make: Make, kind: str) -> None:
    """R12.26"""
    heard = Heard()

    def reject(args: Any) -> Any:
        if kind == "rejected in the stream" and args.retry_count == 0 and args.part.type == "text-delta":
            args.abort("again", retry=True)
        return args.part

    down = APICallError("down", status_code=400)
    turns: list[Any] = {
        "rejected in the stream": ["bad", "good"],
        "failed and repeated": [["par", down], "good"],
        "failed for good": [["par", down]],
    }[kind]
    again = make("again", process_api_error=lambda args: {"retry": kind == "failed and repeated"})
    agent = agent_of(turns, output_processors=[make(process_output_stream=reject)], error_processors=[again])
    outcome = await streamed(agent, max_processor_retries=1, **heard.options("on_step_finish"))
    finishes = [chunk.payload.step_result.reason for chunk in chunks_of(outcome.chunks, "step-finish")]
    assert [step.finish_reason for step in heard.of("on_step_finish")] == finishes
    assert heard.of("on_step_finish")[0].text in ("", "par")
