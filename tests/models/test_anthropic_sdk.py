"""The official SDK reads the same answers and knows the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest
from anthropic import APIStatusError, AsyncAnthropic
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import BaseModel, TypeAdapter

from interlock.chunks import Chunk
from interlock.models import ModelRequest, ToolSpec
from interlock.models.anthropic.request import API_VERSION, to_anthropic
from tests.models.anthropic_server import COMPLETE, fixture, read
from tests.models.reading import HI, content, finish_of
from tests.models.wire import event_reply

pytestmark = pytest.mark.anyio


async def read_by_sdk(data: bytes) -> Message:
    transport = httpx2.MockTransport(lambda _: event_reply([data]))
    client = AsyncAnthropic(api_key="k", http_client=httpx2.AsyncClient(transport=transport), max_retries=0)
    messages: Any = HI.prompt
    async with client.messages.stream(model="claude-sonnet-5-5", max_tokens=9, messages=messages) as stream:
        return await stream.get_final_message()


def ours(chunks: list[Chunk]) -> list[dict[str, Any]]:
    """What our chunks say, block by block."""
    blocks: list[dict[str, Any]] = []
    for chunk in content(chunks):
        match chunk["type"]:
            case "text-start":
                blocks.append({"type": "text", "text": "", "cited": []})
            case "text-delta":
                blocks[-1]["text"] += chunk["text"]
            case "source":
                blocks[-1]["cited"].append(chunk["providerMetadata"]["anthropic"]["citedText"])
            case "reasoning-start":
                blocks.append({"type": "thinking", "thinking": "", "signature": ""})
            case "reasoning-delta":
                blocks[-1]["thinking"] += chunk["text"]
            case "reasoning-signature":
                blocks[-1]["signature"] = chunk["signature"]
            case "redacted-reasoning":
                blocks[-1] = {"type": "redacted_thinking", "data": chunk["data"]}
            case "tool-call":
                kind = "server_tool_use" if chunk.get("providerExecuted") else "tool_use"
                call = {"id": chunk["toolCallId"], "name": chunk["toolName"], "input": chunk["args"]}
                blocks.append({"type": kind, **call})
            case "tool-result":
                blocks.append({"tool_use_id": chunk["toolCallId"], "content": chunk["result"]})
    return blocks


def theirs(message: Message) -> Iterator[dict[str, Any]]:
    """What the SDK's message says, in the same form."""
    for block in message.content:
        fields = block.model_dump()
        if fields["type"] == "text":
            cited = [citation["cited_text"] for citation in fields["citations"] or ()]
            yield {"type": "text", "text": fields["text"], "cited": cited}
        elif "tool_use_id" in fields:
            yield {"tool_use_id": fields["tool_use_id"], "content": fields["content"]}
        else:
            yield {name: value for name, value in fields.items() if name not in ("caller", "toolset_name")}


@pytest.mark.parametrize("name", [name for name in COMPLETE if name not in ("unknown", "max_tokens")])
async def test_both_read_the_same_answer(name: str) -> None:
    chunks, message = await read(fixture(name)), await read_by_sdk(fixture(name))
    assert ours(chunks) == list(theirs(message))
    finish = finish_of(chunks)
    assert finish["stepResult"].get("rawReason") == message.stop_reason
    usage = message.usage
    cached, made = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    assert finish["output"]["usage"]["inputTokens"] == usage.input_tokens + cached + made
    assert finish["output"]["usage"]["outputTokens"] == usage.output_tokens
    metadata = chunks[1].to_dict()["payload"]
    assert (metadata["id"], metadata["modelId"]) == (message.id, message.model)


async def test_both_take_an_error_inside_the_answer_for_one() -> None:
    """FR-100"""
    with pytest.raises(APIStatusError, match="overloaded_error"):
        await read_by_sdk(fixture("overloaded"))


_REQUEST = TypeAdapter(MessageCreateParamsStreaming)


def plain(value: Any) -> Any:
    """``value`` with its lazily checked lists read to the end."""
    if isinstance(value, BaseModel):
        assert not value.model_extra
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [plain(item) for item in value]


def option(**fields: Any) -> dict[str, Any]:
    return {"providerOptions": {"anthropic": fields}}


