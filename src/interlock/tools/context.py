"""What a running tool can reach: its call, the run, the stream, and the way to suspend (R9.13, R12.39)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

import msgspec

from interlock.chunks import DataChunk
from interlock.context import AbortSignal, RequestContext
from interlock.messages.parts import Message

_log = logging.getLogger("interlock")


class ToolWriter(Protocol):
    """Writes into the run's stream while a tool runs; the loop implements it."""

    async def custom(self, chunk: DataChunk | Mapping[str, Any], *, message_id: str | None = None) -> None:
        """Write a ``data-*`` chunk (R9.1); without ``transient`` it is kept in the response message (R9.4).

        Raises:
            ValueError: the chunk's type does not begin with ``data-``.
        """
        ...

    async def write(self, value: Any) -> None:
        """Write a nested chunk or a value as a ``tool-output`` chunk (R9.13)."""
        ...


class ToolSuspended(Exception):
    """Raised by ``ToolContext.suspend``: the call waits for data from outside (R12.39). Control flow, not an error."""

    def __init__(self, payload: Any) -> None:
        self.payload = payload
        """What the tool tells the one who is to resume it."""
        super().__init__("the tool suspended its call")


class ToolContext(msgspec.Struct, kw_only=True, eq=False):
    """Handed to a tool that asks for it, one for each execution of a call.

    Every field has a default, so that a tool can be tried without a run: ``await tool.run({...}, ToolContext())``.
    """

    tool_call_id: str = ""
    run_id: str = ""
    agent: Any = None
    """The running agent."""
    request_context: RequestContext = msgspec.field(default_factory=RequestContext)
    """The run's request context, live (R14.1)."""
    abort_signal: AbortSignal = msgspec.field(default_factory=AbortSignal)
    """Set when the run is cancelled; long tools should look at it (R12.28)."""
    writer: ToolWriter = msgspec.field(default_factory=lambda: _NoStream())
    resume_data: Any = None
    """What the suspended call was resumed with; ``None`` at the first execution (R12.39)."""
    get_messages: Callable[[], list[Message]] = list
    """Reads the conversation; use ``messages``."""
    suspension: ToolSuspended | None = None
    """Set by ``suspend``."""

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, this call's message included; a new list each time, with live elements."""
        return self.get_messages()

    def suspend(self, payload: Any = None) -> NoReturn:
        """End this execution and suspend the run; on resume the tool runs again with ``resume_data`` (R12.39).

        It never returns (``await context.suspend(…)`` works too), and catching what it raises changes nothing.

        Args:
            payload: What the one who resumes needs to know; turned into JSON as a result is (R10.6).

        Raises:
            ToolSuspended: always.
        """
        self.suspension = ToolSuspended(payload)
        raise self.suspension

    def __repr__(self) -> str:
        return f"ToolContext(tool_call_id={self.tool_call_id!r}, run_id={self.run_id!r})"


class _NoStream:
    """The writer of a tool that runs outside of a run: nobody reads the stream, as after its end (R9.14)."""

    async def custom(self, chunk: DataChunk | Mapping[str, Any], *, message_id: str | None = None) -> None:
        _log.debug("a tool wrote %r without a run to read it", chunk)

    async def write(self, value: Any) -> None:
        _log.debug("a tool wrote %r without a run to read it", value)
