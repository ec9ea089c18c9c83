"""How an agent is made, and the options of a call (runtime specification, sections 12.1 and 12.2)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock import Agent, APICallError, ConfigurationError, Message, ModelFallback, RequestContext, Tool, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import MessageContent, TextPart
from interlock.testing import ScriptedModel, drain, finish, text_of, tool_call
from tests.agent.kit import THREAD, Drive, Make, Recorder, agent_of, echo, saved, told

pytestmark = pytest.mark.anyio


def test_an_agent_needs_an_id_or_a_name() -> None:
    """R12.1"""
    assert Agent(name="Helper", model="openai/gpt-5").id == "Helper"
    assert Agent(id="h", name="Helper", model="openai/gpt-5").id == "h"
    with pytest.raises(ValueError, match="id"):
        Agent(model="openai/gpt-5")


async def test_every_setting_may_be_a_function_of_the_request_context(drive: Drive, make: Make) -> None:
    """R12.2"""
    seen: list[tuple[str, Any]] = []
    store = InMemoryStore()
    model = ScriptedModel([[tool_call("echo")], "x"])
    processor = make("p", process_input=lambda args: None)
    output = make("o", process_output_result=lambda args: None)
    error = make("e", process_api_error=lambda args: None)

    def asked(name: str, value: Any, is_async: bool) -> Any:
        def setting(arguments: Any) -> Any:
            seen.append((name, arguments.request_context.get("tenant")))
            return value

        async def setting_later(arguments: Any) -> Any:
            await asyncio.sleep(0)
            return setting(arguments)

        return setting_later if is_async else setting

    agent = Agent(
        id="agent",
        instructions=asked("instructions", "SYS", False),
        model=asked("model", model, True),
        tools=asked("tools", [echo], False),
        memory=asked("memory", Memory(store), True),
        input_processors=asked("input", [processor], False),
        output_processors=asked("output", [output], True),
        error_processors=asked("error", [error], False),
    )
    outcome = await drive(agent, request_context={"tenant": "acme"}, memory=THREAD)
    assert outcome.text == "x"
    assert sorted(seen) == sorted(
        (name, "acme") for name in ("instructions", "model", "tools", "memory", "input", "output", "error")
    )
    assert told(model.prompts[0])[0] == ("system", "SYS")
    assert await saved(store) == [("user", "hi"), ("assistant", "x")]


async def test_processor_functions_are_called_before_process_input(drive: Drive, make: Make) -> None:
    """R12.2"""
    order: list[str] = []
    agent = agent_of(
        ["x"],
        input_processors=[make(process_input=lambda args: order.append("process_input"))],
        output_processors=lambda arguments: order.append("function") or [],
    )
    await drive(agent)
    assert order == ["function", "process_input"]


async def test_a_function_that_the_call_overrides_is_not_called(drive: Drive) -> None:
    """R12.2"""
    called: list[int] = []
    agent = agent_of(["x"], input_processors=lambda arguments: called.append(1) or [])
    await drive(agent, input_processors=[])
    assert called == []


@pytest.mark.parametrize("returned", ["text", 3, {"id": "p"}])
async def test_a_processor_function_must_return_a_list(drive: Drive, returned: Any) -> None:
    """R12.2"""
    outcome = await drive(agent_of(["x"], output_processors=lambda arguments: returned))
    assert isinstance(outcome.error, ConfigurationError)
    assert "output_processors" in str(outcome.error)


async def test_models_are_tried_in_order_with_their_own_settings(drive: Drive) -> None:
    """R12.3"""
    down = ScriptedModel([APICallError("down", status_code=400)])
    off, good = ScriptedModel([]), ScriptedModel(["x"])
    agent = agent_of([])
    outcome = await drive(
        agent,
        model=[
            down,
            ModelFallback(off, enabled=False),
            ModelFallback(
                good, model_settings={"temperature": 0.1}, provider_options={"p": {"a": 1}}, headers={"x-tenant": "t"}
            ),
        ],
        model_settings={"seed": 1},
    )
    assert (outcome.text, down.calls, off.calls) == ("x", 1, 0)
    assert down.requests[0].settings == {"seed": 1}
    assert good.requests[0].settings == {"seed": 1, "temperature": 0.1}
    assert good.requests[0].provider_options == {"p": {"a": 1}}
    assert good.requests[0].headers == {"x-tenant": "t"}


async def test_a_list_of_models_without_an_enabled_one_is_refused(drive: Drive) -> None:
    """R12.3"""
    outcome = await drive(agent_of([]), model=[ModelFallback(ScriptedModel([]), enabled=False)])
    assert isinstance(outcome.error, ConfigurationError)


async def test_tools_are_a_mapping_by_name_or_a_list_by_id(drive: Drive) -> None:
    """R12.4"""
    for tools, name in (({"say": echo}, "say"), ([echo], "echo")):
        model = ScriptedModel([[tool_call(name)], "x"])
        outcome = await drive(agent_of(model, tools=tools))
        assert [spec.name for spec in model.requests[0].tools] == [name]
        assert len(outcome.tool_results) == 1


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ({"role": "system", "content": "one"}, ["one"]),
        ([{"role": "system", "content": "one"}, "two"], ["one", "two"]),
        (None, []),
        ("", []),
    ],
)
async def test_instructions_become_system_messages_in_order(
    drive: Drive, instructions: Any, expected: list[str]
) -> None:
    """R12.5"""
    model = ScriptedModel(["x"])
    await drive(agent_of(model, instructions=instructions))
    assert told(model.prompts[0]) == [*(("system", one) for one in expected), ("user", "hi")]


async def test_instructions_may_have_provider_options(drive: Drive) -> None:
    """R12.5"""
    model = ScriptedModel(["x"])
    cached = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    await drive(agent_of(model, instructions={"role": "system", "content": "one", "providerOptions": cached}))
    assert model.prompts[0][0]["providerOptions"] == cached


async def test_a_stream_may_be_awaited_entered_or_iterated() -> None:
    """R12.6"""
    agent = agent_of(["x", "x", "x"])
    awaited = await agent.stream("hi")
    assert await awaited.text == "x"
    async with agent.stream("hi") as entered:
        assert await entered.text == "x"
    assert text_of([chunk async for chunk in agent.stream("hi")]) == "x"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ({"role": "user", "content": "one"}, ["one"]),
        (Message(role="user", content=MessageContent(parts=[TextPart(text="one")])), ["one"]),
        ([{"role": "user", "content": "one"}, "two"], ["one", "two"]),
        ([{"role": "user", "parts": [{"type": "text", "text": "one"}]}], ["one"]),
    ],
    ids=["string", "strings", "dict", "message", "mixed", "ui message"],
)
async def test_messages_come_in_any_form(drive: Drive, messages: Any, expected: list[str]) -> None:
    """R12.6"""
    model = ScriptedModel(["x"])
    await drive(agent_of(model), messages)
    assert told(model.prompts[0]) == [("user", one) for one in expected]


async def test_an_unknown_option_is_a_type_error_that_names_the_nearest() -> None:
    """R12.7"""
    agent = agent_of(["x"])
    with pytest.raises(TypeError, match=r"max_step.*did you mean 'max_steps'"):
        await agent.generate("hi", max_step=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        agent.stream("hi", nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        agent_of(["x"], default_options={"nonsense": 1})


async def test_the_call_wins_over_the_default_options_key_by_key(drive: Drive) -> None:
    """R12.8"""
    model = ScriptedModel(["x", "x"])
    agent = agent_of(model, default_options={"model_settings": {"seed": 1, "top_k": 2}, "provider_options": {"a": {}}})
    await drive(agent, model_settings={"seed": 3})
    assert model.requests[0].settings == {"seed": 3}
    assert model.requests[0].provider_options == {"a": {}}
    await drive(agent, provider_options=None)
    assert model.requests[1].provider_options is None


async def test_none_for_a_processor_array_means_not_set(drive: Drive) -> None:
    """R12.8"""
    recorder = Recorder()
    await drive(agent_of(["x"], output_processors=[recorder]), output_processors=None)
    assert "process_output_result" in recorder.calls


@pytest.mark.parametrize("array", ["input_processors", "output_processors", "error_processors"])
async def test_an_array_of_the_call_replaces_the_agents_of_that_kind_only(drive: Drive, array: str) -> None:
    """R12.9"""
    agents, calls = Recorder("agent"), Recorder("call")
    model = ScriptedModel([APICallError("x", status_code=400)])
    await drive(agent_of(model, **agents.everywhere), **{array: [calls]})
    hooks = {
        "input_processors": "process_input",
        "output_processors": "process_output_result",
        "error_processors": "process_api_error",
    }
    for kind, hook in hooks.items():
        assert (hook in agents.calls) == (kind != array)
        assert (hook in calls.calls) == (kind == array)


async def test_prompt_order_is_system_history_context_input(drive: Drive) -> None:
    """R12.10"""
    store = InMemoryStore()
    await agent_of(["old answer"], memory=Memory(store)).generate("old question", memory=THREAD)
    model = ScriptedModel(["x"])
    agent = agent_of(model, instructions="agent", memory=Memory(store))
    await drive(agent, "input", memory=THREAD, instructions="call", system=["more"], context=["context"])
    assert told(model.prompts[0]) == [
        ("system", "call"),
        ("system", "more"),
        ("user", "old question"),
        ("assistant", "old answer"),
        ("user", "context"),
        ("user", "input"),
    ]
    assert await saved(store) == [
        ("user", "old question"),
        ("assistant", "old answer"),
        ("user", "input"),
        ("assistant", "x"),
    ]


async def test_tool_choice_is_auto_and_only_sent_with_tools(drive: Drive) -> None:
    """R12.11"""
    model = ScriptedModel(["x", "x", "x"])
    await drive(agent_of(model, tools=[echo]))
    await drive(agent_of(model))
    await drive(agent_of(model), tool_choice="none")
    assert [request.tool_choice for request in model.requests] == ["auto", None, "none"]


async def test_with_choice_none_a_call_is_refused(drive: Drive) -> None:
    """R12.11"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    outcome = await drive(agent_of(model, tools=[echo]), tool_choice="none")
    assert outcome.tool_results == []
    assert model.prompts[1][-1]["content"][0]["output"]["type"] == "error-text"


