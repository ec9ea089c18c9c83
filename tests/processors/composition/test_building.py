"""How workflows are put together, and where they may stand (runtime specification, R16.1)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock import Agent, ConfigurationError, Processor
from interlock.processors import (
    Workflow,
    create_step,
    create_workflow,
    is_error_processor,
    is_input_processor,
    is_output_processor,
    parallel,
    sequence,
    when,
)
from interlock.testing import ScriptedModel
from tests.agent.kit import Made, agent_of, made_sync


def judge(id: str = "judge") -> Made:  # noqa: A002 - the field's name
    return made_sync(id, process_input=lambda args: None)


def first(args: Any) -> Any:
    return args.initial_data


def always(data: Any) -> bool:
    return True


def test_a_step_made_from_a_processor_is_named_after_it() -> None:
    """R16.1"""
    assert create_step(judge("pii")).id == "processor:pii"


def test_a_committed_workflow_has_the_hooks_that_its_processors_have() -> None:
    """R16.1"""
    workflow = sequence(judge(), made_sync("out", process_output_step=lambda args: None))
    hooks = [name for name in ("process_input", "process_input_step", "process_output_step") if hasattr(workflow, name)]
    assert hooks == ["process_input", "process_output_step"]


def test_a_workflow_counts_as_the_kind_of_processor_that_its_members_are() -> None:
    """R1.20, R16.1"""
    workflow = sequence(judge())
    assert is_input_processor(workflow)
    assert not is_output_processor(workflow)
    assert not is_error_processor(sequence(judge(), made_sync("e", process_api_error=lambda args: None)))


@pytest.mark.parametrize("array", ["input_processors", "output_processors"])
def test_an_uncommitted_workflow_is_refused_when_the_list_is_resolved(array: str) -> None:
    """R16.1"""
    workflow = create_workflow(id="guards").then(judge())
    with pytest.raises(ConfigurationError, match=re.escape(f"'guards' in {array} is not complete: call .commit()")):
        agent_of(["x"], **{array: [workflow]})


def test_a_workflow_cannot_stand_in_error_processors() -> None:
    """R16.1"""
    workflow = sequence(made_sync("retrier", process_api_error=lambda args: {"retry": True}), id="w")
    with pytest.raises(ConfigurationError, match="workflow 'w' cannot stand in error_processors"):
        agent_of(["x"], error_processors=[workflow])


def test_an_uncommitted_workflow_cannot_stand_in_another_one() -> None:
    """R16.1"""
    inner = create_workflow(id="inner").then(judge())
    with pytest.raises(ConfigurationError, match="workflow 'inner' in workflow 'outer' is not complete"):
        create_workflow(id="outer").then(inner)


@pytest.mark.parametrize(
    "change",
    [
        lambda workflow: workflow.then(judge()),
        lambda workflow: workflow.parallel([judge()]),
        lambda workflow: workflow.branch([(always, judge())]),
        lambda workflow: workflow.map(first),
        lambda workflow: workflow.commit(),
    ],
    ids=["then", "parallel", "branch", "map", "commit"],
)
def test_a_committed_workflow_cannot_be_changed(change: Any) -> None:
    """R16.1"""
    workflow = create_workflow(id="w").parallel([judge("other")]).commit()
    with pytest.raises(ConfigurationError, match="workflow 'w' is committed and cannot be changed"):
        change(workflow)


@pytest.mark.parametrize("bad", ["", None, 7])
def test_a_workflow_needs_an_id(bad: Any) -> None:
    """R1.16"""
    with pytest.raises(ConfigurationError, match="a workflow needs an id"):
        create_workflow(id=bad)


def test_a_workflow_needs_a_processor() -> None:
    """R16.1"""
    with pytest.raises(ConfigurationError, match=r"'w' has no processor: add one with .then\(processor\)"):
        create_workflow(id="w").map(first).commit()


@pytest.mark.parametrize(
    ("member", "what"),
    [
        (object(), "has no id"),
        (made_sync("nothing"), "'nothing' in a workflow has no hook"),
        (Processor, "a workflow holds the class Processor; put an instance there"),
    ],
    ids=["no id", "no hook", "a class"],
)
def test_what_cannot_be_a_processor_cannot_be_a_step(member: Any, what: str) -> None:
    """R1.16, R16.1"""
    with pytest.raises(ConfigurationError, match=what):
        create_workflow(id="w").then(member)


def test_a_workflow_is_a_step_already() -> None:
    """R16.1"""
    with pytest.raises(ConfigurationError, match=r"workflow 'w' is a step as it is; give it to .then\(\)"):
        create_step(sequence(judge(), id="w"))


def test_the_branches_of_a_step_have_different_ids() -> None:
    """R16.5: the output is keyed by step id."""
    with pytest.raises(ConfigurationError, match="the branches of a step need different ids"):
        create_workflow(id="w").parallel([judge("a"), judge("a")])


@pytest.mark.parametrize("method", ["parallel", "branch"])
def test_a_step_without_branches_is_refused(method: str) -> None:
    """R16.1"""
    with pytest.raises(ConfigurationError, match="workflow 'w' has a step without any branch"):
        getattr(create_workflow(id="w"), method)([])


def test_a_branch_takes_pairs_of_condition_and_processor() -> None:
    """R16.8"""
    with pytest.raises(TypeError, match=r"branch\(\) takes pairs \(condition, processor\)"):
        create_workflow(id="w").branch([judge()])  # type: ignore[list-item]


def test_a_map_is_a_function() -> None:
    """R16.7"""
    with pytest.raises(TypeError, match=r"map\(\) takes a function of MapArgs"):
        create_workflow(id="w").then(judge()).map("first")  # type: ignore[arg-type]


def test_only_one_of_its_steps_can_be_kept_of_a_parallel() -> None:
    """R16.6"""
    with pytest.raises(ConfigurationError, match=r"parallel\(\) cannot keep .* which is not one of its steps"):
        parallel(judge("a"), keep=judge("a"))


def test_short_forms_are_committed_and_named_after_their_members() -> None:
    """R16.1"""
    a, b = judge("a"), judge("b")
    made = [sequence(a, b), parallel(a, b, keep=a), when(always, sequence(a, id="s")), sequence(a, id="mine")]
    assert [workflow.id for workflow in made] == ["sequence(a, b)", "parallel(a, b)", "when(s)", "mine"]
    assert all(workflow.is_committed for workflow in made)


def test_the_processors_of_a_workflow_are_listed_depth_first() -> None:
    """R16.10"""
    inner = sequence(judge("b"), judge("c"))
    workflow = create_workflow(id="w").then(judge("a")).parallel([inner, judge("d")]).map(first).then(judge("e"))
    assert [processor.id for processor in workflow.processors] == ["a", "b", "c", "d", "e"]


def test_a_workflow_runs_before_memory_only_if_all_its_processors_want_that() -> None:
    """R19.6"""
    guard = made_sync("guard", process_input=lambda args: None, stage="pre_memory")
    assert sequence(guard).stage == "pre_memory"
    assert sequence(guard, judge()).stage == "post_memory"


def test_a_workflow_is_not_called_by_hand() -> None:
    """R16.1"""
    workflow: Any = sequence(judge(), id="w")
    with pytest.raises(TypeError, match="workflow 'w' is run by the agent that has it among its processors"):
        workflow.process_input(None)


def test_one_workflow_may_serve_several_agents() -> None:
    """R16.1"""
    workflow: Workflow = sequence(judge())
    agents = [Agent(id=name, model=ScriptedModel(["x"]), input_processors=[workflow]) for name in "ab"]
    assert [agent.input_processors for agent in agents] == [(workflow,), (workflow,)]


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: create_workflow("w").parallel(judge()), "parallel() takes a list of processors, not"),
        (lambda: create_workflow("w").branch((always, judge())), "branch() takes pairs (condition, processor), not"),
        (lambda: create_workflow("w").branch(always), "branch() takes a list of pairs (condition, processor), not"),
        (
            lambda: when("always", judge()),
            "when() takes a condition, which is a function of the step data, not",
        ),
    ],
)
def test_what_is_not_put_together_right_is_told_by_what_was_called(build: Any, complaint: str) -> None:
    """R16.1"""
    with pytest.raises(TypeError, match=re.escape(complaint)):
        build()
