"""An answer that does not fit is asked for again, as long as the run has retries (R12.33, R7.4)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pydantic
import pytest

from interlock import APICallError, ProcessorError, TextDelta, tool
from interlock.chunks import ObjectResult, TextDeltaPayload
from interlock.errors import StructuredOutputError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, finish, tool_call, types_of
from tests.agent.kit import THREAD, Drive, Make, agent_of, chunks_of, feedback_in, made_sync, saved

pytestmark = pytest.mark.anyio


class Item(pydantic.BaseModel):
    name: str
    price: Annotated[float, pydantic.Field(gt=0)]


class Order(pydantic.BaseModel):
    items: list[Item]


def order(*prices: Any) -> str:
    return json.dumps({"items": [{"name": "x", "price": price} for price in prices]})


GOOD, BAD = order(1, 2, 3), order(1, 2, "dear")
PROBLEM = "items[2].price: Input should be a valid number"


async def test_the_model_is_told_which_value_does_not_fit_and_answers_again(drive: Drive) -> None:
    """R7.6, R7.8, R12.33"""
    model = ScriptedModel([BAD, GOOD])
    outcome = await drive(agent_of(model, max_processor_retries=1), structured_output=Order)
    assert outcome.object == Order.model_validate_json(GOOD)
    (feedback,) = feedback_in(model.prompts[1])
    assert PROBLEM in feedback
    assert outcome.text == GOOD
    assert [(step.finish_reason, step.tripwire and step.tripwire.processor_id) for step in outcome.steps] == [
        ("retry", "structured-output"),
        ("stop", None),
    ]
    assert outcome.usage.output_tokens == 6


async def test_the_client_sees_why_an_attempt_was_rejected() -> None:
    """R7.10, R12.34"""
    agent = agent_of([BAD, GOOD], max_processor_retries=1)
    async with agent.stream("hi", structured_output=Order) as stream:
        chunks = [chunk async for chunk in stream]
    rejected, accepted = [chunk.payload.step_result for chunk in chunks_of(chunks, "step-finish")]
    assert (rejected.reason, rejected.retry_processor_id) == ("retry", "structured-output")
    assert rejected.retry_metadata["problems"][0].startswith(PROBLEM)
    assert accepted.reason == "stop"
    assert [chunk.object for chunk in chunks_of(chunks, "object-result")] == [json.loads(GOOD)]


@pytest.mark.parametrize("retries", [None, 0, 2])
async def test_when_no_retry_is_left_the_strategy_says_what_happens(drive: Drive, retries: int | None) -> None:
    """R7.4, R12.33, FR-132"""
    attempts = 1 + (retries or 0)
    for strategy, value in (("strict", None), ("warn", None), ("fallback", {"items": []})):
        model = ScriptedModel([BAD] * attempts)
        asked = {"schema": Order, "error_strategy": strategy, "fallback_value": {"items": []}}
        outcome = await drive(agent_of(model, max_processor_retries=retries), structured_output=asked)
        assert model.calls == attempts
        if strategy == "strict":
            assert isinstance(outcome.error, StructuredOutputError)
            assert outcome.error.problems[0].startswith(PROBLEM)
            assert PROBLEM in str(outcome.error)
        else:
            assert outcome.object == value


async def test_the_budget_is_that_of_the_tripwires(drive: Drive, make: Make) -> None:
    """R7.1, R7.3, R12.33"""
    seen: list[int] = []

    def reject(args: Any) -> None:
        seen.append(args.retry_count)
        if args.text == "no":
            args.abort("not this", retry=True)

    guard = make(process_output_step=reject)
    model = ScriptedModel(["no", BAD, BAD])
    agent = agent_of(model, output_processors=[guard], max_processor_retries=2)
    outcome = await drive(agent, structured_output=Order)
    assert (seen, model.calls) == ([0, 1, 2], 3)
    assert isinstance(outcome.error, StructuredOutputError)


async def test_only_the_newest_complaint_is_in_the_prompt(drive: Drive) -> None:
    """R7.8, R12.33"""
    model = ScriptedModel([order(0), BAD, GOOD])
    outcome = await drive(agent_of(model, max_processor_retries=2), structured_output=Order)
    assert outcome.object is not None
    assert ["items[0].price" in feedback for feedback in feedback_in(model.prompts[1])] == [True]
    assert [PROBLEM in feedback for feedback in feedback_in(model.prompts[2])] == [True]


async def test_a_rejected_answer_is_not_stored(drive: Drive) -> None:
    """R7.9, R12.33"""
    store = InMemoryStore()
    agent = agent_of([BAD, GOOD], memory=Memory(store), max_processor_retries=1)
    await drive(agent, structured_output=Order, memory=THREAD)
    assert await saved(store) == [("user", "hi"), ("assistant", GOOD)]


async def test_an_attempt_whose_tools_have_run_is_not_repeated(drive: Drive) -> None:
    """R7.11, R12.33"""
    ran: list[str] = []

    @tool(in_thread=False)
    def count() -> str:
        """Count."""
        ran.append("count")
        return "one"

    agent = agent_of([["hm", tool_call("count")]], tools=[count], max_processor_retries=3)
    outcome = await drive(agent, structured_output=Order, max_steps=1)
    assert isinstance(outcome.error, StructuredOutputError)
    assert ran == ["count"]


async def test_the_step_after_the_tools_is_repeated_without_them(drive: Drive) -> None:
    """R7.6, R12.33"""
    ran: list[str] = []

    @tool(in_thread=False)
    def count() -> str:
        """Count."""
        ran.append("count")
        return "one"

    model = ScriptedModel([["hm", tool_call("count")], BAD, GOOD])
    outcome = await drive(agent_of(model, tools=[count], max_processor_retries=1), structured_output=Order)
    assert outcome.object == Order.model_validate_json(GOOD)
    assert (ran, model.calls) == (["count"], 3)


async def test_no_object_is_asked_of_a_run_that_waits_for_the_client(drive: Drive) -> None:
    """R12.40, R12.33"""
    ask = {"ask": {"description": "", "inputSchema": {"type": "object"}}}
    outcome = await drive(agent_of([["hm", tool_call("ask", {})]]), structured_output=Order, client_tools=ask)
    assert (outcome.error, outcome.object, outcome.status) == (None, None, "success")


async def test_an_answer_that_was_cut_off_is_asked_for_again(drive: Drive) -> None:
    """R12.33"""
    outcome = await drive(
        agent_of([[GOOD[:20], finish("length")], GOOD], max_processor_retries=1), structured_output=Order
    )
    assert outcome.object == Order.model_validate_json(GOOD)


async def test_the_attempt_is_judged_by_what_the_guards_let_pass(drive: Drive, make: Make) -> None:
    """R12.33, FR-046"""

    def mask(args: Any) -> Any:
        if args.part.type == "text-delta":
            return TextDelta(payload=TextDeltaPayload(id="0", text=args.part.payload.text.replace("dear", "9")))
        return args.part

    agent = agent_of([order(1, 2, "dear")], output_processors=[make(process_output_stream=mask)])
    outcome = await drive(agent, structured_output=Order)
    assert [item.price for item in outcome.object.items] == [1, 2, 9]


async def test_a_stream_hook_that_rejects_the_last_chunk_takes_the_object_with_it() -> None:
    """R12.34"""

    def reject(args: Any) -> Any:
        if args.part.type == "step-finish" and args.retry_count == 0 and args.part.payload.step_result.reason == "stop":
            args.abort("again", retry=True)
        return args.part

    agent = agent_of(
        [order(1), order(2)], output_processors=[made_sync(process_output_stream=reject)], max_processor_retries=1
    )
    async with agent.stream("hi", structured_output=Order) as stream:
        chunks = [chunk async for chunk in stream]
    assert [chunk.object for chunk in chunks if isinstance(chunk, ObjectResult)] == [json.loads(order(2))]


# Another model writes the object.


async def test_the_other_model_is_told_what_is_wrong_and_answers_again(drive: Drive) -> None:
    """R7.4, R12.32, R12.33"""
    structuring = ScriptedModel([BAD, GOOD])
    model = ScriptedModel(["It was dear."])
    agent = agent_of(model, max_processor_retries=1)
    outcome = await drive(agent, structured_output={"schema": Order, "model": structuring})
    assert outcome.object == Order.model_validate_json(GOOD)
    roles = [message["role"] for message in structuring.prompts[1]]
    assert roles == ["system", "user", "assistant", "user"]
    assert PROBLEM in str(structuring.prompts[1][-1])
    assert model.calls == 1


async def test_the_calls_of_the_other_model_are_in_the_usage(drive: Drive) -> None:
    """R12.22, R12.32"""
    structuring = ScriptedModel([[BAD, finish("stop", 100, 10)], [GOOD, finish("stop", 200, 20)]])
    agent = agent_of([["hm", finish("stop", 1, 2)]], max_processor_retries=1)
    outcome = await drive(agent, structured_output={"schema": Order, "model": structuring})
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (301, 32)


async def test_both_models_share_the_budget(drive: Drive, make: Make) -> None:
    """R7.3, R12.33"""

    def reject(args: Any) -> None:
        if args.text == "no":
            args.abort("not this", retry=True)

    structuring = ScriptedModel([BAD])
    agent = agent_of(["no", "yes"], output_processors=[make(process_output_step=reject)], max_processor_retries=1)
    outcome = await drive(agent, structured_output={"schema": Order, "model": structuring})
    assert isinstance(outcome.error, StructuredOutputError)
    assert structuring.calls == 1


async def test_a_failing_other_model_fails_the_run_with_its_own_error(drive: Drive) -> None:
    """R12.19, R12.33"""
    error = APICallError("down", status_code=400)
    outcome = await drive(agent_of(["hm"]), structured_output={"schema": Order, "model": ScriptedModel([error])})
    assert outcome.error is error


@pytest.mark.parametrize(("strategy", "value"), [("warn", None), ("fallback", 7)])
async def test_where_a_missing_object_is_tolerated_so_is_a_failing_model(
    drive: Drive, strategy: str, value: Any
) -> None:
    """R12.33"""
    structuring = ScriptedModel([APICallError("down", status_code=400)])
    asked = {"schema": Order, "model": structuring, "error_strategy": strategy, "fallback_value": 7}
    outcome = await drive(agent_of(["hm"]), structured_output=asked)
    assert (outcome.error, outcome.object, outcome.text) == (None, value, "hm")


async def test_a_failure_of_the_other_model_that_may_pass_is_repeated_by_the_client(drive: Drive) -> None:
    """R7.13, R12.32"""
    structuring = ScriptedModel([APICallError("busy", status_code=429, retry_after_s=0.0), GOOD])
    outcome = await drive(agent_of(["hm"], max_retries=1), structured_output={"schema": Order, "model": structuring})
    assert outcome.object == Order.model_validate_json(GOOD)


async def test_a_hook_that_fails_for_itself_is_still_named(drive: Drive, make: Make) -> None:
    """R17.2"""

    def crash(args: Any) -> None:
        raise KeyError("mine")

    agent = agent_of([GOOD], output_processors=[make("crashes", process_output_result=crash)])
    outcome = await drive(agent, structured_output=Order)
    assert isinstance(outcome.error, ProcessorError)
    assert outcome.error.processor_id == "crashes"


async def test_the_stream_of_a_typed_run_with_tools_has_one_object_result() -> None:
    """R12.32"""
    ran = agent_of([["Let me see. ", tool_call("echo", {})], GOOD], tools={"echo": _said})
    async with ran.stream("hi", structured_output=Order) as stream:
        chunks = [chunk async for chunk in stream]
    kinds = types_of(chunks)
    assert kinds.count("object-result") == 1
    assert kinds.index("tool-result") < kinds.index("object")
    assert (await stream.object).items[0].name == "x"


@tool(in_thread=False)
def _said() -> str:
    """Say something."""
    return "something"
