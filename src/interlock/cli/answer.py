"""What goes to standard output: the answer's text, or every chunk as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

from interlock import Chunk, TextDelta, Tripwire
from interlock.chunks import RETRY, StepFinish, StepStart, chunk_to_dict


class ChunkWriter(Protocol):
    """Writes a run to standard output."""

    def see(self, chunk: Chunk) -> None:
        """Write what the chunk brings."""
        ...

    def end(self) -> None:
        """The run is over."""
        ...


class JsonWriter:
    """One chunk a line, in its wire form."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def see(self, chunk: Chunk) -> None:
        """Write the chunk."""
        self._out.write(self._encoder.encode(chunk_to_dict(chunk)).decode() + "\n")
        self._out.flush()

    def end(self) -> None:
        """Nothing is left to be written."""


class TextWriter:
    """The text as it is streamed.

    Args:
        out: Where the text goes.
        tell: Called with a line about a rejected attempt whose text is written already.
        is_held: Hold each attempt's text until the attempt is accepted. Text that has gone into a file or a pipe
            cannot be taken back.
    """

    def __init__(self, out: TextIO, tell: Callable[[str], None], *, is_held: bool) -> None:
        self._out = out
        self._tell = tell
        self._is_held = is_held
        self._held: list[str] = []
        self._is_mid_line = False

    def see(self, chunk: Chunk) -> None:
        """Write the chunk's text, or close a line where an attempt ends."""
        match chunk:
            case TextDelta() if self._is_held:
                self._held.append(chunk.payload.text)
            case TextDelta():
                self._write(chunk.payload.text)
            case StepFinish() if chunk.payload.step_result.reason == RETRY:
                self._reject(chunk)
            case StepFinish():
                self._release()
            case StepStart():
                self._end_line()
            case Tripwire():
                self._held.clear()

    def end(self) -> None:
        """Write what is held of an attempt that broke off, and close the last line."""
        self._release()
        self._end_line()

    def _reject(self, chunk: StepFinish) -> None:
        is_visible = self._is_mid_line
        self._held.clear()
        self._end_line()
        if is_visible:
            outcome = chunk.payload.step_result
            by = f" by {outcome.retry_processor_id}" if outcome.retry_processor_id else ""
            self._tell(f"rejected{by}: {outcome.retry_reason}; trying again")

    def _release(self) -> None:
        for text in self._held:
            self._write(text)
        self._held.clear()

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        if text:
            self._is_mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")
