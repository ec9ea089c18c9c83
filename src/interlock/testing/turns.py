"""What a scripted model says in one call: short forms in, chunks out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Protocol

from interlock._ids import new_id
from interlock._json import Record, copy_json
from interlock.chunks import (
    STOP,
    TOOL_CALLS,
    Chunk,
    ErrorChunk,
    Finish,
    FinishPayload,
    ReasoningDelta,
    ReasoningDeltaPayload,
    ReasoningEnd,
    ReasoningEndPayload,
    ReasoningStart,
    ReasoningStartPayload,
    StepOutcome,
    StepOutput,
    TextDelta,
    TextDeltaPayload,
    TextEnd,
    TextEndPayload,
    TextStart,
    TextStartPayload,
    ToolCall,
    ToolCallPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
    chunk_from_dict,
)
from interlock.models.base import ModelRequest
from interlock.usage import Usage


class Pause:
    """A place in a turn where the model waits, or where a test does something."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act
        """Called when the turn gets here; what it returns is awaited if it can be, and then forgotten."""


class Waitable(Protocol):
    """Something that can be waited for: ``asyncio.Event``, ``anyio.Event``, ``AbortSignal``."""

    def wait(self) -> Awaitable[Any]:
        """Return when it happened."""
        ...


Turn = str | BaseException | Chunk | Mapping[str, Any] | Pause | Sequence[Any] | Callable[[ModelRequest], Any]
"""What a model says in one call; see ``ScriptedModel`` for what a list may hold."""

Event = Chunk | BaseException | type[BaseException] | Pause
"""A turn in full: chunks to yield, exceptions to raise, pauses."""


def text(*deltas: str, id: str = "t") -> list[Chunk]:  # noqa: A002 - the field's name
    """A text span with one delta for each given string."""
    return [
        TextStart(payload=TextStartPayload(id=id)),
        *(TextDelta(payload=TextDeltaPayload(id=id, text=delta)) for delta in deltas),
        TextEnd(payload=TextEndPayload(id=id)),
    ]


def reasoning(*deltas: str, id: str = "r", signature: str | None = None) -> list[Chunk]:  # noqa: A002 - the field's name
    """A reasoning span with one delta for each given string."""
    return [
        ReasoningStart(payload=ReasoningStartPayload(id=id)),
        *(ReasoningDelta(payload=ReasoningDeltaPayload(id=id, text=delta)) for delta in deltas),
        ReasoningEnd(payload=ReasoningEndPayload(id=id, signature=signature)),
    ]


def tool_call(name: str, args: Any = None, *, id: str | None = None) -> ToolCall:  # noqa: A002 - the field's name
    """A call of tool ``name``, in one piece. Without ``id`` it gets a unique one; ``args`` defaults to ``{}``."""
    call_id = new_id() if id is None else id
    return ToolCall(payload=ToolCallPayload(tool_call_id=call_id, tool_name=name, args={} if args is None else args))


def tool_input(name: str, *pieces: str, id: str | None = None) -> list[Chunk]:  # noqa: A002 - the field's name
    """A call of tool ``name`` whose arguments stream as pieces of JSON text, without the final ``tool-call`` (R5.6)."""
    call_id = new_id() if id is None else id
    return [
        ToolInputStart(payload=ToolInputStartPayload(tool_call_id=call_id, tool_name=name)),
        *(
            ToolInputDelta(payload=ToolInputDeltaPayload(tool_call_id=call_id, tool_name=name, args_text_delta=piece))
            for piece in pieces
        ),
        ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=call_id)),
    ]


def finish(reason: str = STOP, input_tokens: int | None = 5, output_tokens: int | None = 3) -> Finish:
    """The end of a model's reply, with its usage."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    usage.total_tokens = usage.total
    return Finish(payload=FinishPayload(step_result=StepOutcome(reason=reason), output=StepOutput(usage=usage)))


def delay(seconds: float) -> Pause:
    """The model is silent for ``seconds``; ``delay(0)`` gives other tasks one turn of the event loop."""
    return Pause(lambda: asyncio.sleep(seconds))


def wait_for(event: Waitable) -> Pause:
    """The model is silent until ``event`` is set."""
    return Pause(event.wait)


def events_of(turn: Turn, where: str) -> list[Event]:
    """The whole turn: open text spans closed, and a ``finish`` at its end if it has none.

    Args:
        turn: Any form of a turn but a function.
        where: Names the turn in errors.

    Raises:
        TypeError: an item is of no known kind.
        ValueError: a wire dict is not a chunk.
    """
    events: list[Event] = []
    span_count = 0
    open_span: str | None = None
    for item in _flatten(turn if isinstance(turn, (list, tuple)) else [turn]):
        if isinstance(item, str):
            if open_span is None:
                span_count += 1
                open_span = "t" if span_count == 1 else f"t{span_count}"
                events.append(TextStart(payload=TextStartPayload(id=open_span)))
            events.append(TextDelta(payload=TextDeltaPayload(id=open_span, text=item)))
            continue
        event = _event(item, where)
        if open_span is not None and isinstance(event, Chunk):
            events.append(TextEnd(payload=TextEndPayload(id=open_span)))
            open_span = None
        events.append(event)
    if open_span is not None:
        events.append(TextEnd(payload=TextEndPayload(id=open_span)))
    if not any(isinstance(event, (Finish, ErrorChunk)) for event in events):
        has_calls = any(isinstance(event, (ToolCall, ToolInputStart)) for event in events)
        events.append(finish(TOOL_CALLS if has_calls else STOP))
    return events


def _flatten(items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from _flatten(item)
        else:
            yield item


def _event(item: Any, where: str) -> Event:
    if isinstance(item, (Chunk, BaseException, Pause)):
        return item
    if isinstance(item, Mapping):
        try:
            return chunk_from_dict(dict(item))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if isinstance(item, type) and issubclass(item, BaseException):
        return item
    if callable(item):
        return Pause(item)
    raise TypeError(
        f"{where}: {item!r} is a {type(item).__name__}; give text, a chunk, a wire dict, an exception, "
        "delay(…), wait_for(…), a function without arguments, or a list of these"
    )


_SPAN_CHUNKS = frozenset({TextStart, TextDelta, TextEnd, ReasoningStart, ReasoningDelta, ReasoningEnd})


def fresh(chunk: Chunk) -> Chunk:
    """A copy that a processor may edit without changing the script."""
    if chunk.__class__ in _SPAN_CHUNKS and chunk.metadata is None:
        payload = chunk.payload
        if payload.provider_metadata is None:
            twin = chunk.__copy__()
            twin.payload = payload.__copy__()
            return twin
    copied: Chunk = _copy(chunk)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, Record):
        twin = copy(value)
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if isinstance(field, (Record, dict, list)):
                setattr(twin, name, _copy(field))
        return twin
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return copy_json(value)
