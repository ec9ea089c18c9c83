"""What each hook is given (runtime specification, section 2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, Message, Processor, RequestContext, ToolContext, tool
from interlock.messages import MessageList
from interlock.testing import ScriptedModel, finish, tool_call
from tests.agent.kit import NINE_HOOKS, Drive, Make, agent_of, echo, kept, look_at_every_hook, streamed

pytestmark = pytest.mark.anyio

COMMON = {
    "abort",
    "retry_count",
    "request_context",
    "tracing_context",
    "writer",
    "abort_signal",
    "state",
    "agent",
    "run_id",
    "emit",
    "cancel_run",
    "create_task",
    "budget",
}

OWN: dict[str, set[str]] = {
    "process_input": {"messages", "system_messages", "message_list"},
    "process_input_step": {
        "messages",
        "message_list",
        "step_number",
        "steps",
        "system_messages",
        "model",
        "tools",
        "tool_choice",
        "active_tools",
        "provider_options",
        "model_settings",
        "structured_output",
        "message_id",
    },
    "process_llm_request": {"prompt", "model", "message_list", "step_number", "steps"},
    "process_llm_response": {
        "chunks",
        "model",
        "step_number",
        "steps",
        "from_cache",
        "warnings",
        "request",
        "raw_response",
    },
    "process_output_stream": {"part", "stream_parts", "message_list", "from_cache"},
    "process_output_step": {
        "messages",
        "message_list",
        "step_number",
        "finish_reason",
        "provider_metadata",
        "tool_calls",
        "text",
        "usage",
        "system_messages",
        "steps",
    },
    "process_tool_result": {
        "messages",
        "message_list",
        "step_number",
        "tool_name",
        "tool_call_id",
        "args",
        "result",
        "provider_executed",
        "system_messages",
        "steps",
    },
    "process_api_error": {"error", "messages", "message_list", "step_number", "steps", "message_id"},
    "process_output_result": {"messages", "message_list", "result"},
}


@pytest.mark.parametrize("hook", NINE_HOOKS)
async def test_every_hook_has_the_common_arguments(hook: str) -> None:
    """R2.1"""
    missing: list[set[str]] = []

    def look(name: str, args: Any) -> None:
        if name == hook:
            missing.append({field for field in COMMON if not hasattr(args, field)})

    await look_at_every_hook(look)
    assert missing
    assert missing[0] == set()


@pytest.mark.parametrize("hook", NINE_HOOKS)
async def test_every_hook_has_its_own_arguments(hook: str) -> None:
    """R2.1"""
    missing: list[set[str]] = []

    def look(name: str, args: Any) -> None:
        if name == hook:
            missing.append({field for field in OWN[hook] if not hasattr(args, field)})

    await look_at_every_hook(look)
    assert missing
    assert missing[0] == set()


async def test_context_signal_agent_and_run_are_the_same_objects_in_every_hook() -> None:
    """R2.1, R14.1"""
    context, signal = RequestContext({"k": 1}), AbortSignal()
    seen: dict[str, set[tuple[int, int, int, str]]] = {}

    def look(hook: str, args: Any) -> None:
        marks = (id(args.request_context), id(args.abort_signal), id(args.agent), args.run_id)
        seen.setdefault(hook, set()).add(marks)

    await look_at_every_hook(look, request_context=context, abort_signal=signal, run_id="run-1")
    assert set(seen) == set(NINE_HOOKS)
    everything = set().union(*seen.values())
    assert len(everything) == 1
    assert {(marks[0], marks[1], marks[3]) for marks in everything} == {(id(context), id(signal), "run-1")}


async def test_only_process_input_has_no_writer() -> None:
    """R2.1"""
    without: set[str] = set()
    await look_at_every_hook(lambda hook, args: without.add(hook) if args.writer is None else None)
    assert without == {"process_input"}


async def test_the_message_list_is_one_live_object_in_every_hook_that_has_it() -> None:
    """R2.2"""
    seen: dict[str, MessageList] = {}

    def look(hook: str, args: Any) -> None:
        if hook != "process_llm_response":
            seen[hook] = args.message_list

    await look_at_every_hook(look)
    assert len(seen) == 8
    assert len({id(message_list) for message_list in seen.values()}) == 1


HOOKS_WITH_MESSAGES = [hook for hook in NINE_HOOKS if "messages" in OWN[hook]]


@pytest.mark.parametrize("hook", HOOKS_WITH_MESSAGES)
async def test_messages_are_a_fresh_list_of_live_elements(hook: str) -> None:
    """R2.2"""
    checked: list[bool] = []

    def look(name: str, args: Any) -> None:
        if name != hook or checked:
            return
        live = {id(message) for message in args.message_list.get.all.db()}
        checked.append(bool(args.messages) and all(id(message) in live for message in args.messages))
        args.messages.clear()
        checked.append(len(args.message_list.get.all.db()) == len(live))

    await look_at_every_hook(look)
    assert checked == [True, True]


@pytest.mark.parametrize("hook", NINE_HOOKS[1:])
async def test_removing_from_steps_has_no_effect(hook: str) -> None:
    """R2.2"""
    lengths: list[int] = []

    def look(name: str, args: Any) -> None:
        if name != "process_output_result":
            steps = getattr(args, "steps", None)
            if name == hook and steps is not None:
                steps.clear()
        else:
            lengths.append(len(args.result.steps))

    await look_at_every_hook(look)
    assert lengths == [2]


async def test_messages_show_what_earlier_processors_of_the_hook_did(drive: Drive, make: Make) -> None:
    """R2.3"""
    seen: list[list[tuple[str, str]]] = []
    processors = [
        make("adder", process_input=lambda args: args.message_list.add("more", "input")),
        make("viewer", process_input=lambda args: seen.append(kept(args.messages))),
    ]
    await drive(agent_of(["x"], input_processors=processors))
    assert seen == [[("user", "hi"), ("user", "more")]]


async def test_system_messages_are_copies_of_the_untagged_ones(drive: Drive, make: Make) -> None:
    """R2.4"""
    seen: list[Any] = []

    def tag(args: Any) -> None:
        args.message_list.add_system("tagged", "memory")
        args.system_messages[0]["content"] = "edited"

    processors = [
        make("tag", process_input=tag),
        make("see", process_input=lambda args: seen.append(args.system_messages)),
    ]
    await drive(agent_of(["x"], instructions=["A", "B"], input_processors=processors))
    assert seen == [[{"role": "system", "content": "A"}, {"role": "system", "content": "B"}]]


async def test_the_tool_result_hook_sees_untagged_then_tagged_system_messages(drive: Drive, make: Make) -> None:
    """R2.4"""
    seen: list[list[str]] = []
    tagger = make("tag", process_input=lambda args: args.message_list.add_system("T", "memory") and None)
    viewer = make("see", process_tool_result=lambda args: seen.append([one["content"] for one in args.system_messages]))
    await drive(
        agent_of(
            [[tool_call("echo")], "x"],
            tools=[echo],
            instructions="SYS",
            input_processors=[tagger],
            output_processors=[viewer],
        )
    )
    assert seen == [["SYS", "T"]]


async def test_steps_are_the_accepted_ones_and_the_current_one_where_there_is_a_reply() -> None:
    """R2.5"""
    seen: dict[str, list[tuple[int, int]]] = {}

    def look(hook: str, args: Any) -> None:
        if "steps" in OWN[hook]:
            seen.setdefault(hook, []).append((args.step_number, len(args.steps)))

    await look_at_every_hook(look)
    assert seen == {
        "process_input_step": [(0, 0), (0, 0), (1, 1)],
        "process_llm_request": [(0, 0), (0, 0), (1, 1)],
        "process_api_error": [(0, 0)],
        "process_llm_response": [(0, 1), (1, 2)],
        "process_output_step": [(0, 1), (1, 2)],
        "process_tool_result": [(0, 1)],
    }


async def test_the_current_step_has_everything_but_tool_results(drive: Drive, make: Make) -> None:
    """R2.5"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        step = args.steps[-1]
        seen.append((step.text, [call.payload.tool_name for call in step.tool_calls], len(step.tool_results)))
        seen.append(step.usage.output_tokens)

    agent = agent_of([["hm", tool_call("echo")], "x"], tools=[echo], output_processors=[make(process_output_step=look)])
    await drive(agent)
    assert seen[:2] == [("hm", ["echo"], 0), 3]


