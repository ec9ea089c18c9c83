"""Parallels, branches and maps in the stream chain: what they do to each chunk of one run (R16.11).

A processor that is a step of its own has an ordinary link in the chain, as if the workflow were not there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

from interlock.chunks import Chunk
from interlock.messages import copy_data
from interlock.processors.args import FlushOutputStreamArgs, HookArgs, ProcessOutputStreamArgs
from interlock.processors.composition.branch_scope import BranchScope, branch_scopes, run_branches
from interlock.processors.composition.mapping import BoundMap, Fork, Trail
from interlock.processors.composition.step_data import ProcessorStepData
from interlock.processors.scope import RunScope
from interlock.processors.stream import HOOK, Link, StreamChain, as_list

_DISCARDING = ("cancel", "tripwire")
"""Reasons of a flush whose result is not used (R19.2)."""


class Branch(Protocol):
    """One branch of a parallel or a branch step."""

    @property
    def id(self) -> str:
        """Its step id."""
        ...

    def is_async(self, hook: str) -> bool:
        """Whether it may have to wait in this hook."""
        ...

    def open(self, scope: RunScope, trail: Trail | None) -> list[Link]:
        """Its links for one run."""
        ...


class Branched(Protocol):
    """A parallel or a branch step, as far as chunks need it."""

    @property
    def branches(self) -> Sequence[Branch]:
        """What may run."""
        ...

    @property
    def map(self) -> BoundMap | None:
        """The map that follows."""
        ...

    @property
    def is_parallel(self) -> bool:
        """Whether all branches run."""
        ...

    def choose(self, data: ProcessorStepData, hook: str) -> Sequence[Branch] | Awaitable[Sequence[Branch]]:
        """The branches that run; to be awaited if a condition has to wait."""
        ...


class ChunkMark:
    """Notes a chunk where a workflow begins or after one of its steps, for the maps behind it."""

    __slots__ = ("_step_id", "_trail")

    def __init__(self, trail: Trail, step_id: str | None) -> None:
        self._trail = trail
        self._step_id = step_id

    def process(self, args: ProcessOutputStreamArgs) -> Chunk:
        """Pass the chunk on as it is."""
        data = ProcessorStepData.of_chunk(args.part, args)
        if self._step_id is None:
            self._trail.begin(data)
        else:
            self._trail.results[self._step_id] = data
        return args.part


class MappedChunks:
    """A map that follows neither a parallel nor a branch."""

    __slots__ = ("_map", "_trail")

    def __init__(self, mapping: BoundMap, trail: Trail) -> None:
        self._map = mapping
        self._trail = trail

    async def process(self, args: ProcessOutputStreamArgs) -> Any:
        """What the map makes of the chunk."""
        data = ProcessorStepData.of_chunk(args.part, args)
        fields = await self._map.ask(data, data, self._trail, args)
        return fields.get("part", data.part)


class BranchedChunks:
    """A parallel or a branch step with the map that follows it.

    With a map, each branch gets a copy of the chunk, and a fork of the message list if it asks for the list. What a
    processor in a branch writes is next seen by the processors behind the step.
    """

    __slots__ = ("_chains", "_fork", "_from_cache", "_scopes", "_trail")

    def __init__(self, fork: Branched, scope: RunScope, trail: Trail | None) -> None:
        self._fork = fork
        self._trail = trail
        self._from_cache = False
        self._scopes: dict[str, BranchScope] = {}
        self._chains: dict[str, StreamChain] = {}
        for branch, branch_scope in zip(fork.branches, branch_scopes(scope, len(fork.branches)), strict=True):
            own = scope if fork.map is None else branch_scope.as_scope
            self._scopes[branch.id] = branch_scope
            self._chains[branch.id] = StreamChain(branch.open(own, None), own)

    def route(self, args: ProcessOutputStreamArgs) -> Any:
        """What the one branch whose condition holds makes of the chunk; there is no map. Awaited only if it waits."""
        chunk = args.part
        if args.from_cache is not self._from_cache:
            self._tell_chains(args.from_cache)
        chosen = self._fork.choose(ProcessorStepData.of_chunk(chunk, args), HOOK)
        if not isinstance(chosen, list):
            return self._route_later(chosen, chunk)
        return self._chains[chosen[0].id].process(chunk) if chosen else chunk

    async def _route_later(self, choosing: Any, chunk: Chunk) -> Any:
        chosen = await choosing
        return await self._chains[chosen[0].id].process(chunk) if chosen else chunk

    async def process(self, args: ProcessOutputStreamArgs) -> Any:
        """What the step and its map make of the chunk."""
        chunk = args.part
        if args.from_cache is not self._from_cache:
            self._tell_chains(args.from_cache)
        data = ProcessorStepData.of_chunk(chunk, args)
        chosen = self._fork.choose(data, HOOK)
        if not isinstance(chosen, Sequence):
            chosen = await chosen
        mapping, trail = self._fork.map, self._trail
        assert mapping is not None
        assert trail is not None
        outputs = {branch.id: data for branch in chosen}

        async def work(branch: Branch) -> None:
            part = await self._chains[branch.id].process(copy_data(chunk))
            outputs[branch.id] = self._output(branch, part, args, trail)

        at_once = self._fork.is_parallel and any(branch.is_async(HOOK) for branch in chosen)
        try:
            await self._run(chosen, work, args, at_once=at_once)
            trail.results.update(outputs)
            fields = await mapping.ask(outputs if chosen else data, data, trail, args)
        finally:
            self._end(chosen)
        return fields.get("part", chunk)

    async def flush(self, args: FlushOutputStreamArgs, reason: str) -> list[Chunk]:
        """What the branches held back: as the map wants it, or all of it if there is no map (R19.2).

        In a parallel the map sees the first released chunk of every branch, then the second, and so on.
        """
        released: dict[str, list[Chunk]] = {}

        async def work(branch: Branch) -> None:
            released[branch.id] = await self._chains[branch.id].flush(reason)

        mapping, trail = self._fork.map, self._trail
        if mapping is None or trail is None:
            for branch in self._fork.branches:
                await work(branch)
            return [chunk for chunks in released.values() for chunk in chunks]
        out: list[Chunk] = []
        try:
            await self._run(self._fork.branches, work, args, at_once=False)
            if reason in _DISCARDING:
                return []
            for parts in self._rows(released):
                outputs = {
                    branch.id: self._output(branch, parts[branch.id], args, trail)
                    for branch in self._fork.branches
                    if branch.id in parts
                }
                nothing = ProcessorStepData.of_chunk(None, args)
                out += as_list((await mapping.ask(outputs, nothing, trail, args)).get("part"))
        finally:
            self._end(self._fork.branches)
        return out

    def _rows(self, released: dict[str, list[Chunk]]) -> list[dict[str, Chunk | None]]:
        """The released chunks, grouped as the map is to see them."""
        if self._fork.is_parallel:
            return [dict(zip(released, row, strict=True)) for row in zip_longest(*released.values())]
        return [{step_id: chunk} for step_id, chunks in released.items() for chunk in chunks]

    async def _run(
        self,
        chosen: Sequence[Branch],
        work: Callable[[Branch], Coroutine[Any, Any, None]],
        args: HookArgs,
        *,
        at_once: bool,
    ) -> None:
        scopes = [self._scopes[branch.id] for branch in chosen]
        for scope in scopes:
            scope.begin()
        await run_branches(args._scope, scopes, [partial(work, branch) for branch in chosen], at_once=at_once)

    def _end(self, chosen: Sequence[Branch]) -> None:
        for branch in chosen:
            self._scopes[branch.id].end()

    def _output(
        self, branch: Branch, part: Chunk | list[Chunk] | None, args: HookArgs, trail: Trail
    ) -> ProcessorStepData:
        scope = self._scopes[branch.id]
        data = ProcessorStepData.of_chunk(part, ProcessOutputStreamArgs(scope.as_scope, args._bound))
        trail.keep_fork(Fork(scope, None))
        if scope.data.fork is not None:
            # A hook of the branch used the list: selecting the branch brings in what it did to it.
            data.message_list = scope.data.fork
        return data

    def _tell_chains(self, from_cache: bool) -> None:
        self._from_cache = from_cache
        for chain in self._chains.values():
            chain.set_from_cache(from_cache)
