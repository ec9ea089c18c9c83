"""What travels with a run beside its messages: the request context and the cancellation signal (R14, R12.28)."""

from __future__ import annotations

import asyncio
import logging
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


class AbortSignal:
    """Cancels a run from outside: pass it as ``abort_signal`` and call ``abort()`` (R12.28).

    It may be set from any task of the run's event loop, or before the run starts. From another thread use
    ``loop.call_soon_threadsafe(signal.abort)``.
    """

    __slots__ = ("_callbacks", "_event", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        """Whether ``abort()`` was called."""
        self.reason: Any = None
        """What was given to ``abort()``."""
        self._callbacks: list[Callable[[], None]] = []
        self._event: asyncio.Event | None = None

    def abort(self, reason: Any = None) -> None:
        """Set the signal. Only the first call counts."""
        if self.aborted:
            return
        self.aborted = True
        self.reason = reason
        if self._event is not None:
            self._event.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # A listener of one run must not keep the others from hearing of the cancellation.
                _log.exception("a listener of an abort signal failed")

    async def wait(self) -> None:
        """Return when the signal is set."""
        if self.aborted:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the signal is set; at once if it is."""
        if self.aborted:
            callback()
        else:
            self._callbacks.append(callback)

    def remove_callback(self, callback: Callable[[], None]) -> None:
        """Forget ``callback``; unknown ones are ignored."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def __repr__(self) -> str:
        return f"AbortSignal(aborted={self.aborted}, reason={self.reason!r})"
