"""Custom data chunks that hooks and tools write (runtime specification, section 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock import DataChunk, ToolContext, tool
from interlock.chunks import ToolOutput
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, text, tool_call, types_of
from tests.agent.kit import THREAD, Drive, Make, agent_of, chunks_of, echo, part_types, stored, streamed

pytestmark = pytest.mark.anyio

NOTE = {"type": "data-note", "data": {"n": 1}}


def writing(chunk: Any, **options: Any) -> Any:
    """A hook that writes ``chunk`` and returns what leaves things as they are."""

    async def hook(args: Any) -> Any:
        await args.writer.custom(chunk, **options)
        return getattr(args, "part", None)

    return hook


def writing_at(kind: str, chunk: Any, **options: Any) -> Any:
    """A stream hook that writes ``chunk`` before each chunk of a type."""

    async def hook(args: Any) -> Any:
        if args.part.type == kind:
            await args.writer.custom(chunk, **options)
        return args.part

    return hook


@pytest.mark.parametrize("kind", ["data-", "note", "text-delta", "", None, 3])
async def test_other_types_are_refused(drive: Drive, make: Make, kind: Any) -> None:
    """R9.1"""
    agent = agent_of(["x"], output_processors=[make(process_output_step=writing({"type": kind, "data": 1}))])
    outcome = await drive(agent)
    assert isinstance(outcome.error.__cause__, ValueError)
    assert "data-" in str(outcome.error.__cause__)


async def test_a_chunk_may_be_an_object_and_may_lack_its_data(make: Make) -> None:
    """R9.1"""
    processor = make(process_output_step=writing(DataChunk(type="data-empty")))
    outcome = await streamed(agent_of(["x"], output_processors=[processor]))
    (chunk,) = chunks_of(outcome.chunks, "data-empty")
    assert chunk.data is None


async def test_missing_fields_are_filled_in_and_the_callers_object_is_left_alone(make: Make) -> None:
    """R9.2"""
    given = {"type": "data-note", "data": {"n": 1}, "id": "d1"}
    outcome = await streamed(agent_of(["x"], output_processors=[make(process_output_step=writing(given))]))
    (chunk,) = chunks_of(outcome.chunks, "data-note")
    assert chunk.to_dict() == {
        "type": "data-note",
        "data": {"n": 1},
        "id": "d1",
        "runId": outcome.run_id,
        "from": "AGENT",
    }
    assert given == {"type": "data-note", "data": {"n": 1}, "id": "d1"}


async def test_it_appears_before_the_chunk_that_is_processed(make: Make) -> None:
    """R9.3"""
    processor = make(process_output_stream=writing_at("text-delta", NOTE))
    outcome = await streamed(agent_of([["a", "b"]], output_processors=[processor]))
    assert types_of(outcome.chunks)[2:7] == ["text-start", "data-note", "text-delta", "data-note", "text-delta"]


async def test_one_of_the_result_hook_appears_between_step_finish_and_finish(make: Make) -> None:
    """R9.3"""
    outcome = await streamed(agent_of(["x"], output_processors=[make(process_output_result=writing(NOTE))]))
    assert types_of(outcome.chunks)[-3:] == ["step-finish", "data-note", "finish"]


INPUT_HOOKS_WITH_WRITER = ["process_input_step", "process_llm_request", "process_llm_response"]
OUTPUT_HOOKS_WITH_WRITER = ["process_output_step", "process_tool_result", "process_output_result"]


@pytest.mark.parametrize("hook", INPUT_HOOKS_WITH_WRITER + OUTPUT_HOOKS_WITH_WRITER)
async def test_every_hook_with_a_writer_keeps_its_data_with_the_response(drive: Drive, make: Make, hook: str) -> None:
    """R9.4"""
    store = InMemoryStore()
    array = "input_processors" if hook in INPUT_HOOKS_WITH_WRITER else "output_processors"
    agent = agent_of(
        [[tool_call("echo")], "x"], tools=[echo], memory=Memory(store), **{array: [make(**{hook: writing(NOTE)})]}
    )
    outcome = await drive(agent, memory=THREAD)
    answer = (await stored(store))[-1]
    assert answer.role == "assistant"
    parts = [part for part in answer.content.parts if part.type == "data-note"]
    assert [part.to_dict() for part in parts] == [{"type": "data-note", "data": {"n": 1}}] * len(parts)
    assert len(parts) == (1 if hook in ("process_tool_result", "process_output_result") else 2)
    assert outcome.text == "x"


async def test_data_of_the_response_hook_does_not_disturb_what_is_judged(drive: Drive, make: Make) -> None:
    """R9.4, R9.7, R2.30"""
    store = InMemoryStore()
    processor = make("p", process_llm_response=writing(NOTE), process_output_step=writing(NOTE))
    agent = agent_of(
        [["a ", tool_call("echo")], "b"],
        tools=[echo],
        memory=Memory(store),
        input_processors=[processor],
        output_processors=[processor],
    )
    outcome = await drive(agent, memory=THREAD)
    assert (outcome.text, [step.text for step in outcome.steps]) == ("a b", ["a ", "b"])
    assert [part.type for part in (await stored(store))[-1].content.parts if part.type != "step-start"] == [
        "text",
        "tool-invocation",
        "data-note",
        "data-note",
        "text",
        "data-note",
        "data-note",
    ]


async def test_a_tool_keeps_its_data_with_the_response(drive: Drive) -> None:
    """R9.4"""

    @tool
    async def chatty(context: ToolContext) -> str:
        await context.writer.custom({"type": "data-progress", "data": 50, "id": "p"})
        return "ok"

    store = InMemoryStore()
    agent = agent_of([[tool_call("chatty")], "x"], tools=[chatty], memory=Memory(store))
    await drive(agent, memory=THREAD)
    parts = [part.to_dict() for part in (await stored(store))[-1].content.parts if part.type == "data-progress"]
    assert parts == [{"type": "data-progress", "data": 50, "id": "p"}]


async def test_without_memory_data_is_in_the_ui_messages_of_the_response(drive: Drive, make: Make) -> None:
    """R9.4"""
    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=writing(NOTE))]))
    assert "data-note" in [part["type"] for part in outcome.response.ui_messages[0]["parts"]]


async def test_a_transient_chunk_is_streamed_with_its_mark_and_not_kept(make: Make) -> None:
    """R9.5"""
    store = InMemoryStore()
    agent = agent_of(
        ["x"],
        memory=Memory(store),
        output_processors=[make(process_output_step=writing({**NOTE, "transient": True}))],
    )
    outcome = await streamed(agent, memory=THREAD)
    (chunk,) = chunks_of(outcome.chunks, "data-note")
    assert chunk.to_dict()["transient"] is True
    assert part_types((await stored(store))[-1]) == ["text"]


async def test_transient_is_no_option_of_custom(drive: Drive, make: Make) -> None:
    """R9.5"""
    processor = make(process_output_step=writing(NOTE, transient=True))
    outcome = await drive(agent_of(["x"], output_processors=[processor]))
    assert isinstance(outcome.error.__cause__, TypeError)


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_result"])
async def test_a_message_id_names_the_message_that_gets_the_part(drive: Drive, make: Make, hook: str) -> None:
    """R9.6"""
    written: list[bool] = []

    async def write(args: Any) -> Any:
        if not written:
            written.append(True)
            await args.writer.custom(NOTE, message_id="other")
        return getattr(args, "part", None)

    outcome = await drive(agent_of(["x"], output_processors=[make(**{hook: write})]))
    by_id = {message.id: part_types(message) for message in outcome.message_list.get.response.db()}
    assert by_id.pop("other") == ["data-note"]
    assert list(by_id.values()) == [["text"]]


async def test_other_hooks_write_to_the_current_response_whatever_the_message_id(drive: Drive, make: Make) -> None:
    """R9.6"""
    processor = make(process_output_step=writing(NOTE, message_id="other"))
    outcome = await drive(agent_of(["x"], output_processors=[processor]))
    assert [part_types(message) for message in outcome.message_list.get.response.db()] == [["text", "data-note"]]


async def test_a_part_takes_its_place_before_the_text_that_is_still_streamed(drive: Drive, make: Make) -> None:
    """R9.7"""
    first, second = {"type": "data-a", "data": 1}, {"type": "data-b", "data": 2}

    async def write(args: Any) -> Any:
        if args.part.type == "text-delta" and args.part.payload.text == "two":
            await args.writer.custom(first)
            await args.writer.custom(second)
            await args.writer.custom(first)
        return args.part

    turn = [text("one", id="1"), text("t", "two", id="2")]
    outcome = await drive(agent_of([turn], output_processors=[make(process_output_stream=write)]))
    assert part_types(outcome.message_list.get.response.db()[0]) == ["text", "data-a", "data-b", "data-a", "text"]


async def test_only_a_processor_that_opted_in_sees_data_chunks(make: Make) -> None:
    """R9.8"""
    seen: dict[str, list[Any]] = {"in": [], "out": []}

    def look(name: str) -> Any:
        def hook(args: Any) -> Any:
            seen[name] += [part.data for part in args.stream_parts if part.type == "data-note"]
            return args.part

        return hook

    agent = agent_of(
        [["a"]],
        output_processors=[
            make("writer", process_output_stream=writing_at("text-delta", NOTE)),
            make("in", process_data_parts=True, process_output_stream=look("in")),
            make("out", process_output_stream=look("out")),
        ],
    )
    await streamed(agent)
    assert seen["in"]
    assert seen["out"] == []


def noting(seen: list[str], name: str) -> Any:
    def hook(args: Any) -> Any:
        if args.part.type.startswith("data-"):
            seen.append(name)
        return args.part

    return hook


async def test_a_stream_hooks_chunk_goes_through_the_later_processors_only(make: Make) -> None:
    """R9.9"""
    seen: list[str] = []

    async def write(args: Any) -> Any:
        if args.part.type.startswith("data-"):
            seen.append("writer")
        if args.part.type == "text-delta":
            await args.writer.custom(NOTE)
        return args.part

    agent = agent_of(
        ["a"],
        output_processors=[
            make("before", process_data_parts=True, process_output_stream=noting(seen, "before")),
            make("writer", process_data_parts=True, process_output_stream=write),
            make("after", process_data_parts=True, process_output_stream=noting(seen, "after")),
        ],
    )
    await streamed(agent)
    assert seen == ["after"]


@pytest.mark.parametrize("hook", ["process_output_step", "process_input_step"])
async def test_other_hooks_chunks_go_through_all_processors(make: Make, hook: str) -> None:
    """R9.9"""
    seen: list[str] = []
    writer = make("writer", process_data_parts=True, **{hook: writing(NOTE)})
    agent = agent_of(
        ["a"],
        input_processors=[writer] if hook == "process_input_step" else [],
        output_processors=[
            make("one", process_data_parts=True, process_output_stream=noting(seen, "one")),
            *([writer] if hook == "process_output_step" else []),
            make("two", process_data_parts=True, process_output_stream=noting(seen, "two")),
        ],
    )
    await streamed(agent)
    assert seen == ["one", "two"]


async def test_a_result_hooks_chunk_goes_straight_to_the_client(make: Make) -> None:
    """R9.9"""
    seen: list[str] = []
    agent = agent_of(
        ["a"],
        output_processors=[
            make("writer", process_output_result=writing(NOTE)),
            make("after", process_data_parts=True, process_output_stream=noting(seen, "after")),
        ],
    )
    outcome = await streamed(agent)
    assert seen == []
    assert "data-note" in types_of(outcome.chunks)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda part: part, ["data-note"]),
        (lambda part: None, []),
        (lambda part: DataChunk(type="data-other", data=part.data), ["data-other"]),
        (lambda part: [part, DataChunk(type="data-other", data=1)], ["data-note", "data-other"]),
    ],
    ids=["kept", "dropped", "retyped", "doubled"],
)
async def test_what_leaves_the_chain_is_what_is_streamed_and_kept(make: Make, change: Any, expected: list[str]) -> None:
    """R9.10"""

    def filter_data(args: Any) -> Any:
        return change(args.part) if args.part.type == "data-note" else args.part

    agent = agent_of(
        ["a"],
        output_processors=[
            make("writer", process_output_stream=writing_at("text-delta", NOTE)),
            make("filter", process_data_parts=True, process_output_stream=filter_data),
        ],
    )
    outcome = await streamed(agent)
    assert [kind for kind in types_of(outcome.chunks) if kind.startswith("data-")] == expected
    kept = part_types(outcome.message_list.get.response.db()[0])
    assert [kind for kind in kept if kind.startswith("data-")] == expected


async def test_data_never_reaches_a_prompt(drive: Drive, make: Make) -> None:
    """R9.11"""
    store, model = InMemoryStore(), ScriptedModel([[tool_call("echo")], "x", "y"])
    agent = agent_of(
        model, tools=[echo], memory=Memory(store), output_processors=[make(process_output_step=writing(NOTE))]
    )
    await drive(agent, memory=THREAD)
    await drive(agent, memory=THREAD)
    assert "data-note" not in json.dumps(model.prompts)
    assert "data-note" in part_types((await stored(store))[1])


async def test_under_generate_the_writer_works_the_same(make: Make) -> None:
    """R9.12"""
    agent = agent_of(["x"], output_processors=[make(process_output_step=writing(NOTE))])
    result = await agent.generate("hi")
    assert part_types(result.message_list.get.response.db()[0]) == ["text", "data-note"]


async def test_a_tool_writes_values_as_tool_output(make: Make) -> None:
    """R9.13, R5.9"""
    seen: list[str] = []

    @tool
    async def chatty(context: ToolContext) -> str:
        await context.writer.write({"progress": 50})
        return "ok"

    def look(args: Any) -> Any:
        seen.append(args.part.type)
        return args.part

    agent = agent_of(
        [[tool_call("chatty", id="c1")], "x"], tools=[chatty], output_processors=[make(process_output_stream=look)]
    )
    outcome = await streamed(agent)
    (chunk,) = chunks_of(outcome.chunks, "tool-output")
    assert isinstance(chunk, ToolOutput)
    assert (chunk.payload.tool_call_id, chunk.payload.output) == ("c1", {"progress": 50})
    assert types_of(outcome.chunks).index("tool-output") < types_of(outcome.chunks).index("tool-result")
    assert "tool-output" in seen


async def test_a_hooks_writer_has_no_write(make: Make) -> None:
    """R9.13"""
    has: list[bool] = []
    processor = make(process_output_step=lambda args: has.append(hasattr(args.writer, "write")))
    await streamed(agent_of(["x"], output_processors=[processor]))
    assert has == [False]


async def test_writing_after_the_run_does_nothing(make: Make) -> None:
    """R9.14"""
    writers: list[Any] = []
    processor = make(process_output_step=lambda args: writers.append(args.writer))
    outcome = await streamed(agent_of(["x"], output_processors=[processor]))
    before = len(outcome.message_list.get.response.db()[0].content.parts)
    await writers[0].custom(NOTE)
    assert len(outcome.message_list.get.response.db()[0].content.parts) == before
