"""Time limits of a run and of its provider calls (R17.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from interlock.processors.scope import RunScope

TOTAL_TIMEOUT = "total-timeout"
STEP_TIMEOUT = "step-timeout"


class Deadlines:
    """Interrupts the run when ``model_settings.timeout`` says so; costs nothing when it says nothing."""

    __slots__ = ("_scope", "_step", "_step_s", "_total")

    def __init__(self, scope: RunScope, settings: Mapping[str, Any]) -> None:
        limits = settings.get("timeout") or {}
        self._scope = scope
        self._step_s: float | None = _seconds(limits, "step_ms")
        self._step: asyncio.TimerHandle | None = None
        self._total = self._arm(_seconds(limits, "total_ms"), TOTAL_TIMEOUT)

    def begin_step(self) -> None:
        """Start the clock of a provider call."""
        self.end_step()
        self._step = self._arm(self._step_s, STEP_TIMEOUT)

    def end_step(self) -> None:
        """The provider call is over; hooks and tools have no limit of their own."""
        if self._step is not None:
            self._step.cancel()
            self._step = None

    def close(self) -> None:
        """Stop the clocks."""
        self.end_step()
        if self._total is not None:
            self._total.cancel()

    def _arm(self, seconds: float | None, reason: str) -> asyncio.TimerHandle | None:
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._scope.interrupt, reason)


def _seconds(limits: Mapping[str, Any], name: str) -> float | None:
    milliseconds = limits.get(name)
    return None if milliseconds is None else milliseconds / 1000


def check_timeout(timeout: Any) -> None:
    """Raise unless ``model_settings.timeout`` can be kept.

    Raises:
        ValueError: it is no mapping of ``total_ms`` and ``step_ms`` to positive numbers of milliseconds.
    """
    if timeout is None:
        return
    names = ("total_ms", "step_ms")
    if not isinstance(timeout, Mapping) or not set(timeout) <= set(names):
        raise ValueError(f"model_settings.timeout is {{'total_ms': …, 'step_ms': …}} in milliseconds, not {timeout!r}")
    for name, value in timeout.items():
        if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0):
            raise ValueError(f"model_settings.timeout.{name} must be a positive number of milliseconds, got {value!r}")
