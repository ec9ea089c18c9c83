"""What each hook may return, and what that does (runtime specification, sections 2 and 3.4)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from interlock import APICallError, Message, ProcessorError, tool
from interlock.chunks import DataChunk, TextDelta, TextDeltaPayload
from interlock.memory import InMemoryStore, Memory
from interlock.messages import MessageList
from interlock.messages.parts import MessageContent, TextPart
from interlock.processors import ProcessAPIErrorResult
from interlock.testing import ScriptedModel, text_of, tool_call, types_of
from tests.agent.kit import (
    THREAD,
    Drive,
    Make,
    Recorder,
    agent_of,
    chunks_of,
    echo,
    kept,
    made_sync,
    part_types,
    saved,
    streamed,
    told,
)

pytestmark = pytest.mark.anyio

INVALID = "PROCESSOR_RETURNED_INVALID_RESULT"
UNSUPPORTED = "PROCESSOR_RETURNED_UNSUPPORTED_MODEL"
BOTH = "PROCESSOR_RETURNED_MESSAGES_AND_MESSAGE_LIST"
EXTERNAL = "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST"


def user(text: str) -> Message:
    """An undated user message."""
    return Message(role="user", content=MessageContent(parts=[TextPart(text=text)]))


def array_of(hook: str) -> str:
    return "input_processors" if hook.startswith(("process_input", "process_llm")) else "output_processors"


@pytest.mark.parametrize(
    ("hook", "returned", "code"),
    [
        ("process_input", lambda args: 42, INVALID),
        ("process_input", lambda args: "text", INVALID),
        ("process_input", lambda args: [*args.messages, "not a message"], INVALID),
        ("process_input", lambda args: [*args.messages, {"id": "m", "text": "no role"}], INVALID),
        ("process_input", lambda args: {"messages": args.messages}, INVALID),
        ("process_input", lambda args: {"messages": args.messages, "system_messages": [], "more": 1}, INVALID),
        ("process_input", lambda args: MessageList(), EXTERNAL),
        ("process_input_step", lambda args: 42, INVALID),
        ("process_input_step", lambda args: {"unknown": 1}, INVALID),
        ("process_input_step", lambda args: {"messages": [], "message_list": args.message_list}, BOTH),
        ("process_input_step", lambda args: {"message_list": MessageList()}, EXTERNAL),
        ("process_input_step", lambda args: {"model": 42}, UNSUPPORTED),
        ("process_input_step", lambda args: {"model": "no slash"}, UNSUPPORTED),
        ("process_input_step", lambda args: {"model": "nobody/nothing"}, UNSUPPORTED),
        ("process_llm_request", lambda args: 42, INVALID),
        ("process_llm_request", lambda args: args.prompt, INVALID),
        ("process_llm_request", lambda args: {"prompt": "text"}, INVALID),
        ("process_llm_request", lambda args: {"promt": []}, INVALID),
        ("process_output_stream", lambda args: 42, INVALID),
        ("process_output_stream", lambda args: "text", INVALID),
        ("process_output_stream", lambda args: {"payload": {}}, INVALID),
        ("process_output_stream", lambda args: [args.part, 42], INVALID),
        ("process_output_step", lambda args: 42, INVALID),
        ("process_output_step", lambda args: {"messages": []}, INVALID),
        ("process_output_step", lambda args: MessageList(), EXTERNAL),
        ("process_tool_result", lambda args: "redacted", INVALID),
        ("process_tool_result", lambda args: MessageList(), EXTERNAL),
        ("process_output_result", lambda args: "text", INVALID),
        ("process_output_result", lambda args: MessageList(), EXTERNAL),
    ],
)
async def test_an_invalid_return_fails_the_run_and_names_its_processor(
    drive: Drive, make: Make, hook: str, returned: Any, code: str
) -> None:
    """R2.6"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    agent = agent_of(model, tools=[echo], **{array_of(hook): [make("wrong", **{hook: returned})]})
    outcome = await drive(agent)
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.code, outcome.error.processor_id, outcome.error.hook) == (code, "wrong", hook)  # type: ignore[attr-defined]
    assert "wrong" in str(outcome.error)
    assert model.open_streams == 0


