from __future__ import annotations

from typing import Any

import pytest

from interlock.chunks import chunk_to_dict
from interlock.models import LanguageModel, ModelReply, ModelRequest, as_streaming
from interlock.testing import drain, types_of

pytestmark = pytest.mark.anyio


class OnePiece:
    """A model that answers in one piece."""

    provider = "acme"
    model_id = "one"

    def __init__(self, *content: dict[str, Any], **fields: Any) -> None:
        self.reply = ModelReply(content=list(content), **fields)
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return self.reply


async def chunks_of(*content: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    chunks = await drain(as_streaming(OnePiece(*content, **fields)).stream(ModelRequest(prompt=[])))
    return [{"type": chunk.type, **chunk_to_dict(chunk)["payload"]} for chunk in chunks]


async def test_a_lifted_model_is_a_streaming_model() -> None:
    """R1.18"""
    model = as_streaming(OnePiece({"type": "text", "text": "hi"}))
    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id) == ("acme", "one")
    assert types_of(await drain(model.stream(ModelRequest(prompt=[])))) == [
        *("stream-start", "text-start", "text-delta", "text-end", "finish")
    ]


async def test_the_model_gets_the_request() -> None:
    """R1.18"""
    model = OnePiece()
    request = ModelRequest(prompt=[])
    await drain(as_streaming(model).stream(request))
    assert model.requests == [request]


async def test_the_ends_of_a_reply_are_kept() -> None:
    """R1.18, R12.22"""
    chunks = await chunks_of(
        {"type": "text", "text": "hi"},
        finish_reason="length",
        usage={"inputTokens": 1, "outputTokens": 2},
        warnings=[{"type": "other", "message": "w"}],
        request={"body": "b"},
        response={"id": "r", "modelId": "one-2"},
        provider_metadata={"acme": {"x": 1}},
    )
    assert chunks[0] == {
        "type": "stream-start",
        "warnings": [{"type": "other", "message": "w"}],
        "request": {"body": "b"},
    }
    assert chunks[1] == {"type": "response-metadata", "id": "r", "modelId": "one-2"}
    assert chunks[-1] == {
        "type": "finish",
        "stepResult": {"reason": "length"},
        "output": {"usage": {"inputTokens": 1, "outputTokens": 2}},
        "providerMetadata": {"acme": {"x": 1}},
    }


async def test_each_part_becomes_a_span_of_its_own() -> None:
    """R1.18"""
    chunks = await chunks_of(
        {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
    )
    assert [(c["type"], c["id"]) for c in chunks[1:-1]] == [
        *(("reasoning-start", "0"), ("reasoning-delta", "0"), ("reasoning-end", "0")),
        *(("text-start", "1"), ("text-delta", "1"), ("text-end", "1")),
        *(("text-start", "2"), ("text-delta", "2"), ("text-end", "2")),
    ]


@pytest.mark.parametrize(("given", "args"), [('{"a":1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("", {}), ("{oops", "{oops")])
async def test_a_calls_arguments_are_parsed(given: Any, args: Any) -> None:
    """R5.6"""
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": given}
    assert (await chunks_of(call))[1] == {"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": args}


async def test_files_and_sources_are_kept() -> None:
    chunks = await chunks_of(
        {"type": "file", "mediaType": "image/png", "data": "QUJD"},
        {"type": "source", "id": "s", "sourceType": "document", "title": "T", "mediaType": "application/pdf"},
    )
    assert chunks[1:-1] == [
        {"type": "file", "data": "QUJD", "mimeType": "image/png"},
        {"type": "source", "id": "s", "sourceType": "document", "title": "T", "mimeType": "application/pdf"},
    ]


async def test_a_part_of_an_unknown_type_is_passed_through() -> None:
    """R5.2"""
    assert (await chunks_of({"type": "hologram", "depth": 3}))[1] == {"type": "hologram", "depth": 3}
