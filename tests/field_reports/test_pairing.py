"""The message list: order, calls and their results, what is new, what is cut."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock import MessageList, Tool, get_text
from interlock.memory import InMemoryStore, Memory, Thread
from interlock.messages.parts import ToolInvocationPart
from interlock.testing import ScriptedModel, tool_call
from tests.agent.kit import THREAD, Drive, Made, agent_of, kept, made_sync, saved, stored, told
from tests.field_reports.cases import Calls, as_text, assert_pairs_are_valid, case, results_in, scripted

pytestmark = pytest.mark.anyio


async def remembered(messages: list[dict[str, Any]]) -> Memory:
    """A memory whose thread of the tests holds the messages."""
    memory = Memory(InMemoryStore(), last_messages=None)
    now = datetime.now(UTC)
    thread = Thread(id=THREAD["thread"], resource_id=THREAD["resource"], created_at=now, updated_at=now)
    await memory.store.save(thread, MessageList(thread.id, thread.resource_id).add(messages, "memory").get.all.db())
    return memory


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "sent along"])
async def test_a_broken_pair_does_not_make_every_later_turn_fail(drive: Drive, is_stored: bool) -> None:
    """FR-082; R3.5, R4.12: a call without a result is left out of the prompt, a result without a call gets one"""
    given = case("082")
    for messages in given["cases"]:
        model = ScriptedModel(["fine"])
        *history, new = messages
        memory = await remembered(history) if is_stored else None
        before = "" if memory is None else as_text(await stored(memory.store))
        options = {"memory": THREAD} if is_stored else {}
        outcome = await drive(agent_of(model, memory=memory), [new] if is_stored else messages, **options)
        assert (outcome.error is not None) is given["expect"]["raises"]
        assert_pairs_are_valid(model.prompts[0])
        assert [said for role, said in told(model.prompts[0]) if role == "user"] == ["a", "b"]
        if memory is not None:
            assert as_text(await stored(memory.store)).startswith(before.removesuffix("]"))


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "sent along"])
async def test_parallel_calls_that_were_answered_in_part_can_be_sent(drive: Drive, is_stored: bool) -> None:
    """FR-083; R4.12 decides otherwise than the report: calls without a result are left out, none is made up"""
    given = case("083")
    model = ScriptedModel(["fine"])
    *history, new = given["messages"]
    memory = await remembered(history) if is_stored else None
    options = {"memory": THREAD} if is_stored else {}
    await drive(agent_of(model, memory=memory), [new] if is_stored else given["messages"], **options)
    assert_pairs_are_valid(model.prompts[0])
    wanted = [call_id for call_id in given["expect"]["result_ids"] if call_id in ("c1", "c3")]
    assert list(results_in(model.prompts[0])) == wanted
    assert told(model.prompts[0])[1:3] == [("assistant", "call t call t"), ("tool", "x y")]


@pytest.mark.parametrize("is_dated", [True, False], ids=["one date", "no date"])
async def test_equal_dates_never_reorder_what_is_stored_and_loaded(drive: Drive, is_dated: bool) -> None:
    """FR-084; R3.13, R3.14: the result is in the call's own message (R3.5), so the order has one entry less"""
    given = case("084")
    messages = given["messages"]
    if not is_dated:
        messages = [{key: value for key, value in message.items() if key != "createdAt"} for message in messages]
    memory = await remembered(messages)
    order = [one for one in given["expect"]["order"] if one != "m3"]
    assert [message.id for message in await stored(memory.store)] == order
    model = ScriptedModel(["fine"])
    await drive(agent_of(model, memory=memory), "q3", memory=THREAD)
    assert told(model.prompts[0]) == [
        ("user", "q1"), ("assistant", "call t"), ("tool", "x"), ("assistant", "done"), ("user", "q2"), ("user", "q3"),
    ]  # fmt: skip
    dates = [message.created_at for message in await stored(memory.store)]
    assert dates == sorted(dates)
    assert is_dated or len(set(dates)) == len(dates)


def summarize(args: Any) -> list[Any]:
    summary = {"role": "system", "content": {"format": 2, "parts": [{"type": "text", "text": "in short: abcd"}]}}
    return [summary, args.messages[-1]]


def swap_last_two_of_history(args: Any) -> list[Any]:
    *rest, one, other, new = args.messages
    one.created_at, other.created_at = other.created_at, one.created_at
    return [*rest, other, one, new]


def swap_last_two(args: Any) -> list[Any]:
    *rest, one, other = args.messages
    one.created_at, other.created_at = other.created_at, one.created_at
    return [*rest, other, one]


@pytest.mark.parametrize("reshape", [summarize, swap_last_two_of_history])
async def test_what_is_new_does_not_depend_on_what_became_of_the_history(drive: Drive, reshape: Any) -> None:
    """FR-088; R3.22, R3.26"""
    given = case("088")
    memory = await remembered(given["history"])
    before = await saved(memory.store)
    guard = made_sync(process_input=reshape)
    outcome = await drive(agent_of(["answer"], input_processors=[guard], memory=memory), given["input"], memory=THREAD)
    new = new_messages(outcome)
    wanted = given["expect"]["new_message_texts"]
    assert [text for _, text in kept(new)] == wanted
    assert [text for _, text in (await saved(memory.store))[len(before) :]] == wanted
    assert [text for _, text in kept(outcome.response.db_messages)] == ["answer"]


async def test_an_answer_behind_an_assistants_message_is_one_message_with_it(drive: Drive) -> None:
    """FR-088; R3.17 decides otherwise than the report where the processor puts an old answer behind the question"""
    given = case("088")
    memory = await remembered(given["history"])
    guard = made_sync(process_input=swap_last_two)
    outcome = await drive(agent_of(["answer"], input_processors=[guard], memory=memory), given["input"], memory=THREAD)
    assert [(message.id, get_text(message)) for message in new_messages(outcome)] == [("n1", "new"), ("h4", "danswer")]
    assert outcome.text == "answer"
    assert len(await stored(memory.store)) == 5


def new_messages(outcome: Any) -> list[Any]:
    messages = outcome.message_list
    return [message for message in messages.get.all.db() if messages.is_new_message(message)]


class PromptFilter(Made):
    """Leaves tool calls and results out of the prompt, and of nothing else."""

    def process_llm_request(self, args: Any) -> Any:
        prompt = []
        for message in args.prompt:
            if message["role"] == "tool":
                continue
            if message["role"] == "assistant":
                message["content"] = [part for part in message["content"] if part["type"] == "text"]
            if message["content"]:
                prompt.append(message)
        return {"prompt": prompt}


async def test_a_filter_of_the_prompt_leaves_what_is_stored_alone(drive: Drive) -> None:
    """FR-089; R2.22"""
    given = case("089")
    memory = await remembered(given["stored"])
    before = as_text(await stored(memory.store))
    model = ScriptedModel(["fine"])
    await drive(
        agent_of(model, input_processors=[PromptFilter("filter")], memory=memory), given["input"], memory=THREAD
    )
    after = as_text(await stored(memory.store))
    assert after.startswith(before.removesuffix("]")) is given["expect"]["stored_turn_A_unchanged"]
    parts = [part for message in model.prompts[0] for part in message["content"] if isinstance(part, dict)]
    assert sum("tool" in part["type"] for part in parts) == given["expect"]["request_tool_parts"]


@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_returning_what_a_hook_received_changes_nothing(drive: Drive, hook: str) -> None:
    """FR-091; R2.8, R2.12, R3.22"""
    given = case("091")
    prompts = []
    for processors in ([], [made_sync(**{hook: lambda args: list(args.messages)})]):
        model = ScriptedModel(["hoi"])
        agent = agent_of(model, instructions=given["instructions"], input_processors=processors)
        await drive(agent, given["messages"], system="Recalled: likes tea.")
        prompts.append(model.prompts)
    assert (prompts[0] == prompts[1]) is given["expect"]["request_equals_baseline"]
    assert told(prompts[0][0])[:2] == [("system", "Answer in Dutch."), ("system", "Recalled: likes tea.")]


async def test_each_system_message_is_sent_once_in_every_step(drive: Drive) -> None:
    """FR-092; R12.10, R2.19"""
    given = case("092")
    model = scripted(given)
    tool = Tool(id="t", execute=lambda args: "x")
    agent = agent_of(model, instructions=given["instructions"], tools=[tool], memory=Memory(InMemoryStore()))
    await drive(agent, memory=THREAD, context=["Today is Monday."])
    counts = [told(prompt).count(("system", given["instructions"])) for prompt in model.prompts]
    assert counts == given["expect"]["instruction_count_per_request"]
    assert [told(prompt).count(("user", "Today is Monday.")) for prompt in model.prompts] == [1, 1]


async def test_a_step_hook_sees_what_earlier_steps_did(drive: Drive) -> None:
    """FR-094; R2.5"""
    given = case("094")
    seen: list[Any] = []

    def look(args: Any) -> None:
        if args.step_number == 1:
            (step,) = args.steps
            seen.append(
                {
                    "tool_calls": [call.payload.tool_call_id for call in step.tool_calls],
                    "tool_results": [result.payload.tool_call_id for result in step.tool_results],
                    "text": step.text,
                }
            )

    tool = Tool(id="t", execute=lambda args: "x")
    await drive(agent_of(scripted(given), tools=[tool], input_processors=[made_sync(process_input_step=look)]))
    assert seen == [given["expect"]["at_step_1"]]