async def test_messages_may_be_dicts_and_lists_may_be_tuples(drive: Drive, make: Make) -> None:
    """R2.7"""
    model = ScriptedModel(["x"])

    def rewrite(args: Any) -> Any:
        return tuple({**message.to_dict(), "role": "user"} for message in args.messages)

    outcome = await drive(agent_of(model, input_processors=[make(process_input=rewrite)]))
    assert told(model.prompts[0]) == [("user", "hi")]
    assert all(isinstance(message, Message) for message in outcome.message_list.get.all.db())


async def test_process_input_may_return_a_list_the_message_list_or_none(drive: Drive, make: Make) -> None:
    """R2.8"""
    model = ScriptedModel(["x", "x", "x"])
    for returned in (lambda args: args.messages, lambda args: args.message_list, lambda args: None):
        await drive(agent_of(model, instructions="SYS", input_processors=[make(process_input=returned)]))
    assert [told(prompt) for prompt in model.prompts] == [[("system", "SYS"), ("user", "hi")]] * 3


async def test_process_input_may_replace_messages_and_system_messages(drive: Drive, make: Make) -> None:
    """R2.8"""
    model = ScriptedModel(["x"])

    def replace(args: Any) -> Any:
        return {
            "messages": [user("new")],
            "system_messages": [*args.system_messages, {"role": "system", "content": "more"}],
        }

    await drive(agent_of(model, instructions="SYS", input_processors=[make(process_input=replace)]))
    assert told(model.prompts[0]) == [("system", "SYS"), ("system", "more"), ("user", "new")]


async def test_a_system_message_in_a_returned_list_becomes_an_untagged_system_message(drive: Drive, make: Make) -> None:
    """R2.9"""
    model = ScriptedModel(["x"])

    def add(args: Any) -> Any:
        two_parts = {"parts": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
        legacy = {"parts": [{"type": "text", "text": "part"}], "content": "legacy"}
        return [{"role": "system", "content": two_parts}, {"role": "system", "content": legacy}, *args.messages]

    outcome = await drive(agent_of(model, input_processors=[make(process_input=add)]))
    assert told(model.prompts[0]) == [("system", "one\ntwo"), ("system", "legacy"), ("user", "hi")]
    assert {message.role for message in outcome.message_list.get.all.db()} == {"user", "assistant"}


async def test_an_empty_list_from_process_input_leaves_the_system_messages_alone(drive: Drive, make: Make) -> None:
    """R2.10"""
    model = ScriptedModel(["x"])
    await drive(agent_of(model, instructions="SYS", input_processors=[make(process_input=lambda args: [])]))
    assert told(model.prompts[0]) == [("system", "SYS")]


async def test_returning_history_unchanged_does_not_save_it_again(drive: Drive, make: Make) -> None:
    """R2.10"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)
    agent = agent_of(["d"], memory=Memory(store), input_processors=[make(process_input=lambda args: args.messages)])
    outcome = await drive(agent, "c", memory=THREAD)
    assert kept(outcome.message_list.get.remembered.db()) == [("user", "a"), ("assistant", "b")]
    assert await saved(store) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]


async def test_system_messages_of_process_input_are_the_baseline_of_every_step(drive: Drive, make: Make) -> None:
    """R2.11"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    processor = make(
        process_input=lambda args: {"messages": args.messages, "system_messages": ["base"]},
        process_input_step=lambda args: {"system_messages": []} if args.step_number == 0 else None,
    )
    await drive(agent_of(model, tools=[echo], instructions="SYS", input_processors=[processor]))
    assert told(model.prompts[0])[0] == ("user", "hi")
    assert told(model.prompts[1])[0] == ("system", "base")


async def test_process_input_step_may_return_a_list_the_message_list_an_object_or_none(
    drive: Drive, make: Make
) -> None:
    """R2.12"""
    returns = [
        lambda args: [user("new")],
        lambda args: {"messages": [user("new")]},
        lambda args: args.message_list,
        lambda args: {"message_list": args.message_list},
        lambda args: {},
        lambda args: None,
    ]
    model = ScriptedModel(["x"] * len(returns))
    for returned in returns:
        await drive(agent_of(model, input_processors=[make(process_input_step=returned)]))
    assert [told(prompt) for prompt in model.prompts] == [[("user", "new")]] * 2 + [[("user", "hi")]] * 4


