"""What the agent asks of rooms further along; they implement these protocols, the agent never imports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from interlock.context import MEMORY_KEY, RESOURCE_KEY, THREAD_KEY, RequestContext
from interlock.errors import ConfigurationError


class MemoryCall(msgspec.Struct, kw_only=True):
    """Which thread a run remembers, and how: the ``memory`` option of the call, resolved (R13.1, R14.4)."""

    thread_id: str
    resource_id: str | None = None
    title: str | None = None
    """Title of the thread, if the run creates it."""
    metadata: dict[str, Any] | None = None
    """Metadata of the thread, if the run creates it."""
    options: dict[str, Any] = {}
    """Settings for this run, such as ``last_messages`` or ``read_only``; the memory knows which there are."""
    request_context: RequestContext


class Memory(Protocol):
    """A memory, as the agent uses it: a check before the run and processors around the user's.

    A run without a thread does not touch the memory. For one with a thread the agent calls ``prepare``, and puts the
    processors around the user's (R13.2), without those whose id the user's list of that side has too (R13.3).
    """

    async def prepare(self, call: MemoryCall) -> None:
        """Check the call before any hook runs.

        Raises:
            ThreadOwnershipError: the thread belongs to another resource (R13.1).
            ConfigurationError: an option is unknown or cannot work.
        """
        ...

    def input_processors(self, call: MemoryCall) -> Sequence[Any]:
        """The processors that run before the user's input processors, in order."""
        ...

    def output_processors(self, call: MemoryCall) -> Sequence[Any]:
        """The processors that run after the user's output processors, in order."""
        ...


def resolve_memory(option: Mapping[str, Any] | None, request_context: RequestContext) -> MemoryCall | None:
    """The ``memory`` option of a call as a ``MemoryCall``; ``None`` when the run has no thread (R13.1).

    The reserved keys of the request context override the option, and the effective values are written to its key
    ``MastraMemory``, where processors and tools find them (R14.4).

    Args:
        option: ``{"thread": id or {"id", "title"?, "metadata"?}, "resource": id, "options": {...}}``.
        request_context: The run's request context; changed.

    Raises:
        ConfigurationError: the option does not have that shape.
    """
    option = {} if option is None else option
    unknown = sorted(option.keys() - {"thread", "resource", "options"})
    if unknown:
        raise ConfigurationError(f"the memory option has thread, resource and options, but not {', '.join(unknown)}")
    thread = _thread(option.get("thread"))
    thread_id = _id(request_context.get(THREAD_KEY), f"request context key {THREAD_KEY!r}")
    if thread_id is not None and thread_id != thread.get("id"):
        # Title and metadata were meant for the thread that the option names.
        thread = {"id": thread_id}
    resource_id = _id(request_context.get(RESOURCE_KEY), f"request context key {RESOURCE_KEY!r}")
    resource_id = resource_id or _id(option.get("resource"), "memory.resource")
    options = dict(option.get("options") or {})
    _publish(request_context, thread, resource_id, options)
    if not thread:
        return None
    return MemoryCall(
        thread_id=thread["id"],
        resource_id=resource_id,
        title=thread.get("title"),
        metadata=thread.get("metadata"),
        options=options,
        request_context=request_context,
    )


def _thread(given: Any) -> dict[str, Any]:
    """``{"id", "title"?, "metadata"?}``; empty when there is no thread."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {"id": _id(given, "memory.thread")}
    if _id(given.get("id"), "memory.thread['id']") is None:
        raise ConfigurationError(f"memory.thread needs an 'id', which {dict(given)!r} does not have")
    return {key: given[key] for key in ("id", "title", "metadata") if given.get(key) is not None}


def _id(value: Any, owner: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigurationError(f"{owner} must be a non-empty string, got {value!r}")
    return value


def _publish(
    request_context: RequestContext, thread: dict[str, Any], resource_id: str | None, options: dict[str, Any]
) -> None:
    effective: dict[str, Any] = {"memoryConfig": options}
    if thread:
        effective["thread"] = thread
    if resource_id is not None:
        effective["resourceId"] = resource_id
    if len(effective) > 1:
        request_context.set(MEMORY_KEY, effective)
    else:
        # A context may be used for several runs; the thread of an earlier one must not leak into this one.
        request_context.delete(MEMORY_KEY)
