"""Structured output."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import StructuredOutputError
from interlock.testing import ScriptedModel
from tests.agent.kit import Drive, agent_of, chunks_of, made_sync
from tests.field_reports.cases import case, scripted, turns

pytestmark = pytest.mark.anyio


def rejecting(is_bad: Any) -> Any:
    """Rejects the answers that are bad, and asks for another."""

    def reject(args: Any) -> None:
        if is_bad(args.text):
            args.abort("not good enough", retry=True)

    return made_sync("validator", process_output_step=reject)


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_code_fence_around_the_json_does_no_harm(drive: Drive) -> None:
    """FR-129; R12.33. A text that has more around the JSON than one fence is no JSON."""
    given = case("129")
    for said in given["texts"]:
        outcome = await drive(agent_of([said]), structured_output=given["schema"])
        assert (outcome.object["a"] == 1) is given["expect"]["parsed"]
    assert outcome.object["note"] == "use ```x```"
    for said in [*given["invalid"], 'Here: {"a":1} Hope it helps']:
        outcome = await drive(agent_of([said]), structured_output=given["schema"])
        assert isinstance(outcome.error, StructuredOutputError) is not given["expect"]["invalid_parsed"]


async def test_the_object_is_that_of_the_accepted_attempt(drive: Drive) -> None:
    """FR-130; R12.32, R12.34"""
    given = case("130")
    guard = rejecting(lambda text: text == '{"n":1}')
    agent = agent_of(scripted(given), output_processors=[guard], max_processor_retries=given["max_processor_retries"])
    outcome = await drive(agent, structured_output=NUMBER)
    assert outcome.object == given["expect"]["object"]
    assert outcome.text == given["expect"]["text"]
    if outcome.chunks:
        objects = [chunk.object for chunk in chunks_of(outcome.chunks, "object")]
        assert objects[0] != objects[-1] == given["expect"]["object"]
        assert [chunk.object for chunk in chunks_of(outcome.chunks, "object-result")] == [given["expect"]["object"]]


async def test_a_validator_can_ask_for_another_attempt_in_both_modes(drive: Drive) -> None:
    """FR-132; R7.6, R12.34"""
    given = case("132")
    model = scripted(given)
    guard = rejecting(lambda text: text != '{"n":8}')
    outcome = await drive(agent_of(model, output_processors=[guard], max_processor_retries=1), structured_output=NUMBER)
    assert outcome.object == given["expect"]["object"]
    assert model.calls - 1 == given["expect"]["retries"]


async def test_both_modes_end_alike_when_the_retries_run_out(drive: Drive) -> None:
    """FR-132; R6.5, R7.5, R12.34"""
    given = case("132")
    model = ScriptedModel(turns(given)[:1] * 2)
    agent = agent_of(model, output_processors=[rejecting(lambda text: True)], max_processor_retries=1)
    outcome = await drive(agent, structured_output=NUMBER)
    assert outcome.error is None
    assert outcome.tripwire.reason == "not good enough"
    assert outcome.tripwire.retry is True
    assert outcome.object is None
    assert outcome.text == ""
