"""The compiled pipeline: which processor implements which hook, and the one dispatcher that runs them (R1.1, R1.2).

A pipeline is built once for an agent, or once for a call that brings its own arrays. A hook that nobody implements is
an empty tuple and costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from interlock.errors import ProcessorReturnError, TripWire
from interlock.messages import MessageList
from interlock.processors.base import HOOKS_OF
from interlock.processors.binding import Binder, Warn
from interlock.processors.bound import BoundProcessor
from interlock.processors.hooks import Hook
from interlock.processors.observe import HookEvent, begin, notify
from interlock.processors.results import InvalidResultError
from interlock.processors.scope import RunScope, hook_failure
from interlock.processors.stream import Place, StreamChain

_log = logging.getLogger("interlock")


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

    __slots__ = ("_places", "by_hook", "error", "input", "output")

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
        self.by_hook: dict[str, tuple[BoundProcessor, ...]] = {}
        """Hook → the processors that implement it, in order; there is an entry for every hook."""
        self._places: list[Place] = []
        for kind, processors in (("input", self.input), ("output", self.output), ("error", self.error)):
            self._compile(kind, processors, warn)

    def _compile(self, kind: str, processors: Sequence[Any], warn: Warn) -> None:
        binder = Binder(kind, warn)
        bindings = [binder.bind_entry(processor, index) for index, processor in enumerate(processors)]
        binder.finish()
        for hook in HOOKS_OF[kind]:
            self.by_hook[hook] = tuple(binding.hooks[hook] for binding in bindings if hook in binding.hooks)
        self._places += [binding.place for binding in bindings if binding.place is not None]

    def extended(self, hook: str, extra: BoundProcessor) -> tuple[BoundProcessor, ...]:
        """The processors of the hook with one more; only those with ``auto_position="last"`` follow it (R1.6)."""
        known = self.by_hook[hook]
        last = [bound for bound in known if getattr(bound.processor, "auto_position", None) == "last"]
        return (*(bound for bound in known if bound not in last), extra, *last)

    def chain(self, scope: RunScope) -> StreamChain | None:
        """The stream hooks for one run; ``None`` when there are none."""
        if not self._places:
            return None
        return StreamChain([link for place in self._places for link in place.open(scope)], scope)

    def __repr__(self) -> str:
        return f"Pipeline(input={_ids(self.input)}, output={_ids(self.output)}, error={_ids(self.error)})"


async def run_hook(hook: Hook, processors: Sequence[BoundProcessor], scope: RunScope, stage: Any) -> None:
    """Run one hook of all its processors, in order, each seeing what the ones before it did.

    Raises:
        TripWire: a processor aborted; it is recorded on the scope.
        ProcessorError: a processor raised or returned something it may not return.
    """
    if scope.trip is not None or scope.failure is not None:
        # What a background task or a flush left behind takes effect before another hook runs (R6.3, R19.4).
        await scope.check()
    observer, message_list, make_args = scope.observer, scope.data.message_list, hook.args
    changes, staged, staged_at = message_list.changes, None, -1
    takes_list, stops = hook.takes_list, hook.stops
    unchanged = message_list if takes_list else None
    event: HookEvent | None = None
    revision = 0
    for bound in processors:
        if takes_list and changes.revision != staged_at:
            staged, staged_at = message_list.stage(make_args._stage_source), changes.revision
        # A workflow reads the messages when its branches are done.
        args = make_args(scope, bound, stage, message_list, staged if bound.is_observed else None)
        if observer is not None:
            event, revision = _begin(hook, bound, scope, args), changes.revision
        result = None
        try:
            result = bound.call(args)
            if bound.is_async or (result is not None and hasattr(result, "__await__")):
                result = await result
            if changes.is_exposed:
                message_list.forget_removed_texts()
            if result is not None and result is not unchanged and scope.trip is None:
                hook.apply(args, stage, result)
        except TripWire as tripwire:
            scope.record_trip(tripwire, bound.processor, hook.name)
        except Exception as error:
            if scope.is_aborted and hook.ends_on_abort:
                return  # R12.30: a hook that fails because of the cancellation is part of it
            if scope.trip is None and not _is_tolerated(hook, bound, error):
                if event is not None:
                    _end(event, scope, "failed", str(error))
                failure = _named(bound, hook, error)
                if failure is error:
                    raise
                raise failure from error
        if scope.trip is not None or scope.failure is not None:
            if event is not None and scope.trip is not None:
                event.retry = scope.trip.tripwire.retry
                _end(event, scope, "aborted", scope.trip.tripwire.reason)
            await scope.check()
        if event is not None:
            changed = revision != changes.revision or _says_something(result)
            _end(event, scope, "changed" if changed else "unchanged", "")
        if scope.is_aborted and hook.ends_on_abort:
            return
        if stops is not None and stops(stage):
            break
    if changes.is_exposed:
        message_list.refresh_mirrors()


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
    return hook_failure(bound.processor.id, hook.name, error, bound.step)


def _says_something(result: Any) -> bool:
    """Whether a result changes the run by itself; lists of messages show in the list's revision."""
    return result is not None and not isinstance(result, (MessageList, list, tuple)) and result != {}


def _begin(hook: Hook, bound: BoundProcessor, scope: RunScope, args: Any) -> HookEvent | None:
    observer = scope.observer
    if observer is None or not bound.is_observed:
        return None
    event = HookEvent(
        hook=hook.name,
        processor_id=bound.processor.id,
        processor_index=bound.index,
        executor=bound.executor,
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


def _ids(processors: Sequence[Any]) -> list[str]:
    return [processor.id for processor in processors]