async def test_an_absent_key_keeps_and_none_clears(drive: Drive, make: Make) -> None:
    """R2.13"""
    seen: list[Any] = []
    returns = [{}, {"tool_choice": None, "active_tools": None, "provider_options": None}]
    processors = [
        make("first", process_input_step=lambda args: returns[0]),
        make("second", process_input_step=lambda args: seen.append((args.tool_choice, args.active_tools))),
        make("third", process_input_step=lambda args: returns[1]),
        make("fourth", process_input_step=lambda args: seen.append((args.tool_choice, args.active_tools))),
    ]
    await drive(
        agent_of(["x"], tools=[echo], input_processors=processors), tool_choice="required", active_tools=["echo"]
    )
    assert seen == [("required", ["echo"]), (None, None)]


async def test_none_as_model_or_messages_means_no_change(drive: Drive, make: Make) -> None:
    """R2.13"""
    model = ScriptedModel(["x"])
    processor = make(process_input_step=lambda args: {"model": None, "messages": None})
    outcome = await drive(agent_of(model, input_processors=[processor]))
    assert outcome.text == "x"
    assert told(model.prompts[0]) == [("user", "hi")]


async def test_overrides_last_for_the_step_and_message_changes_stay(drive: Drive, make: Make) -> None:
    """R2.14"""
    model = ScriptedModel([[tool_call("echo")], "x"])

    def first_only(args: Any) -> Any:
        if args.step_number == 0:
            return {"tool_choice": "required", "model_settings": {"seed": 1}, "messages": [user("new"), *args.messages]}
        return None

    await drive(agent_of(model, tools=[echo], input_processors=[make(process_input_step=first_only)]))
    assert [request.tool_choice for request in model.requests] == ["required", "auto"]
    assert [request.settings for request in model.requests] == [{"seed": 1}, {}]
    assert [told(prompt)[0] for prompt in model.prompts] == [("user", "new")] * 2


async def test_settings_replace_but_keep_retries_and_timeout(drive: Drive, make: Make) -> None:
    """R2.15"""
    model = ScriptedModel(["x"])
    setter = make(process_input_step=lambda args: {"model_settings": {"seed": 1}, "provider_options": {"b": {}}})
    await drive(
        agent_of(model, input_processors=[setter]),
        model_settings={"temperature": 1, "max_retries": 2, "timeout": {"total_ms": 60_000}},
        provider_options={"a": {}},
    )
    assert model.requests[0].settings == {"seed": 1, "max_retries": 2, "timeout": {"total_ms": 60_000}}
    assert model.requests[0].provider_options == {"b": {}}


async def test_given_retries_and_timeout_win(drive: Drive, make: Make) -> None:
    """R2.15"""
    model = ScriptedModel(["x"])
    setter = make(process_input_step=lambda args: {"model_settings": {"max_retries": 0}})
    await drive(agent_of(model, input_processors=[setter]), model_settings={"max_retries": 2, "seed": 1})
    assert model.requests[0].settings == {"max_retries": 0}


