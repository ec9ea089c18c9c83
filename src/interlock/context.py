"""What travels with a run beside its messages: the request context and the cancellation signal (R14, R12.28)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import msgspec

_log = logging.getLogger("interlock")

RESOURCE_KEY = "mastra__resourceId"
THREAD_KEY = "mastra__threadId"
MEMORY_KEY = "MastraMemory"


class RequestContext:
    """Values that belong to one request: tenant, user, locale, feature flags (R14.1).

    One live object is shared by the hooks, tools, function-valued options and callbacks of a run. It is never sent to a
    model and never stored, save for its JSON-safe part with a suspended run.

    Args:
        initial: Values to begin with; copied.
    """

    __slots__ = ("_values",)

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(initial) if initial else {}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set ``key``; everything later in the run sees it at once (R14.3)."""
        self._values[key] = value

    def has(self, key: str) -> bool:
        """Whether ``key`` is set."""
        return key in self._values

    def delete(self, key: str) -> bool:
        """Remove ``key``; whether it was set."""
        return self._values.pop(key, _MISSING) is not _MISSING

    def clear(self) -> None:
        """Remove every key."""
        self._values.clear()

    def keys(self) -> KeysView[str]:
        """The keys, live."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """The values, live."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """The pairs, live."""
        return self._values.items()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"RequestContext(keys={sorted(self._values)})"

    @property
    def thread_id(self) -> str | None:
        """The effective thread id of the run (R14.5)."""
        value: str | None = self._values.get(THREAD_KEY)
        return value if value is not None else (self._values.get(MEMORY_KEY) or {}).get("thread", {}).get("id")

    @property
    def resource_id(self) -> str | None:
        """The effective resource id of the run (R14.5)."""
        value: str | None = self._values.get(RESOURCE_KEY)
        return value if value is not None else (self._values.get(MEMORY_KEY) or {}).get("resourceId")

    def to_dict(self) -> dict[str, Any]:
        """The entries that JSON can hold; the others are left out."""
        return {key: value for key, value in self._values.items() if _is_json(value)}


_MISSING = object()


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
    return True


Listener = tuple[asyncio.AbstractEventLoop | None, Callable[[], None]]
"""What is to be called, and the loop in whose thread."""


class AbortSignal:
    """Cancels a run from outside: pass it as ``abort_signal`` and call ``abort()`` (R12.28).

    It may be set before the run starts, and from any task, thread or signal handler; one signal may serve several runs.
    """

    __slots__ = ("_listeners", "_lock", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        """Whether ``abort()`` was called."""
        self.reason: Any = None
        """What was given to ``abort()``."""
        self._listeners: list[Listener] = []
        # Reentrant, because a signal handler may abort while its own thread adds a listener.
        self._lock = threading.RLock()

    def abort(self, reason: Any = None) -> None:
        """Set the signal. Only the first call counts."""
        with self._lock:
            if self.aborted:
                return
            self.reason = reason
            self.aborted = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            _tell(*listener)

    async def wait(self) -> None:
        """Return when the signal is set."""
        event = asyncio.Event()
        self.add_callback(event.set)
        try:
            await event.wait()
        finally:
            self.remove_callback(event.set)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the signal is set; at once if it is.

        Added inside an event loop, it is called in that loop's thread, whoever sets the signal.
        """
        with self._lock:
            if not self.aborted:
                self._listeners.append((_running_loop(), callback))
                return
        callback()

    def remove_callback(self, callback: Callable[[], None]) -> None:
        """Forget ``callback``; unknown ones are ignored."""
        with self._lock:
            found = next((one for one in self._listeners if one[1] == callback), None)
            if found is not None:
                self._listeners.remove(found)

    def __repr__(self) -> str:
        return f"AbortSignal(aborted={self.aborted}, reason={self.reason!r})"


def _tell(loop: asyncio.AbstractEventLoop | None, callback: Callable[[], None]) -> None:
    """Call a listener, in its loop's thread."""
    if loop is not None and loop is not _running_loop():
        # A loop that was closed has nobody left who could hear of it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_tell, loop, callback)
        return
    try:
        callback()
    except Exception:
        # A listener of one run must not keep the others from hearing of the cancellation.
        _log.exception("a listener of an abort signal failed")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
