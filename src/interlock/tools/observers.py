"""Observers of a tool's calls: what they are told, and how they are called (R10.11, R10.17)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from interlock.context import AbortSignal

_log = logging.getLogger("interlock")


class ToolEvent(msgspec.Struct, kw_only=True):
    """Which call an observer is told about."""

    tool_name: str
    """The name that the model used."""
    tool_call_id: str
    abort_signal: AbortSignal | None = None


class InputStartEvent(ToolEvent, kw_only=True):
    """The arguments of a call begin to stream."""


class InputDeltaEvent(ToolEvent, kw_only=True):
    """A piece of the arguments, as JSON text."""

    delta: str


class InputAvailableEvent(ToolEvent, kw_only=True):
    """The arguments are complete, parsed and valid; the tool has not run yet. Once a call."""

    args: Any
    """The JSON arguments, as the model gave them."""


class OutputEvent(ToolEvent, kw_only=True):
    """The tool returned; ``output`` is the raw value, before any processor saw it."""

    output: Any


E = TypeVar("E", bound=ToolEvent)


async def notify(observer: Callable[[E], Any] | None, event: E) -> None:
    """Call ``observer``, if there is one, and await what it returns if that is awaitable.

    An exception in it is logged and does not affect the run (R12.27).
    """
    if observer is None:
        return
    try:
        outcome = observer(event)
        if inspect.isawaitable(outcome):
            await outcome
    except Exception:
        _log.exception("an observer of tool %r failed", event.tool_name)
