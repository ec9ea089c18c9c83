"""What the core gives to processors beyond the nine hooks (runtime specification, section 19)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, DataChunk, Processor, ProcessorError, TextDelta, ToolContext, tool
from interlock.chunks import TextDeltaPayload
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, delay, finish, text_of, tool_call, types_of, wait_for
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    kept,
    outline,
    part_types,
    saved,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio

DOWN = APICallError("down", status_code=400)


def delta(text: str) -> TextDelta:
    return TextDelta(payload=TextDeltaPayload(id="t", text=text))


class Holder(Processor):
    """Holds all text back until it is flushed."""

    id = "holder"

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-delta":
            args.state.setdefault("held", []).append(args.part)
            return None
        return args.part

    def flush_output_stream(self, args: Any, reason: str) -> Any:
        self.reasons.append(reason)
        return args.state.pop("held", [])


async def test_a_hook_may_release_held_text_before_the_chunk_that_resolved_it(make: Make) -> None:
    """R19.1, R2.25"""

    def pair(args: Any) -> Any:
        if args.part.type != "text-delta":
            return args.part
        held = args.state.pop("held", None)
        if held is None:
            args.state["held"] = args.part
            return None
        return [held, args.part]

    outcome = await streamed(agent_of([["a", "b"]], output_processors=[make(process_output_stream=pair)]))
    assert outline(outcome.chunks)[3:5] == ["text-delta(a)", "text-delta(b)"]
    assert outcome.text == "ab"


async def test_a_flush_releases_what_was_held_back(drive: Drive) -> None:
    """R19.2"""
    holder, store = Holder(), InMemoryStore()
    outcome = await drive(agent_of([["a", "b"]], memory=Memory(store), output_processors=[holder]), memory=THREAD)
    assert holder.reasons == ["finish"]
    assert outcome.text == "ab"
    assert await saved(store) == [("user", "hi"), ("assistant", "ab")]


async def test_released_chunks_pass_later_processors_whose_own_flush_comes_after(make: Make) -> None:
    """R19.2"""
    order: list[str] = []

    def shout(args: Any) -> Any:
        if args.part.type == "text-delta":
            order.append(f"later sees {args.part.payload.text}")
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    later = make("later", process_output_stream=shout, flush_output_stream=lambda args, reason: order.append("flush"))
    outcome = await streamed(agent_of([["a", "b"]], output_processors=[Holder(), later]))
    assert order == ["later sees a", "later sees b", "flush"]
    assert text_of(outcome.chunks) == "AB"


async def test_the_flush_runs_before_the_model_level_finish_is_processed(make: Make) -> None:
    """R19.2"""
    order: list[str] = []

    def look(args: Any) -> Any:
        order.append(args.part.type)
        return args.part

    processor = make(
        process_output_stream=look, flush_output_stream=lambda args, reason: order.append(f"flush {reason}")
    )
    await streamed(agent_of(["a"], output_processors=[processor]))
    assert order == ["step-start", "text-start", "text-delta", "text-end", "flush finish", "finish", "step-finish"]


async def test_a_flush_is_called_once_an_attempt_with_its_reason(drive: Drive, make: Make) -> None:
    """R19.2"""
    holder = Holder()

    def reject(args: Any) -> None:
        if args.retry_count == 1:
            args.abort("again", retry=True)

    agent = agent_of(
        [["par", DOWN], "bad", [tool_call("echo")], "x"],
        tools=[echo],
        output_processors=[holder, make("judge", process_output_step=reject)],
        error_processors=[make("again", process_api_error=lambda args: {"retry": True})],
    )
    await drive(agent)
    assert holder.reasons == ["error", "finish", "finish", "finish"]


@pytest.mark.parametrize(("end", "reason"), [("tripwire", "tripwire"), ("abort", "cancel"), ("crash", "cancel")])
async def test_what_is_released_after_a_cancellation_or_tripwire_is_discarded(
    make: Make, end: str, reason: str
) -> None:
    """R19.2, R6.9"""
    holder, signal = Holder(), AbortSignal()

    def ending(args: Any) -> Any:
        if args.part.type == "text-end":
            if end == "tripwire":
                args.abort("no")
            if end == "crash":
                raise ValueError("boom")
            signal.abort()
        return args.part

    agent = agent_of([["held"]], output_processors=[holder, make("ending", process_output_stream=ending)])
    outcome = await streamed(agent, abort_signal=signal)
    assert holder.reasons == [reason]
    assert text_of(outcome.chunks) == ""


async def test_what_is_released_after_an_error_is_shown(make: Make) -> None:
    """R19.2"""
    holder = Holder()
    outcome = await streamed(agent_of([["par", DOWN]], output_processors=[holder]))
    assert holder.reasons == ["error"]
    assert outline(outcome.chunks)[2:5] == ["text-start", "text-delta(par)", "error"]


async def test_a_failing_flush_fails_the_run(drive: Drive, make: Make) -> None:
    """R19.2, R17.1"""

    def fail(args: Any, reason: str) -> Any:
        raise ValueError("boom")

    outcome = await drive(agent_of(["x"], output_processors=[make("bad", flush_output_stream=fail)]))
    assert (outcome.error.processor_id, outcome.error.hook) == ("bad", "flush_output_stream")


async def test_a_timer_emits_a_chunk_at_its_processors_place(make: Make) -> None:
    """R19.3"""
    seen: dict[str, list[str]] = {"before": [], "after": []}
    is_emitted = asyncio.Event()

    class Timer(Processor):
        id = "timer"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-start":

                async def later() -> None:
                    await args.emit(delta("[late]"))
                    is_emitted.set()

                args.create_task(later())
            return args.part

    def look(name: str) -> Any:
        def hook(args: Any) -> Any:
            if args.part.type == "text-delta":
                seen[name].append(args.part.payload.text)
            return args.part

        return hook

    agent = agent_of(
        [["a", wait_for(is_emitted), "b"]],
        output_processors=[
            make("before", process_output_stream=look("before")),
            Timer(),
            make("after", process_output_stream=look("after")),
        ],
    )
    outcome = await streamed(agent)
    assert seen["before"] == ["a", "b"]
    assert sorted(seen["after"]) == ["[late]", "a", "b"]
    assert "".join(seen["after"]) == text_of(outcome.chunks)
    assert sorted(outcome.text) == sorted("ab[late]")
    assert text_of(outcome.chunks) == outcome.text


class Slow(Processor):
    """Gives way while it looks at a chunk, and notes what it was given before and after that."""

    def __init__(self, id: str = "slow") -> None:  # noqa: A002 - the field's name
        self.id = id
        self.process_data_parts = True
        self.seen: list[Any] = []
        self.is_busy = False
        self.overlaps = 0

    async def process_output_stream(self, args: Any) -> Any:
        self.overlaps += self.is_busy
        self.is_busy = True
        part = args.part
        for _ in range(3):
            await asyncio.sleep(0)
        self.is_busy = False
        self.seen.append(part)
        return args.part


class Emitting(Processor):
    """Starts a task at the first text that emits several deltas."""

    id = "emitting"

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-start":

            async def later() -> None:
                for number in range(3):
                    await args.emit(delta(f"[{number}]"))

            args.state["task"] = args.create_task(later())
        return args.part


async def wait_a_little() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def test_emissions_and_chunks_never_meet_in_one_hook() -> None:
    """R19.3, R1.2"""
    slow = Slow()
    model = ScriptedModel([["a", "b", wait_a_little, "c"]])
    outcome = await streamed(agent_of(model, output_processors=[Emitting(), slow]))
    assert slow.overlaps == 0
    assert types_of(slow.seen).count("text-start") == 1
    texts = [part.payload.text for part in slow.seen if part.type == "text-delta"]
    assert sorted(texts) == ["[0]", "[1]", "[2]", "a", "b", "c"]
    assert "".join(texts) == text_of(outcome.chunks) == outcome.text


async def test_two_tools_that_write_at_once_never_meet_in_one_hook() -> None:
    """R9.9, R1.2"""

    @tool
    async def chatty(name: str, context: ToolContext) -> str:
        """Writes some progress."""
        for number in range(3):
            await context.writer.custom({"type": "data-progress", "data": f"{name}{number}"})
        return name

    slow, second = Slow(), Slow("second")
    turns = [[tool_call("chatty", {"name": "a"}), tool_call("chatty", {"name": "b"})], "x"]
    outcome = await streamed(agent_of(turns, tools=[chatty], output_processors=[slow, second]))
    written = [chunk.data for chunk in chunks_of(outcome.chunks, "data-progress")]
    assert sorted(written) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert (slow.overlaps, second.overlaps) == (0, 0)
    assert [part.data for part in chunks_of(slow.seen, "data-progress")] == written


async def test_a_hook_may_write_for_a_chunk_that_a_task_emitted() -> None:
    """R19.3, R9.9"""

    class Writing(Processor):
        id = "writing"

        async def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta":
                await args.writer.custom({"type": "data-seen", "data": args.part.payload.text})
            return args.part

    model = ScriptedModel([["a", wait_a_little, "b"]])
    outcome = await streamed(agent_of(model, output_processors=[Emitting(), Writing(), Slow()]))
    assert outcome.error is None
    written = [chunk.data for chunk in chunks_of(outcome.chunks, "data-seen")]
    assert sorted(written) == ["[0]", "[1]", "[2]", "a", "b"]


async def test_a_hook_may_write_several_chunks_at_once() -> None:
    """R9.3, R1.2"""

    class Writing(Processor):
        id = "writing"

        async def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-start":
                chunks = [{"type": "data-n", "data": number} for number in range(3)]
                await asyncio.gather(*(args.writer.custom(chunk) for chunk in chunks))
            return args.part

    slow = Slow()
    outcome = await streamed(agent_of(["a"], output_processors=[Writing(), slow]))
    assert slow.overlaps == 0
    assert sorted(chunk.data for chunk in chunks_of(outcome.chunks, "data-n")) == [0, 1, 2]


async def test_a_hook_may_wait_for_a_task_that_emits() -> None:
    """R19.3, R19.4"""

    class Asking(Processor):
        id = "asking"

        async def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-delta":

                async def verdict() -> None:
                    await asyncio.sleep(0)
                    await args.emit(DataChunk(type="data-verdict", data="fine"))

                await args.create_task(verdict())
            return args.part

    outcome = await streamed(agent_of([["a", "b"]], output_processors=[Asking(), Slow()]))
    assert outcome.error is None
    assert len(chunks_of(outcome.chunks, "data-verdict")) == 2


async def test_a_flush_does_not_meet_an_emission_in_a_hook() -> None:
    """R19.2, R1.2"""
    slow = Slow()
    model = ScriptedModel([["a", "b"]])
    outcome = await streamed(agent_of(model, output_processors=[Holder(), Emitting(), slow]))
    assert slow.overlaps == 0
    assert "".join(part.payload.text for part in slow.seen if part.type == "text-delta") == outcome.text


async def test_emitting_from_a_hook_comes_before_the_chunk(make: Make) -> None:
    """R19.3"""

    async def announce(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.emit(DataChunk(type="data-note", data=args.part.payload.text))
        return args.part

    outcome = await streamed(agent_of([["a", "b"]], output_processors=[make(process_output_stream=announce)]))
    assert types_of(outcome.chunks)[3:7] == ["data-note", "text-delta", "data-note", "text-delta"]


async def test_emitting_after_the_run_does_nothing(make: Make) -> None:
    """R19.3"""
    kept_args: list[Any] = []
    outcome = await streamed(agent_of(["x"], output_processors=[make(process_output_step=kept_args.append)]))
    await kept_args[0].emit(delta("late"))
    assert outcome.text == "x"
    assert part_types(outcome.message_list.get.response.db()[0]) == ["text"]


@pytest.mark.parametrize("place", ["model", "tool"])
async def test_a_task_may_cancel_the_run_which_ends_in_a_tripwire(drive: Drive, place: str) -> None:
    """R19.4, R6.5"""
    store, events = InMemoryStore(), list[str]()
    is_waiting = asyncio.Event()

    async def forever() -> None:
        is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")

    @tool
    async def work() -> str:
        """Runs until it is cancelled."""
        await forever()
        return "never"

    class Watchdog(Processor):
        id = "watchdog"

        def process_input_step(self, args: Any) -> None:
            async def watch() -> None:
                await is_waiting.wait()
                args.cancel_run("too long", metadata={"k": 1})

            args.create_task(watch())

    model = ScriptedModel([["a", forever] if place == "model" else ["a", tool_call("work")]])
    agent = agent_of(model, tools=[work], memory=Memory(store), input_processors=[Watchdog()])
    outcome = await drive(agent, memory=THREAD)
    assert (outcome.tripwire.reason, outcome.tripwire.processor_id) == ("too long", "watchdog")
    assert (outcome.tripwire.metadata, outcome.finish_reason) == ({"k": 1}, "other")
    assert events == ["stopped"]
    assert model.open_streams == 0
    assert await saved(store) == []
    if outcome.chunks:
        assert outcome.chunks[-1].type == "tripwire"


async def test_a_task_that_aborts_or_raises_a_tripwire_trips_the_run(drive: Drive) -> None:
    """R19.4, R6.3"""

    class Late(Processor):
        id = "late"

        def process_input_step(self, args: Any) -> None:
            async def verdict() -> None:
                args.abort("verdict")

            args.create_task(verdict())

    model = ScriptedModel([["a", delay(0), delay(0), delay(0), "b", wait_for(asyncio.Event())]])
    outcome = await drive(agent_of(model, input_processors=[Late()]))
    assert (outcome.tripwire.reason, outcome.tripwire.processor_id) == ("verdict", "late")


async def test_an_unhandled_exception_in_a_task_is_a_run_error(drive: Drive) -> None:
    """R19.4, R17.2"""
    store = InMemoryStore()

    class Broken(Processor):
        id = "broken"

        def process_input_step(self, args: Any) -> None:
            async def fail() -> None:
                raise ValueError("boom")

            args.create_task(fail())

    model = ScriptedModel([["a", wait_for(asyncio.Event())]])
    outcome = await drive(agent_of(model, memory=Memory(store), input_processors=[Broken()]), memory=THREAD)
    assert isinstance(outcome.error, ProcessorError)
    assert outcome.error.processor_id == "broken"
    assert isinstance(outcome.error.__cause__, ValueError)
    assert model.open_streams == 0
    assert await saved(store) == []


@pytest.mark.parametrize(
    "hook", ["process_input", "process_input_step", "process_output_stream", "process_output_step"]
)
async def test_a_task_that_still_runs_is_gone_when_the_run_ends(drive: Drive, make: Make, hook: str) -> None:
    """R19.4"""
    stopped: list[str] = []

    def start(args: Any) -> Any:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("stopped")

        if not args.state.get("started"):
            args.state["started"] = True
            args.create_task(forever())
        return getattr(args, "part", None)

    array = "input_processors" if hook.startswith("process_input") else "output_processors"
    # A task that never ran has nothing to stop: the model gives way, so that it does.
    model = ScriptedModel([["a", delay(0), tool_call("echo")], [delay(0), "b"]])
    outcome = await drive(agent_of(model, tools=[echo], **{array: [make(**{hook: start})]}))
    assert (outcome.text, stopped) == ("ab", ["stopped"])


async def test_a_finished_task_gives_its_result(drive: Drive) -> None:
    """R19.4"""
    seen: list[Any] = []

    class Judge(Processor):
        id = "judge"

        def process_input_step(self, args: Any) -> None:
            async def verdict() -> str:
                await asyncio.sleep(0)
                return "fine"

            args.state["verdict"] = args.create_task(verdict())

        async def process_output_step(self, args: Any) -> None:
            seen.append(await args.state["verdict"])

    judge = Judge()
    await drive(agent_of(["x"], input_processors=[judge], output_processors=[judge]))
    assert seen == ["fine"]


async def test_an_error_processor_may_choose_the_next_model(drive: Drive, make: Make) -> None:
    """R19.5"""
    bigger = ScriptedModel(["x"], model_id="bigger")
    ask = make(process_api_error=lambda args: {"retry": True, "model": bigger})
    outcome = await drive(agent_of([DOWN], error_processors=[ask]))
    assert (outcome.text, outcome.steps[0].model_id) == ("x", "bigger")


async def test_an_error_processor_may_ask_for_a_delay_that_can_be_cancelled(drive: Drive, make: Make) -> None:
    """R19.5"""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    ask = make(process_api_error=lambda args: {"retry": True, "delay": 0.05})
    outcome = await drive(agent_of([DOWN, "x"], error_processors=[ask]))
    assert outcome.text == "x"
    assert loop.time() - begun >= 0.05
    signal = AbortSignal()
    loop.call_later(0.02, signal.abort)
    ask = make(process_api_error=lambda args: {"retry": True, "delay": 3600})
    outcome = await drive(agent_of([DOWN, "x"], error_processors=[ask]), abort_signal=signal)
    assert outcome.finish_reason == "aborted"


async def test_a_pre_memory_processor_runs_before_the_history_is_loaded(drive: Drive, make: Make) -> None:
    """R19.6, R13.2"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)
    seen: dict[str, Any] = {}
    early = make("early", stage="pre_memory", process_input=lambda args: seen.update(early=kept(args.messages)))
    late = make("late", process_input=lambda args: seen.update(late=kept(args.messages)))
    agent = agent_of(["d"], memory=Memory(store), input_processors=[late, early])
    await drive(agent, "c", memory=THREAD, context=["ctx"])
    assert seen["early"] == [("user", "ctx"), ("user", "c")]
    assert [words for _, words in seen["late"]] == ["a", "b", "ctx", "c"]