async def test_choosing_an_unknown_tool_is_an_error() -> None:
    """R12.11"""
    agent = agent_of(["x"], tools=[echo])
    with pytest.raises(ValueError, match=r"nobody.*echo"):
        await agent.generate("hi", tool_choice={"type": "tool", "toolName": "nobody"})


async def test_active_tools_hold_for_every_step(drive: Drive) -> None:
    """R12.11"""
    other = Tool(id="other", execute=lambda args: "x")
    model = ScriptedModel([[tool_call("echo")], "x"])
    await drive(agent_of(model, tools=[echo, other]), active_tools=["echo"])
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["echo"], ["echo"]]


def calling(request: Any) -> Any:
    return ["a", tool_call("echo")]


async def test_the_default_step_limit_is_five(drive: Drive) -> None:
    """R12.12"""
    model = ScriptedModel(calling)
    outcome = await drive(agent_of(model, tools=[echo]))
    assert (model.calls, outcome.finish_reason, outcome.text) == (5, "tool-calls", "aaaaa")
    assert len(outcome.tool_results) == 5


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_max_steps_bounds_the_steps(drive: Drive, limit: int) -> None:
    """R12.12"""
    model, recorder = ScriptedModel(calling), Recorder()
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[recorder]), max_steps=limit)
    assert (model.calls, len(outcome.steps)) == (limit, limit)
    assert recorder.calls.count("process_output_result") == 1


