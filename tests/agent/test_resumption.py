"""Going on with a stored run: where it may be stored, what it takes along, and what is refused (R12.37, R8.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, Agent, APICallError, Processor, ToolContext, tool
from interlock.agent import FileRunStore, InMemoryRunStore
from interlock.errors import RunNotFoundError, RunStateError, StorageError
from interlock.memory import InMemoryStore, Memory
from interlock.models import ModelFallback
from interlock.testing import ScriptedModel, drain, tool_call, types_of

pytestmark = pytest.mark.anyio

THREAD = {"thread": "t", "resource": "u"}


def always(steps: Any) -> bool:
    return True


@tool(in_thread=False)
def echo(word: str = "x") -> str:
    """Say it again."""
    return word


class Till:
    """A tool that needs approval, and what it was asked to do."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(require_approval=True, in_thread=False)
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = pay


def pays(*ids: str) -> list[Any]:
    return [tool_call("pay", {"amount": int(call_id[1:])}, id=call_id) for call_id in ids]


def paying(till: Till, *turns: Any, **settings: Any) -> Agent:
    return Agent(
        id="a", model=ScriptedModel(list(turns) or [pays("c1"), "done"]), **{"tools": [till.tool, echo]} | settings
    )


def echoing(*turns: Any, **settings: Any) -> Agent:
    """An agent whose first step is followed by another one."""
    model = ScriptedModel(list(turns) or [["one ", tool_call("echo", id="c1")], "two"])
    return Agent(id="a", model=model, **{"tools": [echo]} | settings)


# -- stopping between two steps ----------------------------------------------------------------------------------------


async def test_pause_when_stores_the_run_between_two_steps() -> None:
    """R12.37: nothing is told that an unstopped run does not tell."""
    agent, finished = echoing(), []
    told: Any = {"on_finish": lambda info: finished.append(info.finish_reason)}
    async with agent.stream("hi", pause_when=always, **told) as stream:
        chunks = await drain(stream.full_stream)
    assert types_of(chunks)[-2:] == ["tool-result", "step-finish"]
    assert chunks[-1].payload.step_result.is_continued
    assert (stream.status, await stream.suspend_payload, finished) == ("suspended", None, ["suspended"])
    async with agent.continue_stream(stream.run_id) as rest:
        chunks = await drain(rest.full_stream)
    assert types_of(chunks)[0] == "step-start"
    assert (await rest.text, rest.run_id, rest.status) == ("one two", stream.run_id, "success")


async def test_pause_when_is_not_asked_behind_the_last_step() -> None:
    """R12.12"""
    asked: list[int] = []
    result = await echoing().generate("hi", pause_when=[lambda steps: asked.append(len(steps))])
    assert (asked, result.text) == ([1], "one two")
    assert (await echoing().generate("hi", pause_when=always, max_steps=1)).finish_reason == "tool-calls"


async def test_pause_when_may_be_async_and_what_it_raises_ends_the_run() -> None:
    """R17.2"""

    async def later(steps: Any) -> bool:
        await asyncio.sleep(0)
        return True

    assert (await echoing().generate("hi", pause_when=later)).status == "suspended"

    def broken(steps: Any) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await echoing().generate("hi", pause_when=broken)


async def test_a_run_that_is_cancelled_or_stopped_is_not_stored_as_well() -> None:
    """R12.28, R19.4"""
    signal = AbortSignal()
    agent = echoing()

    def cancels(steps: Any) -> bool:
        signal.abort()
        return True

    result = await agent.generate("hi", pause_when=cancels, abort_signal=signal)
    assert result.status == "canceled"
    with pytest.raises(RunNotFoundError):
        await agent.continue_generate(result.run_id)

    class Stops(Processor):
        id = "stops"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "step-finish":
                args.cancel_run("no more")
            return args.part

    agent = echoing(output_processors=[Stops()])
    result = await agent.generate("hi", pause_when=always)
    assert result.status == "tripwire"
    with pytest.raises(RunNotFoundError):
        await agent.continue_generate(result.run_id)


