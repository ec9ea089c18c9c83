"""Faults at every hook and at every chunk of a run leave nothing behind.

The run has every hook in it: a call that fails and is repeated, a step with two tools, a step without. Whatever strikes
it, and wherever: no task is left, no provider stream is open, nothing is half saved, and the stream ends.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from interlock import AbortSignal, Agent, AgentStream, APICallError, Processor, ProcessorError, ToolContext, tool
from interlock.chunks import Finish, FinishPayload, StepOutcome, TextDelta, TextDeltaPayload
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocationPart
from interlock.testing import ScriptedModel, drain, text_of, tool_call
from tests.agent.kit import NINE_HOOKS, PATIENCE_S, THREAD, kept, saved, stored, told

pytestmark = pytest.mark.anyio

Strike = Callable[[Any], Any]

HOOK_CALLS = 38
"""How many hook calls the run has; ``test_the_run_has_every_hook_in_it`` counts them."""

CHUNKS = 23
"""How many chunks its reader sees."""


class Struck(Exception):
    """What a strike raises."""


class Striker(Processor):
    """Has every hook, gives way in each, and strikes at one call."""

    id = "striker"

    def __init__(self, at: int | None = None, strike: Strike | None = None) -> None:
        self.calls: list[str] = []
        self.struck = ""
        """The hook that it struck at."""
        for hook in NINE_HOOKS:
            setattr(self, hook, self._hook(hook, at, strike))
        self.flush_output_stream = self._hook("flush_output_stream", at, strike)

    def _hook(self, name: str, at: int | None, strike: Strike | None) -> Callable[..., Awaitable[Any]]:
        async def hook(args: Any, *_: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            await asyncio.sleep(0)
            if number == at and strike is not None:
                self.struck = name
                outcome = strike(args)
                if asyncio.iscoroutine(outcome):
                    await outcome
            if name == "process_api_error":
                return {"retry": True}
            return args.part if name == "process_output_stream" else None

        return hook


@tool
async def look(name: str, context: ToolContext) -> str:
    """Looks something up, slowly, and tells about it."""
    await asyncio.sleep(0)
    await context.writer.custom({"type": "data-progress", "data": name})
    return f"saw {name}"


class Scene:
    """The agent of the run, with all that can be looked at afterwards."""

    def __init__(self, striker: Striker | None = None, turns: list[Any] | None = None) -> None:
        self.striker = striker or Striker()
        self.store = InMemoryStore()
        self.model = ScriptedModel(turns or self._answer)
        self.agent = Agent(
            id="agent",
            model=self.model,
            tools=[look],
            memory=Memory(self.store),
            input_processors=[self.striker],
            output_processors=[self.striker],
            error_processors=[self.striker],
        )

    def _answer(self, request: Any) -> Any:
        if self.model.calls == 1:
            return ["par", APICallError("down", status_code=400)]
        if told(request.prompt)[-1][0] == "tool":
            return ["all ", "done"]
        calls = [tool_call("look", {"name": "a"}), tool_call("look", {"name": "b"})]
        return ["hm ", lambda: asyncio.sleep(0), *calls]

    async def check(self, before: set[asyncio.Task[Any]]) -> None:
        """Nothing is left behind, once iterators that were forgotten are closed."""
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() - before == set()
        assert self.model.open_streams == 0
        for message in await stored(self.store):
            for part in message.content.parts:
                assert not (isinstance(part, ToolInvocationPart) and part.tool_invocation.is_pending)
        roles = [role for role, _ in await saved(self.store)]
        assert roles in ([], ["user"], ["user", "assistant"])


@pytest.fixture(autouse=True)
async def no_unfetched_exceptions() -> AsyncIterator[None]:
    """An exception that nobody fetched fails the test."""
    loop = asyncio.get_running_loop()
    complaints: list[Any] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(before)
    assert complaints == []


async def test_the_run_has_every_hook_in_it() -> None:
    before = asyncio.all_tasks()
    scene = Scene()
    stream = await scene.agent.stream("hi", memory=THREAD)
    chunks = await drain(stream.full_stream)
    assert len(scene.striker.calls) == HOOK_CALLS
    assert len(chunks) == CHUNKS
    assert set(scene.striker.calls) == {*NINE_HOOKS, "flush_output_stream"}
    assert await saved(scene.store) == [("user", "hi"), ("assistant", "hm all done")]
    await scene.check(before)


def raising(args: Any) -> None:
    raise Struck("struck")


def tripping(args: Any) -> None:
    args.abort("struck")


def rejecting(args: Any) -> None:
    args.abort("struck", retry=True)


def signalling(args: Any) -> None:
    args.abort_signal.abort("struck")


async def signalling_and_waiting(args: Any) -> None:
    args.abort_signal.abort("struck")
    await asyncio.Event().wait()


async def signalling_and_raising(args: Any) -> None:
    args.abort_signal.abort("struck")
    raise Struck("struck")


async def cancelling(args: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


STRIKES = [raising, tripping, rejecting, signalling, signalling_and_waiting, signalling_and_raising, cancelling]


async def run_generate(scene: Scene) -> Any:
    return await scene.agent.generate("hi", memory=THREAD)


async def run_stream(scene: Scene) -> Any:
    async with scene.agent.stream("hi", memory=THREAD) as stream:
        await drain(stream.full_stream)
        if stream.error is not None:
            raise stream.error
        return await stream.get_full_output()


@pytest.mark.parametrize("run", [run_generate, run_stream])
@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.__name__)
async def test_a_strike_at_any_hook_leaves_nothing_behind(
    run: Callable[[Scene], Awaitable[Any]], strike: Strike
) -> None:
    """R6.5, R12.28–R12.30, R17.1, R17.8"""
    before = asyncio.all_tasks()
    for at in range(HOOK_CALLS):
        if strike is signalling_and_waiting and at in (0, HOOK_CALLS - 1):
            # Before the run and when its answer is saved nothing is interrupted: a hook must look at the signal itself.
            continue
        scene = Scene(Striker(at, strike))
        task = asyncio.ensure_future(run(scene))
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.done(), f"the run hangs after {scene.striker.calls}"
        await scene.check(before)
        check_outcome(strike, task, scene, await saved(scene.store))


def check_outcome(strike: Strike, task: asyncio.Future[Any], scene: Scene, in_store: list[tuple[str, str]]) -> None:
    """What the caller got, and what was saved."""
    struck_at = scene.striker.struck
    if strike is cancelling:
        assert task.cancelled(), struck_at
        assert in_store == []
        return
    error = task.exception()
    if strike is raising:
        # A failing error processor is logged; the model's own error surfaces (R7.18).
        assert error is not None, struck_at
        assert isinstance(error.__cause__, Struck) or isinstance(error, APICallError)
        assert in_store == [] or isinstance(error, APICallError)
        return
    if strike is signalling_and_raising and struck_at == "process_output_result":
        # There is nothing left to cancel: the hook has failed (R17.1).
        assert isinstance(error, ProcessorError)
        assert in_store == []
        return
    assert error is None, (struck_at, error)
    result = task.result()
    if strike is tripping:
        assert result.tripwire is not None, struck_at
        assert in_store == []
    elif strike is rejecting:
        # Repeated where that is possible.
        assert result.status in ("tripwire", "success"), struck_at
        assert in_store in ([], [("user", "hi"), ("assistant", "hm all done")])
        assert (in_store == []) == (result.status == "tripwire")
    else:
        assert result.status in ("canceled", "success"), struck_at
        if strike is signalling_and_raising and "process_input_step" not in scene.striker.calls:
            # What an input hook has not passed is not kept.
            assert in_store == []
        else:
            assert in_store[0] == ("user", "hi")


async def leave(stream: AgentStream, signal: AbortSignal) -> None:
    await stream.aclose()


async def signal_it(stream: AgentStream, signal: AbortSignal) -> None:
    signal.abort("struck")


async def fail(stream: AgentStream, signal: AbortSignal) -> None:
    raise Struck("struck")


async def cancel_reader(stream: AgentStream, signal: AbortSignal) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.parametrize("act", [leave, signal_it, fail, cancel_reader], ids=lambda act: act.__name__)
async def test_a_reader_that_acts_at_any_chunk_leaves_nothing_behind(
    act: Callable[[AgentStream, AbortSignal], Awaitable[None]],
) -> None:
    """R12.17, R12.28, R12.29, R17.6"""
    before = asyncio.all_tasks()
    for at in range(CHUNKS):
        scene, signal, streams = Scene(), AbortSignal(), list[AgentStream]()

        async def read(
            scene: Scene = scene, signal: AbortSignal = signal, streams: list[AgentStream] = streams, at: int = at
        ) -> None:
            number = 0
            async with scene.agent.stream("hi", memory=THREAD, abort_signal=signal) as stream:
                streams.append(stream)
                async for _ in stream.full_stream:
                    if number == at:
                        await act(stream, signal)
                    number += 1

        task = asyncio.ensure_future(read())
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.done(), f"the run hangs after chunk {at}"
        await scene.check(before)
        (stream,) = streams
        seen = await drain(stream.full_stream)
        is_complete = stream.status == "success"
        assert is_complete or (stream.status, await stream.finish_reason) == ("canceled", "aborted"), at
        if act is fail:
            assert isinstance(task.exception(), Struck)
        if act is cancel_reader:
            assert task.cancelled()
        else:
            assert task.cancelled() is False
            assert seen[-1].type == ("finish" if is_complete else "abort")
            answer = [text for role, text in await saved(scene.store) if role == "assistant"]
            assert "".join(answer) == await stream.text
        if act is cancel_reader and not is_complete:
            # The run is saved right before its last chunk.
            assert await saved(scene.store) in ([], [("user", "hi"), ("assistant", "hm all done")])
            assert at == CHUNKS - 1 or await saved(scene.store) == []


@pytest.mark.parametrize("how", ["break", "never read", "read half, forget"])
async def test_a_stream_that_is_left_and_closed_leaves_nothing_behind(how: str) -> None:
    """R12.17"""
    before = asyncio.all_tasks()
    scene = Scene()
    stream = await scene.agent.stream("hi", memory=THREAD)
    if how == "break":
        async for _ in stream:
            break
    elif how == "read half, forget":
        iterator = stream.full_stream
        for _ in range(CHUNKS // 2):
            await anext(iterator)
        del iterator
    await stream.aclose()
    await scene.check(before)
    assert stream.status == "canceled"
    assert text_of(await drain(stream.full_stream)) is not None


class Stuck:
    """A provider's stream that never comes to its end, and fails when it is closed."""

    provider = "stuck"
    model_id = "stuck"

    def stream(self, request: Any) -> Any:
        return self

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        return TextDelta(payload=TextDeltaPayload(id="t", text="on and "))

    async def aclose(self) -> None:
        raise Struck("cannot close")


