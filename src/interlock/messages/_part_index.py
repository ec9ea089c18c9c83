"""What the parts of one growing message hold, so that a long response is not read again at each step."""

from __future__ import annotations

from interlock.messages.parts import PENDING_STATES, Part, ToolInvocationPart


class PartIndex:
    """Its calls by id, those that are open, and how many steps it has.

    It reads each part once, so parts may only be appended, and calls only be answered, for as long as it is kept.
    """

    __slots__ = ("_open", "_read", "calls", "parts", "steps")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._read = 0
        self.steps = 0
        """Number of ``step-start`` parts among those read so far."""
        self.calls: dict[str, ToolInvocationPart] = {}
        """The newest call of each id among those read so far."""
        self._open: list[ToolInvocationPart] = []
        self.read_on()

    def find(self, tool_call_id: str) -> ToolInvocationPart | None:
        """The newest tool call with that id; calls without an id are never the same call."""
        self.read_on()
        return self.calls.get(tool_call_id) if tool_call_id else None

    def has_open_calls(self) -> bool:
        """Whether a call read so far has no outcome yet."""
        if self._open:
            self._open = [part for part in self._open if part.tool_invocation.state in PENDING_STATES]
        return bool(self._open)

    def read_on(self) -> None:
        """Read the parts that were appended since."""
        parts, read = self.parts, self._read
        size = len(parts)
        while read < size:
            part = parts[read]
            read += 1
            if part.type == "step-start":
                self.steps += 1
            elif isinstance(part, ToolInvocationPart):
                self.calls[part.tool_invocation.tool_call_id] = part
                self._open.append(part)
        self._read = size