class Says(Processor):
    id = "says"

    def process_output_stream(self, args: Any) -> Any:
        return args.part


class Failing(InMemoryRunStore):
    """A store that cannot write when it is told so."""

    is_failing = True

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        if self.is_failing:
            raise StorageError("the disk is full")
        await super().save(run_id, state)


async def test_a_run_that_cannot_be_stored_fails_and_saves_nothing() -> None:
    """R12.36, R17.2"""
    memory, till = InMemoryStore(), Till()
    agent = paying(till, run_store=Failing(), memory=Memory(memory))
    with pytest.raises(StorageError, match="the disk is full"):
        await agent.generate("hi", memory=THREAD)
    agent = echoing(run_store=Failing(), memory=Memory(memory))
    with pytest.raises(StorageError, match="the disk is full"):
        await agent.generate("hi", memory=THREAD, pause_when=always)
    assert await memory.get_thread("t") is None


async def test_a_message_that_is_no_json_fails_the_run_with_what_to_do() -> None:
    """R12.36"""

    class Adds(Processor):
        id = "adds"

        def process_output_step(self, args: Any) -> None:
            args.message_list.stage("response")[-1].content.metadata = {"live": object()}

    agent = paying(Till(), output_processors=[Adds()])
    with pytest.raises(
        RunStateError, match=r"the run cannot be stored: .*messages, arguments and results must be JSON"
    ):
        await agent.generate("hi")


# -- what is refused, and leaves the run as it is --------------------------------------------------------------------


async def test_a_paused_run_waits_for_no_decision_and_a_suspended_one_does() -> None:
    """R12.37"""
    agent = echoing()
    paused = await agent.generate("hi", pause_when=always)
    with pytest.raises(RunStateError, match=r"waits for nobody.*continue_stream"):
        await agent.approve_tool_call_generate(paused.run_id)
    with pytest.raises(RunStateError, match="waits for nobody"):
        await agent.resume_generate({}, paused.run_id, "c1")
    assert (await agent.continue_generate(paused.run_id)).text == "one two"
    agent = paying(Till(), pays("c1", "c2"), "done")
    suspended = await agent.generate("hi")
    with pytest.raises(RunStateError, match="waits for somebody: approve, decline or resume tool call c1, c2"):
        await agent.continue_generate(suspended.run_id)


async def test_a_run_that_has_ended_or_never_stopped_cannot_go_on() -> None:
    """R12.37"""
    agent = echoing()
    paused = await agent.generate("hi", pause_when=always)
    ended = await agent.continue_generate(paused.run_id)
    with pytest.raises(RunStateError, match="was resumed already"):
        await agent.continue_generate(ended.run_id)
    never = await echoing().generate("hi")
    with pytest.raises(RunNotFoundError):
        await agent.continue_generate(never.run_id)


async def test_a_run_of_another_agent_goes_on_only_there() -> None:
    """R12.37"""
    store = InMemoryRunStore()
    paused = await echoing(run_store=store).generate("hi", pause_when=always)
    with pytest.raises(RunStateError, match="belongs to agent 'a', not to 'b'"):
        await Agent(id="b", model=ScriptedModel(["x"]), run_store=store).continue_generate(paused.run_id)
    assert (await echoing("two", run_store=store).continue_generate(paused.run_id)).text == "one two"


