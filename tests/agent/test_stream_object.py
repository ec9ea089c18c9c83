"""What a run gives back: the stream object and the result (runtime specification, section 12.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock import AbortSignal, AgentResult, AgentStream, APICallError
from interlock.messages.parts import ReasoningPart
from interlock.testing import ScriptedModel, drain, finish, reasoning, tool_call, types_of
from tests.agent.kit import Drive, Make, agent_of, echo, kept, told

pytestmark = pytest.mark.anyio

NAMES = [
    "text",
    "object",
    "reasoning",
    "reasoning_text",
    "sources",
    "files",
    "tool_calls",
    "tool_results",
    "usage",
    "total_usage",
    "finish_reason",
    "warnings",
    "steps",
    "request",
    "response",
    "provider_metadata",
    "content",
    "suspend_payload",
]

METADATA = {"type": "response-metadata", "payload": {"id": "resp-1", "modelId": "m-2", "headers": {"x-a": "b"}}}
SOURCE = {"type": "source", "payload": {"id": "s1", "url": "https://x.test", "title": "X"}}
FILE = {"type": "file", "payload": {"data": "aGk=", "mimeType": "image/png"}}


def rich() -> Any:
    """An agent whose run has something of everything, in two steps."""
    last = finish("stop")
    last.payload.provider_metadata = {"p": {"k": 1}}
    start = {"type": "stream-start", "payload": {"warnings": ["w"], "request": {"body": 1}}}
    turns = [
        [start, METADATA, *reasoning("think"), "one ", SOURCE, FILE, tool_call("echo", id="c1")],
        [start, METADATA, *reasoning(" more"), "two", last],
    ]
    return agent_of(turns, tools=[echo])


async def test_a_stream_has_the_values_of_the_result_to_be_awaited() -> None:
    """R12.15, R12.16, R12.25"""
    stream = await rich().stream("hi")
    awaited = {name: await getattr(stream, name) for name in NAMES}
    result = await rich().generate("hi")
    plain = {name: getattr(result, name) for name in NAMES}
    for name in ("text", "object", "reasoning_text", "finish_reason", "warnings", "provider_metadata"):
        assert awaited[name] == plain[name], name
    assert awaited["usage"].to_dict() == plain["usage"].to_dict()
    assert [chunk.payload.tool_call_id for chunk in awaited["tool_calls"]] == ["c1"]
    full = await stream.get_full_output()
    assert isinstance(full, AgentResult)
    for name in ("text", "finish_reason", "warnings", "content", "reasoning_text"):
        assert getattr(full, name) == awaited[name], name


async def test_the_result_of_a_rich_run(drive: Drive) -> None:
    """R12.20, R12.21"""
    outcome = await drive(rich())
    assert outcome.text == "one two"
    assert outcome.reasoning_text == "think more"
    assert all(isinstance(part, ReasoningPart) for part in outcome.reasoning)
    assert [source.payload.url for source in outcome.sources] == ["https://x.test"]
    assert [file.payload.mime_type for file in outcome.files] == ["image/png"]
    assert [chunk.payload.tool_name for chunk in outcome.tool_calls] == ["echo"]
    assert [chunk.payload.result for chunk in outcome.tool_results] == ["hey"]
    assert outcome.warnings == ["w"]
    assert outcome.request == {"body": 1}
    assert outcome.provider_metadata == {"p": {"k": 1}}


async def test_plain_attributes_tell_how_the_run_stands() -> None:
    """R12.15"""
    stream = await agent_of(["x"]).stream("hi", run_id="r1")
    assert isinstance(stream, AgentStream)
    assert (stream.run_id, stream.status, stream.tripwire, stream.error) == ("r1", "running", None, None)
    assert kept(stream.message_list.get.all.db()) == [("user", "hi")]
    await stream.consume_stream()
    assert (stream.status, stream.error) == ("success", None)


async def test_after_the_await_process_input_is_done_and_the_model_not_called(make: Make) -> None:
    """R12.17"""
    ran: list[str] = []
    model = ScriptedModel(["x"])
    stream = await agent_of(model, input_processors=[make(process_input=lambda args: ran.append("input"))]).stream("hi")
    assert ran == ["input"]
    await asyncio.sleep(0)
    assert model.calls == 0
    assert await stream.text == "x"


async def test_the_run_advances_only_as_it_is_pulled() -> None:
    """R12.17"""
    reached: list[str] = []
    model = ScriptedModel([["a", lambda: reached.append("after a"), "b"]])
    stream = await agent_of(model).stream("hi")
    iterator = stream.full_stream
    while (await anext(iterator)).type != "text-delta":
        pass
    for _ in range(5):
        await asyncio.sleep(0)
    assert reached == []
    assert await stream.text == "ab"
    assert reached == ["after a"]


@pytest.mark.parametrize("name", NAMES)
async def test_awaiting_any_value_drives_the_run_to_its_end(name: str) -> None:
    """R12.17"""
    model = ScriptedModel([[tool_call("echo")], "x"])
    stream = await agent_of(model, tools=[echo]).stream("hi")
    await getattr(stream, name)
    assert (stream.status, model.calls) == ("success", 2)


async def test_every_iterator_replays_from_the_first_chunk() -> None:
    """R12.17"""
    stream = await agent_of([["a", "b"]]).stream("hi")
    first, second = await drain(stream.full_stream), await drain(stream.full_stream)
    assert types_of(first)[0] == "start"
    assert [id(chunk) for chunk in first] == [id(chunk) for chunk in second]
    assert await drain(stream.text_stream) == ["a", "b"]


async def test_two_open_iterators_see_the_same_chunks() -> None:
    """R12.17"""
    model = ScriptedModel([["a", lambda: asyncio.sleep(0), "b"], "c"])
    stream = await agent_of(model).stream("hi")
    first, second = await asyncio.gather(drain(stream.full_stream), drain(stream.full_stream))
    assert [id(chunk) for chunk in first] == [id(chunk) for chunk in second]
    assert model.calls == 1


async def test_interleaved_iterators_and_values_agree() -> None:
    """R12.17"""
    stream = await agent_of([["a", "b", "c"]]).stream("hi")
    iterator = stream.text_stream
    assert await anext(iterator) == "a"
    assert await stream.text == "abc"
    assert await drain(iterator) == ["b", "c"]


async def test_leaving_an_iterator_early_neither_cancels_nor_advances() -> None:
    """R12.17"""
    reached: list[str] = []
    model = ScriptedModel([["a", lambda: reached.append("later"), "b"]])
    stream = await agent_of(model).stream("hi")
    async for chunk in stream.full_stream:
        if chunk.type == "text-delta":
            break
    await asyncio.sleep(0)
    assert (stream.status, reached, model.open_streams) == ("running", [], 1)
    assert await stream.text == "ab"
    assert model.open_streams == 0


@pytest.mark.parametrize("how", ["aclose", "async with"])
async def test_closing_cancels_the_provider_call_and_keeps_the_text(how: str) -> None:
    """R12.17, R12.28"""
    model = ScriptedModel([["a", "b"]])
    agent = agent_of(model)
    if how == "aclose":
        stream = await agent.stream("hi")
        async for text in stream.text_stream:
            assert text == "a"
            break
        await stream.aclose()
    else:
        async with agent.stream("hi") as stream:
            async for text in stream.text_stream:
                assert text == "a"
                break
    assert (stream.status, await stream.finish_reason, await stream.text) == ("canceled", "aborted", "a")
    assert model.open_streams == 0
    assert (await drain(stream.full_stream))[-1].type == "abort"


async def test_closing_a_finished_or_unstarted_stream_does_nothing() -> None:
    """R12.17"""
    model = ScriptedModel(["x"])
    stream = await agent_of(model).stream("hi")
    await stream.consume_stream()
    await stream.aclose()
    assert stream.status == "success"
    await agent_of(model).stream("hi").aclose()
    assert model.calls == 1


async def test_a_failed_stream_keeps_what_was_reached_and_object_raises() -> None:
    """R12.18"""
    error = APICallError("down", status_code=400)
    stream = await agent_of([["one ", tool_call("echo")], ["tw", error]], tools=[echo]).stream("hi")
    assert await stream.text == "one tw"
    assert await stream.finish_reason == "error"
    assert [step.text for step in await stream.steps] == ["one "]
    assert (await stream.usage).output_tokens == 3
    assert (stream.error, stream.status) == (error, "failed")
    with pytest.raises(APICallError, match="down"):
        await stream.object


async def test_generate_raises_the_original_error_and_stream_does_not() -> None:
    """R12.19"""
    error = APICallError("down", status_code=400)
    with pytest.raises(APICallError) as raised:
        await agent_of([error]).generate("hi")
    assert raised.value is error
    stream = await agent_of([error]).stream("hi")
    assert types_of(await drain(stream.full_stream))[-1] == "finish"
    heard: list[BaseException] = []
    await stream.consume_stream(on_error=heard.append)
    assert heard == [error]


async def test_text_is_the_text_of_the_accepted_steps_and_of_the_stream(drive: Drive) -> None:
    """R12.20"""
    agent = agent_of([["one ", tool_call("echo")], ["two ", "three"]], tools=[echo])
    outcome = await drive(agent)
    assert outcome.text == "".join(step.text for step in outcome.steps) == "one two three"
    stream = await agent_of([["one ", tool_call("echo")], ["two ", "three"]], tools=[echo]).stream("hi")
    assert "".join(await drain(stream.text_stream)) == await stream.text


async def test_calls_of_a_rejected_attempt_are_not_listed(drive: Drive, make: Make) -> None:
    """R12.21"""

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = agent_of(
        [[tool_call("echo", id="bad")], [SOURCE, "x"]],
        tools=[echo],
        output_processors=[make(process_output_step=reject)],
        max_processor_retries=1,
    )
    outcome = await drive(agent)
    assert outcome.tool_calls == []
    assert len(outcome.sources) == 1


async def test_usage_sums_all_attempts_and_knows_what_nobody_reported(drive: Drive) -> None:
    """R12.22"""
    first, second = finish("tool-calls", 1, 2), finish("stop", 10, None)
    assert second.payload.output is not None
    assert second.payload.output.usage is not None
    second.payload.output.usage.cached_input_tokens = 4
    second.payload.output.usage.total_tokens = None
    outcome = await drive(agent_of([[tool_call("echo"), first], ["x", second]], tools=[echo]))
    usage = outcome.total_usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (11, 2, 13)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (4, None)
    assert [step.usage.input_tokens for step in outcome.steps] == [1, 10]


async def test_a_missing_total_of_a_step_is_input_plus_output(drive: Drive) -> None:
    """R12.22"""
    last = finish("stop", 3, 4)
    assert last.payload.output is not None
    assert last.payload.output.usage is not None
    last.payload.output.usage.total_tokens = None
    outcome = await drive(agent_of([["x", last]]))
    assert outcome.usage.total == 7


async def test_a_step_result_has_its_fields(drive: Drive) -> None:
    """R12.23"""
    outcome = await drive(rich())
    first, second = outcome.steps
    assert (first.step_type, second.step_type) == ("initial", "tool-result")
    assert (first.step_number, second.step_number) == (0, 1)
    assert (first.text, first.reasoning_text, first.finish_reason) == ("one ", "think", "tool-calls")
    assert (len(first.reasoning), len(first.sources), len(first.files)) == (1, 1, 1)
    assert (len(first.tool_calls), len(first.tool_results)) == (1, 1)
    assert [part["type"] for part in first.content] == ["reasoning", "text", "source", "file", "tool-invocation"]
    assert (first.usage.output_tokens, first.warnings, first.request) == (3, ["w"], {"body": 1})
    assert first.response["id"] == "resp-1"
    assert (second.provider_metadata, second.tripwire) == ({"p": {"k": 1}}, None)


async def test_the_response_tells_the_facts_and_the_messages(drive: Drive) -> None:
    """R12.24"""
    outcome = await drive(rich())
    response = outcome.response
    assert (response.id, response.model_id, response.headers) == ("resp-1", "m-2", {"x-a": "b"})
    assert [message["role"] for message in response.messages] == ["assistant", "tool", "assistant"]
    assert [message["role"] for message in response.ui_messages] == ["assistant"]
    assert response.db_messages == outcome.message_list.get.response.db()


async def test_metadata_that_an_output_processor_set_is_in_the_ui_messages(drive: Drive, make: Make) -> None:
    """R12.24"""

    def mark(args: Any) -> None:
        args.messages[-1].content.metadata = {"moderation": {"ok": True}}

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_result=mark)]))
    assert outcome.response.ui_messages[0]["metadata"]["moderation"] == {"ok": True}


async def test_generate_does_not_raise_for_suspension_or_cancellation() -> None:
    """R12.19"""
    signal = AbortSignal()
    signal.abort()
    suspended = await agent_of([[tool_call("echo")]], tools=[echo]).generate("hi", require_tool_approval=True)
    canceled = await agent_of(["x"]).generate("hi", abort_signal=signal)
    assert (suspended.status, suspended.suspend_payload["toolName"]) == ("suspended", "echo")
    assert (canceled.status, canceled.text) == ("canceled", "")


async def test_stream_raises_only_what_happens_before_there_is_a_stream(make: Make) -> None:
    """R12.19"""

    def crash(args: Any) -> Any:
        raise ValueError("boom")

    with pytest.raises(Exception, match="boom"):
        await agent_of(["x"], input_processors=[make(process_input=crash)]).stream("hi")
    later = await agent_of(["x"], input_processors=[make(process_input_step=crash)]).stream("hi")
    assert types_of(await drain(later.full_stream)) == ["start", "error"]
    assert later.status == "failed"


async def test_asking_for_values_before_the_run_has_begun_says_what_to_do() -> None:
    """R12.15"""
    stream = agent_of(["x"]).stream("hi")
    with pytest.raises(RuntimeError, match="async with"):
        stream.run_id  # noqa: B018
    assert (stream.status, stream.tripwire, stream.error) == ("running", None, None)
    assert await stream.text == "x"


async def test_a_raising_consumer_does_not_affect_the_run() -> None:
    """R17.6"""
    stream = await agent_of([["a", "b"]]).stream("hi")

    async def consume() -> None:
        async for chunk in stream:
            if chunk.type == "text-delta":
                raise KeyError("consumer")

    with pytest.raises(KeyError, match="consumer"):
        await consume()
    assert await stream.text == "ab"
    assert stream.status == "success"


async def test_the_prompt_of_a_second_run_is_not_touched_by_the_first_result(drive: Drive) -> None:
    """R12.16"""
    model = ScriptedModel(["x", "y"])
    agent = agent_of(model)
    first = await drive(agent, "one")
    first.response.messages[0]["content"][0]["text"] = "defaced"
    await drive(agent, "two")
    assert told(model.prompts[1]) == [("user", "two")]
    assert first.text == "x"
