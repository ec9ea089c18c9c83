"""Chunks on their way through workflows (runtime specification, R16.11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from interlock import Chunk, DataChunk, MessageList, TextDelta
from interlock.errors import ProcessorReturnError, ProcessorWorkflowError
from interlock.processors import MapArgs, ProcessorStepData, create_workflow, parallel, sequence, when
from interlock.testing import ScriptedModel, text, text_of
from tests.agent.kit import Drive, Made, Make, agent_of, chunks_of, made_sync, streamed
from tests.processors.composition.test_sequences import WAYS, Arrange

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[*WAYS, "branch"], ids=lambda way: getattr(way, "__name__", way))
def arrange(request: pytest.FixtureRequest) -> Arrange:
    """The ways of a sequence, and each processor in a branch of its own."""
    way: Any = request.param
    if way == "branch":
        return lambda *processors: [when(lambda data: True, processor) for processor in processors]
    return way  # type: ignore[no-any-return]


def on_text(change: Callable[[str], str | None]) -> Callable[[Any], Any]:
    """A stream hook that edits the text of deltas in place, or drops them."""

    def process(args: Any) -> Any:
        if args.part.type == "text-delta":
            changed = change(args.part.payload.text)
            if changed is None:
                return None
            args.part.payload.text = changed
        return args.part

    return process


def through(args: Any) -> Any:
    return args.part


def seeing(seen: list[Any]) -> Callable[[Any], Any]:
    """A stream hook that notes the texts and data that it sees."""

    def process(args: Any) -> Any:
        if args.part.type == "text-delta":
            seen.append(args.part.payload.text)
        elif args.part.type.startswith("data-"):
            seen.append(args.part.data)
        return args.part

    return process


def delta(words: str) -> TextDelta:
    return text(words)[1]  # type: ignore[return-value]


class Holder(Made):
    """Holds text back and releases it, with its name, when the stream ends."""

    def __init__(self, id: str) -> None:  # noqa: A002 - the field's name
        super().__init__(id)

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-delta":
            args.state.setdefault("held", []).append(args.part.payload.text)
            return None
        return args.part

    def flush_output_stream(self, args: Any, reason: str) -> list[Chunk]:
        return [delta(f"{self.id}:{held}") for held in args.state.pop("held", ())]


async def text_after(drive: Drive, *processors: Any, said: Any = "hello") -> str:
    outcome = await drive(agent_of([said], output_processors=list(processors)))
    if outcome.error is not None:
        raise outcome.error
    return str(outcome.text)


# -- in sequence ------------------------------------------------------------------------------------------------------


async def test_a_dropped_chunk_ends_the_chain(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R16.11"""
    seen: list[Any] = []
    processors = arrange(
        make("a", process_output_stream=on_text(lambda words: None if "b" in words else words + "!")),
        make("b", process_output_stream=seeing(seen)),
    )
    outer = make("outer", process_output_stream=seeing(seen))
    assert await text_after(drive, *processors, outer, said=["a", "b", "c"]) == "a!c!"
    assert seen == ["a!", "a!", "c!", "c!"]


