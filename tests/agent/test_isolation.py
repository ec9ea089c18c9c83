"""Nothing is shared between requests but what the caller shares on purpose (R1.19, R8.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Agent, APICallError, Message, ModelFallback, Processor, Tool, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages import MessageContent
from interlock.messages.parts import TextPart, ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.anyio


class Shouts(Processor):
    """Edits in place what it is given."""

    id = "shouts"

    def process_input(self, args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, TextPart):
                    part.text = part.text.upper()
                if isinstance(part, ToolInvocationPart):
                    part.tool_invocation.args["word"] = "X"


def conversation() -> list[Message]:
    call = ToolInvocation(state="result", tool_call_id="c", tool_name="t", args={"word": "a"}, result="r")
    return [
        Message(role="user", content=MessageContent(parts=[TextPart(text="hello")])),
        Message(role="assistant", content=MessageContent(parts=[ToolInvocationPart(tool_invocation=call)])),
    ]


async def test_a_hooks_edits_do_not_reach_the_callers_messages() -> None:
    given = conversation()
    before = [message.to_dict() for message in given]
    agent = Agent(id="a", model=ScriptedModel(["x"]), input_processors=[Shouts()])
    await agent.generate([*given, "bye"])
    assert [message.to_dict() for message in given] == before
    assert "HELLO" in str(agent.model.prompts[0])


async def test_a_hooks_edits_do_not_reach_the_callers_dicts() -> None:
    given = [message.to_dict() for message in conversation()]
    before = str(given)
    agent = Agent(id="a", model=ScriptedModel(["x"]), input_processors=[Shouts()])
    await agent.generate(given)
    assert str(given) == before


async def test_one_message_may_be_given_to_runs_of_different_threads() -> None:
    """R3.5"""
    store, given = InMemoryStore(), conversation()[:1]
    agent = Agent(id="a", model=ScriptedModel(lambda request: "x"), memory=Memory(store))
    await asyncio.gather(*(agent.generate(given, memory={"thread": f"t{n}", "resource": f"u{n}"}) for n in range(20)))
    for n in range(20):
        saved = await store.list_messages(f"t{n}", resource_id=f"u{n}")
        assert {(message.thread_id, message.resource_id) for message in saved} == {(f"t{n}", f"u{n}")}
    assert given[0].thread_id is None


class Grabby(ScriptedModel):
    """Changes the request that it is given, once it has read it."""

    def stream(self, request: Any) -> Any:
        chunks = super().stream(request)
        self.seen.append((dict(request.settings), [tool.name for tool in request.tools], request.provider_options))
        request.settings["temperature"] = 2
        request.tools.clear()
        (request.provider_options or {}).clear()
        return chunks

    seen: list[Any]


@tool
async def add(x: int) -> int:
    """Adds one."""
    return x + 1


@pytest.mark.parametrize("options", [{}, {"max_steps": 3}, {"prepare_step": lambda args: {"tool_choice": "auto"}}])
async def test_what_a_model_does_to_its_request_reaches_no_other_step_or_run(options: Any) -> None:
    """R1.19"""
    model = Grabby([tool_call("add", {"x": 1}), "one", tool_call("add", {"x": 1}), "two"])
    model.seen = []
    entry = ModelFallback(model, model_settings={"seed": 1}, provider_options={"p": {"a": 1}})
    agent = Agent(id="a", model=[entry], tools=[add])
    for _ in range(2):
        await agent.generate("hi", **options)
    assert len(model.seen) == 4
    assert [seen[:2] for seen in model.seen] == [({"seed": 1}, ["add"])] * 4


async def test_what_is_changed_of_an_agent_or_a_tool_counts_from_the_next_run_on() -> None:
    """R12.2"""
    model = ScriptedModel(["one", APICallError("down", is_retryable=True), "two"])
    calm = Tool(id="calm", description="before", input_schema={"type": "object"}, execute=lambda args: args)
    agent = Agent(id="a", model=model, tools=[calm])
    await agent.generate("hi")
    agent.max_retries = 1
    calm.description = "after"
    result = await agent.generate("hi")
    assert result.text == "two"
    calm.execute = None
    assert calm.is_client_side
    assert [request.tools[0].description for request in model.requests] == ["before", "after", "after"]


class Signs(ScriptedModel):
    """Puts who asked into the headers of its request, unless somebody is there already, as some adapters do."""

    user = ""
    sent: list[str]

    def stream(self, request: Any) -> Any:
        request.headers = request.headers or {}
        self.sent.append(request.headers.setdefault("x-user", self.user))
        return super().stream(request)


@pytest.mark.parametrize("headers", [None, {"x-app": "a"}])
async def test_what_a_model_puts_into_its_headers_goes_out_with_no_other_call(headers: dict[str, str] | None) -> None:
    """R1.19"""
    model = Signs([tool_call("add", {"x": 1}), "one", "two"])
    model.sent = []
    agent = Agent(id="a", model=[ModelFallback(model, headers=headers)], tools=[add])
    for model.user in ("ada", "ben"):
        await agent.generate("hi")
    assert model.sent == ["ada", "ada", "ben"]


class Refreshes(Processor):
    """Renews a token in the headers that it shares with the agent."""

    id = "refreshes"

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers

    def process_api_error(self, args: Any) -> dict[str, bool]:
        self.headers["authorization"] = "fresh"
        return {"retry": True}


@pytest.mark.parametrize("place", ["entry", "settings of the entry", "settings of the call"])
async def test_a_token_that_is_refreshed_in_place_is_sent_with_the_next_call(place: str) -> None:
    """R7.15, R12.3"""
    headers = {"authorization": "stale"}
    model = ScriptedModel([APICallError("401", status_code=401), "ok", "later"])
    own: dict[str, Any] = {
        "entry": {"headers": headers},
        "settings of the entry": {"model_settings": {"headers": headers}},
    }
    options: Any = {"model_settings": {"headers": headers}} if place == "settings of the call" else {}
    entry = ModelFallback(model, **own.get(place, {}))
    agent = Agent(id="a", model=[entry], error_processors=[Refreshes(headers)])
    assert (await agent.generate("hi", **options)).text == "ok"
    headers["authorization"] = "rotated"
    await agent.generate("hi", **options)
    sent = [(request.headers or request.settings["headers"])["authorization"] for request in model.requests]
    assert sent == ["stale", "fresh", "rotated"]
