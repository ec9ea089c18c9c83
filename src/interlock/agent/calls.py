"""Makes whole, uniquely named tool calls out of what providers stream (R5.6, R10.16)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.chunks import Chunk, ToolCall, ToolCallPayload, ToolInputDelta, ToolInputEnd, ToolInputStart
from interlock.tools.serialize import MAX_DEPTH

_log = logging.getLogger("interlock")


class StreamedInput:
    """A call whose arguments are still being streamed."""

    __slots__ = ("id", "pieces", "start")

    def __init__(self, start: ToolInputStart, call_id: str) -> None:
        self.start = start
        self.id = call_id
        self.pieces: list[str] = []


class CallReader(msgspec.Struct, eq=False):
    """Reads the tool chunks of one reply."""

    _taken: set[str]
    """Call ids of accepted steps; a provider that repeats one gets a new id for its call."""
    _open: dict[str, StreamedInput] = {}
    _calls: dict[str, ToolCall] = {}
    invalid: dict[str, str] = {}
    """Call id → why its arguments could not be read."""

    def read(self, chunk: Chunk) -> Sequence[Chunk]:
        """What the run sees instead of ``chunk``: itself, itself and a call behind a completed input, or nothing."""
        if chunk.__class__ is ToolCall:
            return self.read_call(chunk)
        if isinstance(chunk, ToolInputStart):
            streamed = StreamedInput(chunk, self._free_id(chunk.payload.tool_call_id))
            self._open[chunk.payload.tool_call_id] = streamed
            chunk.payload.tool_call_id = streamed.id
            return [chunk]
        if isinstance(chunk, ToolInputDelta):
            streamed_or_none = self._open.get(chunk.payload.tool_call_id)
            if streamed_or_none is not None:
                streamed_or_none.pieces.append(chunk.payload.args_text_delta)
                chunk.payload.tool_call_id = streamed_or_none.id
            return [chunk]
        if isinstance(chunk, ToolInputEnd):
            return self._read_end(chunk)
        return [chunk]

    def name_of(self, call_id: str) -> str | None:
        """Name of the tool whose input is streamed or complete under this id."""
        call = self._calls.get(call_id)
        if call is not None:
            return call.payload.tool_name
        return next((one.start.payload.tool_name for one in self._open.values() if one.id == call_id), None)

    def _read_end(self, chunk: ToolInputEnd) -> list[Chunk]:
        provider_id = chunk.payload.tool_call_id
        streamed = self._open.get(provider_id)
        if streamed is None:
            return [chunk]
        chunk.payload.tool_call_id = streamed.id
        if streamed.id in self._calls:
            return [chunk]
        payload = streamed.start.payload
        call = ToolCall(
            payload=ToolCallPayload(
                tool_call_id=streamed.id,
                tool_name=payload.tool_name,
                args="".join(streamed.pieces),
                title=payload.title,
                provider_executed=payload.provider_executed,
                dynamic=payload.dynamic,
                provider_metadata=chunk.payload.provider_metadata or payload.provider_metadata,
            )
        )
        self._take(call)
        return [chunk, call]

    def read_call(self, chunk: ToolCall) -> list[ToolCall]:
        """``read`` for a whole call: itself, or nothing if the run knows it already."""
        call_id = chunk.payload.tool_call_id
        is_new = call_id and not self._open and call_id not in self._calls and call_id not in self._taken
        if is_new or self._identify(chunk.payload):
            self._take(chunk)
            return [chunk]
        return []

    def _identify(self, payload: ToolCallPayload) -> bool:
        """Give the call its id and streamed arguments; whether it is one that was not there before."""
        streamed = self._open.pop(payload.tool_call_id, None)
        if streamed is not None and streamed.id in self._calls:
            # The call was made when its input ended; this chunk can only complete it.
            known = self._calls[streamed.id].payload
            known.provider_metadata = known.provider_metadata or payload.provider_metadata
            known.title = known.title or payload.title
            return False
        if streamed is not None:
            payload.tool_call_id = streamed.id
            if payload.args is None or payload.args == "":
                payload.args = "".join(streamed.pieces)
        else:
            earlier = self._calls.get(payload.tool_call_id) if payload.tool_call_id else None
            if earlier is not None and self._is_same(earlier, payload):
                _log.warning("the model repeated tool call %r; it is executed once", payload.tool_call_id)
                return False
            payload.tool_call_id = self._free_id(payload.tool_call_id)
        return True

    def _is_same(self, earlier: ToolCall, payload: ToolCallPayload) -> bool:
        args, _ = parse_args(payload.args)
        return earlier.payload.tool_name == payload.tool_name and earlier.payload.args == args

    def _take(self, chunk: ToolCall) -> None:
        payload = chunk.payload
        payload.args, problem = parse_args(payload.args)
        if problem is not None:
            self.invalid[payload.tool_call_id] = problem
        self._calls[payload.tool_call_id] = chunk

    def _free_id(self, wanted: str) -> str:
        """``wanted``, or a variant that no other call of the run has; empty ids get one of their own."""
        if wanted and not self._is_used(wanted):
            return wanted
        base, number = wanted or "call", 1
        while self._is_used(f"{base}-{number}"):
            number += 1
        return f"{base}-{number}"

    def _is_used(self, call_id: str) -> bool:
        if call_id in self._calls or call_id in self._taken:
            return True
        return bool(self._open) and any(one.id == call_id for one in self._open.values())


def parse_args(args: Any) -> tuple[Any, str | None]:
    """Parsed arguments, and what is wrong with them; what no tool can take is kept as text (R5.6)."""
    text = args if isinstance(args, str) else None
    if text is not None:
        if not text.strip():
            return {}, None
        try:
            args = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            return text, f"The arguments are not valid JSON: {error}"
        except RecursionError:
            return text, _TOO_DEEP
    if args is None:
        return {}, None
    is_flat = args.__class__ is dict and _CONTAINERS.isdisjoint(map(type, args.values()))
    if not is_flat and args.__class__ in _CONTAINERS and _is_too_deep(args):
        return msgspec.json.encode(args).decode() if text is None else text, _TOO_DEEP
    return args, None


_CONTAINERS = frozenset({dict, list})
_TOO_DEEP = f"The arguments are nested more than {MAX_DEPTH} levels deep"


def _is_too_deep(value: Any) -> bool:
    """Whether copying, checking or storing ``value`` may exhaust the stack."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return True
        level = [
            inner
            for item in level
            for inner in (item.values() if item.__class__ is dict else item)
            if inner.__class__ is dict or inner.__class__ is list
        ]
    return False