async def test_earlier_steps_have_their_tool_results(drive: Drive, make: Make) -> None:
    """R2.5, R2.12"""
    seen: list[list[Any]] = []

    def look(args: Any) -> None:
        seen.append([chunk.payload.result for step in args.steps for chunk in step.tool_results])

    agent = agent_of([[tool_call("echo")], "x"], tools=[echo], input_processors=[make(process_input_step=look)])
    await drive(agent)
    assert seen == [[], ["hey"]]


async def test_a_filtered_reply_is_not_among_the_steps(drive: Drive, make: Make) -> None:
    """R2.5"""
    seen: list[tuple[int, str]] = []
    metadata: list[Any] = []

    def look(args: Any) -> None:
        seen.append((len(args.steps), args.finish_reason))
        metadata.append(args.provider_metadata)

    filtered = finish("content-filter")
    filtered.payload.provider_metadata = {"openai": {"blocked": True}}
    await drive(agent_of([["so", filtered]], output_processors=[make(process_output_step=look)]))
    assert seen == [(0, "content-filter")]
    assert metadata == [{"openai": {"blocked": True}}]


async def test_a_rejected_attempt_is_not_among_the_steps(drive: Drive, make: Make) -> None:
    """R2.5"""
    seen: list[int] = []

    def look(args: Any) -> None:
        seen.append(len(args.steps))
        if len(seen) == 1:
            args.abort("again", retry=True)

    await drive(agent_of(["a", "b"], output_processors=[make(process_output_step=look)], max_processor_retries=1))
    assert seen == [1, 1]