class Companion(Processor):
    """Has a task of its own going on beside the run."""

    id = "companion"

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None

    async def process_input_step(self, args: Any) -> None:
        self.task = args.create_task(asyncio.Event().wait())


@pytest.mark.parametrize("act", [leave, signal_it, cancel_reader], ids=lambda act: act.__name__)
async def test_a_provider_that_cannot_be_closed_holds_nothing_else_up(
    act: Callable[[AgentStream, AbortSignal], Awaitable[None]],
) -> None:
    """R12.28, R12.29, R17.6"""
    before = asyncio.all_tasks()
    companion, signal = Companion(), AbortSignal()
    agent = Agent(id="a", model=Stuck(), input_processors=[companion])

    async def read() -> None:
        stream = agent.stream("hi", abort_signal=signal)
        async for chunk in stream:
            if chunk.type == "text-delta":
                await act(stream, signal)

    task = asyncio.ensure_future(read())
    await asyncio.wait([task], timeout=PATIENCE_S)
    assert task.done()
    assert task.cancelled() is (act is cancel_reader)
    assert companion.task is not None
    assert companion.task.cancelled()
    assert signal.aborted or act is not signal_it
    assert asyncio.all_tasks() - before <= {task}


@pytest.mark.parametrize("reply", ["complete", "broken off"])
async def test_a_provider_that_cannot_be_closed_changes_nothing_of_its_reply(reply: str) -> None:
    """R7.14, R17.6"""

    class Ends(Stuck):
        def __init__(self) -> None:
            self.left: list[Any] = [TextDelta(payload=TextDeltaPayload(id="t", text="all"))]
            if reply == "complete":
                self.left.append(Finish(payload=FinishPayload(step_result=StepOutcome(reason="stop"))))

        async def __anext__(self) -> Any:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    agent = Agent(id="a", model=[Ends(), ScriptedModel(["next"])])
    assert (await agent.generate("hi")).text == ("all" if reply == "complete" else "next")


