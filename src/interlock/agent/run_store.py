"""Where stored runs wait (R12.37)."""

from __future__ import annotations

from typing import Any, Protocol

from interlock.agent.state import RunState
from interlock.agent.state_json import decode, encode
from interlock.errors import RunNotFoundError, RunStateError

_KEPT_MARKS = 10_000
"""How many runs that were resumed an in-memory store knows from runs that never were."""


class RunStore(Protocol):
    """Keeps the states of runs that are suspended or paused, as the JSON data of ``RunState.to_dict``.

    A run is stored, taken by whoever goes on with it, and either stored again or finished. ``take`` is what makes sure
    that it goes on once: of all who call it, in however many processes, one gets the state.
    """

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        """Keep the state of a run; it may be taken then, also if it was taken before. All of it is kept, or nothing.

        Raises:
            RunStateError: the state is no JSON.
            StorageError: it cannot be written.
        """
        ...

    async def load(self, run_id: str) -> dict[str, Any]:
        """Read a state without taking it.

        Raises:
            RunNotFoundError: no run of that id was ever stored here.
            RunStateError: the run was resumed already, or what is stored cannot be read.
            StorageError: the store cannot be read.
        """
        ...

    async def take(self, run_id: str) -> dict[str, Any]:
        """Take the state away, so that nobody else can go on with the run; atomic, also when it is cancelled.

        Raises:
            RunNotFoundError: no run of that id was ever stored here.
            RunStateError: the run was resumed already, or what is stored cannot be read; it stays then.
            StorageError: the store cannot be read.
        """
        ...

    async def finish(self, run_id: str) -> None:
        """A run that was taken has come to its end: its state is of no use, but that it was resumed is remembered.

        It is not called for a run that failed.
        """
        ...


class InMemoryRunStore:
    """Keeps stored runs in this process; what a new agent has."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}
        self._resumed: dict[str, None] = {}

    async def save(self, run_id: str, state: dict[str, Any]) -> None:
        """Keep the state, as JSON text: nothing in it is shared with the run."""
        self._states[run_id] = encode(state)
        self._resumed.pop(run_id, None)

    async def load(self, run_id: str) -> dict[str, Any]:
        """Read a state without taking it."""
        if run_id in self._resumed:
            raise already_resumed(run_id)
        if run_id not in self._states:
            raise not_found(run_id)
        state: dict[str, Any] = decode(self._states[run_id])
        return state

    async def take(self, run_id: str) -> dict[str, Any]:
        """Take the state away."""
        state = await self.load(run_id)
        del self._states[run_id]
        if len(self._resumed) >= _KEPT_MARKS:
            del self._resumed[next(iter(self._resumed))]
        self._resumed[run_id] = None
        return state

    async def finish(self, run_id: str) -> None:
        """Nothing is left to be thrown away."""


async def claim(store: RunStore, state: RunState) -> None:
    """Take the run out of the store, if it is there as ``state`` says.

    Raises:
        RunStateError: somebody else went on with it meanwhile.
    """
    taken = await store.take(state.run_id)
    if taken.get("suspensionId") == state.suspension_id:
        return
    # Somebody was quicker, and the run waits for others now: their decision is not this one.
    await store.save(state.run_id, taken)
    raise RunStateError(f"run {state.run_id!r} was resumed by somebody else meanwhile; see what it waits for now")


def not_found(run_id: str) -> RunNotFoundError:
    """The error for a run that was never stored."""
    return RunNotFoundError(f"no suspended run has the id {run_id!r}")


def already_resumed(run_id: str) -> RunStateError:
    """The error for a run that somebody took."""
    return RunStateError(f"run {run_id!r} was resumed already")