@pytest.mark.parametrize("limit", [0, -1, "3", 1.5, True])
async def test_a_step_limit_that_is_no_count_is_refused(limit: Any) -> None:
    """R12.12"""
    with pytest.raises(ValueError, match="max_steps"):
        await agent_of(["x"]).generate("hi", max_steps=limit)


async def test_stop_when_alone_lifts_the_default_limit(drive: Drive) -> None:
    """R12.12"""
    model = ScriptedModel(calling)
    await drive(agent_of(model, tools=[echo]), stop_when=lambda steps: len(steps) == 8)
    assert model.calls == 8


async def test_any_true_predicate_stops_and_the_first_limit_counts(drive: Drive) -> None:
    """R12.12"""

    async def later(steps: Any) -> bool:
        await asyncio.sleep(0)
        return len(steps) >= 2

    model = ScriptedModel(calling)
    await drive(agent_of(model, tools=[echo]), stop_when=[lambda steps: False, later], max_steps=4)
    assert model.calls == 2
    await drive(agent_of(model, tools=[echo]), stop_when=lambda steps: False, max_steps=3)
    assert model.calls == 2 + 3


async def test_stop_when_is_not_asked_after_a_step_that_ends_the_run_anyway(drive: Drive) -> None:
    """R12.12"""
    asked: list[list[int]] = []

    def predicate(steps: Any) -> bool:
        asked.append([len(step.tool_results) for step in steps])
        return False

    await drive(agent_of([[tool_call("echo")], "x"], tools=[echo]), stop_when=predicate)
    assert asked == [[1]]


async def test_prepare_step_gets_the_arguments_of_the_hook(drive: Drive) -> None:
    """R12.13"""
    seen: list[Any] = []

    async def prepare_step(args: Any) -> Any:
        await asyncio.sleep(0)
        seen.append((args.step_number, len(args.messages), args.model.model_id))
        return {"active_tools": []} if args.step_number else None

    model = ScriptedModel([[tool_call("echo")], "x"])
    await drive(agent_of(model, tools=[echo]), prepare_step=prepare_step)
    assert seen == [(0, 1, "scripted"), (1, 2, "scripted")]
    assert [len(request.tools) for request in model.requests] == [1, 0]