async def test_a_decision_about_what_the_run_was_before_is_refused_and_nothing_runs_twice() -> None:
    """R12.37: between the look at the run and the claim somebody else may have gone on with it."""

    class Slow(InMemoryRunStore):
        meanwhile: Any = None

        async def take(self, run_id: str) -> dict[str, Any]:
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile()
            return await super().take(run_id)

    store, till = Slow(), Till()
    agent = paying(till, pays("c1", "c2", "c3"), "done", run_store=store)
    run_id = (await agent.generate("hi")).run_id
    store.meanwhile = lambda: agent.approve_tool_call_generate(run_id, "c1")
    with pytest.raises(RunStateError, match="was resumed by somebody else meanwhile"):
        await agent.approve_tool_call_generate(run_id, "c1")
    store.meanwhile = lambda: agent.approve_tool_call_generate(run_id, "c2")
    with pytest.raises(RunStateError, match="was resumed by somebody else meanwhile"):
        await agent.approve_tool_call_generate(run_id, "c3")
    assert (await agent.approve_tool_call_generate(run_id, "c3")).text == "done"
    assert till.paid == [1, 2, 3]


async def test_a_tool_that_is_gone_leaves_the_run_waiting() -> None:
    """R12.37"""
    store, till = InMemoryRunStore(), Till()
    run_id = (await paying(till, pays("c1", "c2"), run_store=store).generate("hi")).run_id
    bare = Agent(id="a", model=ScriptedModel(["done"]), run_store=store)
    with pytest.raises(RunStateError, match=r"has no tool 'pay' that could carry out call 'c1'.*toolsets"):
        await bare.approve_tool_call_generate(run_id, "c1")
    assert (await bare.approve_tool_call_generate(run_id, "c1", toolsets=[[till.tool]])).status == "suspended"
    assert (await bare.decline_tool_call_generate(run_id, "c2", toolsets=None)).text == "done"
    assert till.paid == [1]


async def test_a_schema_that_fails_while_it_checks_leaves_the_run_waiting() -> None:
    """R12.37"""
    from pydantic import BaseModel, field_validator

    class Order(BaseModel):
        amount: int

        @field_validator("amount")
        @classmethod
        def check(cls, value: int) -> int:
            if value > 5:
                raise ZeroDivisionError("too much to think about")
            return value

    @tool(require_approval=True, in_thread=False)
    def pay(order: Order) -> str:
        """Pay."""
        return f"paid {order.amount}"

    call = tool_call("pay", {"order": {"amount": 1}}, id="c1")
    agent = Agent(id="a", model=ScriptedModel([[call], "done"]), tools=[pay])
    run_id = (await agent.generate("hi")).run_id
    for args in ({"order": {"amount": 6}}, {"order": {"amount": object()}}, {"order": {}}):
        with pytest.raises(RunStateError):
            await agent.approve_tool_call_generate(run_id, args=args)
    assert (await agent.approve_tool_call_generate(run_id)).tool_results[0].payload.result == "paid 1"


async def test_options_that_json_cannot_hold_have_to_be_given_again() -> None:
    """R12.37: a run must not go on without its limits, its model, its tools or its guards."""
    store = InMemoryRunStore()
    options: dict[str, Any] = {
        "stop_when": lambda steps: len(steps) == 2,
        "prepare_step": lambda args: None,
        "toolsets": [[echo]],
        "model": ScriptedModel([["one ", tool_call("echo", id="c1")], ["two ", tool_call("echo", id="c2")]]),
        "output_processors": [Says()],
    }
    agent = Agent(id="a", model=ScriptedModel(["wrong"]), run_store=store)
    run_id = (await agent.generate("hi", pause_when=always, **options)).run_id
    for name in options:
        rest = {key: value for key, value in options.items() if key != name}
        with pytest.raises(RunStateError, match=f"was started with {name} of its own: give them again"):
            await agent.continue_generate(run_id, **rest)
    result = await agent.continue_generate(run_id, **options)
    assert (result.text, result.finish_reason) == ("one two ", "tool-calls")