async def test_process_input_sees_context_and_input_but_no_system_messages(drive: Drive, make: Make) -> None:
    """R2.10a"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        seen.append(kept(args.messages))
        seen.append(kept(args.message_list.get.input.db()))

    agent = agent_of(["x"], instructions="SYS", input_processors=[make(process_input=look)])
    await drive(agent, ["one", {"role": "system", "content": "S"}, "two"], context=["background"])
    assert seen == [
        [("user", "background"), ("user", "one"), ("user", "two")],
        [("user", "one"), ("user", "two")],
    ]


async def test_the_input_step_hook_sees_the_settings_of_the_call(drive: Drive, make: Make) -> None:
    """R2.12"""
    seen: list[Any] = []
    model = ScriptedModel(["x"])

    def look(args: Any) -> None:
        seen.append((args.model, list(args.tools), args.tool_choice, args.active_tools))
        seen.append((args.provider_options, dict(args.model_settings), args.structured_output))

    agent = agent_of(model, tools=[echo], input_processors=[make(process_input_step=look)])
    await drive(
        agent,
        tool_choice="required",
        active_tools=["echo"],
        provider_options={"openai": {"user": "u"}},
        model_settings={"temperature": 0.5},
    )
    assert seen == [
        (model, ["echo"], "required", ["echo"]),
        ({"openai": {"user": "u"}}, {"temperature": 0.5}, None),
    ]


async def test_the_dict_of_tools_is_a_copy(drive: Drive, make: Make) -> None:
    """R2.12"""
    model = ScriptedModel(["x"])
    agent = agent_of(model, tools=[echo], input_processors=[make(process_input_step=lambda args: args.tools.clear())])
    await drive(agent)
    assert [spec.name for spec in model.requests[0].tools] == ["echo"]


async def test_the_response_message_gets_the_announced_id(drive: Drive, make: Make) -> None:
    """R2.12"""
    ids: list[str] = []
    agent = agent_of(["x"], input_processors=[make(process_input_step=lambda args: ids.append(args.message_id))])
    outcome = await drive(agent)
    assert [message.id for message in outcome.message_list.get.response.db()] == ids


async def test_the_snapshot_of_the_second_step_holds_the_calls_and_results_of_the_first(
    drive: Drive, make: Make
) -> None:
    """R2.12"""
    seen: list[list[str]] = []

    def look(args: Any) -> None:
        seen.append([part.type for message in args.messages for part in message.content.parts])

    agent = agent_of([[tool_call("echo")], "x"], tools=[echo], input_processors=[make(process_input_step=look)])
    await drive(agent)
    assert seen == [["text"], ["text", "tool-invocation"]]


async def test_the_prompt_is_a_copy(drive: Drive, make: Make) -> None:
    """R2.21"""
    model = ScriptedModel(["x"])

    def deface(args: Any) -> None:
        args.prompt[0]["content"][0]["text"] = "defaced"
        args.prompt.clear()

    await drive(agent_of(model, input_processors=[make(process_llm_request=deface)]))
    assert model.prompts[0][0]["content"][0]["text"] == "hi"


async def test_the_response_hook_sees_chunks_of_type_and_payload_only(drive: Drive, make: Make) -> None:
    """R2.23, R11.6"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        seen.append([chunk.type for chunk in args.chunks])
        seen.append({key for chunk in args.chunks for key in chunk.to_dict()})
        seen.append((args.from_cache, args.model.model_id, args.step_number))

    await drive(agent_of([["a", "b"]], input_processors=[make(process_llm_response=look)]))
    assert seen == [
        ["step-start", "text-start", "text-delta", "text-delta", "text-end", "finish"],
        {"type", "payload"},
        (False, "scripted", 0),
    ]


