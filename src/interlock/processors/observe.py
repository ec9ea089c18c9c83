"""The seam for tracing: one event before and one after every hook call (section 15)."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import msgspec

_log = logging.getLogger("interlock")


class TracingContext(msgspec.Struct, kw_only=True):
    """Where a hook finds its own span; ``None`` while tracing is off (R15.6)."""

    current_span: Any = None


NO_TRACING = TracingContext()


class HookEvent(msgspec.Struct, kw_only=True):
    """One hook call of one processor, or for chunks one decision about a chunk."""

    hook: str
    processor_id: str
    processor_index: int
    executor: str = "direct"
    """``workflow`` for a processor inside of one (R15.2)."""
    run_id: str
    step_number: int
    retry_count: int
    outcome: str = ""
    """``""`` while it runs, then ``unchanged``, ``changed``, ``dropped``, ``aborted`` or ``failed``."""
    detail: str = ""
    """Reason of an abort or message of a failure; the chunk's type for chunks."""
    retry: bool = False
    """Whether an abort asked for another try."""


class Observer(Protocol):
    """Told of every hook call. An observer that fails never affects the run (R15.7)."""

    def hook_started(self, event: HookEvent) -> Any:
        """Before the call; the return value becomes ``tracing_context.current_span``."""
        ...

    def hook_ended(self, event: HookEvent) -> None:
        """After the call, with its outcome; the same object as before it."""
        ...


def notify(observer: Observer | None, event: HookEvent) -> None:
    """Tell the observer that a hook call ended; its own failure is logged (R15.7)."""
    if observer is None:
        return
    try:
        observer.hook_ended(event)
    except Exception:
        _log.warning("the observer %r failed", observer, exc_info=True)


def begin(observer: Observer, event: HookEvent) -> TracingContext:
    """Tell the observer that a hook call begins; the context that the hook gets (R15.6)."""
    try:
        return TracingContext(current_span=observer.hook_started(event))
    except Exception:
        _log.warning("the observer %r failed", observer, exc_info=True)
        return NO_TRACING


class Observers:
    """Several observers as one; the first one's span is the hook's."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def hook_started(self, event: HookEvent) -> Any:
        """Tell all; the first one's answer."""
        spans = [observer.hook_started(event) for observer in self._observers]
        return spans[0]

    def hook_ended(self, event: HookEvent) -> None:
        """Tell all."""
        for observer in self._observers:
            observer.hook_ended(event)