async def test_what_json_can_hold_and_what_the_agent_has_need_not_be_given_again() -> None:
    """R12.37, R12.8"""
    store = InMemoryRunStore()
    defaults: dict[str, Any] = {
        "stop_when": lambda steps: len(steps) == 2,
        "model_settings": {"headers": {"authorization": "key"}},
    }
    turns = [["one ", tool_call("echo", id="c1")], ["two ", tool_call("echo", id="c2")], "three"]
    agent = echoing(*turns, run_store=store, default_options=defaults)
    run_id = (await agent.generate("hi", pause_when=always, tool_choice="required", output_processors=[])).run_id
    assert "key" not in str(await store.load(run_id))
    result = await agent.continue_generate(run_id)
    assert result.text == "one two "
    assert [request.tool_choice for request in agent.model.requests] == ["required", "required"]
    assert agent.model.requests[1].headers == {"authorization": "key"}


async def test_headers_are_not_stored_and_have_to_be_given_again() -> None:
    """R12.37: they may hold a key."""
    agent = echoing()
    settings = {"headers": {"authorization": "key"}}
    run_id = (await agent.generate("hi", pause_when=always, model_settings=settings)).run_id
    assert "key" not in str(await agent.run_store.load(run_id))
    with pytest.raises(RunStateError, match="model_settings"):
        await agent.continue_generate(run_id)
    await agent.continue_generate(run_id, model_settings=settings)
    assert agent.model.requests[1].headers == {"authorization": "key"}


async def test_a_function_that_asked_for_approval_becomes_approval_of_everything() -> None:
    """R12.35, R12.37"""
    agent = echoing(*([tool_call("echo", id=f"c{n}")] for n in range(2)), "end")
    run_id = (await agent.generate("hi", require_tool_approval=lambda name, args, context: True)).run_id
    assert (await agent.approve_tool_call_generate(run_id)).suspend_payload["toolCallId"] == "c1"
    again: Any = {"require_tool_approval": lambda name, args, context: False}
    assert (await agent.approve_tool_call_generate(run_id, **again)).text == "end"


async def test_no_option_is_kept_in_part() -> None:
    """R12.37"""
    agent = echoing()
    options: Any = {"provider_options": {"p": {"live": object(), "a": 1}}, "active_tools": {"echo"}}
    run_id = (await agent.generate("hi", pause_when=always, **options)).run_id
    assert (await agent.run_store.load(run_id))["options"] == {"active_tools": ["echo"]}
    with pytest.raises(RunStateError, match="started with provider_options of its own"):
        await agent.continue_generate(run_id)
    assert (await agent.continue_generate(run_id, provider_options=None)).text == "one two"


@pytest.mark.parametrize("name", ["instructions", "system", "context", "run_id"])
async def test_what_belongs_to_the_beginning_of_a_run_is_refused_later(name: str) -> None:
    """R12.7"""
    agent = echoing()
    run_id = (await agent.generate("hi", pause_when=always)).run_id
    if name != "run_id":
        with pytest.raises(TypeError, match=f"{name} belongs to the beginning of a run"):
            agent.continue_stream(run_id, **{name: "x"})
    with pytest.raises(TypeError, match="did you mean 'max_steps'"):
        agent.continue_stream(run_id, max_step=3)  # type: ignore[call-arg]


async def test_a_refused_resumption_leaves_no_listener_at_the_signal() -> None:
    """R12.28"""

    class Counted(AbortSignal):
        listeners = 0

        def add_callback(self, callback: Any) -> None:
            self.listeners += 1
            super().add_callback(callback)

        def remove_callback(self, callback: Any) -> None:
            self.listeners -= 1
            super().remove_callback(callback)

    agent, signal = paying(Till()), Counted()
    run_id = (await agent.generate("hi")).run_id
    with pytest.raises(RunStateError):
        await agent.approve_tool_call_generate(run_id, args={}, abort_signal=signal)
    assert signal.listeners == 0


# -- what goes along ---------------------------------------------------------------------------------------------------