async def _wait_for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("ending", ["success", "failed", "canceled"])
async def test_a_task_of_the_last_hook_does_not_outlive_the_run(ending: str) -> None:
    """R19.4"""
    before, signal = asyncio.all_tasks(), AbortSignal()

    class Lingers(Processor):
        id = "lingers"

        def process_input_step(self, args: Any) -> None:
            if ending == "canceled":
                signal.abort("enough")

        def process_output_result(self, args: Any) -> None:
            args.create_task(_wait_for_ever())

    model = ScriptedModel([APICallError("down", status_code=400) if ending == "failed" else "x"])
    agent = Agent(id="a", model=model, input_processors=[Lingers()], output_processors=[Lingers()])
    stream = agent.stream("hi", abort_signal=signal)
    await drain(stream)
    assert stream.status == ending
    assert asyncio.all_tasks() == before


def provider_events() -> list[Any]:
    """One reply in full, to be broken off at each place."""
    return [
        {"type": "text-start", "payload": {"id": "t"}},
        {"type": "text-delta", "payload": {"id": "t", "text": "one "}},
        {"type": "text-delta", "payload": {"id": "t", "text": "two"}},
        {"type": "text-end", "payload": {"id": "t"}},
        {"type": "tool-call-input-streaming-start", "payload": {"toolCallId": "c", "toolName": "look"}},
        {"type": "tool-call-delta", "payload": {"toolCallId": "c", "argsTextDelta": '{"name": "a"}'}},
        {"type": "tool-call-input-streaming-end", "payload": {"toolCallId": "c"}},
        {"type": "finish", "payload": {"stepResult": {"reason": "tool-calls"}, "output": {"usage": {}}}},
    ]


