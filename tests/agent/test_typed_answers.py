"""The types of an answer, one by one, and what may get in the way of an object (R12.15, R12.31 to R12.34)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar
from uuid import UUID

import pydantic
import pytest
from typing_extensions import TypedDict

from interlock import AbortSignal, ConfigurationError, TextDelta, tool
from interlock.agent import StructuredOutputOptions
from interlock.agent.elements import Elements
from interlock.agent.structured import ParsedObject, structured_output
from interlock.chunks import ObjectChunk, TextDeltaPayload
from interlock.errors import ProcessorReturnError, RunStateError, StructuredOutputError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel, text, tool_call, types_of, wait_for
from tests.agent.kit import THREAD, Drive, agent_of, chunks_of, kept, made_sync, saved, stored

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Item(pydantic.BaseModel):
    name: str
    price: Annotated[float, pydantic.Field(gt=0)] = 1


class Page(pydantic.BaseModel, Generic[T]):
    entries: list[T]
    after: str | None = None


class Folder(pydantic.BaseModel):
    name: str
    folders: list[Folder] = []


@dataclasses.dataclass
class Branch:
    name: str
    branches: list[Branch] = dataclasses.field(default_factory=list)


class Entry(TypedDict, Generic[T]):
    value: T
    notes: NotRequired[list[str]]


class Color(Enum):
    RED = "red"


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    when: datetime
    id: UUID
    tags: frozenset[str]
    pair: tuple[int, Color]
    amount: Decimal


class Aliased(pydantic.BaseModel):
    first_name: str = pydantic.Field(alias="firstName")


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


STRICT = (
    '{"when":"2026-01-02T03:04:05Z","id":"12345678-1234-5678-1234-567812345678","tags":["a"],'
    '"pair":[1,"red"],"amount":"1.25"}'
)


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        (Page[Item], '{"entries":[{"name":"a"}]}', Page[Item](entries=[Item(name="a")])),
        (Folder, '{"name":"a","folders":[{"name":"b"}]}', Folder(name="a", folders=[Folder(name="b")])),
        (Branch, '{"name":"a","branches":[{"name":"b"}]}', Branch("a", [Branch("b")])),
        (Entry[int], '{"value":"3"}', {"value": 3}),
        (list[Item], '[{"name":"a"}]', [Item(name="a")]),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (Item | None, "null", None),
        (Cat | Dog, '{"kind":"dog"}', Dog(kind="dog")),
        (Annotated[int, pydantic.Field(gt=3)], "4", 4),
        (Literal["yes", "no"], '"no"', "no"),
        (Color, '"red"', Color.RED),
        (Aliased, '{"firstName":"Ann"}', Aliased(firstName="Ann")),
        (
            Strict,
            STRICT,
            Strict(
                when=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                id=UUID("12345678-1234-5678-1234-567812345678"),
                tags=frozenset("a"),
                pair=(1, Color.RED),
                amount=Decimal("1.25"),
            ),
        ),
    ],
    ids=str,
)
async def test_every_kind_of_type_is_read_from_json(drive: Drive, schema: Any, answer: str, value: Any) -> None:
    """R12.31"""
    outcome = await drive(agent_of([answer]), structured_output={"schema": schema})
    assert outcome.error is None
    assert outcome.object == value
    assert type(outcome.object) is type(value)


@pytest.mark.parametrize(
    ("schema", "answer", "problem"),
    [
        (Page[Item], '{"entries":[{"name":"a"},{"name":"b"},{"name":"c","price":0}]}', "entries[2].price: "),
        (Branch, '{"name":"a","branches":[{"name":1}]}', "branches[0].name: "),
        (Entry[int], '{"notes":[]}', "value: required, but missing"),
        (list[Item], '[{"name":"a"},{}]', "[1].name: required, but missing"),
        (Annotated[int, pydantic.Field(gt=3)], "3", "(root): "),
        (
            {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}},
            '{"items":[1,2,"x"]}',
            "items[2]: ",
        ),
        (Item, '{"name":"a","price"', "(root): Invalid JSON: EOF"),
        (Item, "", "(root): Invalid JSON"),
        (Item, '{"name":"\\ud83d"}', "(root): Invalid JSON"),
        (Item, '{"name":"\ud83d"}', "(root): Input should be a valid string"),
        ({"type": "object"}, '{"name":"\ud83d"}', "(root): half of a surrogate pair"),
        ({"type": "object"}, '{"n":1e400}', "(root): "),
        ({"type": "object"}, '{"n":NaN}', "(root): "),
        ({"type": "array"}, "[" * 100_000, "(root): "),
        (Folder, '{"name":"a","folders":[' * 250 + "]}" * 250, "(root): "),
    ],
    ids=repr,
)
async def test_what_does_not_fit_is_named_by_its_path(drive: Drive, schema: Any, answer: str, problem: str) -> None:
    """R12.33"""
    outcome = await drive(agent_of([answer]), structured_output={"schema": schema})
    assert isinstance(outcome.error, StructuredOutputError)
    assert outcome.error.problems[0].startswith(problem)
    assert problem in str(outcome.error)


async def test_the_chunk_has_the_object_in_the_form_in_which_it_was_read() -> None:
    """R12.32"""
    for schema, answer in ((Aliased, '{"firstName":"Ann"}'), (Strict, STRICT)):
        async with agent_of([answer]).stream("hi", structured_output=schema) as stream:
            chunks = [chunk async for chunk in stream]
        assert chunks_of(chunks, "object-result")[0].object == json.loads(answer)
        assert stream.message_list.get.response.db()[-1].content.metadata == {"structuredOutput": json.loads(answer)}


# What is no object is a member of one.

WRAPPED = {
    "type": "object",
    "required": ["elements"],
    "additionalProperties": False,
}


async def test_a_json_mode_is_asked_for_an_object_whatever_the_type() -> None:
    """R12.32"""
    model = ScriptedModel(['{"elements":[{"name":"a"}]}'])
    result = await agent_of(model).generate("hi", structured_output=list[Item])
    assert result.object == [Item(name="a")]
    asked = model.requests[0].response_format["schema"]
    assert {name: asked[name] for name in WRAPPED} == WRAPPED
    assert asked["properties"] == {"elements": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}
    assert "Item" in asked["$defs"]


async def test_a_schema_that_refers_to_its_root_still_does() -> None:
    """R12.32"""
    tree = {"type": "array", "items": {"$ref": "#"}}
    model = ScriptedModel(['{"elements":[[],[[]]]}'])
    result = await agent_of(model).generate("hi", structured_output=tree)
    assert result.object == [[], [[]]]
    asked = model.requests[0].response_format["schema"]
    assert asked["properties"]["elements"]["items"] == {"$ref": "#/properties/elements"}


async def test_a_type_that_is_no_array_either_is_the_result() -> None:
    """R12.32"""
    model = ScriptedModel(['{"result":"red"}', '"red"'])
    agent = agent_of(model)
    for _ in range(2):
        assert (await agent.generate("hi", structured_output=Color)).object is Color.RED


async def test_partial_objects_are_told_without_their_wrapping() -> None:
    """R12.32"""
    said = text('{"elements":[{"name":"a"', ',"price":2},{"na', 'me":"b"}]', "}")
    async with agent_of([[*said]]).stream("hi", structured_output=list[Item]) as stream:
        chunks = [chunk async for chunk in stream]
    assert [chunk.object for chunk in chunks if isinstance(chunk, ObjectChunk)] == [
        [{"name": "a"}],
        [{"name": "a", "price": 2}, {}],
        [{"name": "a", "price": 2}, {"name": "b"}],
    ]


async def test_an_injected_schema_is_the_type_itself() -> None:
    """R12.31"""
    model = ScriptedModel(['[{"name":"a"}]'])
    asked = {"schema": list[Item], "json_prompt_injection": True}
    assert (await agent_of(model).generate("hi", structured_output=asked)).object == [Item(name="a")]
    assert '"type": "array"' in str(model.prompts[0])
    assert "elements" not in str(model.prompts[0])


async def test_instructions_reach_a_model_with_a_json_mode_too() -> None:
    """R12.31"""
    model = ScriptedModel(['{"name":"a"}'])
    asked = {"schema": Item, "instructions": "Be cheap."}
    result = await agent_of(model, instructions="SYS").generate("hi", structured_output=asked)
    assert [message["content"] for message in model.prompts[0][:2]] == ["SYS", "Be cheap."]
    assert kept(result.message_list.get.all.db()) == [("user", "hi"), ("assistant", '{"name":"a"}')]


# Elements.


async def test_elements_are_instances_and_come_while_the_array_is_written() -> None:
    """R12.15"""
    event = asyncio.Event()
    said = ['[{"name":"a"},{"name":"b"},{"na', wait_for(event), 'me":"c"}]']
    async with agent_of([said]).stream("hi", structured_output=list[Item]) as stream:
        elements = stream.element_stream
        assert [await anext(elements), await anext(elements)] == [Item(name="a"), Item(name="b")]
        event.set()
        assert [element async for element in elements] == [Item(name="c")]


async def test_behind_an_element_that_does_not_fit_none_comes_before_the_next_attempt() -> None:
    """R12.15, R12.34"""
    bad, good = [json.dumps([{"name": "a"}, {"name": "b", "price": price}, {"name": "c"}]) for price in (0, 2)]
    agent = agent_of([[*text(*bad)], good], max_processor_retries=1)
    async with agent.stream("hi", structured_output=list[Item]) as stream:
        names = [element.name async for element in stream.element_stream]
    assert names == ["a", "a", "b", "c"]


async def test_elements_are_those_of_the_other_model() -> None:
    """R12.15, R12.32"""
    structuring = ScriptedModel(['[{"name":"a"},{"name":"b"}]'])
    asked = {"schema": list[Item], "model": structuring}
    async with agent_of(["a and b"]).stream("hi", structured_output=asked) as stream:
        assert [element.name async for element in stream.element_stream] == ["a", "b"]


@pytest.mark.parametrize(
    "schema",
    [
        tuple[Item, ...],
        set[int],
        pydantic.conlist(int, min_length=1),
        {"type": "array", "prefixItems": [{}], "items": {}},
    ],
    ids=str,
)
async def test_where_elements_cannot_be_told_apart_they_come_with_the_whole(schema: Any) -> None:
    """R12.15"""
    items = schema == tuple[Item, ...]
    said = '[{"name":"a"},{"name":"b"}]' if items else "[1,2]"
    async with agent_of([[*text(*said)]]).stream("hi", structured_output={"schema": schema}) as stream:
        assert [element async for element in stream.element_stream] == (
            [Item(name="a"), Item(name="b")] if items else [1, 2]
        )


async def test_an_object_and_a_fallback_have_no_elements() -> None:
    """R12.15, R12.33"""
    async with agent_of(['{"name":"a"}']).stream("hi", structured_output=Item) as stream:
        assert [element async for element in stream.element_stream] == []
    asked = {"schema": list[Item], "error_strategy": "fallback", "fallback_value": [1]}
    async with agent_of(["what?"]).stream("hi", structured_output=asked) as stream:
        assert [element async for element in stream.element_stream] == []
    assert await stream.object == [1]


def test_an_element_schema_that_refers_beyond_itself_waits_for_the_whole() -> None:
    """R12.15"""
    elements = Elements(
        structured_output({"type": "array", "items": {"$ref": "#/$defs/gone"}, "$defs": {"gone": {"$ref": "#/items"}}})
    )
    assert list(elements.of_partial([1, 2])) in ([], [1])
    assert 2 in list(elements.of_result(ParsedObject([1, 2])))


# Guards.


async def test_text_that_a_guard_holds_back_is_in_the_object_when_it_is_released() -> None:
    """R12.33, R19.2, FR-046"""

    def hold(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.state["held"] = args.state.get("held", "") + args.part.payload.text
            return None
        if args.part.type == "text-end":
            return [_masked(args), args.part]
        return args.part

    def hold_on(args: Any) -> Any:
        return hold(args) if args.part.type != "text-end" else args.part

    guards = [
        made_sync(process_output_stream=hold),
        made_sync(process_output_stream=hold_on, flush_output_stream=lambda args, reason: _masked(args)),
    ]
    for guard in guards:
        agent = agent_of([[*text('{"name":"sec', 'ret"}')]], output_processors=[guard])
        async with agent.stream("hi", structured_output=Item) as stream:
            chunks = [chunk async for chunk in stream]
        partial = [chunk.object for chunk in chunks if isinstance(chunk, ObjectChunk)]
        assert partial == [{"name": "***"}]
        assert (await stream.object).name == "***"


def _masked(args: Any) -> TextDelta:
    return TextDelta(payload=TextDeltaPayload(id="t", text=args.state.pop("held").replace("secret", "***")))


# A step of its own mind.


class Count(pydantic.BaseModel):
    n: int


@pytest.mark.parametrize("asked", [None, Item], ids=["nobody else asked", "the call asked"])
async def test_a_step_may_ask_for_another_type(drive: Drive, asked: Any) -> None:
    """R2.14, R12.33"""
    store = InMemoryStore()
    changed = made_sync("asks", process_input_step=lambda args: {"structured_output": Count})

    def edit(args: Any) -> None:
        args.messages[-1].content.parts[-1].text = '{"n":2}'

    agent = agent_of(
        ['{"n":1}'],
        input_processors=[changed],
        output_processors=[made_sync("edits", process_output_result=edit)],
        memory=Memory(store),
    )
    outcome = await drive(agent, structured_output=asked, memory=THREAD)
    assert outcome.object == Count(n=2)
    assert agent.model.requests[0].response_format["schema"]["required"] == ["n"]
    assert (await stored(store))[-1].content.metadata == {"structuredOutput": {"n": 2}}


async def test_a_step_may_want_plain_text(drive: Drive) -> None:
    """R2.14"""
    agent = agent_of(["hm"], input_processors=[made_sync(process_input_step=lambda args: {"structured_output": None})])
    outcome = await drive(agent, structured_output=Item)
    assert (outcome.error, outcome.object, outcome.text) == (None, None, "hm")


# Cancellation while another model writes the object.


async def test_a_run_that_is_cancelled_while_the_object_is_written_keeps_its_answer() -> None:
    """R12.28, R12.32"""
    signal, store, events = AbortSignal(), InMemoryStore(), []
    structuring = ScriptedModel([[lambda: signal.abort("enough"), wait_for(asyncio.Event())]])
    agent = agent_of(["hm"], memory=Memory(store))
    async with agent.stream(
        "hi",
        structured_output={"schema": Item, "model": structuring},
        abort_signal=signal,
        memory=THREAD,
        on_abort=lambda info: events.append(info["text"]),
        on_finish=lambda info: events.append(info.finish_reason),
    ) as stream:
        chunks = [chunk async for chunk in stream]
    assert types_of(chunks)[-2:] == ["step-finish", "abort"]
    assert (stream.status, stream.error, await stream.object) == ("canceled", None, None)
    assert events == ["hm", "aborted"]
    assert await saved(store) == [("user", "hi"), ("assistant", "hm")]
    assert structuring.open_streams == 0
    assert structuring.requests[0].abort_signal is signal


async def test_a_run_that_was_cancelled_before_asks_no_other_model() -> None:
    """R12.28"""
    signal, structuring = AbortSignal(), ScriptedModel(["never"])
    agent = agent_of(["hm"], output_processors=[made_sync(process_output_result=lambda args: signal.abort())])
    asked = {"schema": Item, "model": structuring}
    result = await agent.generate("hi", structured_output=asked, abort_signal=signal)
    assert (result.status, structuring.calls) == ("canceled", 0)


@pytest.mark.parametrize("asked", [{"type": "object", "required": ["n"]}, Count], ids=["schema", "type"])
async def test_a_suspended_run_is_still_to_give_an_object(asked: Any) -> None:
    """R12.33, R12.37"""
    agent = agent_of([[tool_call("look")], '{"m":1}', '{"n":1}'], tools=[look], max_processor_retries=1)
    suspended = await agent.generate("hi", structured_output=asked, require_tool_approval=True)
    assert (suspended.status, suspended.object) == ("suspended", None)
    again: Any = {} if isinstance(asked, dict) else {"structured_output": asked}
    if again:
        with pytest.raises(RunStateError, match="structured_output"):
            await agent.approve_tool_call_generate(suspended.run_id)
    result = await agent.approve_tool_call_generate(suspended.run_id, **again)
    assert result.object == ({"n": 1} if isinstance(asked, dict) else Count(n=1))


@tool(in_thread=False)
def look() -> str:
    """Look."""
    return "seen"


async def test_the_time_limit_of_the_run_holds_for_the_other_model() -> None:
    """R17.9"""
    structuring = ScriptedModel([[wait_for(asyncio.Event())]])
    asked = {"schema": Item, "model": structuring, "error_strategy": "fallback"}
    with pytest.raises(TimeoutError, match="time limit"):
        await agent_of(["hm"]).generate("hi", structured_output=asked, model_settings={"timeout": {"total_ms": 20}})
    assert structuring.open_streams == 0


async def test_a_reader_that_goes_away_takes_the_other_call_with_it() -> None:
    """R12.29"""
    begun, tasks = asyncio.Event(), asyncio.all_tasks()
    structuring = ScriptedModel([[begun.set, wait_for(asyncio.Event())]])
    stream = agent_of(["hm"]).stream("hi", structured_output={"schema": Item, "model": structuring})
    reader = asyncio.create_task(stream.consume_stream())
    await begun.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert structuring.open_streams == 0
    assert asyncio.all_tasks() == tasks


# What is no schema.


@pytest.mark.parametrize("schema", [42, "Item", [Item], Item(name="a"), lambda: None, object(), {}, {"type": "thing"}])
def test_what_is_no_schema_is_refused_by_the_call_itself(schema: Any) -> None:
    """R12.31"""
    model = ScriptedModel(["never"])
    with pytest.raises(ConfigurationError, match="structured_output"):
        agent_of(model).stream("hi", structured_output=schema)
    with pytest.raises(ConfigurationError, match="structured_output"):
        agent_of(model, default_options={"structured_output": schema})
    assert model.calls == 0


async def test_a_step_that_asks_for_what_is_no_schema_fails_before_the_model_is_called(drive: Drive) -> None:
    """R2.6, R12.31"""
    model = ScriptedModel(["never"])
    agent = agent_of(model, input_processors=[made_sync(process_input_step=lambda args: {"structured_output": 42})])
    outcome = await drive(agent)
    assert isinstance(outcome.error, ProcessorReturnError)
    assert model.calls == 0


async def test_default_options_type_every_answer() -> None:
    """R12.8, R12.31"""
    agent = agent_of(['{"name":"a"}', "hm"], default_options={"structured_output": Item})
    assert (await agent.generate("hi")).object == Item(name="a")
    assert (await agent.generate("hi", structured_output=None)).object is None


async def test_options_can_be_an_object_and_are_not_changed() -> None:
    """R12.31"""
    asked = StructuredOutputOptions(schema=Item, error_strategy="warn")
    agent = agent_of(['{"name":"a"}', "hm"])
    assert (await agent.generate("hi", structured_output=asked)).object == Item(name="a")
    assert (await agent.generate("hi", structured_output=asked)).object is None
    assert asked.parsed is None


async def test_a_json_schema_that_was_changed_is_read_anew() -> None:
    """R12.31"""
    schema: dict[str, Any] = {"type": "object", "required": ["n"]}
    agent = agent_of(['{"m":1}'] * 2)
    with pytest.raises(StructuredOutputError, match="n: required"):
        await agent.generate("hi", structured_output=schema)
    schema["required"] = ["m"]
    assert (await agent.generate("hi", structured_output=schema)).object == {"m": 1}
