"""What a processor is, and how its hooks are called (runtime specification, section 0 and R1.16–R1.20)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock import ConfigurationError, Processor, StepResult
from interlock.chunks import chunk_from_dict
from interlock.memory import InMemoryStore, Memory
from interlock.processors import (
    CachedStepResponse,
    ProcessInputResult,
    ProcessInputStepResult,
    is_error_processor,
    is_input_processor,
    is_output_processor,
)
from interlock.testing import ScriptedModel
from tests.agent.kit import THREAD, Drive, Make, Recorder, agent_of, kept, made_sync, streamed, told

pytestmark = pytest.mark.anyio


async def test_chunks_of_a_run_have_camel_case_json_that_reads_back() -> None:
    """R0.1"""
    outcome = await streamed(agent_of(["x"]))
    for chunk in outcome.chunks:
        wire = chunk.to_dict()
        assert wire["runId"] == outcome.run_id
        assert wire["from"] == "AGENT"
        assert chunk_from_dict(wire).to_dict() == wire


def test_a_cached_response_keeps_fields_that_it_does_not_know() -> None:
    """R0.1"""
    wire = {"chunks": [], "rawResponse": {"a": 1}, "futureField": 3}
    assert CachedStepResponse.from_dict(wire).to_dict() == wire


async def test_dates_are_utc_and_written_with_milliseconds(drive: Drive) -> None:
    """R0.2"""
    outcome = await drive(agent_of(["x"]))
    for message in outcome.message_list.get.all.db():
        assert message.created_at.tzinfo is not None
        written = message.to_dict()["createdAt"]
        assert written.endswith("Z")
        assert len(written) == len("2026-01-02T03:04:05.678Z")


async def test_a_hook_may_be_sync_or_async_or_return_an_awaitable(drive: Drive) -> None:
    """R0.3"""

    class Later:
        id = "later"

        def process_input(self, args: Any) -> Any:
            async def messages() -> Any:
                return [*args.messages, {"role": "user", "content": {"parts": [{"type": "text", "text": "more"}]}}]

            return messages()

        def process_output_stream(self, args: Any) -> Any:
            async def part() -> Any:
                return args.part

            return part()

    model = ScriptedModel(["x"])
    later = Later()
    outcome = await drive(agent_of(model, input_processors=[later], output_processors=[later]))
    assert told(model.prompts[0]) == [("user", "hi"), ("user", "more")]
    assert outcome.text == "x"


async def test_a_hook_that_is_none_is_not_implemented(drive: Drive) -> None:
    """R0.3, R1.15"""

    class Half(Recorder):
        process_input = None  # type: ignore[assignment]
        process_output_stream = None  # type: ignore[assignment]

    half = Half()
    outcome = await drive(agent_of(["x"], **half.everywhere))
    assert "process_input" not in half.calls
    assert half.parts == []
    assert "process_output_result" in half.calls
    assert outcome.text == "x"


async def test_an_object_form_may_be_the_result_class_or_a_mapping_in_either_spelling(drive: Drive, make: Make) -> None:
    """R0.5"""
    model = ScriptedModel(["x", "x", "x"])
    for result in (
        lambda args: ProcessInputResult(messages=args.messages, system_messages=["S"]),
        lambda args: {"messages": args.messages, "system_messages": ["S"]},
        lambda args: {"messages": args.messages, "systemMessages": ["S"]},
    ):
        await drive(agent_of(model, input_processors=[make(process_input=result)]))
    assert [told(prompt) for prompt in model.prompts] == [[("system", "S"), ("user", "hi")]] * 3


async def test_both_spellings_of_a_key_are_refused(drive: Drive, make: Make) -> None:
    """R0.5, R2.6"""
    twice = make("twice", process_input_step=lambda args: {"tool_choice": "none", "toolChoice": "auto"})
    outcome = await drive(agent_of(["x"], input_processors=[twice]))
    assert outcome.error.code == "PROCESSOR_RETURNED_INVALID_RESULT"


async def test_a_step_result_object_may_leave_keys_out(drive: Drive, make: Make) -> None:
    """R0.5, R2.13"""
    model = ScriptedModel(["x"])
    setter = make(process_input_step=lambda args: ProcessInputStepResult(model_settings={"temperature": 0}))
    await drive(agent_of(model, input_processors=[setter]), provider_options={"openai": {}})
    assert model.requests[0].settings == {"temperature": 0}
    assert model.requests[0].provider_options == {"openai": {}}


async def test_an_accepted_step_is_a_step_result(drive: Drive) -> None:
    """R0.6, R12.23"""
    outcome = await drive(agent_of(["x"]))
    assert all(isinstance(step, StepResult) for step in outcome.steps)


def test_the_base_class_supplies_defaults_and_no_hook() -> None:
    """R0.7"""
    processor = Processor()
    assert (processor.name, processor.description, processor.processor_index) == (None, None, None)
    assert processor.process_data_parts is False
    assert processor.on_violation is None
    assert not any(name.startswith("process_") and callable(getattr(processor, name)) for name in dir(processor))


async def test_any_object_with_an_id_and_a_hook_is_a_processor(drive: Drive) -> None:
    """R0.7"""

    class Lowercase:
        id = "lowercase"

        def process_input(self, args: Any) -> Any:
            for message in args.messages:
                for part in message.content.parts:
                    if part.type == "text":
                        part.text = part.text.lower()
            return args.messages

    model = ScriptedModel(["x"])
    await drive(agent_of(model, input_processors=[Lowercase()]), "HELLO")
    assert told(model.prompts[0]) == [("user", "hello")]


class NoId:
    def process_input(self, args: Any) -> None: ...


class NoHook:
    id = "no-hook"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (NoId(), "id"),
        (made_sync("", process_input=lambda args: None), "id"),
        (NoHook(), "hook"),
        ("a string", "a string"),
        (None, "None"),
        (Recorder, "Recorder"),
    ],
    ids=["no id", "empty id", "no hook", "a string", "none", "a class"],
)
@pytest.mark.parametrize("array", ["input_processors", "output_processors", "error_processors"])
async def test_something_that_is_no_processor_is_a_configuration_error(array: str, entry: Any, message: str) -> None:
    """R1.16"""
    with pytest.raises(ConfigurationError, match=message):
        agent_of(["x"], **{array: [entry]})
    with pytest.raises(ConfigurationError, match=message):
        await agent_of(["x"]).generate("hi", **{array: [entry]})  # type: ignore[arg-type]


async def test_a_processor_without_a_hook_of_its_array_is_warned_of_once(
    drive: Drive, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """R1.16"""
    stray = make("stray", process_output_result=lambda args: None)
    with caplog.at_level(logging.WARNING, logger="interlock"):
        agent = agent_of(["x", "x"], input_processors=lambda arguments: [stray])
        await drive(agent)
        await drive(agent)
    assert [record.levelno for record in caplog.records if "stray" in record.getMessage()] == [logging.WARNING]


async def test_an_instance_listed_twice_runs_twice_with_one_state(drive: Drive, make: Make) -> None:
    """R1.17"""
    counts: list[int] = []

    def count(args: Any) -> None:
        args.state["n"] = args.state.get("n", 0) + 1
        counts.append(args.state["n"])

    twice = make("twice", process_input=count)
    await drive(agent_of(["x"], input_processors=[twice, twice]))
    assert counts == [1, 2]


HOOK_KINDS = {
    "process_input": "input",
    "process_input_step": "input",
    "process_llm_request": "input",
    "process_llm_response": "input",
    "process_output_stream": "output",
    "process_output_step": "output",
    "process_tool_result": "output",
    "process_output_result": "output",
    "process_api_error": "error",
}


@pytest.mark.parametrize(("hook", "kind"), HOOK_KINDS.items())
def test_the_guards_tell_what_kind_of_processor_something_is(hook: str, kind: str) -> None:
    """R1.20"""
    processor = made_sync(**{hook: lambda args: None})
    assert is_input_processor(processor) == (kind == "input")
    assert is_output_processor(processor) == (kind == "output")
    assert is_error_processor(processor) == (kind == "error")


@pytest.mark.parametrize("thing", [None, "x", 3, NoId(), NoHook()])
def test_the_guards_refuse_what_is_no_processor(thing: Any) -> None:
    """R1.20"""
    assert not is_input_processor(thing)
    assert not is_output_processor(thing)
    assert not is_error_processor(thing)


async def test_an_output_processor_may_have_a_tool_result_hook_alone(drive: Drive) -> None:
    """R1.20"""
    processor = made_sync(process_tool_result=lambda args: None)
    outcome = await drive(agent_of(["x"], output_processors=[processor]))
    assert kept(outcome.message_list.get.response.db()) == [("assistant", "x")]


async def test_each_processor_knows_its_place_in_the_effective_list(drive: Drive, make: Make) -> None:
    """R16.10, R13.2"""
    first = make("first", process_input=lambda args: None)
    second = make("second", process_input=lambda args: None, process_output_result=lambda args: None)
    agent = agent_of(["x"], memory=Memory(InMemoryStore()), input_processors=[first, second])
    await drive(agent, memory=THREAD)
    assert (first.processor_index, second.processor_index) == (1, 2)