async def test_a_processor_that_is_gone_takes_nothing_down_and_its_state_waits_for_it() -> None:
    """R8.4"""

    class Counts(Processor):
        id = "counts"

        def process_output_step(self, args: Any) -> None:
            args.state["n"] = args.state.get("n", 0) + 1
            seen.append(args.state["n"])

    seen: list[int] = []
    store = InMemoryRunStore()
    turns = [[f"{n} ", tool_call("echo", id=f"c{n}")] for n in range(3)]
    first = echoing(turns[0], run_store=store, output_processors=[Counts()])
    run_id = (await first.generate("hi", pause_when=always)).run_id
    result = await echoing(turns[1], run_store=store).continue_generate(run_id, pause_when=always)
    assert result.text == "0 1 "
    await echoing("end", run_store=store, output_processors=[Counts()]).continue_generate(run_id)
    assert seen == [1, 2]


async def test_live_state_is_that_of_this_stop_of_the_run() -> None:
    """R8.4: what another process made of the state since is not undone by what this one still has in memory."""

    class Counts(Processor):
        id = "counts"

        def process_tool_result(self, args: Any) -> None:
            args.state["n"] = args.state.get("n", 0) + 1
            args.state.setdefault("live", object())
            seen.append((args.state["n"], sorted(args.state)))

    seen: list[Any] = []
    store, till = InMemoryRunStore(), Till()
    here, there = (
        paying(till, *turns, run_store=store, output_processors=[Counts()])
        for turns in ([pays("c1", "c2", "c3"), "done"], ["never"])
    )
    run_id = (await here.generate("hi")).run_id
    await there.approve_tool_call_generate(run_id, "c1")
    await here.approve_tool_call_generate(run_id, "c2")
    await here.approve_tool_call_generate(run_id, "c3")
    assert [n for n, _ in seen] == [1, 2, 3]


async def test_the_time_that_a_run_has_used_counts_when_it_goes_on() -> None:
    """R17.9"""
    agent = echoing()
    options: Any = {"model_settings": {"timeout": {"total_ms": 60_000}}}
    run_id = (await agent.generate("hi", pause_when=always, **options)).run_id
    state = await agent.run_store.load(run_id)
    assert 0 < state["usedMs"] < 60_000
    await agent.run_store.save(run_id, {**state, "usedMs": 60_000.0})

    @tool
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="took longer than 60000 ms"):
        await Agent(
            id="a", model=ScriptedModel([[tool_call("wait", {})]]), tools=[wait], run_store=agent.run_store
        ).continue_generate(run_id)


async def test_a_step_that_is_tried_again_after_it_was_resumed_uses_the_model_that_it_had() -> None:
    """R12.3, R7.11"""

    class Rejects(Processor):
        id = "rejects"

        def process_tool_result(self, args: Any) -> None:
            if args.retry_count == 0:
                args.abort("not that", retry=True)

    first, second = (
        ScriptedModel([APICallError("down", status_code=400)]),
        ScriptedModel([pays("c1"), "from the second"]),
    )
    agent = Agent(
        id="a",
        model=[ModelFallback(first), ModelFallback(second)],
        tools=[Till().tool],
        output_processors=[Rejects()],
        max_processor_retries=1,
    )
    run_id = (await agent.generate("hi")).run_id
    assert (await agent.approve_tool_call_generate(run_id)).text == "from the second"
    assert (first.calls, second.calls) == (1, 2)


async def test_warnings_of_a_suspended_step_are_told_when_it_ends() -> None:
    """R12.21"""
    outcome = {"reason": "tool-calls", "warnings": [{"type": "other", "message": "an old model"}]}
    agent = paying(Till(), [*pays("c1"), {"type": "finish", "payload": {"stepResult": outcome}}], "done")
    first = await agent.generate("hi")
    async with agent.approve_tool_call(first.run_id) as stream:
        chunks = await drain(stream.full_stream)
    finish = next(chunk for chunk in chunks if chunk.type == "step-finish")
    assert finish.payload.step_result.warnings == outcome["warnings"]
    assert (await stream.steps)[0].warnings == outcome["warnings"]


