"""What the parts of one growing message hold, so that a long response is not read again at each step."""

from __future__ import annotations

from interlock.messages.parts import Part, ToolInvocationPart


class PartIndex:
    """Its calls by id, those that are open, and how many steps it has.

    It reads each part once, so parts may only be appended, and calls only be answered, for as long as it is kept.
    """

    __slots__ = ("_calls", "_open", "_read", "_steps", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._read = 0
        self._steps = 0
        self._calls: dict[str, ToolInvocationPart] = {}
        self._open: list[ToolInvocationPart] = []

    def find(self, tool_call_id: str) -> ToolInvocationPart | None:
        """The newest tool call with that id; calls without an id are never the same call."""
        self._read_on()
        return self._calls.get(tool_call_id) if tool_call_id else None

    @property
    def steps(self) -> int:
        """Number of ``step-start`` parts."""
        self._read_on()
        return self._steps

    @property
    def has_open_calls(self) -> bool:
        """Whether a call has no outcome yet."""
        self._read_on()
        if self._open:
            self._open = [part for part in self._open if part.tool_invocation.is_pending]
        return bool(self._open)

    def _read_on(self) -> None:
        parts = self.parts
        for position in range(self._read, len(parts)):
            part = parts[position]
            if part.type == "step-start":
                self._steps += 1
            elif isinstance(part, ToolInvocationPart):
                self._calls[part.tool_invocation.tool_call_id] = part
                self._open.append(part)
        self._read = len(parts)
