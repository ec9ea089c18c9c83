"""Chat Completions, as a server says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.chunks import CONTENT_FILTER, LENGTH, STOP, TOOL_CALLS
from interlock.testing.provider_server.wire import Event, Wire, counts, reason_in
from interlock.usage import Usage

_REASONS = {STOP: "stop", LENGTH: "length", CONTENT_FILTER: "content_filter", TOOL_CALLS: "tool_calls"}


class OpenAIChatWire(Wire):
    """One reply."""

    name = "Chat Completions"

    def __init__(self, model: str, body: dict[str, Any], number: int) -> None:
        super().__init__(model, body, number)
        self._calls = -1
        self._text_field = "content"

    def begin(self) -> Iterable[Event]:
        """The assistant takes the word."""
        yield self._chunk({"role": "assistant", "content": ""})

    def text_start(self, *, is_refusal: bool) -> Iterable[Event]:
        """A text begins."""
        self._text_field = "refusal" if is_refusal else "content"
        return ()

    def text(self, piece: str) -> Iterable[Event]:
        """A piece of the text."""
        yield self._chunk({self._text_field: piece})

    def reasoning(self, piece: str) -> Iterable[Event]:
        """A piece of the reasoning, as most compatible servers send it."""
        yield self._chunk({"reasoning_content": piece})

    def call_start(self, call_id: str, name: str) -> Iterable[Event]:
        """A call begins."""
        self._calls += 1
        function = {"name": name, "arguments": ""}
        yield self._call({"id": call_id, "type": "function", "function": function})

    def arguments(self, piece: str) -> Iterable[Event]:
        """A piece of the call's arguments."""
        yield self._call({"function": {"arguments": piece}})

    def finish(self, reason: str, usage: Usage) -> Iterable[Event]:
        """The reason, and the usage if it was asked for."""
        yield self._chunk({}, reason_in(_REASONS, reason))
        if (self.body.get("stream_options") or {}).get("include_usage"):
            sent, received = counts(usage)
            details = {"prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0}}
            details["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens or 0}
            total = {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}
            yield {**self._chunk({}), "choices": [], "usage": {**total, **details}}

    @classmethod
    def refusal(cls, status: int, message: str, code: str | None) -> Event:
        """The body of an error."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def closing(self) -> bytes:
        """What stands behind the last event."""
        return b"data: [DONE]\n\n"

    def _call(self, delta: dict[str, Any]) -> Event:
        return self._chunk({"tool_calls": [{"index": self._calls, **delta}]})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Event:
        return {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion.chunk",
            "created": 1_764_670_000,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }
