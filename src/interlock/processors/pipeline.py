"""The compiled pipeline: which processor implements which hook, and the one dispatcher that runs them (R1.1, R1.2).

A pipeline is built once for an agent, or once for a call that brings its own arrays. A hook that nobody implements is an
empty tuple and costs nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from interlock.errors import ConfigurationError, ProcessorReturnError, TripWire
from interlock.processors.base import ALL_HOOKS, FLUSH_HOOK, HOOKS_OF
from interlock.processors.bound import BoundProcessor, implements
from interlock.processors.hooks import Hook
from interlock.processors.observe import HookEvent, begin, notify
from interlock.processors.results import InvalidResultError
from interlock.processors.scope import RunScope, hook_failure
from interlock.processors.stream import HOOK as STREAM_HOOK
from interlock.processors.stream import Link, StreamChain

_log = logging.getLogger("interlock")

Warn = Callable[[str], None]


class Pipeline:
    """The processors of one agent or call, by hook.

    Args:
        input: Effective input processors, in order.
        output: Effective output processors, in order.
        error: Effective error processors, in order.
        warn: Called with each warning about the configuration; the agent sees to it that each is logged once.

    Raises:
        ConfigurationError: an entry without an id or without any hook (R1.16).
    """

    __slots__ = ("_by_hook", "_chain", "error", "input", "output")

    def __init__(
        self,
        input: Sequence[Any] = (),  # noqa: A002  (the spec's word for the array)
        output: Sequence[Any] = (),
        error: Sequence[Any] = (),
        warn: Warn = _log.warning,
    ) -> None:
        self.input = tuple(input)
        self.output = tuple(output)
        self.error = tuple(error)
        self._by_hook: dict[str, tuple[BoundProcessor, ...]] = {}
        for kind, processors in (("input", self.input), ("output", self.output), ("error", self.error)):
            self._compile(kind, processors, warn)
        self._chain = self._pair_stream_hooks()

    def _compile(self, kind: str, processors: Sequence[Any], warn: Warn) -> None:
        hooks = HOOKS_OF[kind]
        bound: dict[str, list[BoundProcessor]] = {hook: [] for hook in hooks}
        keys = _state_keys(kind, processors, warn)
        for index, processor in enumerate(processors):
            found = [hook for hook in hooks if implements(processor, hook)]
            if not found:
                warn(f"processor {processor.id!r} has no hook of {kind}_processors and does nothing there (R1.16)")
            with contextlib.suppress(AttributeError, TypeError):
                processor.processor_index = index
            for hook in found:
                bound[hook].append(BoundProcessor(processor, hook, index, keys[index]))
        for hook, entries in bound.items():
            self._by_hook[hook] = tuple(entries)

    def _pair_stream_hooks(self) -> list[tuple[BoundProcessor | None, BoundProcessor | None]]:
        """Stream and flush hook of each output processor that has one, in order, with their places in the chain."""
        stream = {bound.index: bound for bound in self._by_hook[STREAM_HOOK]}
        flush = {bound.index: bound for bound in self._by_hook[FLUSH_HOOK]}
        indexes = sorted(stream.keys() | flush.keys())
        for hook in HOOKS_OF["output"]:
            for bound in self._by_hook[hook]:
                bound.downstream = sum(1 for index in indexes if index <= bound.index)
                bound.end = len(indexes)
        return [(stream.get(index), flush.get(index)) for index in indexes]

    def has(self, hook: str) -> bool:
        """Whether any processor implements the hook."""
        return bool(self._by_hook[hook])

    def get(self, hook: str) -> tuple[BoundProcessor, ...]:
        """The processors that implement the hook, in order."""
        return self._by_hook[hook]

    def extended(self, hook: str, extra: BoundProcessor) -> tuple[BoundProcessor, ...]:
        """The processors of the hook with one more; only those with ``auto_position="last"`` follow it (R1.6)."""
        known = self._by_hook[hook]
        last = [bound for bound in known if getattr(bound.processor, "auto_position", None) == "last"]
        return (*(bound for bound in known if bound not in last), extra, *last)

    def chain(self, scope: RunScope) -> StreamChain | None:
        """The stream hooks for one run; ``None`` when there are none."""
        if not self._chain:
            return None
        return StreamChain([Link(stream, flush, scope) for stream, flush in self._chain], scope)

    def __repr__(self) -> str:
        return f"Pipeline(input={_ids(self.input)}, output={_ids(self.output)}, error={_ids(self.error)})"


async def run_hook(hook: Hook, processors: Sequence[BoundProcessor], scope: RunScope, stage: Any) -> None:
    """Run one hook of all its processors, in order, each seeing what the ones before it did.

    Raises:
        TripWire: a processor aborted; it is recorded on the scope.
        ProcessorError: a processor raised or returned something it may not return.
    """
    for bound in processors:
        args = hook.args(scope, bound, stage)
        event = None if scope.observer is None else _begin(hook, bound, scope, args)
        result = None
        try:
            result = bound.call(args)
            if bound.is_async or (result is not None and hasattr(result, "__await__")):
                result = await result
            if result is not None and scope.trip is None:
                hook.apply(args, stage, result)
        except TripWire as tripwire:
            scope.record_trip(tripwire, bound.processor, hook.name)
        except Exception as error:
            if scope.is_aborted:
                return  # R12.30: a hook that fails because of the cancellation is part of it
            if scope.trip is None and not _is_tolerated(hook, bound, error):
                if event is not None:
                    _end(event, scope, "failed", str(error))
                raise _named(bound, hook, error) from error
        if scope.trip is not None or scope.failure is not None:
            if event is not None and scope.trip is not None:
                event.retry = scope.trip.tripwire.retry
                _end(event, scope, "aborted", scope.trip.tripwire.reason)
            await scope.check()
        if event is not None:
            _end(event, scope, "unchanged" if result is None else "changed", "")
        if scope.is_aborted:
            return
        if hook.stops is not None and hook.stops(stage):
            return


def _is_tolerated(hook: Hook, bound: BoundProcessor, error: Exception) -> bool:
    if not hook.is_logged:
        return False
    _log.warning("processor %r failed in %s; the next one is asked", bound.processor.id, hook.name, exc_info=error)
    return True


def _named(bound: BoundProcessor, hook: Hook, error: Exception) -> Exception:
    if isinstance(error, InvalidResultError):
        return ProcessorReturnError(
            f"processor {bound.processor.id!r} returned something that {hook.name} does not allow: {error}",
            code=error.code,
            processor_id=bound.processor.id,
            hook=hook.name,
        )
    return hook_failure(bound.processor.id, hook.name, error)


def _begin(hook: Hook, bound: BoundProcessor, scope: RunScope, args: Any) -> HookEvent | None:
    observer = scope.observer
    if observer is None:
        return None
    event = HookEvent(
        hook=hook.name,
        processor_id=bound.processor.id,
        processor_index=bound.index,
        run_id=scope.data.run_id,
        step_number=scope.data.step_number,
        retry_count=scope.data.retry_count,
    )
    args.tracing_context = begin(observer, event)
    return event


def _end(event: HookEvent, scope: RunScope, outcome: str, detail: str) -> None:
    event.outcome = outcome
    event.detail = detail
    notify(scope.observer, event)


def _state_keys(kind: str, processors: Sequence[Any], warn: Warn) -> list[str]:
    """Each processor's state key: its id, or ``id#2`` … for further instances of that id in one array (R8.2)."""
    instances: dict[str, list[Any]] = {}
    keys: list[str] = []
    for processor in processors:
        check_processor(processor, kind)
        known = instances.setdefault(processor.id, [])
        place = next((i for i, other in enumerate(known) if other is processor), None)
        if place is None:
            place = len(known)
            known.append(processor)
            if place:
                warn(f"{kind}_processors holds several processors with id {processor.id!r}; each gets its own state")
        keys.append(processor.id if place == 0 else f"{processor.id}#{place + 1}")
    return keys


def check_processor(processor: Any, kind: str) -> None:
    """Raise if an entry of an array cannot be a processor.

    Raises:
        ConfigurationError: no non-empty string ``id``, or no hook at all (R1.16).
    """
    identifier = getattr(processor, "id", None)
    if isinstance(processor, type):
        raise ConfigurationError(
            f"{kind}_processors holds the class {processor.__name__}; put an instance there: {processor.__name__}()"
        )
    if not isinstance(identifier, str) or not identifier:
        raise ConfigurationError(
            f"{kind}_processors holds {processor!r}, which has no id; give it a non-empty string attribute 'id'"
        )
    if not any(implements(processor, hook) for hook in ALL_HOOKS):
        raise ConfigurationError(
            f"processor {identifier!r} in {kind}_processors has no hook; implement one of {', '.join(ALL_HOOKS)}"
        )


def _ids(processors: Sequence[Any]) -> list[str]:
    return [processor.id for processor in processors]
