"""What errors do to a run (runtime specification, section 17)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock import (
    AbortSignal,
    APICallError,
    ConfigurationError,
    InterlockError,
    ModelFallback,
    Processor,
    ProcessorError,
    ToolError,
    TripWire,
    errors,
    tool,
)
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocationPart
from interlock.testing import ScriptedModel, drain, tool_call, types_of, wait_for
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    made_sync,
    outline,
    part_types,
    saved,
    stored,
    streamed,
)

pytestmark = pytest.mark.anyio

DOWN = APICallError("down", status_code=400)

FAILING = [
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
    "flush_output_stream",
]


def array_of(hook: str) -> str:
    return "input_processors" if hook.startswith(("process_input", "process_llm")) else "output_processors"


def crash(args: Any, *_: Any) -> Any:
    raise ValueError("boom")


async def test_a_failing_process_input_raises_and_saves_nothing(drive: Drive, make: Make) -> None:
    """R17.1"""
    store, model = InMemoryStore(), ScriptedModel([])
    agent = agent_of(model, memory=Memory(store), input_processors=[make("bad", process_input=crash)])
    outcome = await drive(agent, memory=THREAD)
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("bad", "process_input")
    assert isinstance(outcome.error.__cause__, ValueError)
    assert outcome.result is None
    assert model.calls == 0
    assert await saved(store) == []


@pytest.mark.parametrize("hook", FAILING)
async def test_a_failing_hook_is_a_run_error(make: Make, hook: str) -> None:
    """R17.1, R17.2"""
    store, recorder, heard = InMemoryStore(), Recorder(), list[str]()
    arrays = {key: list(value) for key, value in recorder.everywhere.items()}
    arrays[array_of(hook)] = [make("bad", **{hook: crash}), recorder]
    fallback = ScriptedModel([])
    model = ScriptedModel([["a", tool_call("echo")], "b"])
    agent = agent_of([], tools=[echo], memory=Memory(store), **arrays)
    outcome = await streamed(
        agent,
        model=[ModelFallback(model), ModelFallback(fallback)],
        memory=THREAD,
        on_error=lambda payload: heard.append("error"),
        on_finish=lambda info: heard.append(info.finish_reason),
    )
    error = outcome.error
    assert isinstance(error, ProcessorError)
    assert (error.processor_id, error.hook) == ("bad", hook)
    assert isinstance(error.__cause__, ValueError)
    assert types_of(outcome.chunks).count("error") == 1
    assert outcome.chunks[-1].payload.error is error
    assert "finish" not in types_of(outcome.chunks)
    assert (outcome.finish_reason, outcome.status) == ("error", "failed")
    assert heard == ["error", "error"]
    assert await saved(store) == []
    assert "process_api_error" not in recorder.calls
    assert "process_output_result" not in recorder.calls
    assert "error" not in recorder.parts
    assert (fallback.calls, model.open_streams) == (0, 0)


@pytest.mark.parametrize("hook", FAILING)
async def test_generate_raises_the_processor_error_with_its_cause(make: Make, hook: str) -> None:
    """R17.2, R12.19"""
    agent = agent_of([["a", tool_call("echo")], "b"], tools=[echo], **{array_of(hook): [make("bad", **{hook: crash})]})
    with pytest.raises(ProcessorError, match=r"bad.*boom") as raised:
        await agent.generate("hi")
    assert isinstance(raised.value.__cause__, ValueError)


@pytest.mark.parametrize("hook", ["process_output_result"])
async def test_chunks_that_were_streamed_before_a_late_failure_stay(make: Make, hook: str) -> None:
    """R17.1"""
    outcome = await streamed(agent_of(["x"], output_processors=[make("bad", **{hook: crash})]))
    assert outline(outcome.chunks)[3] == "text-delta(x)"
    assert outline(outcome.chunks)[-2:] == ["step-finish(stop)", "error"]


async def test_the_stream_hook_fails_closed(make: Make) -> None:
    """R17.3"""

    def fragile(args: Any) -> Any:
        if args.part.type == "text-delta" and args.part.payload.text == "secret":
            raise ValueError("boom")
        return args.part

    reached: list[str] = []
    model = ScriptedModel([["ok", "secret", lambda: reached.append("later"), "more"]])
    outcome = await streamed(agent_of(model, output_processors=[make("bad", process_output_stream=fragile)]))
    assert outline(outcome.chunks) == ["start", "step-start", "text-start", "text-delta(ok)", "error"]
    assert reached == []
    assert model.open_streams == 0


async def test_a_processor_may_choose_to_fail_open(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """R17.3, section 18.3"""
    bad = make("bad", fail_open=True, process_output_stream=crash)
    with caplog.at_level(logging.WARNING, logger="interlock"):
        outcome = await streamed(agent_of(["x"], output_processors=[bad]))
    assert (outcome.text, outcome.error) == ("x", None)
    assert "bad" in caplog.text


async def test_a_processor_that_fails_open_still_can_abort(drive: Drive, make: Make) -> None:
    """R17.3, R6.1"""
    guard = make("guard", fail_open=True, process_output_stream=lambda args: args.abort("no"))
    outcome = await drive(agent_of(["x"], output_processors=[guard]))
    assert outcome.tripwire.reason == "no"


async def test_an_unrecovered_model_error_is_shown_then_the_run_finishes(make: Make) -> None:
    """R17.4"""
    recorder = Recorder()
    outcome = await streamed(agent_of([["par", DOWN]], output_processors=[recorder]))
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(par)",
        "error",
        "step-finish(error)",
        "finish(error)",
    ]
    assert chunks_of(outcome.chunks, "error")[0].payload.error is DOWN
    assert recorder.calls[-1] == "process_output_result"
    assert (outcome.error, outcome.finish_reason, outcome.status) == (DOWN, "error", "failed")


async def test_the_error_chunk_may_be_changed_but_not_dropped(make: Make) -> None:
    """R17.4, R2.27"""

    def hide(args: Any) -> Any:
        return None if args.part.type == "error" else args.part

    def soften(args: Any) -> Any:
        if args.part.type == "error":
            args.part.payload.error = "sorry"
        return args.part

    hidden = await streamed(agent_of([DOWN], output_processors=[make(process_output_stream=hide)]))
    assert chunks_of(hidden.chunks, "error")[0].payload.error is DOWN
    softened = await streamed(agent_of([DOWN], output_processors=[make(process_output_stream=soften)]))
    assert chunks_of(softened.chunks, "error")[0].payload.error == "sorry"
    assert (hidden.error, softened.error) == (DOWN, DOWN)


async def test_an_unrecovered_error_saves_input_partial_text_and_the_error(drive: Drive) -> None:
    """R17.4, R13.10"""
    store = InMemoryStore()
    agent = agent_of([["one ", tool_call("echo")], ["par", DOWN]], tools=[echo], memory=Memory(store))
    await drive(agent, memory=THREAD)
    question, answer = await stored(store)
    assert question.role == "user"
    assert part_types(answer) == ["text", "tool-invocation", "step-start", "text", "error"]
    assert answer.content.parts[-1].to_dict()["error"] == {"name": "APICallError", "message": "down"}


async def test_a_rejected_first_call_saves_input_and_error(drive: Drive) -> None:
    """R13.10"""
    store, model = InMemoryStore(), ScriptedModel([DOWN, "x"])
    agent = agent_of(model, memory=Memory(store))
    await drive(agent, memory=THREAD)
    assert [(message.role, part_types(message)) for message in await stored(store)] == [
        ("user", ["text"]),
        ("assistant", ["error"]),
    ]
    await drive(agent, memory=THREAD)
    assert "down" not in str(model.prompts[1])


@pytest.mark.parametrize("is_recovered", [True, False])
async def test_a_failed_attempt_is_not_judged(drive: Drive, make: Make, is_recovered: bool) -> None:
    """R17.4a"""
    recorder = Recorder()
    again = [make("again", process_api_error=lambda args: {"retry": True})] if is_recovered else []
    agent = agent_of(
        [["par", DOWN], "ok"], input_processors=[recorder], output_processors=[recorder], error_processors=again
    )
    await drive(agent)
    judged = [call for call in recorder.hooks if call.startswith(("process_llm_response", "process_output_step"))]
    assert len(judged) == (2 if is_recovered else 0)


async def test_calls_of_a_failed_attempt_are_not_carried_out(drive: Drive) -> None:
    """R17.5"""
    ran: list[str] = []

    @tool(in_thread=False)
    def work() -> str:
        """Notes that it ran."""
        ran.append("work")
        return "ok"

    store = InMemoryStore()
    agent = agent_of([["hm", tool_call("work"), DOWN]], tools=[work], memory=Memory(store))
    await drive(agent, memory=THREAD)
    assert ran == []
    answer = (await stored(store))[-1]
    assert part_types(answer) == ["text", "tool-invocation", "error"]
    part = answer.content.parts[1]
    assert isinstance(part, ToolInvocationPart)
    assert part.tool_invocation.state == "output-error"
    assert "not executed" in (part.tool_invocation.error_text or "")


def test_all_errors_have_one_root() -> None:
    """R17.7"""
    names = [
        "TripWire",
        "ProcessorError",
        "ProcessorReturnError",
        "ConfigurationError",
        "InvalidMessageError",
        "ToolError",
        "StructuredOutputError",
        "StorageError",
        "RunNotFoundError",
        "RunStateError",
        "ThreadOwnershipError",
        "ModelError",
        "APICallError",
    ]
    assert all(issubclass(getattr(errors, name), InterlockError) for name in names)
    assert issubclass(errors.ProcessorReturnError, ProcessorError)
    assert issubclass(APICallError, errors.ModelError)
    assert {TripWire, ConfigurationError, ToolError} <= set(InterlockError.__subclasses__())


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [(400, False), (401, False), (408, True), (409, True), (429, True), (500, True), (None, True)],
)
def test_an_api_call_error_tells_its_facts(status: int | None, is_retryable: bool) -> None:
    """R17.7, R7.13"""
    error = APICallError("x", status_code=status, url="https://x.test", response_body="b", response_headers={"a": "1"})
    assert (error.status_code, error.is_retryable, error.url) == (status, is_retryable, "https://x.test")
    assert (error.response_body, error.response_headers) == ("b", {"a": "1"})


@pytest.mark.parametrize("hook", ["process_input_step", "process_output_stream", "process_output_step"])
async def test_base_exceptions_propagate_and_nothing_is_saved(make: Make, hook: str) -> None:
    """R17.8"""

    class Stop(BaseException):
        pass

    def stop(args: Any) -> Any:
        raise Stop

    store, model = InMemoryStore(), ScriptedModel(["x"])
    agent = agent_of(model, memory=Memory(store), **{array_of(hook): [make(**{hook: stop})]})
    with pytest.raises(Stop):
        await agent.generate("hi", memory=THREAD)
    assert await saved(store) == []
    assert model.open_streams == 0


async def test_a_total_timeout_is_a_run_error_that_is_not_retried(drive: Drive, make: Make) -> None:
    """R17.9"""
    asked: list[int] = []
    model = ScriptedModel([["a", wait_for(asyncio.Event())], "x"])
    agent = agent_of(model, error_processors=[make(process_api_error=lambda args: asked.append(1) or {"retry": True})])
    outcome = await drive(agent, model_settings={"timeout": {"total_ms": 100}})
    assert isinstance(outcome.error, TimeoutError)
    assert "100 ms" in str(outcome.error)
    assert (asked, model.calls, model.open_streams) == ([], 1, 0)
    if outcome.chunks:
        assert outcome.chunks[-1].type == "error"


async def test_the_total_time_bounds_the_hooks_on_the_input(drive: Drive) -> None:
    """R17.9"""

    async def never_done(args: Any) -> None:
        await asyncio.Event().wait()

    model = ScriptedModel(["never"])
    agent = agent_of(model, input_processors=[made_sync(process_input=never_done)])
    outcome = await drive(agent, model_settings={"timeout": {"total_ms": 20}})
    assert isinstance(outcome.error, TimeoutError)
    assert ("20 ms" in str(outcome.error), model.calls) == (True, 0)


async def test_a_step_timeout_is_a_failed_call(drive: Drive, make: Make) -> None:
    """R17.9"""
    asked: list[BaseException] = []
    model = ScriptedModel([["a", wait_for(asyncio.Event())], "x"])
    ask = make(process_api_error=lambda args: asked.append(args.error) or {"retry": True})
    outcome = await drive(agent_of(model, error_processors=[ask]), model_settings={"timeout": {"step_ms": 150}})
    assert outcome.text == "x"
    assert [type(error) for error in asked] == [TimeoutError]
    assert model.open_streams == 0


async def test_a_step_timeout_does_not_count_the_tools(drive: Drive) -> None:
    """R17.9"""

    @tool
    async def slow() -> str:
        """Takes longer than a provider call may."""
        await asyncio.sleep(0.25)
        return "ok"

    agent = agent_of([[tool_call("slow")], "x"], tools=[slow])
    outcome = await drive(agent, model_settings={"timeout": {"step_ms": 200}})
    assert (outcome.text, outcome.error) == ("x", None)


async def test_a_failing_save_is_a_run_error_after_the_response(make: Make) -> None:
    """R13.15"""

    class Full(InMemoryStore):
        async def save(self, thread: Any, messages: Any) -> None:
            raise errors.StorageError("disk full")

    agent = agent_of(["x"], memory=Memory(Full()))
    outcome = await streamed(agent, memory=THREAD)
    assert outline(outcome.chunks)[-2:] == ["step-finish(stop)", "error"]
    assert isinstance(outcome.error.__cause__, errors.StorageError) or isinstance(outcome.error, errors.StorageError)
    with pytest.raises(InterlockError, match="disk full"):
        await agent_of(["x"], memory=Memory(Full())).generate("hi", memory=THREAD)


async def test_a_failing_tracer_never_affects_the_run(drive: Drive) -> None:
    """R15.7, R17.1"""

    class Broken:
        def hook_started(self, event: Any) -> Any:
            raise ValueError("tracer broke")

        def hook_ended(self, event: Any) -> None:
            raise ValueError("tracer broke")

    recorder = Recorder()
    outcome = await drive(agent_of(["x"], tracer=Broken(), **recorder.everywhere))
    assert (outcome.text, outcome.error) == ("x", None)
    assert "process_output_result" in recorder.calls


async def test_the_error_of_one_run_leaves_the_agent_usable(drive: Drive) -> None:
    """R1.19"""

    class Once(Processor):
        id = "once"
        is_first = True

        def process_output_step(self, args: Any) -> None:
            if self.is_first:
                self.is_first = False
                raise ValueError("boom")

    agent = agent_of(["x", "y"], output_processors=[Once()])
    assert (await drive(agent)).error is not None
    assert (await drive(agent)).text == "y"


async def test_a_failed_run_can_be_read_again(make: Make) -> None:
    """R12.17, R12.18"""
    stream = await agent_of(["x"], output_processors=[make(process_output_step=crash)]).stream("hi")
    first, second = await drain(stream.full_stream), await drain(stream.full_stream)
    assert types_of(first) == types_of(second)
    assert await stream.text == ""


class Heard:
    """Notes which callbacks were called, and with what."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def options(self) -> dict[str, Any]:
        return {name: self._noting(name) for name in ("on_error", "on_abort", "on_finish")}

    def _noting(self, name: str) -> Any:
        return lambda payload: self.names.append(name)


