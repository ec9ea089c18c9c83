"""The scripted model: every model id of a scenario plays the same script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from interlock.chunks import Chunk, ErrorChunk, ErrorPayload, GenericChunk, chunk_from_dict
from interlock.errors import APICallError
from interlock.models import ModelRequest

from .script import Script, error_text, parsed_input, parts_of


class ModelDesk:
    """What the model ids of one scenario share."""

    def __init__(self, script: Script, on_call: Callable[[str, ModelRequest], None]) -> None:
        self.script = script
        self.on_call = on_call
        self.joins_text = False
        """Whether each text block is one delta (``generate``)."""


class ScriptedModel:
    """One model id; its provider calls take the next entry of the shared script."""

    provider = "conformance"

    def __init__(self, model_id: str, desk: ModelDesk) -> None:
        self.model_id = model_id
        self._desk = desk

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self._desk.on_call(self.model_id, request)
        entry = self._desk.script.next_entry()
        if "error" in entry:
            raise _failure(entry["error"])
        for part in parts_of(entry, joins_text=self._desk.joins_text):
            yield _chunk(part)


def _failure(error: Mapping[str, Any]) -> Exception:
    """What the provider's client raises; an error without a status is a plain exception."""
    if "statusCode" not in error:
        return ConnectionError(error["message"])
    return APICallError(error["message"], status_code=error["statusCode"], is_retryable=error.get("isRetryable"))


def _chunk(part: Mapping[str, Any]) -> Chunk:
    kind = part["type"]
    fields = {key: value for key, value in part.items() if key != "type"}
    if kind == "stream-start":
        return GenericChunk(type=kind, payload={"warnings": fields.get("warnings", [])})
    if kind == "error":
        return ErrorChunk(payload=ErrorPayload(error=_failure({"message": error_text(part)})))
    return chunk_from_dict({"type": _NAMES.get(kind, kind), "payload": _payload(kind, fields)})


_NAMES = {
    "tool-input-start": "tool-call-input-streaming-start",
    "tool-input-delta": "tool-call-delta",
    "tool-input-end": "tool-call-input-streaming-end",
}


def _payload(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "text-delta" | "reasoning-delta":
            return {"text": fields.pop("delta"), **fields}
        case "tool-call":
            return {"args": parsed_input(fields), **{key: value for key, value in fields.items() if key != "input"}}
        case "tool-input-start":
            return {"toolCallId": fields.pop("id"), **fields}
        case "tool-input-delta":
            return {"toolCallId": fields["id"], "argsTextDelta": fields["delta"]}
        case "tool-input-end":
            return {"toolCallId": fields["id"]}
        case "file":
            return {"mimeType": fields.pop("mediaType"), **fields}
        case "finish":
            payload = {
                "stepResult": {"reason": fields["finishReason"]},
                "output": {"usage": fields.get("usage") or {}},
            }
            if "providerMetadata" in fields:
                payload["metadata"] = {"providerMetadata": fields["providerMetadata"]}
            return payload
        case _:
            return fields