async def test_a_model_id_is_resolved_before_the_next_processor_runs(
    drive: Drive, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2.16"""
    monkeypatch.setenv("OPENAI_API_KEY", "not used")
    seen: list[tuple[str, str]] = []
    model = ScriptedModel(["x"], model_id="mine")
    processors = [
        make("first", process_input_step=lambda args: {"model": "openai/gpt-5.5"}),
        make("second", process_input_step=lambda args: seen.append((args.model.provider, args.model.model_id))),
        make("third", process_input_step=lambda args: {"model": model}),
    ]
    outcome = await drive(agent_of(ScriptedModel([]), input_processors=processors))
    assert seen == [("openai", "gpt-5.5")]
    assert outcome.text == "x"
    assert outcome.steps[0].model_id == "mine"


async def test_each_processor_sees_what_the_one_before_it_chose(drive: Drive, make: Make) -> None:
    """R2.17"""
    a, b = ScriptedModel([], model_id="A"), ScriptedModel(["x"], model_id="B")
    seen: list[str] = []

    def second(args: Any) -> Any:
        seen.append(args.model.model_id)
        return {"tool_choice": "none"}

    processors = [
        make("p1", process_input_step=lambda args: seen.append(args.model.model_id) or {"model": b}),
        make("p2", process_input_step=second),
    ]
    outcome = await drive(agent_of(a, tools=[echo], input_processors=processors))
    assert seen == ["A", "B"]
    assert (a.calls, b.calls) == (0, 1)
    assert b.requests[0].tool_choice == "none"
    assert outcome.text == "x"


async def test_a_tool_added_for_a_step_can_be_called_in_it_only(drive: Drive, make: Make) -> None:
    """R2.18"""
    model = ScriptedModel([[tool_call("echo")], [tool_call("echo")], "x"])
    adder = make(process_input_step=lambda args: {"tools": {"echo": echo}} if args.step_number == 0 else None)
    outcome = await drive(agent_of(model, input_processors=[adder]))
    assert [len(request.tools) for request in model.requests] == [1, 0, 0]
    assert [len(step.tool_results) for step in outcome.steps] == [1, 0, 0]


async def test_an_active_tool_that_does_not_exist_is_ignored(drive: Drive, make: Make) -> None:
    """R2.18"""
    model = ScriptedModel(["x"])
    chooser = make(process_input_step=lambda args: {"active_tools": ["echo", "nobody"]})
    await drive(agent_of(model, tools=[echo], input_processors=[chooser]))
    assert [spec.name for spec in model.requests[0].tools] == ["echo"]


async def test_tagged_system_messages_are_not_reset_between_steps(drive: Drive, make: Make) -> None:
    """R2.19"""
    model = ScriptedModel([[tool_call("echo")], "x"])

    def tag(args: Any) -> None:
        if args.step_number == 0:
            args.message_list.add_system("tagged", "mine")
            args.message_list.add_system("untagged")

    await drive(agent_of(model, tools=[echo], input_processors=[make(process_input_step=tag)]))
    systems = [[words for role, words in told(prompt) if role == "system"] for prompt in model.prompts]
    assert systems == [["untagged", "tagged"], ["tagged"]]


async def test_what_a_hook_adds_to_the_list_stays_and_is_added_once_an_attempt(drive: Drive, make: Make) -> None:
    """R2.20"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    adder = make(process_input_step=lambda args: args.message_list.add(f"note {args.step_number}", "context") and None)
    await drive(agent_of(model, tools=[echo], input_processors=[adder]))
    users = [[words for role, words in told(prompt) if role == "user"] for prompt in model.prompts]
    assert users == [["hi", "note 0"], ["hi", "note 0", "note 1"]]


async def test_a_returned_prompt_replaces_the_prompt_even_when_it_is_empty(drive: Drive, make: Make) -> None:
    """R2.21, R11.1"""
    model, seen = ScriptedModel(["x"]), list[Any]()
    processors = [
        make("empty", process_llm_request=lambda args: {"prompt": []}),
        make("see", process_llm_request=lambda args: seen.append(args.prompt)),
    ]
    await drive(agent_of(model, input_processors=processors))
    assert seen == [[]]
    assert model.prompts == [[]]


async def test_an_edited_prompt_that_is_not_returned_is_not_sent(drive: Drive, make: Make) -> None:
    """R2.21"""
    model, seen = ScriptedModel(["x"]), list[Any]()

    def edit(args: Any) -> None:
        args.prompt[0]["content"][0]["text"] = "edited"

    processors = [
        make("edit", process_llm_request=edit),
        make("see", process_llm_request=lambda args: seen.append(told(args.prompt))),
    ]
    await drive(agent_of(model, input_processors=processors))
    assert seen == [[("user", "hi")]]
    assert told(model.prompts[0]) == [("user", "hi")]


async def test_changes_of_the_prompt_reach_nothing_but_the_call(drive: Drive, make: Make) -> None:
    """R2.22"""
    store, model = InMemoryStore(), ScriptedModel(["x"])

    def rewrite(args: Any) -> Any:
        args.prompt[-1]["content"][0]["text"] = "rewritten"
        return {"prompt": args.prompt}

    agent = agent_of(model, memory=Memory(store), input_processors=[make(process_llm_request=rewrite)])
    outcome = await drive(agent, memory=THREAD)
    assert told(model.prompts[0]) == [("user", "rewritten")]
    assert await saved(store) == [("user", "hi"), ("assistant", "x")]
    assert "rewritten" not in json.dumps(outcome.message_list.get.all.ui())


@pytest.mark.parametrize("returned", ["text", [], {"prompt": []}, 42])
async def test_what_the_response_hook_returns_is_ignored(
    drive: Drive, make: Make, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """R2.23"""
    processor = make(process_llm_response=lambda args: returned)
    with caplog.at_level(logging.DEBUG, logger="interlock"):
        outcome = await drive(agent_of(["x"], input_processors=[processor]))
    assert outcome.text == "x"
    assert [record.levelno for record in caplog.records if "process_llm_response" in record.getMessage()] == [
        logging.DEBUG
    ]


def delta(text: str) -> TextDelta:
    """A text delta of the scripted model's span."""
    return TextDelta(payload=TextDeltaPayload(id="t", text=text))


def on_text(change: Any) -> Any:
    """A stream hook that returns ``change(part)`` for text deltas and passes all else."""

    def process_output_stream(args: Any) -> Any:
        return change(args.part) if args.part.type == "text-delta" else args.part

    return process_output_stream


def shout(part: Any) -> Any:
    part.payload.text = part.payload.text.upper()
    return part


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda part: part, "ab"),
        (shout, "AB"),
        (lambda part: delta(part.payload.text.upper()), "AB"),
        (
            lambda part: {
                "type": "text-delta",
                "payload": {"id": part.payload.id, "text": part.payload.text.upper()},
            },
            "AB",
        ),
        (lambda part: None, ""),
        (lambda part: [], ""),
        (lambda part: [part, delta("!")], "a!b!"),
        (lambda part: [delta("<"), {"type": "text-delta", "payload": {"id": "t", "text": ">"}}], "<><>"),
    ],
    ids=["same", "edited", "new", "dict", "none", "empty list", "list", "list with a dict"],
)
async def test_what_the_stream_hook_returns_is_what_everybody_sees(make: Make, change: Any, text: str) -> None:
    """R2.25, R19.1"""
    store, model, seen = InMemoryStore(), ScriptedModel([["a", "b"]]), list[Any]()
    later = make("later", process_output_stream=on_text(lambda part: seen.append(part.payload.text) or part))
    agent = agent_of(
        model,
        memory=Memory(store),
        output_processors=[make("first", process_output_stream=on_text(change)), later],
    )
    outcome = await streamed(agent, memory=THREAD)
    assert text_of(outcome.chunks) == text
    assert "".join(seen) == text
    assert outcome.text == text
    assert await saved(store) == [("user", "hi"), *([("assistant", text)] if text else [])]


