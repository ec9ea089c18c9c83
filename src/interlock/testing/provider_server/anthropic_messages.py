"""Anthropic's Messages API, as a server says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.chunks import CONTENT_FILTER, LENGTH, STOP, TOOL_CALLS
from interlock.testing.provider_server.wire import Event, Wire, counts, reason_in
from interlock.usage import Usage

_REASONS = {STOP: "end_turn", LENGTH: "max_tokens", CONTENT_FILTER: "refusal", TOOL_CALLS: "tool_use"}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicWire(Wire):
    """One reply."""

    name = "the Messages API"

    def __init__(self, model: str, body: dict[str, Any], number: int) -> None:
        super().__init__(model, body, number)
        self._block = -1

    def begin(self) -> Iterable[Event]:
        """The message begins; how long the prompt was is told now, in truth."""
        message: dict[str, Any] = {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 1},
        }
        yield {"type": "message_start", "message": message}
        yield {"type": "ping"}

    def text_start(self, *, is_refusal: bool) -> Iterable[Event]:
        """A block of text begins."""
        yield self._start({"type": "text", "text": ""})

    def text(self, piece: str) -> Iterable[Event]:
        """A piece of the text."""
        yield self._delta({"type": "text_delta", "text": piece})

    def text_end(self) -> Iterable[Event]:
        """The block is complete."""
        yield self._stop()

    def reasoning_start(self) -> Iterable[Event]:
        """A block of thinking begins."""
        yield self._start({"type": "thinking", "thinking": "", "signature": ""})

    def reasoning(self, piece: str) -> Iterable[Event]:
        """A piece of the thinking."""
        yield self._delta({"type": "thinking_delta", "thinking": piece})

    def signature(self, signature: str) -> Iterable[Event]:
        """The signature of the thinking."""
        yield self._delta({"type": "signature_delta", "signature": signature})

    def reasoning_end(self) -> Iterable[Event]:
        """The block is complete."""
        yield self._stop()

    def call_start(self, call_id: str, name: str) -> Iterable[Event]:
        """A block with a call begins."""
        yield self._start({"type": "tool_use", "id": call_id, "name": name, "input": {}})

    def arguments(self, piece: str) -> Iterable[Event]:
        """A piece of the call's arguments."""
        yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def call_end(self) -> Iterable[Event]:
        """The block is complete."""
        yield self._stop()

    def finish(self, reason: str, usage: Usage) -> Iterable[Event]:
        """The message is complete."""
        sent, received = counts(usage)
        cached = usage.cached_input_tokens or 0
        counted = {"input_tokens": sent - cached, "cache_read_input_tokens": cached, "output_tokens": received}
        delta = {"stop_reason": reason_in(_REASONS, reason), "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": counted}
        yield {"type": "message_stop"}

    @classmethod
    def refusal(cls, status: int, message: str, code: str | None) -> Event:
        """The body of an error."""
        kind = code or _ERROR_TYPES.get(status) or "api_error"
        return {"type": "error", "error": {"type": kind, "message": message}}

    def encode(self, event: Event) -> bytes:
        """An event on the wire."""
        return f"event: {event['type']}\n".encode() + b"data: " + msgspec.json.encode(event) + b"\n\n"

    def _start(self, block: dict[str, Any]) -> Event:
        self._block += 1
        return {"type": "content_block_start", "index": self._block, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._block, "delta": delta}

    def _stop(self) -> Event:
        return {"type": "content_block_stop", "index": self._block}