async def test_request_and_response_hook_of_an_attempt_share_their_state(drive: Drive, make: Make) -> None:
    """R2.24"""
    keys: list[Any] = []
    processor = make(
        "pair",
        process_llm_request=lambda args: args.state.update(key=args.step_number),
        process_llm_response=lambda args: keys.append((args.step_number, args.state["key"])),
    )
    await drive(agent_of([[tool_call("echo")], "x"], tools=[echo], input_processors=[processor]))
    assert keys == [(0, 0), (1, 1)]


async def test_one_arguments_object_serves_all_chunks_of_a_run(make: Make) -> None:
    """R0.4"""
    objects: list[Any] = []

    def look(args: Any) -> Any:
        objects.append(args)
        return args.part

    await streamed(agent_of(["x"], output_processors=[make(process_output_stream=look)]))
    assert len(objects) > 3
    assert all(args is objects[0] for args in objects)


@pytest.mark.parametrize("field", ["messages", "state", "step_number", "message_list", "retry_count"])
async def test_assigning_to_an_argument_has_no_effect(drive: Drive, make: Make, field: str) -> None:
    """R0.4"""
    seen: list[Any] = []
    processors = [
        make("assigner", process_input_step=lambda args: setattr(args, field, "nonsense")),
        make("viewer", process_input_step=lambda args: seen.append(getattr(args, field))),
    ]
    outcome = await drive(agent_of(["x"], input_processors=processors))
    assert outcome.text == "x"
    assert seen[0] != "nonsense"


async def test_the_output_step_hook_sees_reason_text_calls_and_usage(drive: Drive, make: Make) -> None:
    """R2.28"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        calls = args.tool_calls
        seen.append(
            (
                args.step_number,
                args.finish_reason,
                args.text,
                None if calls is None else [(call.tool_name, call.tool_call_id, call.args) for call in calls],
                (args.usage.input_tokens, args.usage.output_tokens),
            )
        )

    agent = agent_of(
        [["hm", tool_call("echo", {"text": "yo"}, id="c1")], [finish("stop", None, None)]],
        tools=[echo],
        output_processors=[make(process_output_step=look)],
    )
    await drive(agent)
    assert seen == [
        (0, "tool-calls", "hm", [("echo", "c1", {"text": "yo"})], (5, 3)),
        (1, "stop", "", None, (None, None)),
    ]


async def test_the_output_step_hook_sees_the_new_response_among_the_messages(drive: Drive, make: Make) -> None:
    """R2.28"""
    seen: list[Any] = []
    await drive(
        agent_of(["x"], output_processors=[make(process_output_step=lambda args: seen.append(kept(args.messages)))])
    )
    assert seen == [[("user", "hi"), ("assistant", "x")]]


async def test_the_tool_result_hook_sees_the_call(drive: Drive, make: Make) -> None:
    """R2.32, R10.3"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        part = args.messages[-1].content.parts[-1]
        seen.append((args.tool_name, args.tool_call_id, args.args, args.result, args.provider_executed))
        seen.append((args.step_number, part.tool_invocation.state))

    agent = agent_of(
        [[tool_call("echo", {"text": "yo"}, id="c1")], "x"],
        tools=[echo],
        output_processors=[make(process_tool_result=look)],
    )
    await drive(agent)
    assert seen == [("echo", "c1", {"text": "yo"}, "yo", None), (0, "call")]