async def test_a_replacement_gets_the_run_id_of_the_chunk_it_replaces(make: Make) -> None:
    """R2.26"""
    processor = make(process_output_stream=on_text(lambda part: delta("x")))
    outcome = await streamed(agent_of(["a"], output_processors=[processor]))
    (chunk,) = chunks_of(outcome.chunks, "text-delta")
    assert (chunk.run_id, chunk.from_) == (outcome.run_id, "AGENT")


async def test_a_chunk_may_change_its_type(make: Make) -> None:
    """R2.26"""
    change = on_text(lambda part: DataChunk(type="data-x", data=part.payload.text))
    outcome = await streamed(agent_of(["a"], output_processors=[make(process_output_stream=change)]))
    (chunk,) = chunks_of(outcome.chunks, "data-x")
    assert (chunk.data, chunk.run_id) == ("a", outcome.run_id)
    assert "text-delta" not in types_of(outcome.chunks)


def dropping(kind: str) -> Any:
    return lambda args: None if args.part.type == kind else args.part


async def test_a_dropped_text_is_gone_everywhere(drive: Drive, make: Make) -> None:
    """R2.27"""
    store = InMemoryStore()
    agent = agent_of(
        ["a"], memory=Memory(store), output_processors=[make(process_output_stream=dropping("text-delta"))]
    )
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == ""
    assert outcome.steps[0].text == ""
    assert await saved(store) == [("user", "hi")]