async def test_what_result_hooks_change_in_earlier_steps_is_changed_in_a_run_that_was_stored_too() -> None:
    """R2.35"""

    class Masks(Processor):
        id = "masks"

        def process_output_result(self, args: Any) -> None:
            for message in args.messages:
                for part in message.content.parts:
                    if part.type == "text":
                        part.text = part.text.replace("secret", "***")

    agent = echoing(["a secret ", tool_call("echo", id="c1")], "a secret", output_processors=[Masks()])
    run_id = (await agent.generate("hi", pause_when=always)).run_id
    result = await agent.continue_generate(run_id)
    assert (result.text, [step.text for step in result.steps]) == ("a *** a ***", ["a *** ", "a *** a ***"])
    assert "secret" not in str(result.content)


# -- cancellation ------------------------------------------------------------------------------------------------------


async def test_a_resumption_that_is_cancelled_beforehand_executes_nothing_and_closes_every_call() -> None:
    """R12.28"""
    till, memory = Till(), InMemoryStore()
    agent = paying(till, pays("c1", "c2"), "done", memory=Memory(memory))
    run_id = (await agent.generate("hi", memory=THREAD)).run_id
    signal = AbortSignal()
    signal.abort("closing")
    async with agent.approve_tool_call(run_id, "c1", abort_signal=signal) as stream:
        chunks = await drain(stream.full_stream)
    assert (types_of(chunks), stream.status, till.paid) == (["abort"], "canceled", [])
    (_, answer) = await memory.list_messages("t", resource_id="u")
    assert [part.tool_invocation.state for part in answer.content.parts] == ["output-error", "output-error"]
    assert answer.content.metadata is None


async def test_a_cancellation_while_the_approved_tool_works_closes_every_call() -> None:
    """R12.28"""
    signal = AbortSignal()

    @tool(require_approval=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        signal.abort()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(id="a", model=ScriptedModel([pays("c1", "c2")]), tools=[pay])
    run_id = (await agent.generate("hi")).run_id
    result = await agent.approve_tool_call_generate(run_id, "c1", abort_signal=signal)
    parts = result.response.db_messages[-1].content.parts
    assert result.status == "canceled"
    assert [part.tool_invocation.state for part in parts] == ["output-error", "output-error"]
    with pytest.raises(RunStateError, match="was resumed already"):
        await agent.approve_tool_call_generate(run_id, "c2")


async def test_a_task_that_is_cancelled_while_the_tool_works_leaves_the_claim(tmp_path: Any) -> None:
    """R12.29, R12.37"""
    entered = asyncio.Event()

    @tool(require_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    till, store = Till(), FileRunStore(tmp_path)
    agent = Agent(id="a", model=ScriptedModel([pays("c1")]), tools=[pay], run_store=store)
    run_id = (await agent.generate("hi")).run_id
    task = asyncio.create_task(agent.approve_tool_call_generate(run_id))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(RunStateError, match="resumed already and has not ended"):
        await agent.approve_tool_call_generate(run_id)
    await store.release(run_id)
    assert (await paying(till, "done", run_store=store).approve_tool_call_generate(run_id)).text == "done"
    assert till.paid == [1]


async def test_a_cancellation_while_the_run_is_stored_comes_too_late() -> None:
    """R12.28, R12.36: a run must not be cancelled and wait in a store as well."""

    class Slow(InMemoryRunStore):
        async def save(self, run_id: str, state: dict[str, Any]) -> None:
            signal.abort()
            await asyncio.sleep(0)
            await super().save(run_id, state)

    signal = AbortSignal()
    agent = paying(Till(), run_store=Slow())
    result = await agent.generate("hi", abort_signal=signal)
    assert result.status == "suspended"
    assert (await agent.approve_tool_call_generate(result.run_id)).text == "done"