@pytest.mark.parametrize("at", range(len(provider_events()) + 1))
@pytest.mark.parametrize("is_recovered", [True, False])
async def test_a_provider_that_breaks_off_anywhere_leaves_nothing_behind(at: int, is_recovered: bool) -> None:
    """R7.14, R7.16, R17.4, R17.5"""
    before = asyncio.all_tasks()
    events = provider_events()
    turns = [[*events[:at], ConnectionError("lost"), *events[at:]], ["ok"]]
    scene = Scene(turns=turns)
    stream = await scene.agent.stream("hi", memory=THREAD, max_processor_retries=1 if is_recovered else 0)
    await drain(stream.full_stream)
    await scene.check(before)
    if is_recovered:
        assert (await stream.text, stream.status) == ("ok", "success")
        assert await saved(scene.store) == [("user", "hi"), ("assistant", "ok")]
        return
    partial = "one two"[: {0: 0, 1: 0, 2: 4}.get(at, 7)]
    assert (await stream.text, stream.status) == (partial, "failed")
    assert await saved(scene.store) == [("user", "hi"), ("assistant", partial)]
    assert isinstance(stream.error, ConnectionError)


@pytest.mark.parametrize("at", range(len(provider_events())))
async def test_a_provider_that_stops_without_a_finish_is_a_failed_call(at: int) -> None:
    """R5.7, R7.14"""
    before = asyncio.all_tasks()

    class Stopping:
        provider = "stopping"
        model_id = "stopping"
        open_streams = 0

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            inner = ScriptedModel([provider_events()])
            number = 0
            async for chunk in inner.stream(request):
                if number == at:
                    break
                number += 1
                yield chunk

    scene = Scene()
    asked: list[BaseException] = []

    class Asked(Processor):
        id = "asked"

        def process_api_error(self, args: Any) -> Any:
            asked.append(args.error)

    stream = await scene.agent.stream("hi", memory=THREAD, model=Stopping(), error_processors=[Asked()])
    await drain(stream.full_stream)
    await scene.check(before)
    assert len(asked) == 1
    assert (stream.status, stream.error) == ("failed", asked[0])


async def test_a_tool_that_is_cancelled_with_the_run_may_clean_up() -> None:
    """R12.28, R12.29"""
    before = asyncio.all_tasks()
    cleaned: list[str] = []
    is_running = asyncio.Event()

    @tool(name="look")
    async def careful(name: str) -> str:
        """Cleans up slowly."""
        try:
            is_running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(name)
        return "never"

    for how in ("signal", "cancel"):
        is_running.clear()
        scene = Scene(turns=[[tool_call("look", {"name": how}), tool_call("look", {"name": how})]])
        scene.agent = Agent(id="agent", model=scene.model, tools=[careful], memory=Memory(scene.store))
        signal = AbortSignal()
        task = asyncio.ensure_future(scene.agent.generate("hi", memory=THREAD, abort_signal=signal))
        await is_running.wait()
        if how == "signal":
            signal.abort()
            assert (await task).status == "canceled"
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await saved(scene.store) == []
        await scene.check(before)
    assert cleaned == ["signal", "signal", "cancel", "cancel"]


async def test_fifty_runs_that_are_struck_at_once_do_not_disturb_each_other() -> None:
    """R1.19"""
    before = asyncio.all_tasks()
    scenes = [Scene(Striker(at % HOOK_CALLS, STRIKES[at % 3]) if at % 2 else None) for at in range(50)]
    outcomes = await asyncio.gather(*(run_generate(scene) for scene in scenes), return_exceptions=True)
    for at, (scene, outcome) in enumerate(zip(scenes, outcomes, strict=True)):
        await scene.check(before)
        if at % 2 == 0:
            assert outcome.text == "hm all done"
            assert await saved(scene.store) == [("user", "hi"), ("assistant", "hm all done")]
            assert kept(outcome.message_list.get.response.db()) == [("assistant", "hm all done")]
