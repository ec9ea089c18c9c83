"""Keeps the prompt of a list's messages, so that each step converts only what is new.

As long as nobody outside may hold a message of the list, only the list itself changes messages, and it notes from where
on. Once messages were handed out, anything may have been edited in place: each converted piece then carries a seal of
what it was made from, and is compared with it before it is used again.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from interlock.messages._timeline import Change, Timeline
from interlock.messages.parts import FilePart, Message, Part, StepStartPart, TextPart
from interlock.messages.prompt import PromptMessage, prompt_of, step_prompt_of, text_prompts_of

_encoder = msgspec.msgpack.Encoder()

# The conversion of parts of these classes depends on nothing that can be edited in place but their own fields.
_FLAT_PARTS = frozenset({TextPart, FilePart, StepStartPart})


class _Piece(msgspec.Struct, gc=False):
    """One converted piece: a message, or one step of an assistant message.

    Without seals, which are of single messages, it may also be several plain texts in a row.
    """

    position: int
    """Of the message in the list; of several, the last."""
    start: int
    stop: int
    """The message's parts from ``start`` to ``stop``."""
    end: int
    """Length of the prompt up to and with this piece."""
    seal: Message | bytes | None
    """A flat copy of the message, or a fingerprint; ``None`` for what cannot be compared."""


class PromptCache:
    """The converted messages of one timeline."""

    __slots__ = ("_is_sealed", "_pieces", "_prompt", "_timeline", "has_files")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._pieces: list[_Piece] = []
        self._prompt: list[PromptMessage] = []
        self._is_sealed = False
        self.has_files = False
        """Whether a message with a file was ever converted."""

    def prompt(self) -> list[PromptMessage]:
        """The prompt as it is now: a new list of shared messages, which are never changed again."""
        timeline = self._timeline
        is_exposed = timeline.is_exposed
        if is_exposed:
            timeline.settle()
        change, pieces = timeline.take_change(), self._pieces
        if pieces and (pieces[-1].position, pieces[-1].stop or 1) > change:
            self._drop_from(change)
        if is_exposed:
            if self._is_sealed:
                self._verify()
            else:
                self._pieces, self._prompt, self._is_sealed = [], [], True
        self._convert()
        return list(self._prompt)

    def _drop_from(self, change: Change) -> None:
        """Forget the pieces that hold the changed part or come after it."""
        pieces = self._pieces
        # A message without parts is one piece that ends where it begins.
        while pieces and (pieces[-1].position, pieces[-1].stop or 1) > change:
            pieces.pop()
        del self._prompt[pieces[-1].end if pieces else 0 :]

    def _verify(self) -> None:
        """Forget everything from the first piece on that was edited in place."""
        items = self._timeline.items
        for piece in self._pieces:
            seal = piece.seal
            message = items[piece.position]
            if seal.__class__ is Message:
                is_same = message == seal
            else:
                is_same = seal is not None and _fingerprint(message, piece.start, piece.stop) == seal
            if not is_same:
                self._drop_from((piece.position, piece.start))
                return

    def _convert(self) -> None:
        items, pieces = self._timeline.items, self._pieces
        position, start = 0, 0
        if pieces:
            last = pieces[-1]
            position, start = last.position, last.stop
            if start >= len(items[position].content.parts):
                position, start = position + 1, 0
        while position < len(items):
            if start == 0 and self._convert_texts(position):
                position = pieces[-1].position
            else:
                self._convert_steps(items[position], position, start)
            position, start = position + 1, 0

    def _convert_texts(self, position: int) -> bool:
        """Convert the messages from a position on that are a text and nothing else; whether there are any."""
        items = self._timeline.items
        sent = text_prompts_of(items[position : position + 1] if self._is_sealed else islice(items, position, None))
        if not sent:
            return False
        self._prompt += sent
        last = position + len(sent) - 1
        seal = _seal(items[last]) if self._is_sealed else None
        self._pieces.append(_Piece(last, 0, 1, len(self._prompt), seal))
        return True

    def _convert_steps(self, message: Message, position: int, start: int) -> None:
        """Convert a message from one of its parts on, a piece for each step."""
        content, prompt = message.content, self._prompt
        parts = content.parts
        size = len(parts)
        has_plain_steps = size > 0 and message.role == "assistant" and content.provider_metadata is None
        while True:
            stop = size if size <= 1 else _end_of_step(message, start, size)
            is_whole = start == 0 and stop == size
            step = parts if is_whole else parts[start:stop]
            sent = step_prompt_of(step) if has_plain_steps else None
            if sent is None:
                sent = prompt_of(message) if is_whole else prompt_of(message, start, stop)
                self.has_files = self.has_files or any(part.type == "file" for part in step)
            prompt += sent
            seal: Message | bytes | None = None
            if self._is_sealed:
                seal = _seal(message) if is_whole else _fingerprint(message, start, stop)
            self._pieces.append(_Piece(position, start, stop, len(prompt), seal))
            if stop >= size:
                return
            start = stop


def _end_of_step(message: Message, start: int, size: int) -> int:
    """Where the step that begins at ``start`` ends; only assistant messages have several."""
    if message.role != "assistant":
        return size
    parts = message.content.parts
    for position in range(start + 1, size):
        if parts[position].type == "step-start":
            return position
    return size


def _seal(message: Message) -> Message | bytes | None:
    """What tells later whether a whole message is as it was."""
    content = message.content
    if content.provider_metadata is not None or not content.parts:
        return _fingerprint(message, 0, len(content.parts))
    copies: list[Part] = []
    for part in content.parts:
        if part.__class__ not in _FLAT_PARTS or part.provider_metadata is not None or part.extra is not None:
            return _fingerprint(message, 0, len(content.parts))
        copies.append(part.__copy__())
    content = content.__copy__()
    content.parts = copies
    twin: Message = message.__copy__()
    twin.content = content
    return twin


def _fingerprint(message: Message, start: int, stop: int) -> bytes | None:
    """Bytes that differ when anything differs that the piece is made from.

    The part behind the piece is in it, because it decides where the piece ends. Equality of copies would not do: ``1``,
    ``1.0`` and ``True`` are equal, and different in a prompt.
    """
    content = message.content
    made_from: tuple[Any, ...] = (
        message.role,
        content.provider_metadata,
        content.parts[start : stop + 1],
        None if content.parts else content.content,
    )
    try:
        return _encoder.encode(made_from)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