def file(media_type: str, data: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": data, **fields}


def call(call_id: str, name: str, args: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": args, **fields}


def result(call_id: str, name: str, kind: str, value: Any) -> dict[str, Any]:
    output = {"type": kind, "value": value}
    return {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output}


MARK = option(cacheControl={"type": "ephemeral", "ttl": "1h"})
TEXT = {"type": "text", "text": "hi"}
PAGES = [{"type": "web_search_result", "title": "T", "url": "https://x.example", "encrypted_content": "e"}]
CITATION = {
    "type": "web_search_result_location",
    "cited_text": "c",
    "encrypted_index": "i",
    "title": "T",
    "url": "https://x.example",
}
RAN = {"type": "bash_code_execution_result", "stdout": "42", "stderr": "", "return_code": 0, "content": []}
JSON = {"type": "json", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}

REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"settings": {"stop_sequences": ["END"], "max_output_tokens": 9}},
    "system": {"prompt": [{"role": "system", "content": "Be kind.", **MARK}, *HI.prompt]},
    "files": {
        "prompt": [
            {
                "role": "user",
                "content": [
                    TEXT,
                    file("image/png", "iVBORw0KGgo="),
                    file("image/*", "https://x.example/a.png"),
                    file("image/png", "file_1"),
                    file("application/pdf", "JVBERg==", filename="a.pdf", **option(citations={"enabled": True})),
                    file("application/pdf", "https://x.example/a.pdf", **MARK),
                    file("application/pdf", "file_2", **option(context="c", title="t")),
                    file("text/plain", "aGk="),
                    file("text/csv", "file_3", **option(containerUpload=True)),
                ],
            }
        ]
    },
    "calls": {
        "prompt": [
            *HI.prompt,
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "hm", **option(signature="s==")},
                    {"type": "reasoning", "text": "", **option(redactedData="r==")},
                    {**TEXT, **option(citations=[CITATION])},
                    call("toolu_1", "f", {"a": 1}),
                    call("toolu_2", "f", "{}", **option(caller={"type": "code_execution_20260120", "tool_id": "s"})),
                    call("toolu_3", "f", {}),
                ],
            },
            {
                "role": "tool",
                "content": [
                    result("toolu_1", "f", "text", "ok"),
                    result("toolu_2", "f", "error-text", "no"),
                    result("toolu_3", "f", "content", [TEXT, file("image/png", "iVBORw0KGgo=")]),
                ],
            },
        ],
        "tools": [ToolSpec(name="f", description="d", input_schema={"properties": {"a": {"type": "integer"}}})],
        "tool_choice": {"type": "tool", "toolName": "f"},
        "provider_options": {"anthropic": {"disableParallelToolUse": True, "toolStreaming": True}},
    },
    "tools of the API": {
        "prompt": [
            *HI.prompt,
            {
                "role": "assistant",
                "content": [
                    call("srvtoolu_1", "web_search", {"query": "q"}, providerExecuted=True),
                    result("srvtoolu_1", "web_search", "json", PAGES),
                    call("srvtoolu_2", "bash_code_execution", {"command": "c"}, providerExecuted=True),
                    result("srvtoolu_2", "bash_code_execution", "json", RAN),
                    call("srvtoolu_3", "web_fetch", {"url": "u"}, providerExecuted=True),
                    result("srvtoolu_3", "web_fetch", "text", "what a hook left of it"),
                    TEXT,
                    file("text/csv", "file_1"),
                ],
            },
        ],
        "provider_options": {
            "anthropic": {
                "tools": [
                    {"type": "web_search_20260318", "name": "web_search", "max_uses": 2},
                    {"type": "code_execution_20260521", "name": "code_execution"},
                ],
                "container": "container_1",
            }
        },
    },
    "options": {
        "provider_options": {
            "anthropic": {
                "thinking": {"type": "enabled", "budgetTokens": 1024, "display": "summarized"},
                "effort": "high",
                "metadata": {"userId": "u"},
                "cacheControl": {"type": "ephemeral"},
                "serviceTier": "standard_only",
            }
        }
    },
    "output format": {"response_format": JSON},
    "answer through a tool": {
        "response_format": JSON,
        "provider_options": {"anthropic": {"structuredOutputMode": "jsonTool"}},
    },
}


@pytest.mark.parametrize("name", list(REQUESTS))
def test_the_sdk_knows_everything_that_we_send(name: str) -> None:
    """A field that the SDK's types do not have would be missing from what they return."""
    request = ModelRequest(**{"prompt": HI.prompt, **REQUESTS[name]})
    body = to_anthropic(request, "claude-sonnet-5-5", API_VERSION, []).body
    assert plain(_REQUEST.validate_python(body)) == body
