"""Tool calls whose arguments arrive in pieces, with ids that can be relied on (R5.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from interlock._ids import new_id
from interlock._json import without_lone_surrogates
from interlock.chunks import (
    Chunk,
    ToolCall,
    ToolCallPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
)


def parsed_args(text: Any) -> Any:
    """The arguments of a call from their JSON text; no text means none, text that cannot be read is kept (R5.6)."""
    if not isinstance(text, str):
        return {} if text is None else text
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        whole = without_lone_surrogates(text)
        return text if whole == text else parsed_args(whole)


def earlier_calls(prompt: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The calls in a prompt, whose ids a new call must not take."""
    for message in prompt:
        if message["role"] == "assistant":
            yield from (part for part in message["content"] if part["type"] == "tool-call")


class CallIds:
    """Hands out an id for each call of a reply: the provider's, unless it is empty or taken.

    Args:
        prompt: What the reply answers; it has earlier calls.
    """

    __slots__ = ("_taken",)

    def __init__(self, prompt: Sequence[dict[str, Any]] = ()) -> None:
        self._taken = {call["toolCallId"] for call in earlier_calls(prompt)}

    def unique(self, provider_id: str | None) -> str:
        """``provider_id``, or a new id."""
        call_id = provider_id if provider_id and provider_id not in self._taken else f"call_{new_id()}"
        self._taken.add(call_id)
        return call_id


class _Call:
    __slots__ = ("id", "is_started", "name", "pieces", "provider_id")

    def __init__(self, provider_id: str | None, call_id: str) -> None:
        self.provider_id = provider_id
        self.id = call_id
        self.name = ""
        self.pieces: list[str] = []
        self.is_started = False

    @property
    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object."""
        return isinstance(parsed_args("".join(self.pieces) or "?"), dict)


class StreamedCalls:
    """Puts the pieces of parallel calls together, whatever the server uses to tell them apart.

    A piece belongs to the call at its index, or without an index to the latest call, unless its provider id says
    otherwise. It begins a new call when index or id are new, or when it names a tool although the call it would belong
    to is complete: some servers send every parallel call at index 0, some with one id for all, some with neither.

    Each method appends the chunks it makes to ``out``.
    """

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def piece(
        self, out: list[Chunk], *, index: int | None, provider_id: str | None, name: str | None, args_text: str | None
    ) -> None:
        """One delta of one call; any field may be missing."""
        call = self._find(index, provider_id, name)
        if call is None or (name and call.is_complete):
            call = _Call(provider_id, self._ids.unique(provider_id))
            self._calls.append(call)
            if index is not None:
                self._at_index[index] = call
        elif provider_id and not call.provider_id:
            call.provider_id = provider_id
        if name and not call.is_started:
            call.name = name
            call.is_started = True
            out.append(ToolInputStart(payload=ToolInputStartPayload(tool_call_id=call.id, tool_name=name)))
            # Pieces that came before the name could not be shown yet.
            out.extend(self._delta(call, early) for early in call.pieces)
        if args_text:
            call.pieces.append(args_text)
            if call.is_started:
                out.append(self._delta(call, args_text))

    def finish(self, out: list[Chunk]) -> None:
        """End every call, in the order in which they began."""
        for call in self._calls:
            if not call.is_started:
                out.append(ToolInputStart(payload=ToolInputStartPayload(tool_call_id=call.id, tool_name=call.name)))
            out.append(ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=call.id)))
            args = parsed_args("".join(call.pieces))
            out.append(ToolCall(payload=ToolCallPayload(tool_call_id=call.id, tool_name=call.name, args=args)))

    def _find(self, index: int | None, provider_id: str | None, name: str | None) -> _Call | None:
        if index is None:
            expected = self._calls[-1] if self._calls else None
        else:
            expected = self._at_index.get(index)
            if expected is None and name:
                return None
        if not provider_id or (expected is not None and expected.provider_id in (None, "", provider_id)):
            return expected
        return next((call for call in reversed(self._calls) if call.provider_id == provider_id), None)

    @staticmethod
    def _delta(call: _Call, piece: str) -> ToolInputDelta:
        payload = ToolInputDeltaPayload(tool_call_id=call.id, tool_name=call.name, args_text_delta=piece)
        return ToolInputDelta(payload=payload)
