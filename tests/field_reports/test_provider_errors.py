"""Provider errors and process_api_error."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from interlock import APICallError, Chunk, Processor, Tool
from interlock.chunks import chunk_from_dict
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import TextPart
from interlock.models import ModelRequest
from interlock.testing import ScriptedModel, drain, finish, text, tool_input, types_of
from tests.agent.kit import THREAD, Drive, agent_of, chunks_of, made_sync, saved, stored
from tests.field_reports.cases import api_error, as_text, case

pytestmark = pytest.mark.anyio


class Continue(Processor):
    """Asks once more with a user's word at the end, where a model refuses to continue an assistant's."""

    id = "continue"

    def process_api_error(self, args: Any) -> dict[str, bool]:
        is_refused = "prefill" in str(args.error) and "again" not in args.state
        args.state["again"] = True
        return {"retry": is_refused}

    def process_llm_request(self, args: Any) -> Any:
        if "again" not in args.state or args.prompt[-1]["role"] != "assistant":
            return None
        return {"prompt": [*args.prompt, {"role": "user", "content": [{"type": "text", "text": "Go on."}]}]}


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_refused_prefill_is_repaired_for_one_request_only(drive: Drive, refusals: int) -> None:
    """FR-098; R2.22, R7.15, R7.16, R8.2"""
    given = case("098")
    expected = given["expect"]
    store = InMemoryStore()
    model = ScriptedModel([api_error(given["errors"][0]) for _ in range(refusals)] + ["Step 2 done."])
    repair = Continue()
    agent = agent_of(model, input_processors=[repair], error_processors=[repair], memory=Memory(store))
    outcome = await drive(agent, given["messages"], memory=THREAD)
    assert (model.calls == 2) is expected["retry"]
    assert model.calls - 1 == expected["retries"]
    assert model.prompts[1][-1]["role"] == expected["last_role_in_retry"]
    assert expected["assistant_text_kept"] in as_text(await stored(store))
    assert ("Go on." in as_text(await stored(store))) is expected["stored_has_placeholder"]
    if refusals == 1:
        assert outcome.text == "Step 2 done."
    else:
        assert isinstance(outcome.error, APICallError)


async def test_blank_text_is_neither_stored_nor_sent(drive: Drive) -> None:
    """FR-099; R4.6, R4.14"""
    given = case("099")
    store = InMemoryStore()
    model = ScriptedModel([given["chunks"], "fine"])
    agent = agent_of(model, memory=Memory(store))
    await drive(agent, memory=THREAD)
    parts = (await stored(store))[1].content.parts
    assert [part.text for part in parts if isinstance(part, TextPart)] == given["expect"]["stored_text_parts"]
    await drive(agent, "and?", memory=THREAD)
    sent = [part["text"] for message in model.prompts[1] for part in message["content"] if part["type"] == "text"]
    assert sum(not one.strip() for one in sent) == given["expect"]["request_blank_text_parts"]


class BreaksOff:
    """A model whose stream ends without a word about why."""

    provider = "test"
    model_id = "breaks-off"

    def __init__(self, chunks: list[Any]) -> None:
        self._chunks = chunks

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        for chunk in self._chunks:
            if isinstance(chunk, dict):
                yield chunk_from_dict(chunk)
            else:
                yield chunk


@pytest.mark.parametrize("ending", ["an error event", "nothing"])
async def test_a_stream_that_breaks_off_is_a_failure(drive: Drive, ending: str) -> None:
    """FR-100, without the wire format of one provider; R5.7, R7.13, R13.10, R17.5"""
    given = case("100")
    expected = given["expect"]
    events = [json.loads(event.partition("data: ")[2]) for event in given["sse"]]
    said, described = events[2]["delta"]["text"], events[3]["error"]
    chunks: list[Any] = [*text(said)[:2], *tool_input("t", '{"a":', id="c1")[:2]]
    if ending == "an error event":
        error = {"message": described["message"], "isRetryable": True}
        chunks.append({"type": "error", "payload": {"error": error}})
    executed: list[Any] = []
    failures: list[Any] = []
    store = InMemoryStore()
    agent = agent_of(
        BreaksOff(chunks),
        tools=[Tool(id="t", execute=executed.append)],
        error_processors=[made_sync(process_api_error=lambda args: failures.append(args.error))],
        memory=Memory(store),
    )
    outcome = await drive(agent, memory=THREAD)
    assert isinstance(outcome.error, APICallError)
    assert outcome.error.is_retryable is expected["retryable"]
    assert failures == [outcome.error]
    if outcome.chunks:
        assert outcome.finish_reason == expected["finish_reason"]
        assert types_of(outcome.chunks)[-3:] == ["error", "step-finish", "finish"]
    assert len(executed) == expected["tools_executed"]
    partial = (await stored(store))[1].content.parts
    assert (partial[-1].type != "error") is expected["stored_as_complete"]
    assert partial[0].type == "text"


async def test_what_broke_off_gives_way_to_the_answer_of_a_retry(drive: Drive) -> None:
    """FR-100; R7.16"""
    given = case("100")
    store = InMemoryStore()
    error = APICallError(json.loads(given["sse"][3].partition("data: ")[2])["error"]["message"], status_code=529)
    model = ScriptedModel([[*text("Par")[:2], error], "Partly cloudy."])
    retry = made_sync(process_api_error=lambda args: {"retry": True})
    outcome = await drive(agent_of(model, error_processors=[retry], memory=Memory(store)), memory=THREAD)
    assert outcome.text == "Partly cloudy."
    assert await saved(store) == [("user", "hi"), ("assistant", "Partly cloudy.")]


async def test_the_item_id_of_a_text_that_came_on_its_start_is_kept(drive: Drive) -> None:
    """FR-104, as far as it needs no adapter; R4.6, R4.18"""
    given = case("104")
    store = InMemoryStore()
    model = ScriptedModel([given["chunks"], "fine"])
    agent = agent_of(model, memory=Memory(store))
    await drive(agent, memory=THREAD)
    part = (await stored(store))[1].content.parts[0]
    assert part.provider_metadata == {"openai": {"itemId": given["expect"]["stored_item_id"]}}
    await drive(agent, "next", memory=THREAD)
    assert model.prompts[1][1]["content"][0]["providerOptions"] == part.provider_metadata


async def test_a_refused_item_gets_one_repaired_retry(drive: Drive) -> None:
    """FR-104; R7.15, R7.16"""
    given = case("104")

    def repair(args: Any) -> dict[str, bool]:
        for message in args.messages:
            message.content.parts = [part for part in message.content.parts if part.type != "reasoning"]
        return {"retry": args.retry_count < given["expect"]["retries"]}

    for messages, error in zip(given["messages_variants"], given["errors"], strict=True):
        for refusals in (1, 2):
            model = ScriptedModel([api_error(error)] * refusals + ["fine"])
            agent = agent_of(model, error_processors=[made_sync(process_api_error=repair)])
            outcome = await drive(agent, messages)
            assert (model.calls == 2) is given["expect"]["retry"]
            assert isinstance(outcome.error, APICallError) is (refusals == 2)
            assert '"reasoning"' not in as_text(model.prompts[1])


@pytest.mark.parametrize("consume", case("106")["consume"])
async def test_the_last_hooks_run_and_the_question_is_saved_when_the_provider_is_down(consume: str) -> None:
    """FR-106; R1.14, R12.17, R13.10"""
    given = case("106")
    store = InMemoryStore()
    reasons: list[str] = []
    agent = agent_of(
        [api_error(given["errors"][0])],
        output_processors=[made_sync(process_output_result=lambda args: reasons.append(args.result.finish_reason))],
        memory=Memory(store),
    )
    async with agent.stream(given["messages"], memory=THREAD) as stream:
        if consume == "drain":
            await drain(stream.full_stream)
        else:
            assert (await anext(stream.full_stream)).type == "start"
        assert await stream.finish_reason == given["expect"]["finish_reason"]
    assert bool(reasons) is given["expect"]["closing_hook_ran"]
    assert reasons == ["error"]
    assert (("user", "hello") in await saved(store)) is given["expect"]["stored_user_message"]
    assert [part.type for part in (await stored(store))[1].content.parts] == ["error"]


async def test_usage_is_the_sum_of_all_attempts_and_known_for_each(drive: Drive) -> None:
    """FR-109; R6.7, R12.22, R5.4"""
    given = case("109")
    expected = given["expect"]
    turns = [
        [one["text"], finish("stop", one["usage"]["inputTokens"], one["usage"]["outputTokens"])]
        for one in given["attempts"]
    ]

    def reject(args: Any) -> None:
        if args.text == "bad":
            args.abort("bad", retry=True)

    agent = agent_of(turns, output_processors=[made_sync(process_output_step=reject)], max_processor_retries=1)
    outcome = await drive(agent)
    total = outcome.usage.to_dict()
    assert {key: total[key] for key in expected["total"]} == expected["total"]
    assert len(outcome.steps) == expected["attempts"]
    assert [(step.usage.input_tokens, step.usage.output_tokens) for step in outcome.steps] == [(10, 5), (12, 7)]
    assert outcome.text == expected["text"]
    if outcome.chunks:
        assert len(chunks_of(outcome.chunks, "finish")) == 1