async def test_a_dropped_tool_result_is_hidden_but_recorded(make: Make) -> None:
    """R2.27"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    agent = agent_of(model, tools=[echo], output_processors=[make(process_output_stream=dropping("tool-result"))])
    outcome = await streamed(agent)
    assert "tool-result" not in types_of(outcome.chunks)
    assert told(model.prompts[1])[-1] == ("tool", "hey")


@pytest.mark.parametrize("kind", ["finish", "step-finish"])
async def test_dropping_a_finish_hides_it_from_the_client_only(make: Make, kind: str) -> None:
    """R2.27, R5.4"""
    steps: list[Any] = []
    agent = agent_of([["a"]], output_processors=[make(process_output_stream=dropping(kind))])
    outcome = await streamed(agent, on_step_finish=steps.append)
    assert outcome.finish_reason == "stop"
    assert outcome.usage.output_tokens == 3
    assert len(steps) == 1
    assert types_of(outcome.chunks).count("finish") == 1
    assert types_of(outcome.chunks).count("step-finish") == (0 if kind == "step-finish" else 1)


async def test_the_output_step_hook_may_return_the_list_a_list_or_none(drive: Drive, make: Make) -> None:
    """R2.28"""

    def rewrite(args: Any) -> Any:
        last = args.messages[-1].to_dict()
        last["content"]["parts"] = [{"type": "text", "text": "rewritten"}]
        return [*args.messages[:-1], last]

    expected = {rewrite: "rewritten", (lambda args: args.message_list): "x", (lambda args: None): "x"}
    for returned, text in expected.items():
        outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=returned)]))
        assert kept(outcome.message_list.get.all.db()) == [("user", "hi"), ("assistant", text)]
        assert outcome.text == text


async def test_a_message_that_the_output_step_hook_returns_anew_is_a_response(drive: Drive, make: Make) -> None:
    """R2.28, R3.22"""
    note = Message(role="assistant", content=MessageContent(parts=[TextPart(text="note")]))
    processor = make(process_output_step=lambda args: [*args.messages, note])
    outcome = await drive(agent_of(["x"], output_processors=[processor]))
    assert ("assistant", "note") in kept(outcome.message_list.get.response.db())


@pytest.mark.parametrize("hook", ["process_output_step", "process_tool_result"])
@pytest.mark.parametrize("empty", [[], ()])
async def test_an_empty_list_means_no_change(drive: Drive, make: Make, hook: str, empty: Any) -> None:
    """R2.29"""
    store, model = InMemoryStore(), ScriptedModel([[tool_call("echo")], "x"])
    agent = agent_of(model, tools=[echo], memory=Memory(store), output_processors=[make(**{hook: lambda args: empty})])
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == "x"
    assert await saved(store) == [("user", "hi"), ("assistant", "x")]
    assert told(model.prompts[1])[-1] == ("tool", "hey")


async def test_the_output_step_hook_can_clear_everything_through_the_list(drive: Drive, make: Make) -> None:
    """R2.29"""
    store = InMemoryStore()
    clearing = make(process_output_step=lambda args: args.message_list.clear.all.db() and None)
    await drive(agent_of(["x"], memory=Memory(store), output_processors=[clearing]), memory=THREAD)
    assert await saved(store) == []


async def test_tools_run_with_what_the_output_step_hook_left_in_the_list(drive: Drive, make: Make) -> None:
    """R2.30"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    def edit(args: Any) -> None:
        if args.step_number == 0:
            parts = args.messages[-1].content.parts
            parts[0].tool_invocation.args = {"text": "changed"}
            del parts[1]

    model = ScriptedModel([[tool_call("note", {"text": "one"}), tool_call("note", {"text": "two"})], "x"])
    outcome = await drive(agent_of(model, tools=[note], output_processors=[make(process_output_step=edit)]))
    assert ran == ["changed"]
    assert [call.payload.args for call in outcome.tool_calls] == [{"text": "changed"}]


async def test_removing_the_whole_response_runs_no_tool_and_ends_the_loop(drive: Drive, make: Make) -> None:
    """R2.30"""
    model = ScriptedModel([["hm", tool_call("echo")]])
    remove = make(process_output_step=lambda args: args.messages[:-1])
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[remove]))
    assert model.calls == 1
    assert outcome.tool_results == []
    assert outcome.text == ""


async def test_text_changed_by_the_output_step_hook_is_final_but_not_recalled(make: Make) -> None:
    """R2.31"""
    store = InMemoryStore()

    def edit(args: Any) -> None:
        args.messages[-1].content.parts[0].text = "clean"

    agent = agent_of(["dirty"], memory=Memory(store), output_processors=[make(process_output_step=edit)])
    outcome = await streamed(agent, memory=THREAD)
    assert text_of(outcome.chunks) == "dirty"
    assert outcome.text == "clean"
    assert outcome.steps[0].text == "clean"
    assert await saved(store) == [("user", "hi"), ("assistant", "clean")]


async def test_the_tool_result_hook_may_return_edited_messages(drive: Drive, make: Make) -> None:
    """R2.32"""
    model = ScriptedModel([[tool_call("echo")], "x"])

    def rewrite(args: Any) -> Any:
        last = args.messages[-1].to_dict()
        invocation = last["content"]["parts"][-1]["toolInvocation"]
        invocation.update(state="result", result="edited")
        return [*args.messages[:-1], last]

    outcome = await drive(agent_of(model, tools=[echo], output_processors=[make(process_tool_result=rewrite)]))
    assert told(model.prompts[1])[-1] == ("tool", "edited")
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["edited"]


