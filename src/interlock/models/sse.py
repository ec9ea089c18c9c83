"""Server-sent events out of the bytes of a reply, as the HTML standard describes them.

httpx2 reads them too. With small events that was half of what an adapter costs (``python -m benchmarks models``), so
here the lines are cut before they are decoded, and only what an adapter reads is.
"""

from __future__ import annotations

import msgspec

_BOM = b"\xef\xbb\xbf"
_MAX_STRAY_LINES = 1_000


class ServerEvent(msgspec.Struct, frozen=True, gc=False):
    """One event."""

    event: str
    """What kind the server says it is; empty if it does not say."""
    data: str


class EventTooLargeError(ValueError):
    """An event is larger than the reader may hold."""


class EventReader:
    """Cuts the bytes of one reply into events, however they are cut into packets.

    Args:
        max_event_bytes: About how large an event may be.
    """

    __slots__ = ("_data", "_has_cr", "_held_cr", "_kind", "_line", "_max_bytes", "_size", "_stray")

    def __init__(self, max_event_bytes: int) -> None:
        self._max_bytes = max_event_bytes
        self._kind = ""
        self._data: list[bytes] = []
        self._line: list[bytes] = []
        """Pieces of the line that is not yet at its end."""
        self._size = 0
        self._stray: list[bytes] = []
        """Lines behind the last event that are none of an event's."""
        self._has_cr: bool | None = None
        """Whether the server ends lines with a carriage return; the first line end tells."""
        self._held_cr = False

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take the next bytes; the events that end in them.

        Raises:
            EventTooLargeError: An event has more bytes than the reader may hold.
        """
        if self._has_cr is not False:
            piece = self._with_plain_ends(piece)
        lines = piece.split(b"\n")
        last = lines.pop()
        if self._line and lines:
            lines[0] = b"".join([*self._line, lines[0]])
            self._line.clear()
        if last:
            self._line.append(last)
        events: list[ServerEvent] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif not line:
                if data or self._kind:
                    whole = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append(ServerEvent(self._kind, whole.decode("utf-8", "replace")))
                    data.clear()
                    self._stray.clear()
                    self._kind = ""
                    self._size = 0
            elif line.startswith(b"event: "):
                self._kind = line[7:].decode("utf-8", "replace")
            else:
                self._read_field(line)
        if data or self._line:
            self._size += len(piece)
            if self._size > self._max_bytes:
                raise EventTooLargeError(f"an event has more than {self._max_bytes} bytes")
        return events

    def rest(self) -> str:
        """What came behind the last event and is none, if it looks like JSON: some break off with a bare error."""
        lines = [*self._stray, b"".join(self._line)]
        text = b"\n".join(lines).decode("utf-8", "replace").strip()
        return text if text.startswith(("{", "[")) else ""

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.removeprefix(_BOM).partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name in (b"", b"id", b"retry"):
            if not self._data:
                # A comment between events: nothing is held.
                self._size = 0
        elif len(self._stray) < _MAX_STRAY_LINES:
            self._stray.append(line)

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """Lines may end in any of three ways, one of which may be cut in two."""
        if self._held_cr:
            piece = b"\r" + piece
        if self._has_cr is None and (b"\n" in piece or b"\r" in piece):
            self._has_cr = b"\r" in piece
        self._held_cr = piece.endswith(b"\r")
        if self._held_cr:
            piece = piece[:-1]
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
