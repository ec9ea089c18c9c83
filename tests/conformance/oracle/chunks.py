"""Chunks as the simulation streams them: in recorded form, plus fields of its own whose names begin with ``_``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..script import error_text, parsed_input

Facts = dict[str, Any]


def from_script(part: Mapping[str, Any]) -> Facts:
    """A stream part of the script in the form that the simulation streams."""
    return dict(_script_facts(part))


def _script_facts(part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kind = part["type"]
    yield "type", _NAMES.get(kind, kind)
    match kind:
        case "text-delta" | "reasoning-delta":
            yield "text", part["delta"]
        case "tool-call":
            yield from {"toolName": part["toolName"], "args": parsed_input(part), "_id": part["toolCallId"]}.items()
        case "tool-result":
            yield from {"toolName": part["toolName"], "result": part["result"], "_id": part["toolCallId"]}.items()
        case "source" if "url" in part:
            yield "url", part["url"]
        case "file":
            yield "mediaType", part["mediaType"]
        case "error":
            yield "_error", error_text(part)
        case "finish":
            yield from {"reason": part["finishReason"], "usage": part.get("usage") or {}}.items()
    if part.get("providerExecuted"):
        yield "providerExecuted", True


_NAMES = {
    "tool-input-start": "tool-call-input-streaming-start",
    "tool-input-delta": "tool-call-delta",
    "tool-input-end": "tool-call-input-streaming-end",
}


def from_payload(chunk: Mapping[str, Any]) -> Facts:
    """A cached chunk in the form that the simulation streams."""
    payload = chunk.get("payload") or {}
    facts: Facts = {"type": chunk["type"]}
    match chunk["type"]:
        case "text-delta" | "reasoning-delta":
            facts["text"] = payload["text"]
        case "tool-call":
            facts |= {"toolName": payload["toolName"], "args": payload.get("args"), "_id": payload["toolCallId"]}
        case "tool-result":
            facts |= {"toolName": payload["toolName"], "result": payload.get("result"), "_id": payload["toolCallId"]}
        case "source":
            facts |= {"url": payload["url"]} if "url" in payload else {}
        case "file":
            facts["mediaType"] = payload["mimeType"]
        case "finish":
            facts["reason"] = payload["stepResult"]["reason"]
            facts["usage"] = (payload.get("output") or {}).get("usage") or {}
    return facts | ({"providerExecuted": True} if payload.get("providerExecuted") else {})
