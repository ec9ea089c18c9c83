"""What the API said in one call goes back to it in the next, through an agent's message list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock import Agent
from interlock.errors import APICallError
from interlock.tools import tool
from tests.models.anthropic_server import AnthropicServer, answer, block, fixture

pytestmark = pytest.mark.anyio


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"4° in {city}"


def bodies(server: AnthropicServer) -> list[Any]:
    return [json.loads(request.content) for request in server.requests]


def done() -> bytes:
    return answer(block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "4°."}))


async def test_thinking_goes_back_with_the_call_that_followed_it() -> None:
    """R4.15"""
    server = AnthropicServer(fixture("thinking"), done())
    result = await Agent(id="a", model=server.model, tools=[get_weather]).generate("Weather in Oslo?")
    assert result.text == "4°."
    assert bodies(server)[1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "The user asks for the weather.",
                    "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk=",
                },
                {
                    "type": "redacted_thinking",
                    "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
                },
                {
                    "type": "tool_use",
                    "id": "toolu_01C0000000000000000000cc",
                    "name": "get_weather",
                    "input": {"city": "Oslo"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01C0000000000000000000cc", "content": "4° in Oslo"}
            ],
        },
    ]


async def test_hidden_thinking_goes_back_too() -> None:
    """R4.15"""
    server = AnthropicServer(fixture("hidden_thinking"), done())
    agent = Agent(id="a", model=server.model)
    first = await agent.generate("Do it.")
    await agent.generate([*first.response.messages, {"role": "user", "content": "And now?"}])
    thinking = {"type": "thinking", "thinking": "", "signature": "Eo8CCkYICBgCKkDhidden"}
    assert thinking in [part for message in bodies(server)[1]["messages"] for part in message["content"]]


@pytest.mark.parametrize("name", ["web_search", "web_search_error", "code_execution"])
async def test_what_the_api_executed_goes_back_as_it_came(name: str) -> None:
    """R4.13"""
    server = AnthropicServer(fixture(name), done())
    agent = Agent(id="a", model=server.model)
    first = await agent.generate("How high is the Eiger?")
    await agent.generate([*first.response.messages, {"role": "user", "content": "Sure?"}])
    sent = [part for message in bodies(server)[1]["messages"] for part in message["content"]]
    lines = fixture(name).decode().splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    [came] = [event["content_block"] for event in events if "tool_use_id" in event.get("content_block", {})]
    call, result = sent[sent.index(came) - 1], sent[sent.index(came)]
    assert (call["type"], call["id"]) == ("server_tool_use", came["tool_use_id"])
    assert result == came


async def test_text_from_a_page_goes_back_with_its_citation() -> None:
    server = AnthropicServer(fixture("web_search"), done())
    agent = Agent(id="a", model=server.model)
    first = await agent.generate("How high is the Eiger?")
    assert first.text == "I'll search.It is 3,967 m high."
    await agent.generate([*first.response.messages, {"role": "user", "content": "Sure?"}])
    sent = [part for message in bodies(server)[1]["messages"] for part in message["content"]]
    [cited] = [part for part in sent if "citations" in part]
    assert cited["text"] == "3,967 m high"
    assert cited["citations"][0]["encrypted_index"] == "Eo8BCioIAhgBIiQyYjQ0OWJm"


async def test_a_call_cut_off_by_an_error_is_not_carried_out() -> None:
    """FR-100"""
    ran: list[str] = []

    @tool
    def f(a: int) -> str:
        """Does it."""
        ran.append("f")
        return "x"

    server = AnthropicServer(fixture("overloaded"))
    with pytest.raises(APICallError) as caught:
        await Agent(id="a", model=server.model, tools=[f]).generate("Go")
    assert caught.value.status_code == 529
    assert ran == []


async def test_a_call_cut_off_by_the_limit_is_not_carried_out() -> None:
    server = AnthropicServer(fixture("max_tokens"))
    result = await Agent(id="a", model=server.model).generate("Write.")
    assert result.finish_reason == "length"
    assert len(server.requests) == 1


async def test_a_typed_answer_is_asked_for_and_read() -> None:
    """R12.32"""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    native = answer(block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": '{"n": 7}'}))
    for server in (AnthropicServer(native), AnthropicServer(fixture("json_tool"), model_id="claude-opus-4-1")):
        result = await Agent(id="a", model=server.model).generate("n?", structured_output={"schema": schema})
        assert result.object == {"n": 7}
