"""Time limits of a run and of its provider calls (R17.9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from interlock.processors.scope import RunScope

TOTAL_TIMEOUT = "total-timeout"
STEP_TIMEOUT = "step-timeout"


class Deadlines:
    """Interrupts the run when ``model_settings.timeout`` says so; costs nothing when it says nothing.

    Args:
        scope: The run's.
        settings: The run's model settings.
        used_ms: How much of the run's limit it has used up before it was suspended.
    """

    __slots__ = ("_began", "_scope", "_step", "_step_s", "_total", "_used_ms")

    def __init__(self, scope: RunScope, settings: Mapping[str, Any], used_ms: float = 0.0) -> None:
        limits = settings.get("timeout") or {}
        self._scope = scope
        self._used_ms = used_ms
        self._began = time.monotonic()
        self._step_s: float | None = _seconds(limits, "step_ms")
        self._step: asyncio.TimerHandle | None = None
        total_s = _seconds(limits, "total_ms")
        self._total = self._arm(None if total_s is None else max(0.0, total_s - used_ms / 1000), TOTAL_TIMEOUT)

    @property
    def used_ms(self) -> float:
        """How long the run has been at work; not how long it waited for somebody."""
        return self._used_ms + (time.monotonic() - self._began) * 1000

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
