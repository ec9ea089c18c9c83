"""One hook of one processor, looked up once and ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class WorkflowStep(NamedTuple):
    """Where in which workflow something runs (R16.9)."""

    workflow_id: str
    step_id: str


class BoundProcessor:
    """A processor's method for one hook, with what the dispatcher needs to know about it.

    Args:
        processor: The processor.
        hook: Name of the hook.
        index: Position in the effective list of its array, or in its workflow (R16.10).
        state_key: Id under which the state is kept; not the processor's id when two instances share one (R8.2).
        step: The workflow step that the call belongs to; ``None`` outside of workflows.
        call: What a workflow itself does in this hook, instead of the processor's method; observers are not told of it.
    """

    __slots__ = (
        "call",
        "downstream",
        "end",
        "hook",
        "index",
        "is_async",
        "is_observed",
        "processor",
        "state_key",
        "step",
    )

    def __init__(
        self,
        processor: Any,
        hook: str,
        index: int,
        state_key: str,
        *,
        step: WorkflowStep | None = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self.processor = processor
        self.hook = hook
        self.call: Callable[..., Any] = getattr(processor, hook) if call is None else call
        self.is_async = inspect.iscoroutinefunction(self.call)
        self.index = index
        self.state_key = state_key
        self.step = step
        self.is_observed = call is None
        self.downstream = 0
        """Position in the stream chain after this processor; 0 for one that is not in it."""
        self.end = 0
        """Length of the stream chain."""

    @property
    def executor(self) -> str:
        """Who runs the processor (R15.2)."""
        return "direct" if self.step is None else "workflow"

    def __repr__(self) -> str:
        return f"BoundProcessor({self.processor.id!r}, {self.hook!r})"


def implements(processor: Any, hook: str) -> bool:
    """Whether the processor has this hook; one set to ``None`` does not count (R0.3)."""
    return callable(getattr(processor, hook, None))