async def test_a_result_hook_that_aborts_after_a_model_error_trips_the_run(drive: Drive, make: Make) -> None:
    """R6.5, R1.14, R12.19"""
    store, heard = InMemoryStore(), Heard()
    guard = make("guard", process_output_result=lambda args: args.abort("not even that"))
    agent = agent_of([["par", DOWN]], memory=Memory(store), output_processors=[guard])
    outcome = await drive(agent, memory=THREAD, **heard.options())
    assert (outcome.tripwire.reason, outcome.error, outcome.status) == ("not even that", None, "tripwire")
    assert (outcome.finish_reason, outcome.text) == ("other", "")
    assert heard.names == ["on_finish"]
    assert await saved(store) == []
    if outcome.chunks:
        assert outcome.chunks[-1].type == "tripwire"


async def test_a_result_hook_that_fails_after_a_model_error_is_the_error_of_the_run(drive: Drive, make: Make) -> None:
    """R17.1, R12.26"""
    heard = Heard()
    outcome = await drive(
        agent_of([["par", DOWN]], output_processors=[make("bad", process_output_result=crash)]), **heard.options()
    )
    assert isinstance(outcome.error, ProcessorError)
    assert heard.names == ["on_error", "on_finish"]


@pytest.mark.parametrize("where", ["the error chunk", "step-finish", "the result hook"])
async def test_a_signal_that_comes_after_the_model_has_failed_for_good_is_too_late(
    drive: Drive, make: Make, where: str
) -> None:
    """R17.4, R12.28"""
    store, heard, signal, ended = InMemoryStore(), Heard(), AbortSignal(), list[str]()

    async def look(args: Any) -> Any:
        if args.part.type == {"the error chunk": "error", "step-finish": "step-finish"}.get(where):
            signal.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return args.part

    def end(args: Any) -> None:
        ended.append(args.result.finish_reason)
        if where == "the result hook":
            signal.abort()

    agent = agent_of(
        [["par", DOWN]],
        memory=Memory(store),
        output_processors=[make("p", process_output_stream=look, process_output_result=end)],
    )
    outcome = await drive(agent, memory=THREAD, abort_signal=signal, **heard.options())
    assert outcome.error is DOWN
    assert heard.names == ["on_error", "on_finish"]
    assert ended == ["error"]
    assert await saved(store) == [("user", "hi"), ("assistant", "par")]
    if outcome.chunks:
        assert outline(outcome.chunks)[-3:] == ["error", "step-finish(error)", "finish(error)"]
        assert (outcome.text, outcome.status) == ("par", "failed")


async def test_a_result_hook_that_sets_the_signal_and_raises_runs_once(drive: Drive, make: Make) -> None:
    """R1.14, R17.1"""
    signal, ran, heard = AbortSignal(), list[int](), Heard()

    def fail(args: Any) -> Any:
        ran.append(1)
        signal.abort()
        raise ValueError("boom")

    agent = agent_of(["x"], output_processors=[make("bad", process_output_result=fail)])
    outcome = await drive(agent, abort_signal=signal, **heard.options())
    assert isinstance(outcome.error, ProcessorError)
    assert ran == [1]
    assert heard.names == ["on_error", "on_finish"]
