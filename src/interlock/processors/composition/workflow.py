"""Workflows of processors: how they are put together, and how one takes its place in a processor array (R16.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NoReturn, Self

import msgspec

from interlock.errors import ConfigurationError
from interlock.processors.args import HookArgs, MessageHookArgs
from interlock.processors.base import FLUSH_HOOK
from interlock.processors.binding import Binder, Binding, Composite, check_processor
from interlock.processors.bound import BoundProcessor, WorkflowStep, implements
from interlock.processors.composition.mapping import BoundMap
from interlock.processors.composition.plan import (
    BoundFork,
    BoundLeaf,
    BoundMapStep,
    BoundSequence,
    BoundStep,
    Condition,
    Node,
)
from interlock.processors.composition.step_data import PHASE_HOOKS, MapArgs
from interlock.processors.hooks import INPUT, INPUT_STEP, OUTPUT_RESULT, OUTPUT_STEP, TOOL_RESULT, Hook
from interlock.processors.stream import HOOK as STREAM_HOOK

MapFunction = Callable[[MapArgs], Any]

_HOOKS = (INPUT, INPUT_STEP, OUTPUT_STEP, TOOL_RESULT, OUTPUT_RESULT)
_STREAM_HOOKS = (STREAM_HOOK, FLUSH_HOOK)
_NOT_CALLED = ("process_llm_request", "process_llm_response", "process_api_error")
"""Hooks that no phase of a workflow runs (R16.3)."""


class Step:
    """A processor as a step of a workflow; see ``create_step``."""

    __slots__ = ("id", "processor")

    def __init__(self, processor: Any) -> None:
        check_processor(processor, "a workflow")
        self.id = f"processor:{processor.id}"
        self.processor = processor

    def __repr__(self) -> str:
        return f"Step({self.id!r})"


class Workflow(Composite):
    """Processors that run in sequence, side by side or under conditions; made by ``create_workflow``.

    Once committed it is a processor: it may stand anywhere in ``input_processors`` and ``output_processors``, and in
    other workflows. It has the hooks that its processors have, but for ``process_llm_request``,
    ``process_llm_response`` and ``process_api_error``, which are not called (R16.3). Its processors keep their own ids,
    states and spans, and an abort is theirs.

    It runs before the memory loaders (``stage``) if all of its processors want that.
    """

    def __init__(self, id: str) -> None:  # noqa: A002  (the spec's name)
        if not isinstance(id, str) or not id:
            raise ConfigurationError(f"a workflow needs an id, a non-empty string; got {id!r}")
        self.id = id
        self.is_committed = False
        self._elements: list[_Element] = []

    def then(self, step: Any) -> Self:
        """Run a processor, a step or another workflow on what the step before left (R16.4)."""
        return self._append(_as_step(step, self.id))

    def parallel(self, steps: Sequence[Any]) -> Self:
        """Run several side by side, each on its own fork of the messages; ``.map`` must follow (R16.5, R16.6)."""
        if not isinstance(steps, (list, tuple)):
            raise TypeError(f"parallel() takes a list of processors, not {steps!r}")
        return self._fork([_as_step(step, self.id) for step in steps], None)

    def branch(self, cases: Sequence[tuple[Condition, Any]]) -> Self:
        """Run those whose condition holds for the step data (R16.8).

        Args:
            cases: Pairs of a condition, a function of the ``ProcessorStepData``, sync or async, and what it is for. If
                several may hold at once, ``.map`` must follow.
        """
        if not isinstance(cases, (list, tuple)):
            raise TypeError(f"branch() takes a list of pairs (condition, processor), not {cases!r}")
        for case in cases:
            if not isinstance(case, (tuple, list)) or len(case) != 2 or not callable(case[0]):
                raise TypeError(f"branch() takes pairs (condition, processor), not {case!r}")
        return self._fork([_as_step(step, self.id) for _, step in cases], [condition for condition, _ in cases])

    def map(self, function: MapFunction) -> Self:
        """Select or make the data for the next step (R16.7).

        Args:
            function: Gets ``MapArgs``, sync or async, and returns a ``ProcessorStepData`` or a mapping of its fields.
                What is left out stays as it is, and so does what the hook of the phase cannot change.
        """
        if not callable(function):
            raise TypeError(f"map() takes a function of MapArgs, not {function!r}")
        self._check_open()
        last = self._elements[-1] if self._elements else None
        if isinstance(last, _Fork) and last.map is None:
            last.map = function
            return self
        return self._append(_Map(function))

    def commit(self) -> Self:
        """Declare it complete; from here on it can be used, and not changed."""
        self._check_open()
        processors = self.processors
        if not processors:
            raise ConfigurationError(f"workflow {self.id!r} has no processor: add one with .then(processor)")
        self.is_committed = True
        self.process_data_parts = any(getattr(one, "process_data_parts", False) for one in processors)
        if all(getattr(one, "stage", None) == "pre_memory" for one in processors):
            self.stage = "pre_memory"
        for hook in (*PHASE_HOOKS, FLUSH_HOOK):
            if any(implements(one, hook) for one in processors):
                setattr(self, hook, self._cannot_be_called)
        return self

    @property
    def processors(self) -> list[Any]:
        """All processors in it, depth first."""
        return [one for element in self._elements for one in _processors(element)]

    def check_place(self, array: str) -> None:
        """Raise ``ConfigurationError`` if it cannot stand in this array or workflow (R16.1)."""
        if array == "error_processors":
            raise ConfigurationError(
                f"workflow {self.id!r} cannot stand in error_processors, since process_api_error is not called in "
                "workflows; put its error processors there themselves"
            )
        if not self.is_committed:
            raise ConfigurationError(f"workflow {self.id!r} in {array} is not complete: call .commit() on it")

    def bind(self, binder: Binder, index: int) -> Binding:
        """Bind its processors, numbered in its own order (R16.10)."""
        self.processor_index = index
        for processor in self.processors:
            for hook in _NOT_CALLED:
                if implements(processor, hook):
                    binder.warn(
                        f"processor {processor.id!r} has {hook}, which is not called in a workflow; "
                        f"take it out of workflow {self.id!r} (R16.3)"
                    )
        sequence = _Assembly(binder, index).sequence(self, in_chain=True)
        hooks = {
            hook.name: BoundProcessor(self, hook.name, index, self.id, call=partial(_run, hook, sequence))
            for hook in _HOOKS
            if sequence.has(hook.name)
        }
        for bound in hooks.values():
            binder.locate(bound)
        has_place = any(sequence.has(hook) for hook in _STREAM_HOOKS)
        return Binding(hooks, sequence if has_place else None)

    def _fork(self, steps: list[Step | Workflow], conditions: list[Condition] | None) -> Self:
        ids = [step.id for step in steps]
        if not steps:
            raise ConfigurationError(f"workflow {self.id!r} has a step without any branch")
        if len(set(ids)) < len(ids):
            raise ConfigurationError(f"the branches of a step need different ids; workflow {self.id!r} has {ids}")
        return self._append(_Fork(steps, conditions))

    def _append(self, element: _Element) -> Self:
        self._check_open()
        self._elements.append(element)
        return self

    def _check_open(self) -> None:
        if self.is_committed:
            raise ConfigurationError(f"workflow {self.id!r} is committed and cannot be changed any more")

    def _cannot_be_called(self, args: HookArgs) -> NoReturn:
        raise TypeError(f"workflow {self.id!r} is run by the agent that has it among its processors; do not call it")

    def __repr__(self) -> str:
        return f"Workflow(id={self.id!r}, processors={[one.id for one in self.processors]})"


class _Fork(msgspec.Struct):
    """A parallel, or with conditions a branch, and the map that follows it."""

    steps: list[Any]
    conditions: list[Condition] | None
    map: MapFunction | None = None


class _Map(msgspec.Struct):
    """A map that follows something else."""

    function: MapFunction


_Element = Step | Workflow | _Fork | _Map


def _processors(element: _Element) -> Iterator[Any]:
    if isinstance(element, Step):
        yield element.processor
    elif isinstance(element, Workflow):
        yield from element.processors
    elif isinstance(element, _Fork):
        for step in element.steps:
            yield from _processors(step)


def _as_step(value: Any, workflow_id: str) -> Step | Workflow:
    if isinstance(value, Step):
        return value
    if isinstance(value, Workflow):
        value.check_place(f"workflow {workflow_id!r}")
        return value
    return Step(value)


async def _run(hook: Hook, sequence: BoundSequence, args: MessageHookArgs) -> None:
    await sequence.run(hook, args._scope, args._stage)


class _Assembly:
    """Binds a workflow to one array, and numbers its processors (R16.10).

    ``in_chain`` says whether what is bound gets links of its own in the chain of the array, which ``open`` of the bound
    step then makes; each is counted where it will be.
    """

    def __init__(self, binder: Binder, index: int) -> None:
        self._binder = binder
        self._index = index
        self._numbers = count()

    def sequence(self, workflow: Workflow, *, in_chain: bool) -> BoundSequence:
        """Bind the steps of a workflow."""
        elements = workflow._elements
        in_chain = in_chain and self._streams(workflow)
        step_ids = [step_id for element in elements for step_id in _step_ids(element)]
        has_map = any(isinstance(element, _Map) or (isinstance(element, _Fork) and element.map) for element in elements)
        is_marked = in_chain and has_map
        steps: list[BoundStep] = []
        if is_marked:
            self._binder.count_link()
        for element in elements:
            steps.append(self._element(element, workflow, step_ids, in_chain=in_chain))
            if is_marked:
                self._binder.count_link()
        return BoundSequence(self._node(workflow, workflow.id), steps, has_map=has_map)

    def _element(self, element: _Element, workflow: Workflow, step_ids: list[str], *, in_chain: bool) -> BoundStep:
        if isinstance(element, _Fork):
            return self._fork(element, workflow, step_ids, in_chain=in_chain)
        if isinstance(element, _Map):
            if in_chain:
                self._binder.count_link()
            node = self._node(workflow, "map")
            return BoundMapStep(node, BoundMap(element.function, node.step, step_ids))
        return self._step(element, workflow, in_chain=in_chain)

    def _step(self, step: Step | Workflow, workflow: Workflow, *, in_chain: bool) -> BoundStep:
        if isinstance(step, Workflow):
            return self.sequence(step, in_chain=in_chain)
        where = WorkflowStep(workflow.id, step.id)
        binding = self._binder.bind(step.processor, next(self._numbers), where, has_link=in_chain)
        return BoundLeaf(step.id, binding.hooks, binding.place)

    def _fork(self, fork: _Fork, workflow: Workflow, step_ids: list[str], *, in_chain: bool) -> BoundFork:
        kind = "parallel" if fork.conditions is None else "branch"
        node = self._node(workflow, f"{kind}({', '.join(step.id for step in fork.steps)})")
        if in_chain and (fork.conditions is None or fork.map is not None or self._streams(fork)):
            self._binder.count_link()
        branches = [self._step(step, workflow, in_chain=False) for step in fork.steps]
        mapping = None if fork.map is None else BoundMap(fork.map, WorkflowStep(workflow.id, "map"), step_ids)
        return BoundFork(node, branches, fork.conditions, mapping)

    def _node(self, workflow: Workflow, step_id: str) -> Node:
        return Node(workflow, self._index, step_id)

    def _streams(self, element: _Element) -> bool:
        return self._binder.kind == "output" and any(
            implements(processor, hook) for processor in _processors(element) for hook in _STREAM_HOOKS
        )


def _step_ids(element: _Element) -> list[str]:
    if isinstance(element, _Fork):
        return [step.id for step in element.steps]
    return [] if isinstance(element, _Map) else [element.id]


def create_workflow(id: str) -> Workflow:  # noqa: A002  (the spec's name)
    """An empty workflow, to be filled and committed (R16.1).

    ``create_workflow("guards").then(a).parallel([b, c]).map(lambda m: m.input_data["processor:b"]).commit()``

    Args:
        id: Its id; named in errors.

    Raises:
        ConfigurationError: the id is no string, or empty.
    """
    return Workflow(id)


def create_step(processor: Any) -> Step:
    """A processor as a step with the id ``processor:<id of the processor>``; what ``.then`` does by itself (R16.1).

    Raises:
        ConfigurationError: it cannot be a processor, or it is a workflow, which is a step already.
    """
    if isinstance(processor, Workflow):
        raise ConfigurationError(f"workflow {processor.id!r} is a step as it is; give it to .then() directly")
    return Step(processor)