@pytest.mark.parametrize("result", [{"retry": True}, ProcessAPIErrorResult(retry=True)], ids=["dict", "object"])
async def test_the_first_error_processor_that_asks_for_a_retry_ends_the_chain(
    drive: Drive, make: Make, result: Any
) -> None:
    """R2.33"""
    asked: list[str] = []
    processors = [
        make("no", process_api_error=lambda args: asked.append("no") or {"retry": False}),
        make("yes", process_api_error=lambda args: asked.append("yes") or result),
        make("late", process_api_error=lambda args: asked.append("late")),
    ]
    outcome = await drive(agent_of([APICallError("x", status_code=400), "fine"], error_processors=processors))
    assert asked == ["no", "yes"]
    assert outcome.text == "fine"


async def test_the_result_hook_may_rewrite_the_response_only(drive: Drive, make: Make) -> None:
    """R2.34"""
    store = InMemoryStore()
    await agent_of(["b"], memory=Memory(store)).generate("a", memory=THREAD)

    def rewrite(args: Any) -> Any:
        only = args.messages[0].to_dict()
        only["content"]["parts"] = [{"type": "text", "text": "D"}]
        return [only]

    agent = agent_of(["d"], memory=Memory(store), output_processors=[make(process_output_result=rewrite)])
    outcome = await drive(agent, "c", memory=THREAD)
    assert outcome.text == "D"
    assert await saved(store) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "D")]


async def test_an_empty_list_from_the_result_hook_removes_the_response(drive: Drive, make: Make) -> None:
    """R2.34"""
    store = InMemoryStore()
    agent = agent_of(["x"], memory=Memory(store), output_processors=[make(process_output_result=lambda args: [])])
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == ""
    assert outcome.response.messages == []
    assert await saved(store) == [("user", "hi")]


@pytest.mark.parametrize("returned", [lambda args: None, lambda args: args.message_list, lambda args: args.messages])
async def test_a_result_hook_that_changes_nothing_leaves_the_text(drive: Drive, make: Make, returned: Any) -> None:
    """R2.34, R2.35"""
    agent = agent_of(["x"], output_processors=[make(process_output_result=returned)])
    outcome = await drive(agent)
    assert (outcome.text, outcome.steps[-1].text) == ("x", "x")


async def test_a_changed_response_replaces_the_text_of_result_and_last_step(drive: Drive, make: Make) -> None:
    """R2.35, R12.24"""

    def edit(args: Any) -> None:
        args.messages[-1].content.parts[-1].text = "edited"

    agent = agent_of(
        [["one ", tool_call("echo")], "two"], tools=[echo], output_processors=[make(process_output_result=edit)]
    )
    outcome = await drive(agent)
    assert outcome.text == "one edited"
    assert outcome.steps[-1].text == "one edited"
    assert outcome.response.messages[-1]["content"][-1]["text"] == "edited"


async def test_messages_that_the_hook_added_itself_survive_its_returned_list(drive: Drive, make: Make) -> None:
    """R3.22"""
    model = ScriptedModel(["x"])

    def add_and_return(args: Any) -> Any:
        args.message_list.add("added", "input")
        return args.messages

    await drive(agent_of(model, input_processors=[make(process_input=add_and_return)]))
    assert told(model.prompts[0]) == [("user", "hi"), ("user", "added")]


async def test_both_return_styles_store_the_same(drive: Drive, make: Make) -> None:
    """R3.25"""

    def in_place(args: Any) -> Any:
        args.messages[0].content.parts[0].text = "same"
        return args.message_list

    def as_list(args: Any) -> Any:
        first = args.messages[0].to_dict()
        first["content"]["parts"] = [{"type": "text", "text": "same"}]
        return [first]

    for returned in (in_place, as_list):
        store = InMemoryStore()
        agent = agent_of(["x"], memory=Memory(store), input_processors=[make(process_input=returned)])
        await drive(agent, memory=THREAD)
        assert await saved(store) == [("user", "same"), ("assistant", "x")]


async def test_an_edited_response_part_of_any_type_survives(drive: Drive, make: Make) -> None:
    """R4.3, R2.28"""

    def retype(args: Any) -> None:
        args.messages[-1].content.parts[0].type = "thinking"

    recorder = Recorder()
    agent = agent_of(["x"], output_processors=[make(process_output_step=retype), recorder])
    outcome = await drive(agent)
    assert outcome.error is None
    assert part_types(outcome.message_list.get.response.db()[0]) == ["thinking"]


