"""Where suspended runs wait (R12.37)."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from interlock.errors import RunNotFoundError, RunStateError


class RunStore(Protocol):
    """Keeps the states of suspended runs, as the JSON data of ``RunState.to_dict``."""

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        """Keep the state of a run that is suspended, also again."""
        ...

    async def load(self, run_id: str) -> dict[str, Any]:
        """Read a state without taking it.

        Raises:
            RunNotFoundError: no run of that id was ever suspended here.
            RunStateError: the run was resumed already.
        """
        ...

    async def take(self, run_id: str) -> dict[str, Any]:
        """Take the state away, so that nobody else can resume the run; atomic.

        Raises:
            RunNotFoundError: no run of that id was ever suspended here.
            RunStateError: the run was resumed already.
        """
        ...


class InMemoryRunStore:
    """Keeps suspended runs in this process; what a new agent has."""

    def __init__(self) -> None:
        self._states: dict[str, bytes | None] = {}

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        """Keep the state, as JSON text: nothing in it is shared with the run."""
        self._states[run_id] = msgspec.json.encode(state)

    async def load(self, run_id: str) -> dict[str, Any]:
        """Read a state without taking it."""
        if run_id not in self._states:
            raise RunNotFoundError(f"no suspended run has the id {run_id!r}")
        data = self._states[run_id]
        if data is None:
            raise RunStateError(f"run {run_id!r} was resumed already")
        state: dict[str, Any] = msgspec.json.decode(data)
        return state

    async def take(self, run_id: str) -> dict[str, Any]:
        """Take the state away."""
        state = await self.load(run_id)
        self._states[run_id] = None
        return state