async def test_a_refused_call_is_answered_with_the_given_text(make: Make) -> None:
    """R19.7"""
    ran: list[str] = []
    store, recorder = InMemoryStore(), Recorder()

    @tool(in_thread=False)
    def delete(name: str) -> str:
        """Deletes it."""
        ran.append(name)
        return f"deleted {name}"

    def guard(args: Any) -> None:
        for call in args.tool_calls or ():
            if call.args["name"] == "important":
                args.refuse_tool_call(call.tool_call_id, "not allowed")

    calls = [tool_call("delete", {"name": name}, id=name) for name in ("important", "other")]
    model = ScriptedModel([calls, "x"])
    agent = agent_of(
        model,
        tools=[delete],
        memory=Memory(store),
        output_processors=[make("guard", process_output_step=guard), recorder],
    )
    outcome = await streamed(agent, memory=THREAD)
    assert ran == ["other"]
    (refused,) = chunks_of(outcome.chunks, "tool-error")
    assert (refused.payload.tool_call_id, refused.payload.error) == ("important", "not allowed")
    results = [
        part["output"] for message in model.prompts[1] if message["role"] == "tool" for part in message["content"]
    ]
    assert results == [{"type": "error-text", "value": "not allowed"}, {"type": "text", "value": "deleted other"}]
    assert recorder.calls.count("process_tool_result(0)") == 1
    part = outcome.message_list.get.response.db()[0].content.parts[0]
    assert (part.tool_invocation.state, part.tool_invocation.error_text) == ("output-error", "not allowed")


