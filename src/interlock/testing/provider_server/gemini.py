"""Gemini's ``streamGenerateContent``, as a server says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.chunks import CONTENT_FILTER, LENGTH, STOP, TOOL_CALLS
from interlock.testing.provider_server.wire import Event, Wire, counts, reason_in
from interlock.usage import Usage

_REASONS = {STOP: "STOP", LENGTH: "MAX_TOKENS", CONTENT_FILTER: "SAFETY", TOOL_CALLS: "STOP"}
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class GeminiWire(Wire):
    """One reply. Calls come whole: the protocol streams no arguments."""

    name = "Gemini"

    def __init__(self, model: str, body: dict[str, Any], number: int) -> None:
        super().__init__(model, body, number)
        self._call: dict[str, Any] = {}
        self._arguments: list[str] = []
        self._signature: str | None = None

    def text(self, piece: str) -> Iterable[Event]:
        """A piece of the text."""
        yield self._part({"text": piece})

    def reasoning(self, piece: str) -> Iterable[Event]:
        """A piece of the reasoning."""
        yield self._part({"text": piece, "thought": True})

    def signature(self, signature: str) -> Iterable[Event]:
        """The signature of the reasoning, which the next call carries."""
        self._signature = signature
        return ()

    def call_start(self, call_id: str, name: str) -> Iterable[Event]:
        """A call begins."""
        self._call = {"id": call_id, "name": name}
        self._arguments = []
        return ()

    def arguments(self, piece: str) -> Iterable[Event]:
        """A piece of the call's arguments."""
        self._arguments.append(piece)
        return ()

    def call_end(self) -> Iterable[Event]:
        """The call is complete."""
        try:
            args = msgspec.json.decode("".join(self._arguments) or "{}")
        except msgspec.DecodeError as error:
            raise TypeError(f"{self.name} has no words for arguments that are no JSON: {error}") from error
        part: dict[str, Any] = {"functionCall": {**self._call, "args": args}}
        if self._signature is not None:
            part["thoughtSignature"], self._signature = self._signature, None
        yield self._part(part)

    def finish(self, reason: str, usage: Usage) -> Iterable[Event]:
        """The reply is complete."""
        sent, received = counts(usage)
        thoughts = usage.reasoning_tokens or 0
        counted = {
            "promptTokenCount": sent,
            "candidatesTokenCount": received - thoughts,
            "thoughtsTokenCount": thoughts,
            "cachedContentTokenCount": usage.cached_input_tokens or 0,
            "totalTokenCount": sent + received,
        }
        last = self._part({"text": ""})
        last["candidates"][0]["finishReason"] = reason_in(_REASONS, reason)
        yield {**last, "usageMetadata": counted}

    @classmethod
    def refusal(cls, status: int, message: str, code: str | None) -> Event:
        """The body of an error."""
        return {"error": {"code": status, "message": message, "status": code or _STATUS_NAMES.get(status, "UNKNOWN")}}

    def _part(self, part: dict[str, Any]) -> Event:
        return {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": self.model,
            "responseId": f"resp-{self.number}",
        }
