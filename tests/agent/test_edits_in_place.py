"""What output hooks change in live messages shows in the steps and the result, however they got hold of it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Agent, Message, Processor
from interlock.messages import MessageContent
from interlock.messages.parts import TextPart, ToolInvocationPart
from interlock.testing import ScriptedModel, text, tool_call
from tests.agent.kit import Drive, Make, agent_of, echo

pytestmark = pytest.mark.anyio


def _parts_of_messages(args: Any) -> Any:
    return args.messages[-1].content.parts


def _parts_of_list(args: Any) -> Any:
    return args.message_list.get.response.db()[-1].content.parts


def _parts_by_id(args: Any) -> Any:
    message_list = args.message_list
    (known,) = message_list.get.response.ui()
    return message_list.get_by_id(known["id"]).content.parts


@pytest.mark.parametrize("reach", [_parts_of_messages, _parts_of_list, _parts_by_id, lambda args: args.steps[-1].parts])
async def test_the_step_follows_an_edit_in_place_by_whatever_way(drive: Drive, make: Make, reach: Any) -> None:
    """R2.30: what nobody got hold of is not compared, so every way to get hold of it has to count."""

    def edit(args: Any) -> None:
        reach(args)[-1].text = "edited"

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=edit)]))
    assert (outcome.text, outcome.steps[-1].text) == ("edited", "edited")


@pytest.mark.parametrize(
    "reach",
    [_parts_of_messages, _parts_of_list, _parts_by_id, lambda args: args.result.steps[-1].parts],
)
async def test_the_result_follows_an_edit_in_place_by_whatever_way(drive: Drive, make: Make, reach: Any) -> None:
    """R2.35: as for the step."""

    def edit(args: Any) -> None:
        reach(args)[-1].text = "edited"

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_result=edit)]))
    assert (outcome.text, outcome.steps[-1].text) == ("edited", "edited")


def note(words: str, **fields: Any) -> Message:
    return Message(**{"role": "user", **fields}, content=MessageContent(parts=[TextPart(text=words)]))


def _add(args: Any, message: Message) -> Any:
    args.message_list.add(message, "input")


def _add_among_others(args: Any, message: Message) -> Any:
    args.message_list.add([note("other"), message], "context")


def _return(args: Any, message: Message) -> Any:
    return [*args.message_list.stage(), message]


def _replace(args: Any, message: Message) -> Any:
    args.message_list.replace(args.message_list.stage()[0].id, message)


@pytest.mark.parametrize("bring", [_add, _add_among_others, _return, _replace])
@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_a_message_that_a_hook_brought_is_sent_as_the_hook_left_it(bring: Any, hook: str) -> None:
    """R2.2, R3.22: what is redacted later goes out redacted."""
    message = note("a secret")

    class Brings(Processor):
        id = "brings"
        process_input: Any = None
        process_output_step: Any

    def first(args: Any) -> Any:
        if not args.message_list.source_of(message):
            return bring(args, message)
        return None

    def later(args: Any) -> None:
        part = message.content.parts[0]
        assert isinstance(part, TextPart)
        part.text = "[R]"

    brings = Brings()
    setattr(brings, hook, first)
    brings.process_output_step = later
    model = ScriptedModel([tool_call("echo", {"text": "x"}), "end"])
    agent = Agent(id="a", model=model, tools=[echo], input_processors=[brings], output_processors=[brings])
    await agent.generate("hi")
    assert "a secret" in str(model.prompts[0])
    assert "[R]" in str(model.prompts[1])
    assert "secret" not in str(model.prompts[1])


class Own(Processor):
    """Begins the response with a message that it keeps, and edits that in every hook."""

    id = "own"

    def __init__(self) -> None:
        self.message = note("draft", role="assistant")

    def process_input_step(self, args: Any) -> None:
        if args.step_number == 0 and args.retry_count == 0:
            self.message.id = args.message_id
            args.message_list.add(self.message, "response")

    def process_output_step(self, args: Any) -> None:
        for part in self.message.content.parts:
            if isinstance(part, TextPart):
                part.text = part.text.replace("secret", "[R]")

    def process_tool_result(self, args: Any) -> None:
        for part in self.message.content.parts:
            if isinstance(part, ToolInvocationPart):
                part.tool_invocation.state = "result"
                part.tool_invocation.result = "[R]"


async def test_what_a_hook_redacts_in_a_message_of_its_own_is_redacted_everywhere() -> None:
    """R2.31, R10.7"""
    own = Own()
    model = ScriptedModel([[*text("the secret"), tool_call("echo", {"text": "x"})], "the secret end"])
    agent = Agent(id="a", model=model, tools=[echo], input_processors=[own], output_processors=[own])
    result = await agent.generate("hi")
    assert result.text == "the [R]the [R] end"
    assert [step.text for step in result.steps] == ["the [R]", "the [R] end"]
    assert [one.payload.result for one in result.tool_results] == ["[R]"]
    assert "secret" not in str(model.prompts[1])
    assert "x" not in [part["output"]["value"] for part in model.prompts[1][-1]["content"]]


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_step"])
async def test_what_a_hook_adds_to_a_message_of_its_own_goes_with_the_attempt(hook: str) -> None:
    """R7.9"""
    message = note("draft", role="assistant")

    class Adds(Processor):
        id = "adds"

        def process_input_step(self, args: Any) -> None:
            if args.message_list.source_of(message) is None:
                message.id = args.message_id
                args.message_list.add(message, "response")

    def reject(args: Any) -> Any:
        if args.retry_count == 0 and (hook == "process_output_step" or args.part.type == "text-delta"):
            message.content.parts.append(TextPart(text="REJECTED"))
            args.abort("no", retry=True)
        return args.part if hook == "process_output_stream" else None

    adds = Adds()
    setattr(adds, hook, reject)
    model = ScriptedModel(["bad", "good"])
    agent = Agent(id="a", model=model, input_processors=[adds], output_processors=[adds], max_processor_retries=1)
    result = await agent.generate("hi")
    assert "REJECTED" not in str(model.prompts[1])
    assert "REJECTED" not in str(result.message_list.serialize())
    assert "draft" in str(model.prompts[1])
