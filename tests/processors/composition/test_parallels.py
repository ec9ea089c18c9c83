"""Processors side by side, each on its own fork of the messages (runtime specification, R16.5, R16.6, R16.9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, Message, ProcessorError, get_text
from interlock.errors import ProcessorWorkflowError
from interlock.memory import InMemoryStore, Memory
from interlock.messages import copy_message
from interlock.processors import ProcessorViolation, create_workflow, parallel, sequence
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import THREAD, Drive, Made, Make, agent_of, chunks_of, echo, saved, streamed, told

pytestmark = pytest.mark.anyio


def redact(args: Any) -> None:
    for message in args.messages:
        for part in message.content.parts:
            if part.type == "text":
                part.text = part.text.replace("secret", "***")


def _with(message: Message, text: str) -> Message:
    changed = copy_message(message)
    changed.content.parts[-1].text += text  # type: ignore[attr-defined]
    return changed


def selecting(step_id: str) -> Any:
    return lambda args: args.input_data[step_id]


class Blocker(Made):
    """Blocks a bomb, and keeps what it saw and what it was told of."""

    def __init__(self, make: Make) -> None:
        super().__init__("blocker")
        self.process_input = make("blocker", process_input=self._judge).process_input  # type: ignore[attr-defined]
        self.seen: list[str] = []
        self.violations: list[ProcessorViolation] = []
        self.on_violation = self.violations.append

    def _judge(self, args: Any) -> None:
        self.seen = [get_text(message) for message in args.messages]
        if "bomb" in self.seen[-1]:
            args.abort("no bombs", metadata={"word": "bomb"})


@pytest.mark.parametrize(("selected", "prompt"), [("redactor", "my ***"), ("blocker", "my secret")], ids=["A30", "A31"])
async def test_the_selected_branch_reaches_the_model_and_no_other(
    selected: str, prompt: str, drive: Drive, make: Make
) -> None:
    """A30, A31; R16.6"""
    model = ScriptedModel(["x"])
    redactor, blocker = make("redactor", process_input=redact), Blocker(make)
    workflow = create_workflow(id="w").parallel([redactor, blocker]).map(selecting(f"processor:{selected}")).commit()
    await drive(agent_of(model, input_processors=[workflow]), "my secret")
    assert told(model.prompts[0]) == [("user", prompt)]
    assert blocker.seen == ["my secret"]


async def test_a_parallel_without_a_map_is_an_error(drive: Drive, make: Make) -> None:
    """A32; R16.5"""
    workflow = create_workflow(id="w").parallel([make("redactor", process_input=redact), Blocker(make)]).commit()
    outcome = await drive(agent_of(["x"], input_processors=[workflow]), "my secret")
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.workflow_id, error.hook) == ("PROCESSOR_WORKFLOW_INVALID_OUTPUT", "w", "process_input")
    assert "'processor:redactor', 'processor:blocker'; follow it by .map" in str(error)


async def test_an_abort_in_a_branch_is_that_of_its_processor(drive: Drive, make: Make) -> None:
    """A33; R6.10, R16.9"""
    blocker = Blocker(make)
    workflow = parallel(make("redactor", process_input=redact), blocker, keep=blocker)
    model = ScriptedModel([])
    outcome = await drive(agent_of(model, input_processors=[workflow]), "a bomb")
    assert outcome.tripwire.processor_id == "blocker"
    assert (outcome.tripwire.reason, outcome.tripwire.metadata) == ("no bombs", {"word": "bomb"})
    assert [violation.processor_id for violation in blocker.violations] == ["blocker"]
    assert model.calls == 0


async def test_an_abort_in_a_sequence_is_that_of_its_processor(drive: Drive, make: Make) -> None:
    """A33; R6.10, R16.9"""
    blocker = Blocker(make)
    outcome = await drive(agent_of([], input_processors=[sequence(blocker)]), "a bomb")
    assert outcome.tripwire.processor_id == "blocker"
    assert len(blocker.violations) == 1


async def test_an_abort_that_a_hook_swallows_still_counts(drive: Drive, make: Make) -> None:
    """R6.3, R16.9"""

    def swallow(args: Any) -> None:
        try:
            args.abort("caught")
        except Exception:
            return

    branches = [make("a", process_input=swallow), make("b", process_input=redact)]
    outcome = await drive(agent_of([], input_processors=[parallel(*branches, keep=branches[1])]))
    assert outcome.tripwire.processor_id == "a"


async def test_everything_that_the_selected_branch_did_to_the_list_counts(drive: Drive, make: Make) -> None:
    """R16.6"""
    model = ScriptedModel(["x"])

    def rework(args: Any) -> None:
        args.message_list.remove_by_ids([args.messages[0].id])
        args.message_list.add("context", "context")
        args.message_list.add_system("tagged", "tag")
        args.message_list.add_system("S")

    worker, other = make("worker", process_input=rework), make("other", process_input=redact)
    outcome = await drive(agent_of(model, input_processors=[parallel(other, worker, keep=worker)]), ["one", "two"])
    assert told(model.prompts[0]) == [("system", "S"), ("system", "tagged"), ("user", "two"), ("user", "context")]
    assert outcome.error is None


async def test_a_message_that_the_branch_leaves_alone_stays_the_same_object(drive: Drive, make: Make) -> None:
    """R16.6"""
    objects: list[Message] = []
    keep = make(
        "keep", process_input=lambda args: args.messages[0].content.parts.append(args.messages[1].content.parts[0])
    )
    other = make("other", process_input=redact)
    look = make("look", process_input=lambda args: objects.extend(args.messages))
    await drive(agent_of(["x"], input_processors=[look, parallel(keep, other, keep=keep), look]), ["one", "two"])
    first, second, first_after, second_after = objects
    assert first_after is not first
    assert second_after is second


async def test_the_source_of_a_message_that_a_branch_adds_is_kept(drive: Drive, make: Make) -> None:
    """R3.2, R16.6"""
    sources: list[Any] = []
    adder = make("adder", process_input=lambda args: args.message_list.add("from context", "context") and None)
    look = make("look", process_input=lambda args: sources.extend(map(args.message_list.source_of, args.messages)))
    await drive(agent_of(["x"], input_processors=[parallel(adder, keep=adder), look]))
    assert sorted(sources) == ["context", "input"]


async def test_with_nothing_to_keep_the_branches_only_judge(drive: Drive, make: Make) -> None:
    """R16.6"""
    model = ScriptedModel(["x"])
    branches = [make("a", process_input=redact), make("b", process_input=lambda args: [])]
    await drive(agent_of(model, input_processors=[parallel(*branches, keep=None)]), "my secret")
    assert told(model.prompts[0]) == [("user", "my secret")]


async def test_the_settings_of_the_selected_branch_count(drive: Drive, make: Make) -> None:
    """R16.6"""
    model = ScriptedModel(["x"])
    a = make("a", process_input_step=lambda args: {"tool_choice": "required", "system_messages": ["A"]})
    b = make("b", process_input_step=lambda args: {"active_tools": [], "system_messages": ["B"]})
    await drive(agent_of(model, tools=[echo], input_processors=[parallel(a, b, keep=a)]))
    assert model.requests[0].tool_choice == "required"
    assert [tool.name for tool in model.requests[0].tools] == ["echo"]
    assert told(model.prompts[0])[0] == ("system", "A")


async def test_calls_that_the_selected_branch_refuses_are_refused(drive: Drive, make: Make) -> None:
    """R16.6, R19.7"""

    def refuse(call_id: str) -> Any:
        return lambda args: args.refuse_tool_call(call_id, f"no {call_id}") if args.tool_calls else None

    model = ScriptedModel([[tool_call("echo", id="c1"), tool_call("echo", id="c2")], "done"])
    a, b = make("a", process_output_step=refuse("c1")), make("b", process_output_step=refuse("c2"))
    await drive(agent_of(model, tools=[echo], output_processors=[parallel(a, b, keep=a)]))
    assert told(model.prompts[1])[-1] == ("tool", "no c1 hey")


async def test_a_selected_redaction_of_a_tool_result_is_recorded(drive: Drive, make: Make) -> None:
    """R10.7, R16.6"""

    def rewrite(result: str) -> Any:
        def process(args: Any) -> None:
            part = args.message_list.find_tool_invocation(args.tool_call_id)
            part.tool_invocation.state, part.tool_invocation.result = "result", result

        return process

    seen: list[Any] = []
    model = ScriptedModel([tool_call("echo", id="c1"), "done"])
    a, b = make("a", process_tool_result=rewrite("A")), make("b", process_tool_result=rewrite("B"))
    look = make("look", process_tool_result=lambda args: seen.append(args.result))
    await drive(agent_of(model, tools=[echo], output_processors=[parallel(a, b, keep=b), look]))
    assert seen == ["B"]
    assert told(model.prompts[1])[-1] == ("tool", "B")


async def test_the_answer_that_the_selected_branch_makes_is_the_answer(drive: Drive, make: Make) -> None:
    """R2.31, R2.34, R16.6"""

    def rewrite(text: str) -> Any:
        def process(args: Any) -> None:
            args.messages[-1].content.parts[-1].text += text

        return process

    a = make("a", process_output_step=rewrite("1"), process_output_result=rewrite("2"))
    b = make("b", process_output_step=rewrite("3"), process_output_result=rewrite("4"))
    outcome = await drive(agent_of(["x"], output_processors=[parallel(a, b, keep=b)]))
    assert outcome.text == "x34"


async def test_a_rejected_attempt_leaves_nothing_of_what_a_branch_made(drive: Drive, make: Make) -> None:
    """R7.9, R16.6"""
    model = ScriptedModel(["bad", "good"])

    def judge(args: Any) -> None:
        if "bad" in get_text(args.messages[-1]):
            args.abort("no good", retry=True)

    louder = make("louder", process_output_step=lambda args: [*args.messages[:-1], _with(args.messages[-1], "!")])
    other = make("other", process_output_step=lambda args: None)
    processors = [sequence(parallel(louder, other, keep=louder), make("judge", process_output_step=judge))]
    outcome = await drive(agent_of(model, output_processors=processors, max_processor_retries=1))
    assert outcome.text == "good!"
    assert [role for role, _ in told(model.prompts[1])] == ["system", "user"]


async def test_history_that_the_selected_branch_rewrites_is_not_saved_again(drive: Drive, make: Make) -> None:
    """R2.10, R16.6"""
    store = InMemoryStore()
    memory = Memory(store=store)
    await drive(agent_of(["x"], memory=memory), "my secret", memory=THREAD)
    model = ScriptedModel(["y"])
    redactor, other = make("redactor", process_input=redact), make("other", process_input=lambda args: None)
    agent = agent_of(model, memory=memory, input_processors=[parallel(redactor, other, keep=redactor)])
    await drive(agent, "another secret", memory=THREAD)
    assert told(model.prompts[0]) == [("user", "my ***"), ("assistant", "x"), ("user", "another ***")]
    assert await saved(store) == [
        ("user", "my secret"),
        ("assistant", "x"),
        ("user", "another ***"),
        ("assistant", "y"),
    ]


async def test_state_is_not_forked(drive: Drive, make: Make) -> None:
    """R8.6, R16.6"""
    seen: list[Any] = []
    unselected = make(
        "u",
        process_input=lambda args: args.state.update(x=1),
        process_input_step=lambda args: seen.append(dict(args.state)),
    )
    other = make("o", process_input=redact)
    await drive(agent_of(["x"], input_processors=[parallel(unselected, other, keep=other)]))
    assert seen == [{"x": 1}]


async def test_what_branches_write_reaches_client_and_response_whoever_is_selected() -> None:
    """R9.4, R16.6"""
    kept_parts: list[Any] = []

    def writing(name: str) -> Any:
        async def process(args: Any) -> None:
            await args.writer.custom({"type": "data-note", "data": name})
            args.messages[-1].content.parts[-1].text = f"by {name}"

        return process

    a, b = Made("a", process_output_step=writing("a")), Made("b", process_output_step=writing("b"))
    look = Made("look", process_output_result=lambda args: kept_parts.extend(args.messages[-1].content.parts))
    outcome = await streamed(agent_of(["x"], output_processors=[parallel(a, b, keep=a), look]))
    assert [chunk.data for chunk in chunks_of(outcome.chunks, "data-note")] == ["a", "b"]
    assert [getattr(part, "text", None) or part.data for part in kept_parts] == ["by a", "a", "b"]


async def test_branches_wait_side_by_side(drive: Drive) -> None:
    """R16.5"""
    arrived: list[str] = []
    all_arrived = asyncio.Event()

    async def meet(args: Any) -> None:
        arrived.append("one")
        if len(arrived) == 2:
            all_arrived.set()
        await all_arrived.wait()

    a, b = Made("a", process_input=meet), Made("b", process_input=meet)
    outcome = await drive(agent_of(["x"], input_processors=[parallel(a, b, keep=None)]))
    assert outcome.text == "x"


async def test_an_abort_cancels_the_other_branches(drive: Drive) -> None:
    """R16.9"""
    cancelled: list[str] = []

    async def wait_for_ever(args: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise

    async def block(args: Any) -> None:
        args.abort("no")

    slow, fast = Made("slow", process_input=wait_for_ever), Made("fast", process_input=block)
    outcome = await drive(agent_of([], input_processors=[parallel(slow, fast, keep=slow)]))
    assert outcome.tripwire.processor_id == "fast"
    assert cancelled == ["slow"]


async def test_of_several_aborts_the_first_in_the_order_of_branches_wins(drive: Drive, make: Make) -> None:
    """R16.9"""
    violations: list[str] = []

    def aborting(name: str) -> Made:
        processor = make(name, process_input=lambda args: args.abort(name))
        processor.on_violation = lambda violation: violations.append(violation.processor_id)
        return processor

    a, b = aborting("a"), aborting("b")
    outcome = await drive(agent_of([], input_processors=[parallel(a, b, keep=a)]))
    assert outcome.tripwire.processor_id == "a"
    assert violations == ["a"]


async def test_an_abort_wins_over_a_failure(drive: Drive) -> None:
    """R6.3, R16.9"""

    async def fail(args: Any) -> None:
        raise ValueError("broken")

    async def block(args: Any) -> None:
        args.abort("no")

    a, b = Made("a", process_input=fail), Made("b", process_input=block)
    outcome = await drive(agent_of([], input_processors=[parallel(a, b, keep=a)]))
    assert outcome.tripwire.processor_id == "b"


async def test_a_failure_cancels_the_other_branches_and_names_its_step(drive: Drive) -> None:
    """R16.9"""
    cancelled: list[str] = []

    async def wait_for_ever(args: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("slow")

    async def fail(args: Any) -> None:
        raise ValueError("broken")

    slow, broken = Made("slow", process_output_step=wait_for_ever), Made("broken", process_output_step=fail)
    outcome = await drive(agent_of(["x"], output_processors=[parallel(slow, broken, keep=slow, id="w")]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.workflow_id, error.step_id, error.processor_id, error.hook) == (
        "PROCESSOR_WORKFLOW_FAILED",
        "w",
        "processor:broken",
        "broken",
        "process_output_step",
    )
    assert isinstance(error.__cause__, ValueError)
    assert cancelled == ["slow"]


async def test_the_signal_of_the_run_cancels_all_branches(drive: Drive) -> None:
    """R12.28, R16.6"""
    signal = AbortSignal()
    cancelled: list[str] = []

    def waiting(name: str) -> Made:
        async def wait(args: Any) -> None:
            try:
                if name == "b":
                    signal.abort("enough")
                await asyncio.Event().wait()
            finally:
                cancelled.append(name)

        return Made(name, process_output_step=wait)

    a, b = waiting("a"), waiting("b")
    agent = agent_of(["x"], output_processors=[parallel(a, b, keep=a)])
    outcome = await drive(agent, abort_signal=signal)
    assert outcome.finish_reason == "aborted"
    assert cancelled == ["a", "b"]


async def test_a_branch_may_end_the_run_from_a_task(drive: Drive) -> None:
    """R16.9, R19.4"""

    async def start(args: Any) -> None:
        async def find_out() -> None:
            args.cancel_run("found out")

        args.create_task(find_out())
        await asyncio.Event().wait()

    a, b = Made("a", process_input_step=start), Made("b", process_input_step=lambda args: None)
    outcome = await drive(agent_of([], input_processors=[parallel(a, b, keep=b)]))
    assert (outcome.tripwire.processor_id, outcome.tripwire.reason) == ("a", "found out")


async def test_a_task_that_outlives_its_branch_still_belongs_to_the_run(drive: Drive) -> None:
    """R16.6, R19.4"""
    go = asyncio.Event()

    async def start(args: Any) -> None:
        async def find_out() -> None:
            await go.wait()
            args.cancel_run("too late for the branch")

        args.create_task(find_out())

    async def answer() -> None:
        go.set()
        await asyncio.Event().wait()

    a, b = Made("a", process_input_step=start), Made("b", process_input_step=lambda args: None)
    outcome = await drive(agent_of([["x", answer]], input_processors=[parallel(a, b, keep=b)]))
    assert (outcome.tripwire.processor_id, outcome.tripwire.reason) == ("a", "too late for the branch")


async def test_all_branches_share_the_budget_of_the_run(drive: Drive, make: Make) -> None:
    """R16.6, R19.9"""
    seen: list[int] = []

    def spend(args: Any) -> None:
        args.budget.guard_calls += 1

    a, b = make("a", process_input=spend), make("b", process_input=spend)
    look = make("look", process_input=lambda args: seen.append(args.budget.guard_calls))
    await drive(agent_of(["x"], input_processors=[parallel(a, b, keep=a), look]))
    assert seen == [2]


async def test_a_workflow_may_be_a_branch(drive: Drive, make: Make) -> None:
    """R16.1, R16.6"""
    model = ScriptedModel(["x"])
    shout = make("shout", process_input=lambda args: setattr(args.messages[0].content.parts[0], "text", "SECRET"))
    inner = parallel(make("redactor", process_input=redact), shout, keep=shout, id="inner")
    other = make("other", process_input=redact)
    workflow = create_workflow(id="outer").parallel([inner, other]).map(selecting("inner")).commit()
    await drive(agent_of(model, input_processors=[workflow]), "my secret")
    assert told(model.prompts[0]) == [("user", "SECRET")]


async def test_a_branch_may_not_return_the_list_of_the_run(drive: Drive, make: Make) -> None:
    """R3.24, R16.6: its list is its fork."""
    lists: list[Any] = []
    first = make("first", process_input=lambda args: lists.append(args.message_list))
    branch = make("branch", process_input=lambda args: lists[0])
    outcome = await drive(agent_of(["x"], input_processors=[first, parallel(branch, keep=branch)]))
    assert isinstance(outcome.error, ProcessorError)
    code = getattr(outcome.error, "code", None)
    assert (outcome.error.processor_id, code) == ("branch", "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST")
