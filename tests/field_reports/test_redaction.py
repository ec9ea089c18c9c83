"""Redaction: what a guard takes out is out everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from interlock import Processor, Tool, get_text
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ToolInvocation, ToolInvocationPart
from interlock.testing import ScriptedModel, cuts, text, text_of, tool_call
from tests.agent.kit import THREAD, Drive, agent_of, made_sync, saved, stored, streamed, told
from tests.field_reports.cases import (
    Calls,
    as_text,
    assert_pairs_are_valid,
    case,
    kept_in,
    results_in,
    scripted,
    shown,
)
from tests.field_reports.processors import HoldBack, mask_message, masked

pytestmark = pytest.mark.anyio


def splits_of(given: dict[str, Any]) -> Iterator[list[str]]:
    """The split of the report, its variants, and every cut of each text into two and three pieces."""
    reported = [chunk["payload"]["text"] for chunk in given["chunks"] if chunk["type"] == "text-delta"]
    yield reported
    for variant in given["variants"]:
        yield list(variant["each_character_of"]) if isinstance(variant, dict) else variant
    for whole in ("Card 4111 1111 1111 1111 is on file.", "Write to sam.lee@example.com today", "SSN 219-09-9999 ok"):
        yield from cuts(whole, 2)


class ReplyKeeper(Processor):
    """Keeps what a response cache would keep."""

    id = "keeper"

    def __init__(self) -> None:
        self.chunks: list[Any] = []

    def process_llm_response(self, args: Any) -> None:
        self.chunks += args.chunks


async def test_a_value_that_comes_in_pieces_never_goes_out(drive: Drive) -> None:
    """FR-037; R2.25, R11.6, R13.9, R19.2"""
    given = case("037")
    expected = given["expect"]
    seen: dict[str, set[str]] = {}
    for deltas in splits_of(given):
        store, on_chunk = InMemoryStore(), []
        cache = ReplyKeeper()
        agent = agent_of(
            [text(*deltas)],
            input_processors=[cache],
            output_processors=[HoldBack()],
            memory=Memory(store),
        )
        outcome = await drive(agent, memory=THREAD, on_chunk=on_chunk.append)
        everything = shown(outcome) + await kept_in(store) + as_text(on_chunk) + as_text(cache.chunks)
        for secret in expected["must_not_emit"]:
            assert secret not in everything
        if outcome.chunks:
            assert text_of(outcome.chunks) == outcome.text
        seen.setdefault("".join(deltas), set()).add(outcome.text)
    assert all(len(texts) == 1 for texts in seen.values()) is expected["same_for_all_splits"]
    card = seen["Card 4111 1111 1111 1111 is on file."].pop()
    assert card == "Card [PRIVATE]" + expected["suffix"]


@pytest.mark.parametrize("replace", [lambda value: "", lambda value: "*" * len(value), lambda value: f"#{len(value)}"])
async def test_how_a_value_is_replaced_does_not_matter(drive: Drive, replace: Any) -> None:
    """FR-037; R2.25"""
    for deltas in splits_of(case("037")):
        outcome = await drive(agent_of([text(*deltas)], output_processors=[HoldBack(replace)]))
        assert not re.search(r"4111 1|111 1|sam\.lee|219-09", shown(outcome))


async def test_tool_arguments_are_masked_in_a_message_that_has_no_text(drive: Drive) -> None:
    """FR-042; R2.2, R13.9"""
    given = case("042")
    store, model = InMemoryStore(), ScriptedModel(["ok"])
    guard = made_sync(process_input=lambda args: [mask_message(message) for message in args.messages] and None)
    await drive(agent_of(model, input_processors=[guard], memory=Memory(store)), given["messages"], memory=THREAD)
    assert_masked_ticket(given, await kept_in(store), (await stored(store))[1].content.parts)
    for secret in given["expect"]["stored_must_not_contain"]:
        assert secret not in as_text(model.prompts)


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_step"])
async def test_a_tool_gets_the_arguments_that_the_guard_left(drive: Drive, hook: str) -> None:
    """FR-042; R2.30, R5.11: the tool gets the masked value"""
    given = case("042")
    call = given["messages"][1]["parts"][1]
    store = InMemoryStore()
    calls = Calls({"tools": {"create_ticket": {"returns": "made"}}})
    model = ScriptedModel([[text(""), tool_call("create_ticket", call["args"], id="c1")], "ok"])

    class Guard(Processor):
        id = "guard"

    def mask_chunk(args: Any) -> Any:
        if args.part.type == "tool-call":
            args.part.payload.args = masked(args.part.payload.args)
        return args.part

    def mask_step(args: Any) -> None:
        for message in args.messages:
            mask_message(message)

    guard: Any = Guard()
    setattr(guard, hook, mask_chunk if hook == "process_output_stream" else mask_step)
    agent = agent_of(model, tools=calls.tools, output_processors=[guard], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    assert calls.executed == [masked(call["args"])]
    parts = (await stored(store))[1].content.parts
    assert_masked_ticket(given, await kept_in(store), parts)
    for secret in given["expect"]["stored_must_not_contain"]:
        assert secret not in as_text(model.prompts)
        if hook == "process_output_stream":
            assert secret not in shown(outcome)


def assert_masked_ticket(given: dict[str, Any], kept: str, parts: Any) -> None:
    expected = given["expect"]
    for secret in expected["stored_must_not_contain"]:
        assert secret not in kept
    call = next(part for part in parts if isinstance(part, ToolInvocationPart)).tool_invocation
    assert list(call.args) == expected["args_keys"]
    assert isinstance(call.args["note"], dict) is expected["note_is_object"]


def mask_all(args: Any) -> Any:
    """Mask a chunk's text, or the messages of any other hook."""
    if hasattr(args, "part"):
        if args.part.type == "text-delta":
            args.part.payload.text = masked(args.part.payload.text)
        return args.part
    for message in args.messages:
        mask_message(message)
    return None


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_step", "process_output_result"])
async def test_what_is_stored_is_what_was_delivered(drive: Drive, hook: str) -> None:
    """FR-045; R1.9, R2.31, R2.35, R13.9"""
    given = case("045")
    store = InMemoryStore()
    agent = agent_of(scripted(given), output_processors=[made_sync(**{hook: mask_all})], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    kept = dict(await saved(store))
    assert given["expect"]["stored_must_not_contain"] not in await kept_in(store)
    assert (kept["assistant"] == outcome.text == "SSN [PRIVATE]") is given["expect"]["stored_equals_delivered"]


@pytest.mark.parametrize("returns", ["nothing", "the messages", "copies"])
async def test_text_messages_and_steps_agree_after_the_last_hook(drive: Drive, returns: str) -> None:
    """FR-046; R2.35, R12.20"""
    given = case("046")
    expected = given["expect"]
    store = InMemoryStore()

    def upper(args: Any) -> Any:
        if returns == "copies":
            raw = args.messages[0].to_dict()
            raw["content"]["parts"][0]["text"] = raw["content"]["parts"][0]["text"].upper()
            return [raw]
        for message in args.messages:
            for part in message.content.parts:
                part.text = part.text.upper()
        return args.messages if returns == "the messages" else None

    agent = agent_of(scripted(given), output_processors=[made_sync(process_output_result=upper)], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    assert outcome.text == outcome.steps[-1].text == expected["result_text"]
    assert [get_text(message) for message in outcome.response.db_messages] == [expected["messages_text"]]
    assert outcome.response.messages[0]["content"][0]["text"] == expected["messages_text"]
    assert dict(await saved(store))["assistant"] == expected["messages_text"]
    assert outcome.content == [{"type": "text", "text": expected["messages_text"]}]


class Placeholders(Processor):
    """Gives every value of a run its own placeholder, and puts the values back into the answer."""

    id = "placeholders"

    def process_input(self, args: Any) -> None:
        known = args.state.setdefault("known", {})
        for message in args.messages:
            for part in message.content.parts:
                part.text = re.sub(
                    r"[\w.]+@[\w.]+\.\w+",
                    lambda match: known.setdefault(match.group(), f"<EMAIL_{len(known) + 1}>"),
                    part.text,
                )

    def process_output_result(self, args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                for value, placeholder in args.state["known"].items():
                    part.text = part.text.replace(placeholder, value)


async def test_placeholders_do_not_collide_between_messages_or_runs(drive: Drive) -> None:
    """FR-048; R8.1, R8.2, R8.3"""
    given = case("048")

    def repeat(request: Any) -> str:
        return "so: " + " / ".join(said for role, said in told(request.prompt) if role == "user")

    model = ScriptedModel(repeat)
    guard = Placeholders()
    agent = agent_of(model, input_processors=[guard], output_processors=[guard])
    outcome = await drive(agent, given["messages"])
    sent = [said for _, said in told(model.prompts[0])]
    found = re.findall(r"<EMAIL_\d>", " ".join(sent))
    assert len(set(found)) == given["expect"]["distinct_placeholders"]
    assert (found[0] == found[2] != found[1]) is given["expect"]["same_value_same_placeholder"]
    wanted = "so: I am ann@example.com / tell bob@example.org and ann@example.com"
    assert (outcome.text == wanted) is given["expect"]["roundtrip"]
    await drive(agent, "I am zoe@example.com")
    assert told(model.prompts[1]) == [("user", "I am <EMAIL_1>")]


async def test_names_and_links_of_an_attachment_are_masked_and_its_bytes_are_not(drive: Drive) -> None:
    """FR-054; R2.2, R4.16"""
    given = case("054")
    store = InMemoryStore()
    model = ScriptedModel(["ok"], supported_urls={"*": [".*"]})
    guard = made_sync(process_input=lambda args: [mask_message(message) for message in args.messages] and None)
    agent = agent_of(model, input_processors=[guard], memory=Memory(store))
    outcome = await drive(agent, given["messages"], memory=THREAD)
    file, image = model.prompts[0][0]["content"]
    assert (file["data"] == given["messages"][0]["parts"][0]["data"]) is given["expect"]["data_unchanged"]
    assert image["data"].startswith("https://img.example.com/a.png?email=")
    for secret in given["expect"]["must_not_contain"]:
        assert secret not in as_text(model.prompts) + await kept_in(store) + shown(outcome)


@pytest.mark.parametrize("way", ["update_tool_invocation", "in place"])
async def test_a_masked_tool_result_is_masked_for_the_model_too(drive: Drive, way: str) -> None:
    """FR-056; R10.7"""
    given = case("056")
    store, model = InMemoryStore(), scripted(given)

    def mask(args: Any) -> None:
        result = masked(args.result)
        if way == "in place":
            part = args.message_list.find_tool_invocation(args.tool_call_id)
            part.tool_invocation.state, part.tool_invocation.result = "result", result
            return
        invocation = ToolInvocation(
            state="result", tool_call_id=args.tool_call_id, tool_name=args.tool_name, args=args.args, result=result
        )
        args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))

    agent = agent_of(
        model,
        tools=Calls(given).tools,
        output_processors=[made_sync(process_tool_result=mask)],
        memory=Memory(store),
    )
    outcome = await drive(agent, memory=THREAD)
    output = results_in(model.prompts[1])["c1"]
    assert isinstance(output["value"], dict) is given["expect"]["result_is_object"]
    assert output["value"] == {"contact": "[PRIVATE]", "list": ["[PRIVATE]"]}
    for secret in given["expect"]["second_request_must_not_contain"]:
        assert secret not in as_text(model.prompts) + shown(outcome) + await kept_in(store)


async def test_a_private_number_can_be_refused_before_the_tool_runs(drive: Drive) -> None:
    """FR-057; R19.7"""
    given = case("057")
    calls = Calls({"tools": {"pay": {"returns": "paid"}}})
    model = ScriptedModel([tool_call("pay", given["tool_args"], id="c1"), "ok"])

    def refuse(args: Any) -> None:
        for call in args.tool_calls or ():
            if any(masked(str(value)) != str(value) for value in call.args.values()):
                args.refuse_tool_call(call.tool_call_id, "The arguments hold a card number.")

    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[made_sync(process_output_step=refuse)]))
    assert bool(calls.executed) is given["expect"]["passed_silently"]
    assert results_in(model.prompts[1])["c1"] == {"type": "error-text", "value": "The arguments hold a card number."}
    assert outcome.text == "ok"


