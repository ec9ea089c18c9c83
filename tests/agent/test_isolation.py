"""Nothing is shared between requests but what the caller shares on purpose (R1.19, R8.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import Agent, Message, Processor
from interlock.memory import InMemoryStore, Memory
from interlock.messages import MessageContent
from interlock.messages.parts import TextPart, ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel

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
