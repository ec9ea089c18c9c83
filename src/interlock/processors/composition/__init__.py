"""Composed processors: several that stand in a processor array as one (runtime-spec section 16)."""

from interlock.processors.composition.short_forms import parallel, sequence, when
from interlock.processors.composition.step_data import MapArgs, ProcessorStepData
from interlock.processors.composition.workflow import Step, Workflow, create_step, create_workflow

__all__ = [
    "MapArgs",
    "ProcessorStepData",
    "Step",
    "Workflow",
    "create_step",
    "create_workflow",
    "parallel",
    "sequence",
    "when",
]
