"""Whole runs on recorded replies: what one call brought is what the next one gives back."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Agent, tool
from interlock.memory import InMemoryStore, Memory
from tests.models.responses_server import ResponsesServer, fixture
from tests.models.wire import event_reply

THREAD = {"thread": "t", "resource": "r"}

pytestmark = pytest.mark.anyio


async def get_weather(city: str) -> str:
    """Tells the weather.

    Args:
        city: Where.
    """
    return f"Sunny in {city}."


def replies(*names: str) -> ResponsesServer:
    return ResponsesServer(*(event_reply([fixture(name)]) for name in names))


def agent_on(server: ResponsesServer) -> Agent:
    return Agent(id="a", model=server.model, tools=[tool(get_weather)], memory=Memory(InMemoryStore()))


async def test_a_call_goes_back_with_its_reasoning_and_its_result() -> None:
    """FR-104, R4.15"""
    server = replies("reasoning_tool", "text")
    result = await agent_on(server).generate("How is it in Tromsø?")
    assert result.text == "Grüße, 世界 👋🏽 from\n\u2028the other side."
    assert server.body["input"][1:] == [
        {
            "type": "reasoning",
            "id": "rs_02tool",
            "summary": [
                {"type": "summary_text", "text": "**Looking up** the weather."},
                {"type": "summary_text", "text": "Oslo is in Norway."},
            ],
            "encrypted_content": "gAAAAABo-wea-ther-encrypted-0123456789==",
        },
        {
            "type": "function_call",
            "id": "fc_02tool",
            "call_id": "call_02tool",
            "name": "get_weather",
            "arguments": '{"city":"Tromsø ❄️"}',
        },
        {"type": "function_call_output", "call_id": "call_02tool", "output": "Sunny in Tromsø ❄️."},
    ]


async def second_input(first: str) -> list[dict[str, Any]]:
    """What the second call of a conversation gives back of the first."""
    server = replies(first, "text")
    agent = agent_on(server)
    for question in ("one", "two"):
        await agent.generate(question, memory=THREAD)
    items: list[dict[str, Any]] = server.body["input"]
    return items[1:-1]


async def test_a_message_goes_back_with_its_reasoning() -> None:
    """FR-104: the item's id, which came on its start, is kept"""
    reasoning, message = await second_input("secret_reasoning")
    assert reasoning == {"type": "reasoning", "id": "rs_04sec", "summary": []}
    assert (message["id"], message["phase"]) == ("msg_04sec", "final_answer")
    assert message["content"][0]["text"] == "Forty-two."


async def test_a_search_goes_back_with_its_reasoning_and_its_sources() -> None:
    """R4.13, FR-104"""
    items = await second_input("web_search")
    assert [item["id"] for item in items] == ["rs_06a", "ws_06a", "rs_06b", "ws_06b", "msg_06"]
    assert len(items[1]["action"]["sources"]) == 2


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("code_interpreter", ["code_interpreter_call", None]),
        ("file_search", ["file_search_call", None]),
        ("mcp", ["mcp_call", "mcp_call", None]),
        ("image", ["image_generation_call", None]),
        ("text", [None]),
    ],
)
async def test_what_the_provider_executed_goes_back(name: str, types: list[str | None]) -> None:
    """R4.13; a message that needs no id goes back without one"""
    assert [item.get("type") for item in await second_input(name)] == types
