"""Typed answers (R12.31 to R12.34)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest
from typing_extensions import TypedDict

from interlock import Agent, ConfigurationError, Message, Processor
from interlock.chunks import ObjectChunk, ObjectResult
from interlock.errors import StructuredOutputError
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import TextPart
from interlock.testing import ScriptedModel, text, types_of

pytestmark = pytest.mark.anyio


class City(pydantic.BaseModel):
    name: str
    population: int


@dataclasses.dataclass
class Town:
    name: str


class Village(TypedDict):
    name: str


PARIS = '{"name":"Paris","population":2100000}'
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def agent_of(*turns: Any, **settings: Any) -> Agent:
    return Agent(id="a", model=ScriptedModel(list(turns)), **settings)


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        (City, PARIS, City(name="Paris", population=2100000)),
        (Town, '{"name":"Ulm"}', Town("Ulm")),
        (Village, '{"name":"Au"}', {"name": "Au"}),
        (SCHEMA, '{"n":1}', {"n": 1}),
        ({"schema": SCHEMA}, '{"n":1}', {"n": 1}),
    ],
)
async def test_an_answer_is_read_as_the_type_that_was_asked_for(schema: Any, answer: str, value: Any) -> None:
    """R12.31"""
    result = await agent_of(answer).generate("hi", structured_output=schema)
    assert result.object == value
    assert type(result.object) is type(value)


async def test_the_main_model_is_asked_for_json() -> None:
    """R12.32"""
    agent = agent_of('{"n":1}')
    await agent.generate("hi", structured_output=SCHEMA)
    request = agent.model.requests[0]
    assert request.response_format == {"type": "json", "schema": SCHEMA}
    assert [message["role"] for message in request.prompt] == ["user"]


@pytest.mark.parametrize(
    ("injection", "roles"), [(True, ["system", "user"]), ("system", ["system", "user"]), ("inline", ["user"])]
)
async def test_the_schema_can_be_put_into_the_prompt_instead(injection: Any, roles: list[str]) -> None:
    """R12.31"""
    agent = agent_of('{"n":1}')
    options = {"schema": SCHEMA, "json_prompt_injection": injection, "instructions": "Count."}
    result = await agent.generate("hi", structured_output=options)
    request = agent.model.requests[0]
    assert request.response_format is None
    assert [message["role"] for message in request.prompt] == roles
    assert "Count." in str(request.prompt)
    assert '"integer"' in str(request.prompt)
    assert "integer" not in str(result.message_list.serialize()["messages"][0])
    assert result.object == {"n": 1}


async def test_auto_injects_only_for_a_model_without_a_json_mode() -> None:
    """R12.31"""
    options = {"schema": SCHEMA, "json_prompt_injection": "auto"}
    with_mode, without = ScriptedModel(['{"n":1}']), ScriptedModel(['{"n":1}'])
    without.supports_structured_output = False  # type: ignore[attr-defined]
    for model in (with_mode, without):
        await Agent(id="a", model=model).generate("hi", structured_output=options)
    assert with_mode.requests[0].response_format is not None
    assert without.requests[0].response_format is None


async def test_partial_objects_grow_in_the_stream_and_the_final_one_precedes_step_finish() -> None:
    """R12.32"""
    pieces = ['{"name":"Par', 'is","popu', 'lation":21', "00000}"]
    async with agent_of([*text(*pieces)]).stream("hi", structured_output=City) as stream:
        chunks = [chunk async for chunk in stream]
    partial = [chunk.object for chunk in chunks if isinstance(chunk, ObjectChunk)]
    assert partial[0] == {"name": "Par"}
    assert partial[-1] == {"name": "Paris", "population": 2100000}
    final = [chunk.object for chunk in chunks if isinstance(chunk, ObjectResult)]
    assert final == [{"name": "Paris", "population": 2100000}]
    assert types_of(chunks)[-3:] == ["object-result", "step-finish", "finish"]
    assert [one async for one in stream.object_stream] == [*partial, *final]


async def test_elements_of_an_array_come_once_each_when_they_are_final() -> None:
    """R12.15"""
    pieces = ['[{"n":1},{"n"', ":2", "2},", '{"n":3}]']
    schema = {"type": "array", "items": SCHEMA}
    async with agent_of([*text(*pieces)]).stream("hi", structured_output={"schema": schema}) as stream:
        assert [one async for one in stream.element_stream] == [{"n": 1}, {"n": 22}, {"n": 3}]


@pytest.mark.parametrize("answer", ['```json\n{"n":1}\n```', '```\n{"n":1}\n```', ' {"n":1}\n'])
async def test_a_code_fence_around_the_json_does_no_harm(answer: str) -> None:
    """FR-129"""
    assert (await agent_of(answer).generate("hi", structured_output=SCHEMA)).object == {"n": 1}


async def test_backticks_within_a_string_are_left_alone() -> None:
    """FR-129"""
    result = await agent_of('{"n":1,"note":"use ```x```"}').generate("hi", structured_output=SCHEMA)
    assert result.object["note"] == "use ```x```"


@pytest.mark.parametrize("answer", ['{"m":1}', '{"n":"x"}', '{"n":', "no json", '```json\n{"m":1}\n```'])
async def test_an_answer_that_does_not_fit_fails_the_run_and_saves_nothing(answer: str) -> None:
    """R12.33"""
    store = InMemoryStore()
    agent = agent_of(answer, memory=Memory(store))
    with pytest.raises(StructuredOutputError, match="does not fit the requested schema"):
        await agent.generate("hi", structured_output=SCHEMA, memory={"thread": "t", "resource": "u"})
    assert await store.get_thread("t") is None


async def test_warn_leaves_the_object_out() -> None:
    """R12.33"""
    result = await agent_of("no").generate("hi", structured_output={"schema": SCHEMA, "error_strategy": "warn"})
    assert result.object is None
    assert result.text == "no"


async def test_fallback_gives_the_value_and_says_so() -> None:
    """R12.33"""
    options = {"schema": SCHEMA, "error_strategy": "fallback", "fallback_value": {"n": 0}}
    async with agent_of("no").stream("hi", structured_output=options) as stream:
        final = [chunk async for chunk in stream if isinstance(chunk, ObjectResult)]
    assert final[0].object == {"n": 0}
    assert final[0].metadata == {"fallback": True}
    assert await stream.object == {"n": 0}


async def test_the_object_is_of_the_accepted_attempt() -> None:
    """R12.34, FR-130"""

    class Once(Processor):
        id = "once"

        def process_output_step(self, args: Any) -> None:
            if args.retry_count == 0:
                args.abort("again", retry=True)

    agent = agent_of('{"n":1}', '{"n":2}', output_processors=[Once()], max_processor_retries=1)
    assert (await agent.generate("hi", structured_output=SCHEMA)).object == {"n": 2}


class Masks(Processor):
    """Masks a name at one stage."""

    id = "masks"

    def __init__(self, hook: str) -> None:
        setattr(self, hook, self._mask)

    def _mask(self, args: Any) -> list[Message] | None:
        for message in args.messages:
            for part in message.content.parts:
                if isinstance(part, TextPart) and message.role == "assistant":
                    part.text = part.text.replace("Ann", "X")
        return None


@pytest.mark.parametrize("hook", ["process_output_step", "process_output_result"])
async def test_what_a_processor_masks_is_in_no_object_and_no_store(hook: str) -> None:
    """R12.33, FR-046"""
    store = InMemoryStore()
    agent = agent_of('{"name":"Ann"}', memory=Memory(store), output_processors=[Masks(hook)])
    result = await agent.generate("who", structured_output=Town, memory={"thread": "t", "resource": "u"})
    assert result.object == Town("X")
    saved = await store.list_messages("t", resource_id="u")
    assert saved[-1].content.metadata == {"structuredOutput": {"name": "X"}}
    assert "Ann" not in str([message.to_dict() for message in saved])


async def test_another_model_turns_the_finished_answer_into_the_object() -> None:
    """R12.32"""
    structuring = ScriptedModel(['{"n":7}'])
    recorder: list[str] = []

    class Sees(Processor):
        id = "sees"

        def process_llm_request(self, args: Any) -> None:
            recorder.append(args.model.model_id)

    agent = agent_of("It is seven.", input_processors=[Sees()])
    async with agent.stream("hi", structured_output={"schema": SCHEMA, "model": structuring}) as stream:
        chunks = [chunk async for chunk in stream]
    assert await stream.object == {"n": 7}
    assert await stream.text == "It is seven."
    assert agent.model.requests[0].response_format is None
    assert "It is seven." in str(structuring.prompts[0])
    assert recorder == ["scripted"]
    assert types_of(chunks)[-2:] == ["object-result", "finish"]
    assert not any(isinstance(chunk, ObjectChunk) for chunk in chunks)


async def test_an_answer_that_the_other_model_cannot_structure_fails_the_run() -> None:
    """R12.33"""
    agent = agent_of("seven")
    with pytest.raises(StructuredOutputError, match="does not fit the requested schema"):
        await agent.generate("hi", structured_output={"schema": SCHEMA, "model": ScriptedModel(["what?"])})


@pytest.mark.parametrize("schema", [{"type": "array"}, list[Any], list[City]])
@pytest.mark.parametrize("depth", [250, 50_000])
async def test_an_answer_nested_too_deeply_does_not_fit(schema: Any, depth: int) -> None:
    """R12.33"""
    with pytest.raises(StructuredOutputError, match="does not fit the requested schema"):
        await agent_of("[" * depth + "]" * depth).generate("hi", structured_output=schema)


async def test_the_answer_that_does_not_fit_is_quoted_to_the_program_and_not_to_its_client() -> None:
    """R0.1, R12.33"""
    async with agent_of('{"name":"a secret","population":"many"}').stream("hi", structured_output=City) as stream:
        chunks = [chunk.to_dict() async for chunk in stream.full_stream]
    (error,) = [chunk["payload"]["error"] for chunk in chunks if chunk["type"] == "error"]
    assert error["message"] == "the answer does not fit the requested schema (1 problem)"
    assert isinstance(stream.error, StructuredOutputError)
    assert "many" in stream.error.problems[0]


async def test_a_tripped_run_has_no_object() -> None:
    """R12.34"""

    class Blocks(Processor):
        id = "blocks"

        def process_output_result(self, args: Any) -> None:
            args.abort("no")

    result = await agent_of('{"n":1}', output_processors=[Blocks()]).generate("hi", structured_output=SCHEMA)
    assert result.object is None
    assert result.tripwire is not None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (object(), "structured_output"),
        ({"schema": SCHEMA, "strategy": "warn"}, "has no option strategy"),
        ({"schema": SCHEMA, "error_strategy": "ignore"}, "error_strategy is"),
        ({"schema": SCHEMA, "json_prompt_injection": "maybe"}, "json_prompt_injection is"),
        ({"type": "nonsense"}, "structured_output"),
    ],
)
async def test_what_cannot_work_is_refused_before_the_model_is_called(given: Any, complaint: str) -> None:
    """R12.31"""
    agent = agent_of('{"n":1}')
    with pytest.raises(ConfigurationError, match=complaint):
        await agent.generate("hi", structured_output=given)
    assert agent.model.calls == 0