async def test_calls_without_an_id_of_their_own_keep_their_own_results(drive: Drive) -> None:
    """FR-095; R10.16: two different calls with one id both run, the second under an id of its own"""
    given = case("095")
    model, calls = scripted(given), Calls({})
    calls.returning("get_weather", lambda args: f"sun in {args['city']}")
    store = InMemoryStore()
    outcome = await drive(agent_of(model, tools=calls.tools, memory=Memory(store)), memory=THREAD)
    assert sorted(args["city"] for args in calls.executed) == sorted(given["expect"]["executed"])
    ids = [call.payload.tool_call_id for call in outcome.tool_calls]
    assert (len(set(ids)) == len(ids) == 5 and "" not in ids) is given["expect"]["ids_unique"]
    for result in outcome.tool_results:
        assert result.payload.result == f"sun in {result.payload.args['city']}"
    for prompt in model.prompts:
        assert_pairs_are_valid(prompt)
    parts = (await stored(store))[1].content.parts
    told_of = [part.tool_invocation for part in parts if isinstance(part, ToolInvocationPart)]
    assert [call.result for call in told_of] == [f"sun in {call.args['city']}" for call in told_of]


async def test_the_same_call_repeated_under_one_id_runs_once(drive: Drive) -> None:
    """FR-095; R10.16 decides otherwise than the report's rule that all calls run"""
    call = case("095")["steps"][0][2]
    model, calls = ScriptedModel([[call, call], "ok"]), Calls({})
    calls.returning("get_weather", lambda args: "sun")
    outcome = await drive(agent_of(model, tools=calls.tools))
    assert calls.executed == [{"city": "Bern"}]
    assert len(outcome.tool_results) == 1


async def test_no_cut_separates_a_call_from_its_result(drive: Drive) -> None:
    """FR-074; R3.5, R4.12: call and result are one part, so whatever a processor keeps can be sent"""
    given = case("074")
    size = 3  # The list holds the results in the message of the calls.
    for kept_messages in range(1, size + 1):
        model = ScriptedModel(["fine"])
        last = made_sync(process_input_step=lambda args, count=kept_messages: args.messages[-count:])
        outcome = await drive(agent_of(model, input_processors=[last]), given["messages"])
        assert outcome.error is None
        assert_pairs_are_valid(model.prompts[0])
        assert told(model.prompts[0])[-1] == ("user", "summarise")
        assert len(results_in(model.prompts[0])) == (10 if kept_messages > 1 else 0)


async def test_a_limiter_that_has_nothing_to_cut_changes_nothing(drive: Drive) -> None:
    """FR-079; R3.22"""
    given = case("079")
    prompts = []
    for processors in ([], [made_sync(process_input=lambda args: args.messages)]):
        model = ScriptedModel(["fine"])
        await drive(agent_of(model, input_processors=processors), given["messages"])
        prompts.append(model.prompts[0])
    assert (prompts[0] == prompts[1]) is given["expect"]["unchanged"]
    assert [role for role, _ in told(prompts[0])] == ["system", "user", "assistant", "tool"]


async def test_half_a_character_poisons_neither_the_request_nor_the_thread(drive: Drive) -> None:
    """FR-080; R4.9, R13.14: a lone surrogate becomes U+FFFD before it is stored or sent"""
    given = case("080")
    broken = json.loads(given["tool_result_json_escape"])
    texts = [one.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") for one in given["texts"]]
    results = [text[:cut] for text in texts for cut in range(len(text) + 1)] + [broken, {"deep": [broken]}]
    store = InMemoryStore()
    model = ScriptedModel(
        [*[tool_call("t", {"i": i}, id=f"c{i}") for i in range(len(results))], f"so {broken}", "fine"]
    )
    tool = Tool(id="t", execute=lambda args: results[args["i"]])
    agent = agent_of(model, tools=[tool], memory=Memory(store))
    await drive(agent, memory=THREAD, max_steps=len(results) + 1)
    await drive(agent, f"what? {broken}", memory=THREAD)
    sent = as_text(model.prompts)
    encodable = sent.encode("utf-8").decode() == sent
    assert encodable is given["expect"]["utf8_encodable_for_all_cuts"]
    assert sum("\ud800" <= char <= "\udfff" for char in sent) == given["expect"]["lone_surrogates_in_request"]
    assert results_in(model.prompts[-1])[f"c{len(results) - 2}"]["value"] == "bad \ufffd…"
