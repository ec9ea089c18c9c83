"""Maps and conditions (runtime specification, R16.7, R16.8, R16.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock import MessageList, get_text
from interlock.errors import ProcessorReturnError, ProcessorWorkflowError
from interlock.processors import MapArgs, ProcessorStepData, create_workflow, parallel, sequence, when
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import Drive, Made, Make, agent_of, echo, made_sync, told

pytestmark = pytest.mark.anyio


def nothing(args: Any) -> None:
    """A hook that changes nothing."""


def saying(text: str) -> Callable[[Any], None]:
    """An input hook that appends to the text of the last message."""

    def process(args: Any) -> None:
        args.messages[-1].content.parts[-1].text += text

    return process


def yes(data: Any) -> bool:
    return True


def no(data: Any) -> bool:
    return False


async def texts_after(drive: Drive, *processors: Any, given: Any = "hi") -> list[tuple[str, str]]:
    """The prompt that the model gets."""
    model = ScriptedModel(["x"])
    outcome = await drive(agent_of(model, input_processors=list(processors)), given)
    if outcome.error is not None:
        raise outcome.error
    return told(model.prompts[0])


# -- maps -------------------------------------------------------------------------------------------------------------


async def test_a_map_is_told_of_the_beginning_and_of_every_step(drive: Drive, make: Make) -> None:
    """R16.7"""
    told_of: list[Any] = []

    def look(args: MapArgs) -> Any:
        told_of.append(
            {
                "input": [get_text(message) for message in args.input_data.messages],
                "initial": len(args.initial_data.messages),
                "a": len(args.get_step_result("processor:a").messages),  # type: ignore[union-attr]
                "b": args.get_step_result("processor:b"),
                "context": args.request_context.get("who"),
            }
        )
        return args.input_data

    a = make("a", process_input=lambda args: [*args.messages, {"role": "user", "content": "more"}])
    workflow = create_workflow(id="w").then(a).branch([(no, make("b", process_input=nothing))]).map(look).commit()
    await drive(agent_of(["x"], input_processors=[workflow]), request_context={"who": "me"})
    assert told_of == [{"input": ["hi", "more"], "initial": 1, "a": 2, "b": None, "context": "me"}]


async def test_a_later_map_may_still_select_a_branch(drive: Drive, make: Make) -> None:
    """R16.7"""
    workflow = (
        create_workflow(id="w")
        .parallel([make("a", process_input=saying(" A")), make("b", process_input=saying(" B"))])
        .map(lambda args: args.input_data["processor:a"])
        .map(lambda args: args.get_step_result("processor:b"))
        .commit()
    )
    assert await texts_after(drive, workflow) == [("user", "hi B")]


async def test_a_map_may_be_async(drive: Drive, make: Make) -> None:
    """R16.7"""

    async def select(args: MapArgs) -> Any:
        return args.input_data["processor:b"]

    branches = [make("a", process_input=saying(" A")), make("b", process_input=saying(" B"))]
    workflow = create_workflow(id="w").parallel(branches).map(select).commit()
    assert await texts_after(drive, workflow) == [("user", "hi B")]


@pytest.mark.parametrize(
    "build",
    [
        lambda data, messages: ProcessorStepData(phase=data.phase, messages=messages),
        lambda data, messages: {"messages": messages},
        lambda data, messages: {"phase": data.phase, "messages": messages, "systemMessages": data.system_messages},
    ],
    ids=["step data", "mapping", "camelCase mapping"],
)
async def test_a_map_may_build_its_own_data(build: Any, drive: Drive, make: Make) -> None:
    """R16.7"""

    def both(args: MapArgs) -> Any:
        a, b = (args.input_data[f"processor:{name}"] for name in "ab")
        b.messages[0].id = "another"
        return build(a, [*a.messages, *b.messages])

    branches = [make("a", process_input=saying(" A")), make("b", process_input=saying(" B"))]
    workflow = create_workflow(id="w").parallel(branches).map(both).commit()
    assert await texts_after(drive, workflow) == [("user", "hi A"), ("user", "hi B")]


async def test_an_empty_mapping_keeps_everything(drive: Drive, make: Make) -> None:
    """R16.7"""
    workflow = create_workflow(id="w").parallel([make("a", process_input=saying(" A"))]).map(lambda args: {}).commit()
    assert await texts_after(drive, workflow) == [("user", "hi")]


async def test_a_map_may_change_the_settings_of_the_step(drive: Drive, make: Make) -> None:
    """R16.7"""
    model = ScriptedModel(["x"])
    step = make("a", process_input_step=nothing)
    workflow = create_workflow(id="w").then(step).map(lambda args: {"active_tools": [], "system_messages": ["S"]})
    await drive(agent_of(model, tools=[echo], input_processors=[workflow.commit()]))
    assert model.requests[0].tools == []
    assert told(model.prompts[0]) == [("system", "S"), ("user", "hi")]


@pytest.mark.parametrize(
    "made",
    [None, "text", [], {"processor:a": 1}, {"tool_choice": "auto", "toolChoice": "auto"}],
    ids=["None", "text", "list", "unknown key", "both spellings"],
)
async def test_a_map_that_returns_no_step_data_is_an_error(made: Any, drive: Drive, make: Make) -> None:
    """R16.7"""
    workflow = create_workflow(id="w").then(make("a", process_input=nothing)).map(lambda args: made).commit()
    outcome = await drive(agent_of(["x"], input_processors=[workflow]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.workflow_id) == ("PROCESSOR_WORKFLOW_INVALID_OUTPUT", "w")
    assert "return a ProcessorStepData" in str(error)


async def test_a_map_may_not_bring_in_another_message_list(drive: Drive, make: Make) -> None:
    """R16.12"""
    step = make("a", process_input=nothing)
    workflow = create_workflow(id="w").then(step).map(lambda args: {"message_list": MessageList()}).commit()
    outcome = await drive(agent_of(["x"], input_processors=[workflow]))
    error = outcome.error
    assert isinstance(error, ProcessorReturnError)
    assert (error.code, error.processor_id) == ("PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST", "w")


async def test_a_map_that_raises_is_a_failure_of_the_workflow(drive: Drive, make: Make) -> None:
    """R16.9"""
    workflow = create_workflow(id="w").then(make("a", process_input=nothing)).map(lambda args: 1 / 0).commit()
    outcome = await drive(agent_of(["x"], input_processors=[workflow]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.step_id, error.processor_id) == ("PROCESSOR_WORKFLOW_FAILED", "map", "w")
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert str(error) == "step 'map' of workflow 'w' failed in process_input: ZeroDivisionError: division by zero"


async def test_asking_for_the_result_of_an_unknown_step_is_an_error(drive: Drive, make: Make) -> None:
    """R16.7"""
    step = make("a", process_input=nothing)
    workflow = create_workflow(id="w").then(step).map(lambda args: args.get_step_result("a")).commit()
    outcome = await drive(agent_of(["x"], input_processors=[workflow]))
    assert "the workflow has no step 'a'; its steps are 'processor:a'" in str(outcome.error)


def test_step_data_refuses_unknown_fields() -> None:
    """R16.2"""
    with pytest.raises(TypeError, match="ProcessorStepData has no field 'mesages'"):
        ProcessorStepData(phase="input", mesages=[])
    with pytest.raises(AttributeError, match="ProcessorStepData has no field 'mesages'"):
        _ = ProcessorStepData(phase="input").mesages


async def test_step_data_has_what_the_hook_of_the_phase_has() -> None:
    """R16.2"""
    seen: dict[str, ProcessorStepData] = {}

    def note(data: ProcessorStepData) -> bool:
        seen[data.phase] = data
        return True

    names = (
        "process_input",
        "process_input_step",
        "process_output_step",
        "process_tool_result",
        "process_output_result",
    )
    every = made_sync("a", **dict.fromkeys(names, nothing), process_output_stream=lambda args: args.part)
    guarded = [when(note, every)]
    model = ScriptedModel([tool_call("echo", {"text": "t"}, id="c1"), "done"])
    await agent_of(model, tools=[echo], input_processors=guarded, output_processors=guarded).generate("hi")
    assert list(seen) == ["input", "inputStep", "outputStream", "outputStep", "toolResult", "outputResult"]
    assert [get_text(message) for message in seen["input"].messages] == ["hi"]
    assert (seen["inputStep"].step_number, list(seen["inputStep"].tools)) == (1, ["echo"])
    assert seen["outputStep"].text == "done"
    assert (seen["toolResult"].tool_name, seen["toolResult"].args) == ("echo", {"text": "t"})
    assert seen["toolResult"].result == "t"
    assert seen["outputResult"].result.text == "done"
    assert len(seen["outputStream"].messages) >= 1
    assert (seen["input"].part, seen["outputStream"].text) == (None, None)
    assert all(data.message_list is seen["input"].message_list for data in seen.values())


# -- conditions -------------------------------------------------------------------------------------------------------


async def test_only_the_branch_whose_condition_holds_runs_and_its_output_is_used(drive: Drive, make: Make) -> None:
    """R16.8"""
    branches = [(no, make("a", process_input=saying(" A"))), (yes, make("b", process_input=saying(" B")))]
    workflow = create_workflow(id="w").branch(branches).then(make("c", process_input=saying(" C"))).commit()
    assert await texts_after(drive, workflow) == [("user", "hi B C")]


async def test_a_condition_may_be_async(drive: Drive, make: Make) -> None:
    """R16.8"""

    async def later(data: ProcessorStepData) -> bool:
        return "hi" in get_text(data.messages[0])

    assert await texts_after(drive, when(later, make("a", process_input=saying(" A")))) == [("user", "hi A")]


async def test_without_a_branch_that_runs_the_data_passes_through(drive: Drive, make: Make) -> None:
    """R16.8"""
    inputs: list[Any] = []

    def look(args: MapArgs) -> Any:
        inputs.append(args.input_data)
        return args.input_data

    workflow = create_workflow(id="w").branch([(no, make("a", process_input=saying(" A")))]).map(look).commit()
    assert await texts_after(drive, workflow) == [("user", "hi")]
    assert isinstance(inputs[0], ProcessorStepData)


async def test_conditions_are_all_asked_about_the_same_data_and_in_order(drive: Drive, make: Make) -> None:
    """R16.8"""
    asked: list[Any] = []

    def asking(name: str) -> Callable[[ProcessorStepData], bool]:
        def condition(data: ProcessorStepData) -> bool:
            asked.append((name, get_text(data.messages[0])))
            return True

        return condition

    branches = [(asking(name), make(name, process_input=saying(f" {name}"))) for name in "ab"]
    workflow = create_workflow(id="w").branch(branches).map(lambda args: args.input_data["processor:b"]).commit()
    assert await texts_after(drive, workflow) == [("user", "hi b")]
    assert asked == [("a", "hi"), ("b", "hi")]


async def test_several_branches_without_a_map_are_an_error(drive: Drive, make: Make) -> None:
    """R16.8"""
    branches = [(yes, make(name, process_input=saying(name))) for name in "ab"]
    outcome = await drive(agent_of(["x"], input_processors=[create_workflow(id="w").branch(branches).commit()]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.step_id) == ("PROCESSOR_WORKFLOW_INVALID_OUTPUT", "branch(processor:a, processor:b)")


async def test_a_condition_that_raises_is_a_failure_of_the_workflow(drive: Drive, make: Make) -> None:
    """R16.8, R16.9"""
    workflow = when(lambda data: 1 / 0, make("a", process_output_step=nothing), id="w")
    outcome = await drive(agent_of(["x"], output_processors=[workflow]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.step_id) == ("PROCESSOR_WORKFLOW_FAILED", "branch(processor:a)")
    assert isinstance(error.__cause__, ZeroDivisionError)


async def test_a_guard_whose_condition_breaks_does_not_let_the_request_through(make: Make) -> None:
    """R17.1"""
    workflow = when(lambda data: 1 / 0, make("a", process_input=nothing))
    model = ScriptedModel([])
    with pytest.raises(ProcessorWorkflowError):
        await agent_of(model, input_processors=[workflow]).generate("hi")
    assert model.calls == 0


async def test_an_abort_in_a_branch_is_that_of_its_processor(drive: Drive, make: Make) -> None:
    """R16.9"""
    guard = make("guard", process_input=lambda args: args.abort("no"))
    outcome = await drive(agent_of([], input_processors=[when(yes, guard)]))
    assert outcome.tripwire.processor_id == "guard"


async def test_composed_processors_can_be_composed(drive: Drive, make: Make) -> None:
    """R16.1"""
    a, b, c = (make(name, process_input=saying(f" {name}")) for name in "abc")
    composed = sequence(when(yes, sequence(a, b)), parallel(sequence(b, c), a, keep=a), when(no, c))
    assert await texts_after(drive, composed) == [("user", "hi a b a")]


async def test_an_ordinary_exception_names_workflow_and_step(drive: Drive) -> None:
    """R16.9"""
    broken = Made("broken", process_output_result=lambda args: 1 / 0)
    outcome = await drive(agent_of(["x"], output_processors=[sequence(sequence(broken, id="inner"), id="outer")]))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.workflow_id, error.step_id, error.processor_id) == ("inner", "processor:broken", "broken")
    assert isinstance(error.__cause__, ZeroDivisionError)