async def test_the_error_hook_sees_the_original_error(drive: Drive, make: Make) -> None:
    """R2.33, R7.14"""
    error, seen = APICallError("no", status_code=422), list[Any]()

    def look(args: Any) -> None:
        seen.append((args.error, kept(args.messages), args.step_number, args.steps, bool(args.message_id)))

    await drive(agent_of([error], error_processors=[make(process_api_error=look)]))
    assert seen == [(error, [("user", "hi")], 0, [], True)]


async def test_the_result_hook_sees_the_response_and_the_outcome(drive: Drive, make: Make) -> None:
    """R2.34"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        result = args.result
        seen.append([message.role for message in args.messages])
        seen.append((result.text, result.finish_reason, result.usage.output_tokens))
        seen.append([(step.text, len(step.tool_calls), len(step.tool_results)) for step in result.steps])

    agent = agent_of(
        [["one ", tool_call("echo")], "two"], tools=[echo], output_processors=[make(process_output_result=look)]
    )
    await drive(agent)
    assert seen == [["assistant"], ("one two", "stop", 6), [("one ", 1, 1), ("two", 0, 0)]]


async def test_the_result_hook_counts_the_usage_of_rejected_attempts_but_lists_accepted_steps(
    drive: Drive, make: Make
) -> None:
    """R2.34"""
    seen: list[Any] = []

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    processor = make(
        process_output_step=reject,
        process_output_result=lambda args: seen.append((args.result.usage.output_tokens, len(args.result.steps))),
    )
    await drive(agent_of(["bad", "good"], output_processors=[processor], max_processor_retries=1))
    assert seen == [(6, 1)]


async def test_stream_parts_hold_what_this_processor_received_over_steps_and_retries(make: Make) -> None:
    """R5.12"""
    seen: list[list[str]] = []

    def drop_b(args: Any) -> Any:
        is_b = args.part.type == "text-delta" and args.part.payload.text == "b"
        return None if is_b else args.part

    def look(args: Any) -> Any:
        assert args.stream_parts[-1] is args.part
        seen.append([part.payload.text for part in args.stream_parts if part.type == "text-delta"])
        return args.part

    first_lengths: list[int] = []

    def count(args: Any) -> Any:
        first_lengths.append(len(args.stream_parts))
        return args.part

    agent = agent_of(
        [["a", "b", tool_call("echo")], "c"],
        tools=[echo],
        output_processors=[
            make("count", process_output_stream=count),
            make("drop", process_output_stream=drop_b),
            make("look", process_output_stream=look),
        ],
    )
    await streamed(agent)
    assert seen[-1] == ["a", "c"]
    assert first_lengths == list(range(1, len(first_lengths) + 1))


async def test_stream_parts_span_a_retry(make: Make) -> None:
    """R5.12"""
    texts: list[str] = []

    def look(args: Any) -> Any:
        if args.part.type == "step-finish":
            texts[:] = [part.payload.text for part in args.stream_parts if part.type == "text-delta"]
        return args.part

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    processor = make(process_output_stream=look, process_output_step=reject)
    await streamed(agent_of(["bad", "good"], output_processors=[processor], max_processor_retries=1))
    assert texts == ["bad", "good"]


async def test_args_args_is_the_input_of_the_tool_and_the_runtime_field_names_do_not_clash(drive: Drive) -> None:
    """R2.32"""
    seen: list[Any] = []

    @tool
    async def add(a: int, b: int, context: ToolContext) -> int:
        seen.append(context.tool_call_id)
        return a + b

    class Sum(Processor):
        id = "sum"

        async def process_tool_result(self, args: Any) -> None:
            await asyncio.sleep(0)
            seen.append((args.args, args.result))

    await drive(agent_of([[tool_call("add", {"a": 1, "b": 2}, id="c9")], "3"], tools=[add], output_processors=[Sum()]))
    assert seen == ["c9", ({"a": 1, "b": 2}, 3)]


async def test_messages_are_message_objects() -> None:
    """R2.2"""
    kinds: set[type] = set()

    def look(hook: str, args: Any) -> None:
        if "messages" in OWN[hook]:
            kinds.update(type(message) for message in args.messages)

    await look_at_every_hook(look)
    assert kinds == {Message}