async def test_on_iteration_complete_is_told_of_each_accepted_step(drive: Drive, make: Make) -> None:
    """R12.14"""
    seen: list[Any] = []

    def note(context: Any) -> None:
        seen.append((context.iteration, context.max_iterations, context.text, context.is_final, context.finish_reason))
        seen.append((len(context.tool_calls), len(context.tool_results), len(context.messages)))

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        ["bad", ["a", tool_call("echo")], "b"],
        tools=[echo],
        output_processors=[make(process_output_step=reject)],
        max_processor_retries=1,
    )
    await drive(agent, max_steps=4, on_iteration_complete=note)
    assert seen == [(1, 4, "a", False, "tool-calls"), (1, 1, 2), (2, 4, "b", True, "stop"), (0, 0, 2)]


async def test_on_iteration_complete_may_stop_the_run_or_give_feedback(drive: Drive) -> None:
    """R12.14"""
    model = ScriptedModel([[tool_call("echo")], [tool_call("echo")], "x"])
    answers = [{"feedback": "be brief"}, {"continue": False}]

    async def answer(context: Any) -> Any:
        await asyncio.sleep(0)
        return answers[context.iteration - 1]

    outcome = await drive(agent_of(model, tools=[echo]), on_iteration_complete=answer)
    assert model.calls == 2
    assert ("user", "be brief") in told(model.prompts[1])
    assert outcome.finish_reason == "tool-calls"


async def test_a_failing_on_iteration_complete_is_logged(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """R12.14, R12.27"""

    def fail(context: Any) -> None:
        raise ValueError("callback broke")

    with caplog.at_level(logging.ERROR, logger="interlock"):
        outcome = await drive(agent_of([[tool_call("echo")], "x"], tools=[echo]), on_iteration_complete=fail)
    assert outcome.text == "x"
    assert "on_iteration_complete" in caplog.text


async def test_run_id_model_and_settings_of_the_call_are_used(drive: Drive) -> None:
    """R12.7"""
    model = ScriptedModel(["x"])
    outcome = await drive(
        agent_of([]), model=model, run_id="run-7", model_settings={"maxOutputTokens": 5, "temperature": 0}
    )
    assert outcome.run_id == "run-7"
    assert model.requests[0].settings == {"max_output_tokens": 5, "temperature": 0}


async def test_toolsets_and_client_tools_are_added(drive: Drive) -> None:
    """R12.7"""
    model = ScriptedModel(["x"])
    other = Tool(id="other", execute=lambda args: "x")
    await drive(agent_of(model, tools=[echo]), toolsets={"set": {"more": other}}, client_tools=[Tool(id="client")])
    assert sorted(spec.name for spec in model.requests[0].tools) == ["client", "echo", "more"]


async def test_options_do_not_leak_into_the_next_call(drive: Drive) -> None:
    """R12.8"""
    model = ScriptedModel([[finish("stop")], "x"])
    agent = agent_of(model, instructions="SYS", tools=[echo])
    await drive(agent, instructions="other", tool_choice="none", model_settings={"seed": 1}, max_steps=1)
    await drive(agent)
    assert told(model.prompts[1])[0] == ("system", "SYS")
    assert (model.requests[1].tool_choice, model.requests[1].settings) == ("auto", {})


async def test_an_empty_input_list_is_allowed(drive: Drive) -> None:
    """R12.6, R3.3"""
    model = ScriptedModel(["x"])
    outcome = await drive(agent_of(model, instructions="SYS"), [])
    assert outcome.text == "x"
    assert told(model.prompts[0]) == [("system", "SYS")]


async def test_tools_run_with_their_call_context(drive: Drive) -> None:
    """R12.2, R14.1"""

    @tool
    async def whoami() -> str:
        """Says who."""
        return "me"

    def tools(arguments: Any) -> Any:
        return [whoami] if arguments.request_context.get("admin") else []

    model = ScriptedModel(["x", "x"])
    agent = agent_of(model, tools=tools)
    await drive(agent, request_context=RequestContext({"admin": True}))
    await drive(agent)
    assert [len(request.tools) for request in model.requests] == [1, 0]


async def test_a_stream_can_be_drained_without_async_with() -> None:
    """R12.6"""
    stream = await agent_of(["x"]).stream("hi")
    assert text_of(await drain(stream)) == "x"