async def test_several_chunks_of_one_pass_on_one_by_one(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R2.25, R16.11"""

    def double(args: Any) -> Any:
        return [args.part, delta("2")] if args.part.type == "text-delta" else args.part

    processors = arrange(
        make("a", process_output_stream=double),
        make("b", process_output_stream=on_text(lambda words: f"<{words}>")),
    )
    assert await text_after(drive, *processors, said="1") == "<1><2>"


async def test_data_chunks_reach_only_the_processors_that_want_them(arrange: Arrange, make: Make) -> None:
    """R9.8, R16.11"""
    seen: dict[str, list[Any]] = {"a": [], "b": []}

    async def write(args: Any) -> None:
        await args.writer.custom({"type": "data-x", "data": 1})

    a = make("a", process_output_stream=seeing(seen["a"]), process_data_parts=True)
    b = make("b", process_output_stream=seeing(seen["b"]))
    writer = Made("writer", process_input_step=write)
    outcome = await streamed(agent_of(["x"], input_processors=[writer], output_processors=arrange(a, b)))
    assert seen == {"a": [1, "x"], "b": ["x"]}
    assert [chunk.data for chunk in chunks_of(outcome.chunks, "data-x")] == [1]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_what_a_processor_writes_passes_those_behind_it(way: Arrange) -> None:
    """R9.9, R16.11"""
    seen: dict[str, list[Any]] = {"before": [], "c": [], "after": []}

    async def write(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-x", "data": 1})
        return args.part

    before, after, c = (
        Made(name, process_output_stream=seeing(notes), process_data_parts=True)
        for name, notes in (("before", seen["before"]), ("after", seen["after"]), ("c", seen["c"]))
    )
    writer = Made("writer", process_output_stream=write)
    workflow = way(before, writer, c)
    outcome = await streamed(agent_of(["x"], output_processors=[*workflow, after]))
    assert seen == {"before": ["x"], "c": [1, "x"], "after": [1, "x"]}
    assert len(chunks_of(outcome.chunks, "data-x")) == 1


async def test_what_a_branch_writes_passes_what_is_behind_the_step() -> None:
    """R9.9, R16.11"""
    seen: dict[str, list[Any]] = {"before": [], "after": []}

    async def write(args: Any) -> Any:
        if args.part.type == "text-delta":
            await args.writer.custom({"type": "data-x", "data": 1})
        return args.part

    before, after = (Made(n, process_output_stream=seeing(seen[n]), process_data_parts=True) for n in seen)
    writer, other = Made("writer", process_output_stream=write), Made("other", process_output_stream=through)
    outcome = await streamed(
        agent_of(["x"], output_processors=[sequence(before, parallel(writer, other, keep=other)), after])
    )
    assert seen == {"before": ["x"], "after": [1, "x"]}
    assert [chunk.type for chunk in outcome.chunks if chunk.type in ("data-x", "text-delta")] == [
        "data-x",
        "text-delta",
    ]


async def test_held_back_text_is_released_through_the_processors_behind(arrange: Arrange, drive: Drive) -> None:
    """R16.11, R19.2"""
    louder = Made("louder", process_output_stream=on_text(str.upper))
    assert await text_after(drive, *arrange(Holder("h"), louder), said=["a", "b"]) == "H:AH:B"


async def test_an_abort_in_a_stream_hook_is_that_of_its_processor(arrange: Arrange, drive: Drive, make: Make) -> None:
    """R6.10, R16.9"""
    violations: list[str] = []

    def block(args: Any) -> Any:
        if args.part.type == "text-delta" and "b" in args.part.payload.text:
            args.abort("no b")
        return args.part

    guard = make("guard", process_output_stream=block)
    guard.on_violation = lambda violation: violations.append(violation.processor_id)
    processors = arrange(guard, make("other", process_output_stream=through))
    outcome = await drive(agent_of([["a", "b", "c"]], output_processors=processors))
    assert outcome.tripwire.processor_id == "guard"
    assert outcome.text == ""
    assert violations == ["guard"]


@pytest.mark.parametrize("way", [way for way in WAYS if way.__name__ != "as_list"], ids=lambda way: way.__name__)
async def test_a_stream_hook_that_raises_fails_closed_and_names_its_step(
    way: Arrange, drive: Drive, make: Make
) -> None:
    """R16.9, R17.3"""
    broken = make("broken", process_output_stream=lambda args: 1 / 0)
    outcome = await drive(agent_of(["x"], output_processors=way(broken, make("b", process_output_stream=through))))
    error = outcome.error
    assert isinstance(error, ProcessorWorkflowError)
    assert (error.code, error.step_id) == ("PROCESSOR_WORKFLOW_FAILED", "processor:broken")
    assert isinstance(error.__cause__, ZeroDivisionError)


async def test_a_processor_in_a_workflow_may_fail_open(
    arrange: Arrange, drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R17.3"""
    broken = make("broken", process_output_stream=lambda args: 1 / 0, fail_open=True)
    assert await text_after(drive, *arrange(broken, make("b", process_output_stream=through))) == "hello"
    assert "processor 'broken' failed in process_output_stream and fails open" in caplog.text


async def test_a_processor_keeps_its_chunks_over_the_run(arrange: Arrange, make: Make) -> None:
    """R5.12, R16.11"""
    lengths: list[int] = []

    def count(args: Any) -> Any:
        assert args.stream_parts[-1] is args.part
        lengths.append(len(args.stream_parts))
        return args.part

    processors = arrange(make("a", process_output_stream=count), make("b", process_output_stream=through))
    await agent_of(["x"], output_processors=processors).generate("hi")
    assert lengths == list(range(1, len(lengths) + 1))


async def test_replayed_chunks_are_told_apart_everywhere(arrange: Arrange, make: Make) -> None:
    """R11.4, R16.11"""
    seen: set[bool] = set()

    def note(args: Any) -> Any:
        if args.part.type == "text-delta":
            seen.add(args.from_cache)
        return args.part

    chunks = [chunk.to_dict() for chunk in text("cached")]
    cache = make("cache", process_llm_request=lambda args: {"response": {"chunks": chunks}})
    processors = arrange(make("a", process_output_stream=note), make("b", process_output_stream=note))
    agent = agent_of([], input_processors=[cache], output_processors=processors)
    assert (await agent.generate("hi")).text == "cached"
    assert seen == {True}


# -- side by side -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "answer"), [(0, "HELLO"), (1, "hello!"), (None, "hello")])
async def test_each_branch_has_a_copy_of_the_chunk_and_the_selected_one_goes_on(
    keep: int | None, answer: str, drive: Drive, make: Make
) -> None:
    """R16.6, R16.11"""
    seen: list[Any] = []
    branches = [
        make("a", process_output_stream=on_text(str.upper)),
        make("b", process_output_stream=on_text(lambda words: words + "!")),
    ]
    workflow = parallel(*branches, keep=None if keep is None else branches[keep])
    look = make("look", process_output_stream=seeing(seen))
    assert await text_after(drive, workflow, look) == answer
    assert seen == [answer]


async def test_a_branch_that_drops_the_chunk_counts_only_if_it_is_selected(drive: Drive, make: Make) -> None:
    """R16.6, R16.11"""
    dropping = make("dropping", process_output_stream=on_text(lambda words: None))
    other = make("other", process_output_stream=through)
    assert await text_after(drive, parallel(dropping, other, keep=other)) == "hello"
    assert await text_after(drive, parallel(dropping, other, keep=dropping)) == ""


async def test_a_map_sees_what_each_branch_made_of_the_chunk(drive: Drive, make: Make) -> None:
    """R16.7, R16.11"""
    seen: list[Any] = []

    def strictest(args: MapArgs) -> Any:
        parts = [args.input_data[f"processor:{name}"].part for name in ("dropping", "doubling", "other")]
        if args.initial_data.part.type == "text-delta":
            seen.append([len(part) if isinstance(part, list) else part and part.payload.text for part in parts])
        return {"part": None} if None in parts else args.input_data["processor:doubling"]

    def double(args: Any) -> Any:
        return [args.part, delta("2")] if args.part.type == "text-delta" else args.part

    branches = [
        make("dropping", process_output_stream=on_text(lambda words: None if "b" in words else words)),
        make("doubling", process_output_stream=double),
        make("other", process_input=lambda args: None),
    ]
    workflow = create_workflow(id="w").parallel(branches).map(strictest).commit()
    assert await text_after(drive, workflow, said=["a", "b"]) == "a2"
    assert seen == [["a", 2, "a"], [None, 2, "b"]]


async def test_a_map_behind_a_step_may_rewrite_or_undo(drive: Drive, make: Make) -> None:
    """R16.7, R16.11"""

    def undo_long(args: MapArgs) -> Any:
        part = args.get_step_result("processor:a").part  # type: ignore[union-attr]
        assert part is args.input_data.part
        if part.type == "text-delta" and len(part.payload.text) > 3:  # type: ignore[union-attr]
            return args.initial_data
        return {}

    def replace(args: Any) -> Any:
        return delta(args.part.payload.text * 2) if args.part.type == "text-delta" else args.part

    workflow = create_workflow(id="w").then(make("a", process_output_stream=replace)).map(undo_long).commit()
    assert await text_after(drive, workflow, said=["a", "bc"]) == "aabc"


async def test_branches_wait_side_by_side_for_every_chunk(drive: Drive) -> None:
    """R16.6, R16.11"""
    waiting: list[asyncio.Event] = []

    async def meet(args: Any) -> Any:
        if waiting:
            waiting.pop().set()
        else:
            waiting.append(asyncio.Event())
            await waiting[0].wait()
        return args.part

    a, b = Made("a", process_output_stream=meet), Made("b", process_output_stream=meet)
    assert await text_after(drive, parallel(a, b, keep=a)) == "hello"


async def test_an_abort_cancels_the_other_branches_of_the_chunk(drive: Drive) -> None:
    """R16.9"""
    cancelled: list[str] = []

    async def wait_for_ever(args: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(args.part.type)

    async def block(args: Any) -> Any:
        args.abort("no")

    slow, guard = Made("slow", process_output_stream=wait_for_ever), Made("guard", process_output_stream=block)
    outcome = await drive(agent_of(["x"], output_processors=[parallel(slow, guard, keep=slow)]))
    assert outcome.tripwire.processor_id == "guard"
    assert cancelled == ["step-start"]


async def test_a_branch_and_a_task_of_it_may_write_at_the_same_time() -> None:
    """R16.6, R19.3"""
    go = asyncio.Event()

    async def write(args: Any) -> Any:
        if args.part.type == "text-start":

            async def write_late() -> None:
                await go.wait()
                await args.emit(DataChunk(type="data-x", data="task"))

            args.create_task(write_late())
        elif args.part.type == "text-delta":
            go.set()
            await asyncio.sleep(0)
            await args.writer.custom({"type": "data-x", "data": "hook"})
        return args.part

    writer, other = Made("writer", process_output_stream=write), Made("other", process_output_stream=through)
    outcome = await streamed(agent_of(["x"], output_processors=[parallel(writer, other, keep=writer)]))
    assert outcome.error is None
    assert sorted(chunk.data for chunk in chunks_of(outcome.chunks, "data-x")) == ["hook", "task"]


async def test_only_what_the_selected_branch_held_back_is_released(drive: Drive) -> None:
    """R16.6, R19.2"""
    a, b = Holder("a"), Holder("b")
    assert await text_after(drive, parallel(a, b, keep=b), said=["1", "2"]) == "b:1b:2"
    assert await text_after(drive, parallel(a, b, keep=None), said=["1", "2"]) == "12"


async def test_changes_of_the_list_in_a_stream_hook_count_only_if_the_branch_is_selected(
    drive: Drive, make: Make
) -> None:
    """R16.6"""

    def noting(tag: str) -> Callable[[Any], Any]:
        def process(args: Any) -> Any:
            if args.part.type == "text-delta":
                args.message_list.add_system(f"{tag} {args.part.payload.text}", "notes")
            return args.part

        return process

    notes: list[str] = []
    a, b = make("a", process_output_stream=noting("a")), make("b", process_output_stream=noting("b"))
    look = make("look", process_output_result=lambda args: notes.extend(args.message_list.get_system_messages("notes")))
    await text_after(drive, parallel(a, b, keep=b), look, said=["1", "2"])
    assert notes == [{"role": "system", "content": "b 1"}, {"role": "system", "content": "b 2"}]


async def test_a_map_may_not_bring_in_another_message_list_with_a_chunk(drive: Drive, make: Make) -> None:
    """R16.12"""
    step = make("a", process_output_stream=through)
    workflow = create_workflow(id="w").then(step).map(lambda args: {"message_list": MessageList()}).commit()
    outcome = await drive(agent_of(["x"], output_processors=[workflow]))
    assert isinstance(outcome.error, ProcessorReturnError)
    assert outcome.error.code == "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST"


async def test_a_parallel_without_a_map_fails_at_the_first_chunk(drive: Drive, make: Make) -> None:
    """R16.5, R17.3"""
    workflow = create_workflow(id="w").parallel([make("a", process_output_stream=through)]).commit()
    outcome = await drive(agent_of(["x"], output_processors=[workflow]))
    assert isinstance(outcome.error, ProcessorWorkflowError)
    assert outcome.error.code == "PROCESSOR_WORKFLOW_INVALID_OUTPUT"


# -- under conditions -------------------------------------------------------------------------------------------------


async def test_a_condition_is_asked_for_every_chunk(drive: Drive, make: Make) -> None:
    """R16.8, R16.11"""

    def is_shouted(data: ProcessorStepData) -> bool:
        return isinstance(data.part, TextDelta) and data.part.payload.text.endswith("!")

    louder = make("louder", process_output_stream=on_text(str.upper))
    assert await text_after(drive, when(is_shouted, louder), said=["a", "b!"]) == "aB!"


async def test_a_condition_may_look_at_the_conversation(drive: Drive, make: Make) -> None:
    """R16.2, R16.8"""
    louder = make("louder", process_output_stream=on_text(str.upper))
    workflow = when(lambda data: len(data.messages) == 1 and data.request_context.get("loud"), louder)
    outcome = await drive(agent_of(["x"], output_processors=[workflow]), request_context={"loud": True})
    assert outcome.text == "X"


async def test_selecting_among_branches_is_up_to_the_map(drive: Drive, make: Make) -> None:
    """R16.8, R16.11"""
    branches = [
        (lambda data: "a" in text_of([data.part]), make("a", process_output_stream=on_text(lambda words: words + "1"))),
        (lambda data: "b" in text_of([data.part]), make("b", process_output_stream=on_text(lambda words: words + "2"))),
    ]

    def last(args: MapArgs) -> Any:
        data = args.input_data
        return data if isinstance(data, ProcessorStepData) else list(data.values())[-1]

    workflow = create_workflow(id="w").branch(branches).map(last).commit()
    assert await text_after(drive, workflow, said=["a", "b", "ab", "c"]) == "a1b2ab2c"


async def test_a_branch_releases_what_it_held_back_whatever_its_condition_says_at_the_end(drive: Drive) -> None:
    """R16.8, R19.2"""
    holder = Holder("h")
    workflow = when(lambda data: data.part.type == "text-delta", holder)
    assert await text_after(drive, workflow, said=["1", "2"]) == "h:1h:2"
    mapped = create_workflow(id="w").branch([(lambda data: True, holder)])
    mapped.map(lambda args: next(iter(args.input_data.values()))).commit()
    assert await text_after(drive, mapped, said=["1", "2"]) == "h:1h:2"


async def test_a_run_without_chunk_hooks_in_its_workflows_has_no_chain(make: Make) -> None:
    """R16.2"""
    model = ScriptedModel(["x"])
    agent = agent_of(model, output_processors=[parallel(make("a", process_output_step=lambda args: None), keep=None)])
    assert agent.static_pipeline is not None
    assert agent.static_pipeline.chain(None) is None  # type: ignore[arg-type]


async def test_conditions_that_wait_and_conditions_that_do_not_choose_in_one_order(drive: Drive) -> None:
    """R16.8"""
    asked: list[str] = []

    def now(name: str, verdict: Any) -> Any:
        def condition(data: Any) -> Any:
            if data.part.type == "text-delta":
                asked.append(name)
            return verdict

        return condition

    def later(name: str, verdict: Any) -> Any:
        async def condition(data: Any) -> Any:
            await asyncio.sleep(0)
            return now(name, verdict)(data)

        return condition

    def appends(mark: str) -> Made:
        def mark_text(args: Any) -> Any:
            if args.part.type == "text-delta":
                args.part.payload.text += mark
            return args.part

        return made_sync(mark, process_output_stream=mark_text)

    first_later = [(later("1", 0), appends("x")), (now("2", 1), appends("y")), (later("3", None), appends("z"))]
    first_now = [(now("4", ""), appends("x")), (later("5", True), appends("y")), (now("6", False), appends("z"))]
    for cases in (first_later, first_now):
        workflow = create_workflow("w").branch(cases).commit()
        assert await text_after(drive, workflow, said=["a"]) == "ay"
    assert asked == ["1", "2", "3", "4", "5", "6"]
