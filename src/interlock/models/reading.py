"""The boundary behind which a provider's events are typed chunks: an event that cannot become any fails the call.

The decoders type what they can, and above all what comes often. What protocols leave open (blocks, citations, usage of
other servers) they take as it comes; so here every chunk but the pieces of an answer is held against its own types.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from interlock._json import without_lone_surrogates
from interlock.chunks import Chunk, GenericChunk, ReasoningDelta, TextDelta, ToolInputDelta
from interlock.errors import APICallError
from interlock.models.reply import ReplyHead, ReplyReader

_TYPED_BY_DECODERS = frozenset({TextDelta, ReasoningDelta, ToolInputDelta, GenericChunk})
"""Too many to be looked at again; a reader makes them of decoded text only."""


def read_event(reader: ReplyReader, head: ReplyHead, kind: str, data: str) -> Sequence[Chunk]:
    """The chunks that one event makes, as well typed as their classes say.

    Args:
        reader: Reads the event.
        head: The reply that it belongs to.
        kind: What the server calls the event; empty if it does not say.
        data: The event's data.

    Raises:
        APICallError: The event is an error, or cannot be read (R7.5).
    """
    try:
        return _checked(reader.read(kind, data))
    except APICallError:
        raise
    except Exception as problem:
        if kind == "error":
            # Its data may be plain text.
            raise head.failure(data) from problem
        whole = without_lone_surrogates(data)
        if whole != data and problem.__class__ is msgspec.DecodeError:
            # Some servers cut an emoji in two. Nothing of the event has been taken yet.
            return read_event(reader, head, kind, whole)
        # A reader knows nothing but the event, in which a server may put anything anywhere.
        raise head.unreadable(data, _what(problem), kind=kind) from problem


def read_end(reader: ReplyReader, head: ReplyHead, rest: str = "") -> Sequence[Chunk]:
    """The chunks that close the answer, as well typed as their classes say.

    Args:
        reader: Has read the events.
        head: The reply that they belong to.
        rest: As for ``ReplyHead.broken_off``.

    Raises:
        APICallError: The stream ended before the answer did, or what was gathered for its end cannot be read (R7.5).
    """
    try:
        return _checked(reader.end(rest))
    except APICallError:
        raise
    except Exception as problem:
        # As above: what an event left for the end.
        raise head.unreadable(rest, _what(problem)) from problem


def _checked(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    for chunk in chunks:
        kind = chunk.__class__
        if kind not in _TYPED_BY_DECODERS:
            msgspec.convert(msgspec.to_builtins(chunk), kind)
    return chunks


def _what(problem: Exception) -> str:
    """What is wrong: errors of msgspec say where in the event it is, of others the name tells more than the text."""
    return str(problem) if isinstance(problem, msgspec.MsgspecError) else repr(problem)
