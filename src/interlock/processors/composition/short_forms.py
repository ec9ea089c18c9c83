"""Workflows that read well in a list of processors: ``sequence(a, b)``, ``parallel(a, b, keep=a)``, ``when(c, a)``."""

from __future__ import annotations

from typing import Any

from interlock.errors import ConfigurationError
from interlock.processors.composition.plan import Condition
from interlock.processors.composition.workflow import MapFunction, Step, Workflow, create_step, create_workflow


def sequence(*steps: Any, id: str | None = None) -> Workflow:  # noqa: A002  (the spec's name)
    """Processors as one, each on what the one before it left.

    Args:
        *steps: Processors, steps or workflows.
        id: Id of the workflow; made of theirs otherwise.
    """
    workflow = create_workflow(id or _named("sequence", steps))
    for step in steps:
        workflow.then(step)
    return workflow.commit()


def parallel(*steps: Any, keep: Any, id: str | None = None) -> Workflow:  # noqa: A002  (the spec's name)
    """Processors side by side, each on a copy of its own; an abort of one stops all.

    Args:
        *steps: Processors, steps or workflows.
        keep: The one of them whose changes count; ``None`` when all of them only judge.
        id: Id of the workflow; made of theirs otherwise.

    Raises:
        ConfigurationError: ``keep`` is none of them.
    """
    if keep is not None and not any(step is keep for step in steps):
        raise ConfigurationError(f"parallel() cannot keep {keep!r}, which is not one of its steps; give one, or None")
    workflow = create_workflow(id or _named("parallel", steps)).parallel(steps)
    return workflow.map(_selecting(keep)).commit()


def when(condition: Condition, step: Any, *, id: str | None = None) -> Workflow:  # noqa: A002  (the spec's name)
    """A processor that only runs where ``condition`` holds, asked anew in every phase and for every chunk.

    Args:
        condition: A function of the ``ProcessorStepData``, sync or async.
        step: A processor, a step or a workflow.
        id: Id of the workflow; made of the step's otherwise.
    """
    if not callable(condition):
        raise TypeError(f"when() takes a condition, which is a function of the step data, not {condition!r}")
    return create_workflow(id or _named("when", (step,))).branch([(condition, step)]).commit()


def _selecting(keep: Any) -> MapFunction:
    if keep is None:
        return lambda args: {}
    step_id = keep.id if isinstance(keep, (Workflow, Step)) else create_step(keep).id
    return lambda args: args.input_data[step_id]


def _named(form: str, steps: tuple[Any, ...]) -> str:
    return f"{form}({', '.join(str(getattr(step, 'id', step)) for step in steps)})"
