from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from interlock.chunks import Chunk, ErrorChunk, ErrorPayload, GenericChunk, TextDelta, ToolCall, chunk_to_dict
from interlock.context import AbortSignal
from interlock.models.base import LanguageModel, ModelRequest
from interlock.testing import (
    ScriptedModel,
    ScriptExhaustedError,
    delay,
    drain,
    finish,
    reasoning,
    text,
    text_of,
    tool_call,
    tool_input,
    types_of,
    wait_for,
)

pytestmark = pytest.mark.anyio


def request(prompt: str = "hi") -> ModelRequest:
    return ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": prompt}]}])


async def play(turn: Any) -> list[Chunk]:
    return await drain(ScriptedModel([turn]).stream(request()))


def test_a_scripted_model_is_a_language_model() -> None:
    assert isinstance(ScriptedModel([]), LanguageModel)


async def test_a_string_turn_is_one_span_and_a_finish_with_usage() -> None:
    chunks = await play("hello")
    assert [chunk_to_dict(chunk) for chunk in chunks] == [
        {"type": "text-start", "runId": "", "from": "AGENT", "payload": {"id": "t"}},
        {"type": "text-delta", "runId": "", "from": "AGENT", "payload": {"id": "t", "text": "hello"}},
        {"type": "text-end", "runId": "", "from": "AGENT", "payload": {"id": "t"}},
        {
            "type": "finish",
            "runId": "",
            "from": "AGENT",
            "payload": {
                "stepResult": {"reason": "stop"},
                "output": {"usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}},
            },
        },
    ]


async def test_turns_are_played_one_a_call() -> None:
    model = ScriptedModel(["one", "two"])
    assert text_of(await drain(model.stream(request()))) == "one"
    assert text_of(await drain(model.stream(request()))) == "two"
    assert model.calls == 2
    assert model.turns_left == 0


async def test_an_exhausted_script_names_the_call() -> None:
    model = ScriptedModel(["one"])
    await drain(model.stream(request()))
    with pytest.raises(ScriptExhaustedError, match=r"provider call 2 .* has 1 turn"):
        await drain(model.stream(request()))
    assert model.open_streams == 0


async def test_a_turn_is_taken_when_the_first_chunk_is_asked_for() -> None:
    model = ScriptedModel(["one"])
    stream = model.stream(request())
    assert model.calls == 0
    await drain(stream)
    assert model.calls == 1


async def test_an_exception_turn_is_raised() -> None:
    with pytest.raises(RuntimeError, match="down"):
        await play(RuntimeError("down"))


async def test_an_exception_class_turn_is_raised() -> None:
    with pytest.raises(ConnectionError):
        await play(ConnectionError)


async def test_an_exception_in_a_list_comes_after_what_precedes_it() -> None:
    stream = ScriptedModel([["Par", RuntimeError("broke off")]]).stream(request())
    assert types_of([await anext(stream), await anext(stream)]) == ["text-start", "text-delta"]
    with pytest.raises(RuntimeError, match="broke off"):
        await anext(stream)


async def test_strings_in_a_list_are_deltas_of_one_span() -> None:
    chunks = await play(["a", delay(0), "b"])
    assert types_of(chunks) == ["text-start", "text-delta", "text-delta", "text-end", "finish"]


async def test_another_chunk_closes_the_span_and_text_after_it_opens_a_new_one() -> None:
    chunks = await play(["a", reasoning("hm"), "b"])
    assert types_of(chunks) == [
        *("text-start", "text-delta", "text-end"),
        *("reasoning-start", "reasoning-delta", "reasoning-end"),
        *("text-start", "text-delta", "text-end", "finish"),
    ]
    assert [chunk.payload.id for chunk in chunks if isinstance(chunk, TextDelta)] == ["t", "t2"]


async def test_wire_dicts_are_read_into_typed_chunks() -> None:
    chunks = await play([{"type": "text-delta", "payload": {"id": "x", "text": "hi"}}, {"type": "odd", "payload": 1}])
    assert isinstance(chunks[0], TextDelta)
    assert isinstance(chunks[1], GenericChunk)


@pytest.mark.parametrize("call", [tool_call("f"), tool_input("f", '{"a":', "1}")], ids=["whole", "streamed"])
async def test_a_turn_with_calls_finishes_with_tool_calls(call: Any) -> None:
    """R5.5"""
    last = (await play([call]))[-1]
    assert chunk_to_dict(last)["payload"]["stepResult"]["reason"] == "tool-calls"


async def test_a_given_finish_is_kept() -> None:
    chunks = await play([text("a"), finish("length", input_tokens=None, output_tokens=None)])
    assert chunk_to_dict(chunks[-1])["payload"] == {"stepResult": {"reason": "length"}, "output": {"usage": {}}}


async def test_no_finish_is_added_after_an_error_chunk() -> None:
    chunks = await play(["a", ErrorChunk(payload=ErrorPayload(error=RuntimeError("x")))])
    assert types_of(chunks) == ["text-start", "text-delta", "text-end", "error"]


def test_tool_calls_get_unique_ids() -> None:
    """R5.6"""
    assert tool_call("f").payload.tool_call_id != tool_call("f").payload.tool_call_id


async def test_a_pause_waits_for_an_event() -> None:
    event = asyncio.Event()
    model = ScriptedModel([["a", wait_for(event), "b"]])
    task = asyncio.create_task(drain(model.stream(request())))
    await asyncio.sleep(0)
    assert not task.done()
    event.set()
    assert text_of(await task) == "ab"


async def test_a_pause_waits_for_an_abort_signal() -> None:
    signal = AbortSignal()
    signal.abort()
    assert text_of(await play([wait_for(signal), "a"])) == "a"


async def test_a_function_in_a_list_is_called_at_its_place() -> None:
    called: list[bool] = []
    stream = ScriptedModel([["a", lambda: called.append(True), "b"]]).stream(request())
    assert types_of([await anext(stream), await anext(stream)]) == ["text-start", "text-delta"]
    assert not called
    assert types_of(await drain(stream)) == ["text-delta", "text-end", "finish"]
    assert called


async def test_a_function_turn_sees_the_request() -> None:
    model = ScriptedModel([lambda sent: sent.prompt[0]["content"][0]["text"].upper()])
    assert text_of(await drain(model.stream(request("loud")))) == "LOUD"


async def test_a_function_turn_may_be_async_and_return_any_turn() -> None:
    async def turn(_: ModelRequest) -> list[Any]:
        return ["a", "b"]

    assert text_of(await drain(ScriptedModel([turn]).stream(request()))) == "ab"


async def test_one_function_answers_every_call() -> None:
    model = ScriptedModel(lambda _: f"call {model.calls}")
    assert [text_of(await drain(model.stream(request()))) for _ in range(3)] == ["call 1", "call 2", "call 3"]


async def test_edits_of_yielded_chunks_do_not_reach_the_script() -> None:
    turn = [text("a"), tool_call("f", {"list": [1]}, id="c"), finish()]
    model = ScriptedModel([turn, turn])
    first = await drain(model.stream(request()))
    before = [chunk_to_dict(chunk) for chunk in first]
    for chunk in first:
        if isinstance(chunk, TextDelta):
            chunk.payload.text = "edited"
        if isinstance(chunk, ToolCall):
            chunk.payload.args["list"].append(2)
        chunk.run_id = "run"
    second = await drain(model.stream(request()))
    assert [chunk_to_dict(chunk) for chunk in second] == before


async def test_requests_keep_the_prompt_as_it_was_sent() -> None:
    model = ScriptedModel(["a"])
    sent = request("original")
    await drain(model.stream(sent))
    sent.prompt[0]["content"][0]["text"] = "changed"
    assert model.prompts == [request("original").prompt]
    assert model.requests[0].prompt == request("original").prompt


async def test_recording_can_be_turned_off() -> None:
    model = ScriptedModel(["a"], record=False)
    await drain(model.stream(request()))
    assert model.requests == []
    assert model.calls == 1


async def test_open_streams_counts_streams_that_are_not_closed() -> None:
    model = ScriptedModel(["a", "b"])
    async with aclosing(model.stream(request())) as stream:
        await anext(stream)
        assert model.open_streams == 1
    assert model.open_streams == 0
    await drain(model.stream(request()))
    assert model.open_streams == 0


@pytest.mark.parametrize("turn", [7, ["a", None], [["a", [3]]]])
def test_an_item_of_no_known_kind_is_refused_at_once(turn: Any) -> None:
    with pytest.raises(TypeError, match=r"turn 2 of the script: .* give text, a chunk"):
        ScriptedModel(["fine", turn])


def test_a_dict_that_is_no_chunk_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"turn 1 of the script: a chunk needs .* 'type'"):
        ScriptedModel([{"payload": {}}])