async def test_a_step_whose_only_call_is_refused_goes_on(drive: Drive, make: Make) -> None:
    """R19.7, R1.12"""

    def guard(args: Any) -> None:
        for call in args.tool_calls or ():
            args.refuse_tool_call(call.tool_call_id, "no")

    model = ScriptedModel([[tool_call("echo")], "x"])
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[make(process_output_step=guard)]))
    assert (model.calls, outcome.text) == (2, "x")


async def test_replaced_arguments_are_executed_and_shown(drive: Drive, make: Make) -> None:
    """R19.7"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    def change(args: Any) -> None:
        for call in args.tool_calls or ():
            args.replace_tool_args(call.tool_call_id, {"text": "safe"})

    model = ScriptedModel([[tool_call("note", {"text": "raw"})], "x"])
    outcome = await drive(agent_of(model, tools=[note], output_processors=[make(process_output_step=change)]))
    assert ran == ["safe"]
    assert outcome.tool_calls[0].payload.args == {"text": "safe"}
    assert model.prompts[1][-2]["content"][0]["input"] == {"text": "safe"}


@pytest.mark.parametrize("name", ["refuse_tool_call", "replace_tool_args"])
async def test_an_unknown_call_id_is_named(drive: Drive, make: Make, name: str) -> None:
    """R19.7"""
    processor = make(process_output_step=lambda args: getattr(args, name)("nobody", {}))
    outcome = await drive(agent_of([[tool_call("echo", id="c1"), finish("stop")]], output_processors=[processor]))
    assert isinstance(outcome.error.__cause__, ValueError)
    assert "nobody" in str(outcome.error)
    assert "c1" in str(outcome.error)


async def test_the_list_tells_the_source_of_each_message(drive: Drive, make: Make) -> None:
    """R19.8, R3.26"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)
    seen: list[Any] = []

    def look(args: Any) -> None:
        messages = args.message_list
        seen.extend(
            (kept([one])[0][1], messages.source_of(one), messages.is_new_message(one)) for one in messages.get.all.db()
        )
        assert messages.source_of("nobody") is None

    agent = agent_of(["d"], memory=Memory(store), output_processors=[make(process_output_step=look)])
    await drive(agent, "c", memory=THREAD, context=["ctx"])
    assert seen == [
        ("a", "memory", False),
        ("b", "memory", False),
        ("ctx", "context", False),
        ("c", "input", True),
        ("d", "response", True),
    ]


