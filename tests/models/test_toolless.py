from __future__ import annotations

from typing import Any

import pytest

from interlock.chunks import Chunk, GenericChunk, ToolCall, chunk_to_dict
from interlock.errors import ModelError
from interlock.models import ModelRequest, ToolSpec
from interlock.models.toolless import ToollessModel
from interlock.testing import ScriptedModel, drain, finish, text, text_of, types_of

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"email": {"type": "string"}, "name": {"type": "string"}}}
LOOKUP = ToolSpec(name="lookup", description="Find a customer.", input_schema=SCHEMA)
LOOK = {"type": "tool", "toolName": "lookup"}


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def start() -> GenericChunk:
    return GenericChunk(type="stream-start", payload={"warnings": []})


async def asked(turn: Any, **fields: Any) -> tuple[ScriptedModel, list[Chunk]]:
    inner = ScriptedModel([turn], provider="local", model_id="tiny")
    request = ModelRequest(**{"prompt": [user("I am a@b.example")], **fields})
    return inner, await drain(ToollessModel(inner).stream(request))


async def test_a_named_tool_is_called_with_what_the_model_wrote() -> None:
    """R5.6, R12.11"""
    _, chunks = await asked([start(), text('{"email": ', '"a@b.example"}')], tools=[LOOKUP], tool_choice=LOOK)
    assert types_of(chunks) == [
        "stream-start",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
        "finish",
    ]
    call = chunks[-2]
    assert isinstance(call, ToolCall)
    assert (call.payload.tool_name, call.payload.args) == ("lookup", {"email": "a@b.example"})
    assert chunk_to_dict(chunks[-1])["payload"]["stepResult"]["reason"] == "tool-calls"
    assert len({chunk.payload.tool_call_id for chunk in chunks[1:-1]}) == 1  # type: ignore[attr-defined]


async def test_the_arguments_are_forced_by_the_tools_schema() -> None:
    """R12.11"""
    inner, _ = await asked("{}", tools=[LOOKUP], tool_choice=LOOK, settings={"temperature": 1.0, "seed": 3})
    request = inner.requests[0]
    assert request.response_format == {"type": "json", "name": "lookup", "schema": SCHEMA}
    assert request.tools == []
    assert request.tool_choice is None
    assert request.settings == {"temperature": 0.0, "max_output_tokens": 256, "seed": 3}
    assert request.prompt[-1] == user("Text: I am a@b.example\nValues: email, name")


async def test_arguments_cut_off_stay_text_and_keep_their_reason() -> None:
    """R5.6"""
    _, chunks = await asked([text('{"email": '), finish("length")], tools=[LOOKUP], tool_choice=LOOK)
    call = chunks[-2]
    assert isinstance(call, ToolCall)
    assert call.payload.args == '{"email": '
    assert chunk_to_dict(chunks[-1])["payload"]["stepResult"]["reason"] == "length"


async def test_naming_a_tool_that_is_not_there_is_an_error() -> None:
    """R12.11"""
    with pytest.raises(ModelError, match="tool_choice names 'lookup', which is not among the tools"):
        await asked("{}", tools=[], tool_choice=LOOK)


@pytest.mark.parametrize("choice", ["auto", "required", None])
async def test_other_tools_are_left_out_with_a_warning(choice: str | None) -> None:
    """R12.11"""
    inner, chunks = await asked([start(), "hi"], tools=[LOOKUP], tool_choice=choice)
    assert inner.requests[0].tools == []
    assert isinstance(chunks[0], GenericChunk)
    assert chunks[0].payload["warnings"] == [
        {
            "type": "other",
            "message": "local/tiny cannot choose a tool, so these were left out: lookup; let tool_choice name one",
        }
    ]
    assert text_of(chunks) == "hi"


@pytest.mark.parametrize("fields", [{"tools": [LOOKUP], "tool_choice": "none"}, {}])
async def test_there_is_no_warning_where_no_tool_was_wanted(fields: dict[str, Any]) -> None:
    """R12.11"""
    _, chunks = await asked([start(), "hi"], **fields)
    assert isinstance(chunks[0], GenericChunk)
    assert chunks[0].payload["warnings"] == []


async def test_earlier_calls_and_results_are_told_in_words() -> None:
    """R4.10"""
    prompt = [
        {"role": "system", "content": "Be kind."},
        user("Where is my order?"),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "One moment."},
                {"type": "tool-call", "toolCallId": "c", "toolName": "lookup", "input": {}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c",
                    "toolName": "lookup",
                    "output": {"type": "json", "value": {"status": "shipped"}},
                }
            ],
        },
    ]
    inner, _ = await asked("ok", prompt=prompt)
    assert inner.prompts[0] == [
        {"role": "system", "content": "Be kind."},
        user("Where is my order?"),
        {"role": "assistant", "content": [{"type": "text", "text": "One moment. Let me ask lookup."}]},
        user('lookup says: {"status":"shipped"}\nWhat does that mean for me?'),
    ]


async def test_closing_the_stream_closes_the_models_stream() -> None:
    """R12.28"""
    inner = ScriptedModel(["hi"])
    stream = ToollessModel(inner).stream(ModelRequest(prompt=[user("hi")], tools=[LOOKUP], tool_choice=LOOK))
    await anext(stream)
    assert inner.open_streams == 1
    await stream.aclose()
    assert inner.open_streams == 0