async def test_an_output_step_hook_may_take_parts_of_earlier_steps_out(drive: Drive, make: Make) -> None:
    """R2.30, R2.31"""
    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    def trim(args: Any) -> None:
        if args.step_number == 1:
            del args.messages[-1].content.parts[:2]

    model = ScriptedModel(
        [["one ", tool_call("note", {"text": "a"})], ["two ", tool_call("note", {"text": "b"})], "three"]
    )
    outcome = await drive(agent_of(model, tools=[note], output_processors=[make(process_output_step=trim)]))
    assert ran == ["a", "b"]
    assert [step.text for step in outcome.steps] == ["one ", "two ", "three"]
    assert outcome.text == "one two three"


async def test_an_output_step_hook_may_put_parts_before_those_of_the_step(drive: Drive, make: Make) -> None:
    """R2.30, R2.31"""

    def prepend(args: Any) -> None:
        if args.step_number == 1:
            args.messages[-1].content.parts.insert(0, TextPart(text="(note) "))

    model = ScriptedModel([["one ", tool_call("echo")], "two"])
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[make(process_output_step=prepend)]))
    assert [step.text for step in outcome.steps] == ["one ", "two"]
    assert kept(outcome.message_list.get.response.db()) == [("assistant", "(note) one two")]


async def test_a_call_that_a_stream_hook_adds_is_carried_out(drive: Drive, make: Make) -> None:
    """R2.25, R5.11"""

    def add(args: Any) -> Any:
        if args.part.type == "text-end" and args.step_number == 0:
            return [args.part, tool_call("echo", {"text": "added"}, id="c1")]
        return args.part

    model = ScriptedModel(["a", "b"])
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[make(process_output_stream=add)]))
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["added"]
    assert outcome.text == "ab"


def generating(args: Any) -> Any:
    yield args


async def generating_later(args: Any) -> Any:
    yield args


def stopping(args: Any) -> Any:
    raise StopIteration


def stopping_later(args: Any) -> Any:
    raise StopAsyncIteration


@pytest.mark.parametrize("mistake", [generating, generating_later, stopping, stopping_later])
@pytest.mark.parametrize(
    "hook", ["process_input", "process_input_step", "process_output_stream", "process_output_step"]
)
async def test_a_hook_that_yields_or_stops_iterating_is_a_failed_hook(drive: Drive, hook: str, mistake: Any) -> None:
    """R2.6, R17.1"""
    outcome = await drive(agent_of(["x"], **{array_of(hook): [made_sync("odd", **{hook: mistake})]}))
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("odd", hook)


async def test_a_copy_of_the_response_with_everything_redacted_keeps_the_steps_apart(drive: Drive, make: Make) -> None:
    """R2.28, R2.31"""

    def redact(args: Any) -> Any:
        copies = [message.to_dict() for message in args.messages]
        for message in copies:
            for part in message["content"]["parts"]:
                if part["type"] == "text":
                    part["text"] = part["text"].replace("o", "0")
        return copies

    ran: list[str] = []

    @tool(in_thread=False)
    def note(text: str) -> str:
        """Note the text."""
        ran.append(text)
        return text

    turns = [["one ", tool_call("note", {"text": "a"})], ["two ", tool_call("note", {"text": "b"})], "foo"]
    model = ScriptedModel(turns)
    outcome = await drive(agent_of(model, tools=[note], output_processors=[make(process_output_step=redact)]))
    assert [step.text for step in outcome.steps] == ["0ne ", "tw0 ", "f00"]
    assert ran == ["a", "b"]
    assert outcome.text == "0ne tw0 f00"


async def test_equal_texts_of_two_steps_stay_apart_when_the_first_is_taken_out(drive: Drive, make: Make) -> None:
    """R2.30, R3.18"""

    def trim(args: Any) -> None:
        if args.step_number == 1:
            del args.messages[-1].content.parts[:2]

    model = ScriptedModel([["OK", tool_call("echo")], "OK"])
    outcome = await drive(agent_of(model, tools=[echo], output_processors=[make(process_output_step=trim)]))
    assert [step.text for step in outcome.steps] == ["OK", "OK"]
    assert outcome.text == "OKOK"
