"""Streams in the form in which the providers send them: an answer of many small pieces of text, a packet an event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

PIECE = "tok "
"""Text of every event that carries text."""

_USAGE = {"input_tokens": 20, "output_tokens": 20, "total_tokens": 40}


def openai_chat(pieces: int) -> list[bytes]:
    """Chat Completions."""

    def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_764_670_000, "model": "gpt-4.1"}
        more = {"service_tier": "default", "system_fingerprint": "fp_1", "choices": choices, "usage": usage}
        return _event({**head, **more, "obfuscation": "hZk2Vd9q"})

    def choice(delta: dict[str, Any], reason: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
    return [
        event(choice({"role": "assistant", "content": "", "refusal": None})),
        *[event(choice({"content": PIECE}))] * pieces,
        event(choice({}, "stop")),
        event([], usage),
        b"data: [DONE]\n\n",
    ]


def openai_responses(pieces: int) -> list[bytes]:
    """OpenAI's Responses."""
    return [_event(one, one["type"]) for one in _numbered(_response_events(pieces))]


def _response_events(pieces: int) -> Iterator[dict[str, Any]]:
    response = {"id": "resp_1", "object": "response", "created_at": 1_764_670_000, "model": "gpt-5", "output": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": []}
    whole = {**message, "status": "completed", "content": [{**part, "text": PIECE * pieces}]}
    started = {**message, "status": "in_progress", "content": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.in_progress", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": started}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for _ in range(pieces):
        yield {
            "type": "response.output_text.delta",
            **place,
            "delta": PIECE,
            "logprobs": [],
            "obfuscation": "hZk2Vd9q",
        }
    yield {"type": "response.output_text.done", **place, "text": PIECE * pieces, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": {**part, "text": PIECE * pieces}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": whole}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = {**response, "status": "completed", "output": [whole], "usage": {**_USAGE, **details}}
    yield {"type": "response.completed", "response": done}


def _numbered(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(events):
        yield {"type": event["type"], "sequence_number": number, **event}


def anthropic(pieces: int) -> list[bytes]:
    """Anthropic's Messages."""
    message: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 1}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": PIECE}}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *[delta] * pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]
    return [_event(one, one["type"]) for one in events]


def google(pieces: int) -> list[bytes]:
    """Gemini's generateContent."""

    def event(reason: str | None) -> bytes:
        content = {"parts": [{"text": PIECE}], "role": "model"}
        candidate = {"content": content, **({"finishReason": reason} if reason else {}), "index": 0}
        usage = {"promptTokenCount": 20, "candidatesTokenCount": 20, "totalTokenCount": 40}
        usage_metadata = {**usage, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 20}]}
        head = {"modelVersion": "gemini-3-flash", "responseId": "resp-1"}
        return _event({"candidates": [candidate], "usageMetadata": usage_metadata, **head})

    return [*[event(None)] * (pieces - 1), event("STOP")]


def _event(data: dict[str, Any], kind: str | None = None) -> bytes:
    head = f"event: {kind}\n" if kind else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