async def test_one_budget_counts_for_all_processors_of_the_run(drive: Drive, make: Make) -> None:
    """R19.9"""
    budgets: list[Any] = []

    def spend(args: Any) -> None:
        args.budget.guard_calls += 1
        args.budget.cost += 0.5
        budgets.append(args.budget)
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        ["a", "b"],
        output_processors=[
            make("one", process_output_step=spend),
            make("two", process_output_result=lambda args: budgets.append(args.budget)),
        ],
        max_processor_retries=1,
    )
    await drive(agent)
    assert all(budget is budgets[0] for budget in budgets)
    assert (budgets[0].retries, budgets[0].guard_calls, budgets[0].cost) == (1, 2, 1.0)
    again: list[Any] = []
    await drive(agent_of(["a"], output_processors=[make(process_output_step=lambda args: again.append(args.budget))]))
    assert again[0] is not budgets[0]


async def test_feedback_of_a_task_that_asks_for_a_retry(drive: Drive) -> None:
    """R19.4, R7.7"""

    class Late(Processor):
        id = "late"

        async def process_output_step(self, args: Any) -> None:
            async def verdict() -> None:
                if args.retry_count == 0:
                    args.abort("verdict", retry=True)

            await args.create_task(verdict())

    model = ScriptedModel(["bad", "good"])
    outcome = await drive(agent_of(model, output_processors=[Late()], max_processor_retries=1))
    assert (outcome.text, outcome.tripwire) == ("good", None)
    assert any("verdict" in words for role, words in told(model.prompts[1]) if role == "system")