async def test_a_blocked_tool_output_keeps_its_place(drive: Drive) -> None:
    """FR-066; R3.5, R4.12, R10.7"""
    given = case("066")
    store, model = InMemoryStore(), ScriptedModel(["ok"])

    def block(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, ToolInvocationPart) and "ZEBRA" in str(part.tool_invocation.result):
                    part.tool_invocation.result = "[blocked]"

    agent = agent_of(model, input_processors=[made_sync(process_input=block)], memory=Memory(store))
    await drive(agent, given["messages"], memory=THREAD)
    assert list(results_in(model.prompts[0])) == given["expect"]["result_ids"]
    assert_pairs_are_valid(model.prompts[0])
    assert given["expect"]["must_not_contain"] not in as_text(model.prompts) + await kept_in(store)


async def test_what_a_local_tool_returned_can_be_blocked_in_its_place() -> None:
    """FR-066; R10.7, R10.8"""
    given = case("066")
    returned = given["messages"][2]["parts"][0]["result"]
    model = ScriptedModel([tool_call("get_users", id="c1"), "ok"])

    def block(args: Any) -> None:
        if "ZEBRA" in args.result:
            invocation = ToolInvocation(state="output-error", tool_call_id=args.tool_call_id, error_text="[blocked]")
            args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))

    users = Tool(id="get_users", execute=lambda args: returned)
    agent = agent_of(model, tools=[users], output_processors=[made_sync(process_tool_result=block)])
    outcome = await streamed(agent)
    assert results_in(model.prompts[1]) == {"c1": {"type": "error-text", "value": "[blocked]"}}
    assert given["expect"]["must_not_contain"] not in shown(outcome) + as_text(model.prompts)
