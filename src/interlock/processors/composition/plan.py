"""A workflow bound to the array that holds it: one object a step, which runs every phase (R16.2, R16.4 to R16.8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from interlock.processors.args import MessageHookArgs
from interlock.processors.base import FLUSH_HOOK
from interlock.processors.bound import BoundProcessor, WorkflowStep
from interlock.processors.composition.branch_scope import BranchScope, branch_scopes, run_branches
from interlock.processors.composition.chunk_flow import BranchedChunks, ChunkMark, MappedChunks
from interlock.processors.composition.mapping import BoundMap, Fork, Trail, invalid_output
from interlock.processors.composition.step_data import ProcessorStepData, hook_result
from interlock.processors.hooks import Hook
from interlock.processors.pipeline import run_hook
from interlock.processors.scope import RunScope
from interlock.processors.stream import HOOK as STREAM_HOOK
from interlock.processors.stream import Link, Place

Condition = Callable[[ProcessorStepData], Any]


class BoundStep(ABC):
    """One step of a bound workflow."""

    id: str

    @abstractmethod
    def has(self, hook: str) -> bool:
        """Whether a processor in it implements the hook."""

    @abstractmethod
    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""

    @abstractmethod
    async def run(self, hook: Hook, scope: RunScope, stage: Any, trail: Trail | None) -> None:
        """Do what it does in any phase but the stream."""

    @abstractmethod
    def open(self, scope: RunScope, trail: Trail | None) -> list[Link]:
        """Its links in the stream chain of one run."""


class BoundLeaf(BoundStep):
    """A step that is one processor."""

    def __init__(self, step_id: str, hooks: dict[str, BoundProcessor], place: Place | None) -> None:
        self.id = step_id
        self._hooks = hooks
        self._place = place

    def has(self, hook: str) -> bool:
        """Whether a processor in it implements the hook."""
        return hook in self._hooks

    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""
        return hook in self._hooks and self._hooks[hook].is_async

    async def run(self, hook: Hook, scope: RunScope, stage: Any, trail: Trail | None) -> None:
        """Run it in any phase but the stream."""
        bound = self._hooks.get(hook.name)
        if bound is not None:
            await run_hook(hook, (bound,), scope, stage)

    def open(self, scope: RunScope, trail: Trail | None) -> list[Link]:
        """Its links in the stream chain of one run."""
        return [] if self._place is None else self._place.open(scope)


class Node:
    """Who runs what is no processor: the workflow, at one of its steps."""

    __slots__ = ("index", "step", "workflow")

    def __init__(self, workflow: Any, index: int, step_id: str) -> None:
        self.workflow = workflow
        self.index = index
        self.step = WorkflowStep(workflow.id, step_id)

    def bound(self, hook: str, call: Callable[..., Any]) -> BoundProcessor:
        """``call`` as a hook of the workflow."""
        return BoundProcessor(self.workflow, hook, self.index, self.workflow.id, step=self.step, call=call)


class BoundMapStep(BoundStep):
    """A map that follows neither a parallel nor a branch."""

    def __init__(self, node: Node, mapping: BoundMap) -> None:
        self.id = node.step.step_id
        self._node = node
        self._map = mapping

    def has(self, hook: str) -> bool:
        """Whether a processor in it implements the hook."""
        return False

    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""
        return self._map.is_async

    async def run(self, hook: Hook, scope: RunScope, stage: Any, trail: Trail | None) -> None:
        """Run it in any phase but the stream."""
        assert trail is not None
        call = partial(self._map_data, hook, trail)
        await run_hook(hook, (self._node.bound(hook.name, call),), scope, stage)

    async def _map_data(self, hook: Hook, trail: Trail, args: MessageHookArgs) -> Any:
        data = _read(hook, args)
        return hook_result(data.phase, await self._map.ask(data, data, trail, args), args)

    def open(self, scope: RunScope, trail: Trail | None) -> list[Link]:
        """Its links in the stream chain of one run."""
        assert trail is not None
        return [Link(self._node.bound(STREAM_HOOK, MappedChunks(self._map, trail).process), None, scope)]


class BoundFork(BoundStep):
    """A parallel or a branch, with the map that follows it.

    Args:
        node: Names it in errors.
        branches: What may run.
        conditions: One for each branch; ``None`` for a parallel, where all run.
        mapping: The map that follows. With one, each branch works on a fork of the message list.
    """

    def __init__(
        self,
        node: Node,
        branches: Sequence[BoundStep],
        conditions: Sequence[Condition] | None,
        mapping: BoundMap | None,
    ) -> None:
        self.id = node.step.step_id
        self.branches = branches
        self.map = mapping
        self.is_parallel = conditions is None
        self._node = node
        self._cases = None if conditions is None else list(zip(branches, conditions, strict=True))

    def has(self, hook: str) -> bool:
        """Whether a processor in it implements the hook."""
        return any(branch.has(hook) for branch in self.branches)

    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""
        return True

    def is_idle(self, hook: str) -> bool:
        """Whether nothing can come of it in this hook: no branch has it, and neither a map nor an error follows."""
        return not self.is_parallel and self.map is None and not self.has(hook)

    async def run(self, hook: Hook, scope: RunScope, stage: Any, trail: Trail | None) -> None:
        """Run it in any phase but the stream."""
        if not self.is_idle(hook.name):
            call = partial(self._run_branches, hook, trail)
            await run_hook(hook, (self._node.bound(hook.name, call),), scope, stage)

    async def _run_branches(self, hook: Hook, trail: Trail | None, args: MessageHookArgs) -> Any:
        data = _read(hook, args)
        chosen = self.choose(data, hook.name)
        if not isinstance(chosen, list):
            chosen = await chosen
        if self.map is None or trail is None:
            for branch in chosen:
                await branch.run(hook, args._scope, args._stage, None)
            return None
        outputs = {branch.id: data for branch in chosen}
        working = [branch for branch in chosen if branch.has(hook.name)]
        scopes = branch_scopes(args._scope, len(working))
        forks = [_fork(scope, args._stage) for scope in scopes]

        async def work(branch: BoundStep, fork: Fork) -> None:
            scope = fork.scope.as_scope
            await branch.run(hook, scope, fork.stage, None)
            outputs[branch.id] = ProcessorStepData.read(hook.args_of(scope, args._bound, fork.stage))
            trail.keep_fork(fork)

        at_once = self.is_parallel and any(branch.is_async(hook.name) for branch in working)
        try:
            all_work = [partial(work, branch, fork) for branch, fork in zip(working, forks, strict=True)]
            await run_branches(args._scope, scopes, all_work, at_once=at_once)
            trail.results.update(outputs)
            fields = await self.map.ask(outputs if chosen else data, data, trail, args)
        finally:
            for scope in scopes:
                scope.end()
        return hook_result(data.phase, fields, args)

    def choose(self, data: ProcessorStepData, hook: str) -> list[BoundStep] | Awaitable[list[BoundStep]]:
        """The branches that run; to be awaited if a condition has to wait (R16.8).

        Raises:
            ProcessorWorkflowError: there is more than one result, and no map that makes one of it (R16.5, R16.8).
        """
        if self._cases is None:
            return self._checked([*self.branches], hook)
        chosen: list[BoundStep] = []
        cases = iter(self._cases)
        for branch, condition in cases:
            verdict = condition(data)
            if verdict.__class__ is not bool and hasattr(verdict, "__await__"):
                return self._choose_on(chosen, branch, verdict, cases, data, hook)
            if verdict:
                chosen.append(branch)
        return self._checked(chosen, hook)

    async def _choose_on(
        self,
        chosen: list[BoundStep],
        branch: BoundStep,
        verdict: Any,
        cases: Iterator[tuple[BoundStep, Condition]],
        data: ProcessorStepData,
        hook: str,
    ) -> list[BoundStep]:
        """Go on choosing at a condition that has to wait."""
        if await verdict:
            chosen.append(branch)
        for branch, condition in cases:
            verdict = condition(data)
            if await verdict if hasattr(verdict, "__await__") else verdict:
                chosen.append(branch)
        return self._checked(chosen, hook)

    def _checked(self, chosen: list[BoundStep], hook: str) -> list[BoundStep]:
        if self.map is None and (self.is_parallel or len(chosen) > 1):
            raise invalid_output(
                self._node.step,
                hook,
                f"has the results of {', '.join(repr(branch.id) for branch in chosen)}; "
                "follow it by .map(…), which selects or makes one",
            )
        return chosen

    def open(self, scope: RunScope, trail: Trail | None) -> list[Link]:
        """Its links in the stream chain of one run."""
        if self.is_idle(STREAM_HOOK) and not self.has(FLUSH_HOOK):
            return []
        chunks = BranchedChunks(self, scope, trail)
        flush = self._node.bound(FLUSH_HOOK, chunks.flush) if self.has(FLUSH_HOOK) else None
        process = chunks.route if self.map is None or trail is None else chunks.process
        return [Link(self._node.bound(STREAM_HOOK, process), flush, scope)]


class BoundSequence(BoundStep):
    """The steps of one workflow.

    Args:
        node: The workflow itself.
        steps: Its steps.
        has_map: Whether something asks for what it began with and what its steps made.
    """

    def __init__(self, node: Node, steps: Sequence[BoundStep], *, has_map: bool) -> None:
        self.id: str = node.workflow.id
        self._node = node
        self._steps = steps
        self._has_map = has_map

    def has(self, hook: str) -> bool:
        """Whether a processor in it implements the hook."""
        return any(step.has(hook) for step in self._steps)

    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""
        return any(step.is_async(hook) for step in self._steps)

    async def run(self, hook: Hook, scope: RunScope, stage: Any, trail: Trail | None = None) -> None:
        """Run its steps, each on what the one before it left; it leaves a trail of its own, not in ``trail``."""
        if not self.has(hook.name):
            return
        own = Trail() if self._has_map else None
        if own is not None:
            own.begin(self._data(hook, scope, stage))
        for step in self._steps:
            await step.run(hook, scope, stage, own)
            if scope.is_aborted and hook.ends_on_abort:
                return
            if own is not None:
                own.results[step.id] = self._data(hook, scope, stage)

    def open(self, scope: RunScope, trail: Trail | None = None) -> list[Link]:
        """The links of its steps, as if they stood in the array themselves."""
        if not self.has(STREAM_HOOK) and not self.has(FLUSH_HOOK):
            return []
        if not self._has_map:
            return [link for step in self._steps for link in step.open(scope, None)]
        own = Trail()
        links = [self._mark(own, None, scope)]
        for step in self._steps:
            links += [*step.open(scope, own), self._mark(own, step.id, scope)]
        return links

    def _mark(self, trail: Trail, step_id: str | None, scope: RunScope) -> Link:
        return Link(self._node.bound(STREAM_HOOK, ChunkMark(trail, step_id).process), None, scope)

    def _data(self, hook: Hook, scope: RunScope, stage: Any) -> ProcessorStepData:
        return ProcessorStepData.read(hook.args_of(scope, self._node.bound(hook.name, _nothing), stage))


def _nothing(args: MessageHookArgs) -> None:
    """Not called: the data is only read."""


def _read(hook: Hook, args: MessageHookArgs) -> ProcessorStepData:
    # Args of its own: those of the call must not have read the messages before a branch's changes are in the list.
    return ProcessorStepData.read(hook.args_of(args._scope, args._bound, args._stage))


def _fork(scope: BranchScope, stage: Any) -> Fork:
    return Fork(scope, None if stage is None else stage.fork(scope.data.message_list))
