"""A step that waits for somebody, and what it is resumed with (R12.36–R12.39)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.chunks import Chunk
from interlock.errors import RunStateError
from interlock.messages import Message
from interlock.processors import StepResult

_NOTES = {"tool-call-approval": "pendingToolApprovals", "tool-call-suspended": "suspendedTools"}
"""Chunk type → the key of a message's metadata under which clients look for waiting calls (R4.5)."""


class SuspendedStep(msgspec.Struct, kw_only=True):
    """The step at which a run was suspended: its reply is complete, some of its calls have no outcome yet."""

    step: StepResult
    finish_reason: str
    model_index: int = 0
    """Which of the run's models gave the reply."""
    waiting: dict[str, Chunk]
    """Call id → the ``tool-call-approval`` or ``tool-call-suspended`` chunk that told of it."""
    resolved: int = 0
    """Calls of the step that have an outcome."""

    def pick(self, tool_call_id: str | None) -> str:
        """The waiting call that is meant; the only one if none is named.

        Raises:
            RunStateError: no such call waits, or several do and none was named.
        """
        waiting = ", ".join(self.waiting) or "none"
        if tool_call_id is None:
            if len(self.waiting) != 1:
                raise RunStateError(f"name the tool call that is meant; waiting: {waiting}")
            return next(iter(self.waiting))
        if tool_call_id not in self.waiting:
            raise RunStateError(f"tool call {tool_call_id!r} does not wait for anybody; waiting: {waiting}")
        return tool_call_id

    def check(self, resumption: Resumption) -> None:
        """Name the call that the resumption means.

        Raises:
            RunStateError: no such call waits, it waits for something else, or several wait and none was named.
        """
        call_id = resumption.tool_call_id = self.pick(resumption.tool_call_id)
        needs_approval = self.waiting[call_id].type == "tool-call-approval"
        if needs_approval is not (resumption.is_approved is not None):
            wrong = "data" if needs_approval else "approval"
            raise RunStateError(f"tool call {call_id!r} does not wait for {wrong}")


class Resumption(msgspec.Struct, kw_only=True):
    """What somebody decided about one waiting call."""

    tool_call_id: str | None = None
    """``None`` means the only one that waits."""
    is_approved: bool | None = None
    """The answer to a request for approval; ``None`` for a call that waits for data."""
    reason: str | None = None
    """Why it was declined; the model is told."""
    args: Any = None
    """Arguments in place of the model's own; ``None`` keeps these."""
    data: Any = None
    """What the tool gets as ``resume_data``."""


def note_waiting(message: Message | None, suspended: SuspendedStep | None) -> None:
    """Note the waiting calls in their message, in place of what was noted before; none when the run goes on (R4.5)."""
    if message is None:
        return
    kept = {key: value for key, value in (message.content.metadata or {}).items() if key not in _NOTES.values()}
    for call_id, chunk in suspended.waiting.items() if suspended is not None else ():
        payload = getattr(chunk, "payload", None)
        kept.setdefault(_NOTES[chunk.type], {})[call_id] = None if payload is None else payload.to_dict()
    message.content.metadata = kept or None
