"""Output stream hooks and the plumbing of chunks."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import APICallError, Processor, Tool, ToolContext
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import ReasoningPart, TextPart
from interlock.testing import ScriptedModel, text, text_of, tool_call, types_of
from tests.agent.kit import THREAD, Drive, Recorder, agent_of, chunks_of, made_sync, stored, streamed
from tests.field_reports.cases import Calls, assert_pairs_are_valid, case, kept_in, scripted, shown, turns
from tests.field_reports.processors import Batcher, Windowed, masked

pytestmark = pytest.mark.anyio


async def test_a_batcher_keeps_the_place_of_the_chunks_that_are_no_text() -> None:
    """FR-001; R2.25, R19.2"""
    given = case("001")
    batcher = Batcher(given["config"]["batch_size"], emits_on_non_text=given["config"]["emit_on_non_text"])
    calls = Calls({"tools": {"lookup": {"returns": "rain"}}})
    model = ScriptedModel([*turns(given), "ok"])
    outcome = await streamed(agent_of(model, tools=calls.tools, output_processors=[batcher]))
    first_step = outcome.chunks[: types_of(outcome.chunks).index("tool-result")]
    wanted = given["expect"]["types_in_order"]
    # The model's own ``finish`` is not forwarded (R5.4).
    assert [kind for kind in types_of(first_step) if kind in wanted] == wanted[:-1]
    assert text_of(first_step) == outcome.steps[0].text == given["expect"]["text"]
    assert calls.executed == [{"q": "rain"}]


async def test_a_merged_delta_keeps_the_id_of_its_part_and_its_run(drive: Drive) -> None:
    """FR-003; R2.26, R5.1"""
    given = case("003")
    batcher = Batcher(given["config"]["batch_size"])
    outcome = await drive(agent_of(scripted(given), output_processors=[batcher]), run_id="run")
    deltas = chunks_of(outcome.chunks, "text-delta")
    assert {delta.payload.id for delta in deltas} <= {given["expect"]["all_delta_ids"]}
    assert {chunk.run_id for chunk in outcome.chunks} <= {"run"}
    assert outcome.text == given["expect"]["text"]
    assert [part.text for part in outcome.response.db_messages[0].content.parts] == [given["expect"]["text"]]


async def test_a_dropped_tool_call_is_not_executed(drive: Drive) -> None:
    """FR-004; R2.27, R1.13 decide otherwise than the report: dropping a tool-call means that it is not executed"""
    given = case("004")
    calls, model = Calls(given), scripted(given)

    def hide(args: Any) -> Any:
        is_hidden = args.part.type in given["expect"]["client_types_absent"]
        return None if is_hidden and args.part.payload.tool_name == "internal_lookup" else args.part

    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[made_sync(process_output_stream=hide)]))
    assert calls.executed == []
    assert model.calls == 1
    assert outcome.tool_calls == []
    assert outcome.response.messages == []


async def test_a_dropped_tool_result_is_hidden_from_the_client_only(drive: Drive) -> None:
    """FR-004; R2.27: the part of the report that holds, for whoever wants to hide what a tool found"""
    given = case("004")
    calls, model = Calls(given), scripted(given)
    hide = made_sync(process_output_stream=lambda args: None if args.part.type == "tool-result" else args.part)
    outcome = await drive(agent_of(model, tools=calls.tools, output_processors=[hide]))
    assert bool(calls.executed) is given["expect"]["tool_executed"]
    assert model.calls == given["expect"]["model_calls"]
    assert outcome.text == given["expect"]["client_text"]
    assert "tool-result" not in types_of(outcome.chunks)
    parts = outcome.response.db_messages[0].content.parts
    pairs = [part.tool_invocation.tool_call_id for part in parts if part.type == "tool-invocation"]
    assert pairs == given["expect"]["history_has_pair"]
    assert_pairs_are_valid(model.prompts[1])


async def test_the_stream_hook_sees_each_tool_result_once_and_after_the_tool_result_hook(drive: Drive) -> None:
    """FR-005; R1.4, R5.9"""
    given, recorder = case("005"), Recorder()
    await drive(agent_of(scripted(given), tools=Calls(given).tools, output_processors=[recorder]))
    for kind, count in given["expect"]["seen_counts"].items():
        assert recorder.parts.count(kind) == count
    seen = recorder.calls.index("process_output_stream(tool-result)")
    assert recorder.calls.index("process_output_stream(tool-call)") < seen
    assert recorder.calls.index("process_tool_result(0)") < seen
    assert seen < recorder.calls.index("process_output_stream(text-start)")


async def test_every_output_hook_has_a_writer_that_works(drive: Drive) -> None:
    """FR-006; R2.1, R9.3, R9.4"""
    given = case("006")
    writers = []

    class Notes(Processor):
        id = "notes"

        async def process_output_stream(self, args: Any) -> Any:
            writers.append(args.writer)
            if args.part.type == "text-delta":
                await args.writer.custom({"type": "data-note", "data": {"from": "process_output_stream"}})
            return args.part

        async def process_output_result(self, args: Any) -> None:
            writers.append(args.writer)
            await args.writer.custom({"type": "data-note", "data": {"from": "process_output_result"}})

    outcome = await drive(agent_of(scripted(given), output_processors=[Notes()]))
    assert (None in writers) is given["expect"]["writer_is_none"]
    wanted = [{"from": hook} for hook in given["expect"]["data_events_from"]]
    parts = outcome.response.db_messages[0].content.parts
    assert [part.data for part in parts if part.type == "data-note"] == wanted
    if outcome.chunks:
        assert [chunk.data for chunk in chunks_of(outcome.chunks, "data-note")] == wanted
        assert outcome.chunks[-1].type == given["expect"]["last_chunk_type"]


class WordSmoother(Processor):
    """Cuts each delta into words; a delta without text goes on as it is, and so does what a delta carries."""

    id = "smoother"

    def process_output_stream(self, args: Any) -> Any:
        part = args.part
        if part.type not in ("text-delta", "reasoning-delta") or not part.payload.text.strip():
            return part
        words = part.payload.text.split(" ")
        pieces = [word + " " for word in words[:-1]] + words[-1:]
        return [{"type": part.type, "payload": {"id": part.payload.id, "text": piece}} for piece in pieces if piece]


async def test_metadata_of_an_empty_delta_stays_with_its_part(drive: Drive) -> None:
    """FR-007; R2.25, R4.6, R4.15"""
    given = case("007")
    expected = given["expect"]
    model = ScriptedModel([*turns(given), "ok"])
    store = InMemoryStore()
    agent = agent_of(model, output_processors=[WordSmoother()], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    signed = [chunk for chunk in outcome.chunks if getattr(getattr(chunk, "payload", None), "provider_metadata", None)]
    if outcome.chunks:
        assert [chunk.payload.id for chunk in signed] == [expected["signature_on_part"]] * expected["signature_count"]
        assert not set(types_of(signed)) & set(expected["signature_not_on_types"])
    reasoning, answer = outcome.response.db_messages[0].content.parts
    assert isinstance(reasoning, ReasoningPart)
    assert isinstance(answer, TextPart)
    assert reasoning.reasoning == outcome.reasoning_text == expected["reasoning"]
    assert reasoning.provider_metadata == {"anthropic": {"signature": "sig-1"}}
    assert answer.provider_metadata is None
    assert outcome.text == expected["text"]
    await drive(agent, "and now?", memory=THREAD)
    sent = model.prompts[1][1]["content"][0]
    assert sent["type"] == "reasoning"
    assert sent["providerOptions"]["anthropic"]["signature"] == "sig-1"


async def test_the_end_of_another_sources_step_closes_no_open_part(drive: Drive) -> None:
    """FR-009; R4.6, R5.2"""
    given = case("009")
    outcome = await drive(agent_of(scripted(given)))
    assert (outcome.error is not None) is given["expect"]["raises"]
    spoken: dict[str, str] = {}
    for delta in chunks_of(outcome.chunks, "text-delta"):
        spoken[delta.payload.id] = spoken.get(delta.payload.id, "") + delta.payload.text
    if outcome.chunks:
        assert spoken == given["expect"]["parts"]
    parts = [part.text for part in outcome.response.db_messages[0].content.parts]
    assert sorted(parts) == sorted(given["expect"]["parts"].values())


@pytest.mark.parametrize("drops_empty", [False, True])
async def test_an_empty_delta_ends_nothing(drive: Drive, drops_empty: bool) -> None:
    """FR-011; R5.8"""
    given = case("011")

    def pass_on(args: Any) -> Any:
        is_empty = args.part.type == "text-delta" and not args.part.payload.text
        return None if drops_empty and is_empty else args.part

    outcome = await drive(agent_of(scripted(given), output_processors=[made_sync(process_output_stream=pass_on)]))
    assert outcome.text == given["expect"]["text"]
    assert (outcome.finish_reason == "stop") is given["expect"]["finish_seen"]
    if outcome.chunks:
        assert text_of(outcome.chunks) == given["expect"]["text"]
        assert len(chunks_of(outcome.chunks, "text-delta")) == (2 if drops_empty else 4)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_window_is_the_exact_concatenation_of_the_deltas(drive: Drive, size: int) -> None:
    """FR-012; R2.25"""
    given = case("012")
    judged: list[str] = []
    guard = Windowed(lambda window: bool(judged.append(window)), size, overlap=0)
    outcome = await drive(agent_of(scripted(given), output_processors=[guard]))
    assert "".join(judged) == given["expect"]["checked_text"]
    assert outcome.text == given["expect"]["text"]


async def test_a_detector_is_asked_by_the_amount_of_text_and_not_by_the_delta(drive: Drive) -> None:
    """FR-014; R2.25, R19.2"""
    given = case("014")
    answer = given["generate"]["text_each"] * given["generate"]["deltas"]
    verdicts = set()
    for length in given["expect"]["same_verdict_for_splits"]:
        for said in (answer, answer[:400] + "BADWORD" + answer[400:]):
            asked: list[str] = []

            def detect(window: str, asked: list[str] = asked) -> bool:
                asked.append(window)
                return "BADWORD" in window

            deltas = [said[start : start + length] for start in range(0, len(said), length)]
            outcome = await drive(agent_of([text(*deltas)], output_processors=[Windowed(detect, 100)]))
            assert len(asked) <= given["expect"]["detector_calls_max"]
            verdicts.add((said, outcome.tripwire is not None))
    assert len(verdicts) == 2
    # A check of the finished text needs one call.
    asked = []
    late = made_sync(process_output_result=lambda args: asked.append(args.result.text))
    outcome = await drive(agent_of([answer], output_processors=[late]))
    assert asked == [answer] == [outcome.text]


@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_what_a_processor_asks_another_model_stays_out_of_the_stream(drive: Drive, hook: str) -> None:
    """FR-016; R12.22, R19.9"""
    given = case("016")
    helper = agent_of([text(*given["helper_stream"])])
    labels = []

    async def classify(args: Any) -> None:
        labels.append((await helper.generate("which kind?")).text)
        args.budget.guard_calls += 1

    outcome = await drive(agent_of(scripted(given), input_processors=[made_sync(**{hook: classify})]))
    assert labels == ["".join(given["helper_stream"])]
    assert outcome.text == given["expect"]["text"]
    if outcome.chunks:
        assert text_of(outcome.chunks) == given["expect"]["text"]
    assert outcome.usage.output_tokens is None
    assert "billing" not in shown(outcome)


async def test_an_error_is_shown_to_the_output_hooks_only_once_nothing_recovers_it(drive: Drive) -> None:
    """FR-018; R5.9, R7.16, R17.4"""
    given, recorder = case("018"), Recorder()
    retrying = made_sync("retrying", process_api_error=lambda args: {"retry": args.retry_count == 0})
    agent = agent_of(scripted(given), output_processors=[recorder], error_processors=[retrying])
    outcome = await drive(agent)
    assert outcome.error is None
    assert recorder.parts.count("error") == given["expect"]["error_chunks_seen_by_hooks"]
    assert chunks_of(outcome.chunks, "error") == []
    assert outcome.text == given["expect"]["final_text"]


async def test_an_error_that_nothing_recovers_is_shown_once(drive: Drive) -> None:
    """FR-018; R17.4"""
    given, recorder = case("018"), Recorder()
    outcome = await drive(agent_of(turns(given)[:1], output_processors=[recorder]))
    assert isinstance(outcome.error, APICallError)
    assert outcome.error.status_code == 429
    assert recorder.parts.count("error") == 1
    if outcome.chunks:
        assert len(chunks_of(outcome.chunks, "error")) == 1


async def test_a_replacement_takes_what_it_leaves_unset_from_the_chunk_it_replaces(drive: Drive) -> None:
    """FR-019; R2.26"""
    given = case("019")
    store = InMemoryStore()

    def shout(args: Any) -> Any:
        part = args.part
        return (
            {"type": part.type, "payload": {"text": part.payload.text.upper()}} if part.type == "text-delta" else part
        )

    agent = agent_of(scripted(given), output_processors=[made_sync(process_output_stream=shout)], memory=Memory(store))
    outcome = await drive(agent, memory=THREAD)
    if outcome.chunks:
        deltas = chunks_of(outcome.chunks, "text-delta")
        assert [delta.payload.id for delta in deltas] == given["expect"]["delta_ids"]
        assert {delta.run_id for delta in deltas} == {outcome.run_id}
    assert outcome.text == given["expect"]["text"]
    messages = [message for message in await stored(store) if message.role == "assistant"]
    assert len(messages) == given["expect"]["stored_assistant_messages"]
    assert [part.text for part in messages[0].content.parts] == [given["expect"]["text"]]


async def test_what_a_tool_forwards_passes_the_stream_hooks(drive: Drive) -> None:
    """FR-022; R5.9, R9.8, R9.10, R9.13"""
    given = case("022")
    output, data = given["forwarded"]
    store = InMemoryStore()

    async def run_helper(args: Any, context: ToolContext) -> str:
        await context.writer.write(output["payload"]["output"])
        await context.writer.custom(data)
        return "the helper is done"

    class Masking(Processor):
        id = "masking"
        process_data_parts = True

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type in given["expect"]["client_types_absent"]:
                return None
            if args.part.type.startswith("data-"):
                args.part.data = masked(args.part.data)
            return args.part

    agent = agent_of(
        [tool_call("helper"), "ok"],
        tools=[Tool(id="helper", execute=run_helper)],
        output_processors=[Masking()],
        memory=Memory(store),
    )
    outcome = await drive(agent, memory=THREAD)
    assert not set(types_of(outcome.chunks)) & set(given["expect"]["client_types_absent"])
    assert given["expect"]["must_not_emit"] not in shown(outcome) + await kept_in(store)
    assert "inner [PRIVATE]" in await kept_in(store)
    assert outcome.tool_results[0].payload.result == "the helper is done"
