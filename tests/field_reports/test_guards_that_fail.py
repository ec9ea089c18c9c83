"""What a guard looks at, and what its own failure means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from interlock import Processor, ProcessorError
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel
from tests.agent.kit import THREAD, Drive, agent_of, made_sync, saved
from tests.field_reports.cases import case, kept_in

pytestmark = pytest.mark.anyio


async def _raise() -> str:
    raise ConnectionError("the detector is away")


async def _garbage() -> str:
    return "sorry, I cannot say"


async def _timeout() -> str:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()
    return ""


DETECTORS: dict[str, Callable[[], Awaitable[str]]] = {"raise": _raise, "garbage": _garbage, "timeout": _timeout}


class Detecting(Processor):
    """Asks a detector about the input; without a ``strategy`` for its failure, that is the runtime's business."""

    id = "detecting"

    def __init__(self, detector: Callable[[], Awaitable[str]], strategy: str | None) -> None:
        self._detector = detector
        self._strategy = strategy

    async def process_input(self, args: Any) -> None:
        try:
            found = json.loads(await self._detector())
        except Exception as error:
            if self._strategy is None:
                raise
            if self._strategy == "strict":
                args.abort("unchecked", metadata={"unchecked": type(error).__name__})
            await self.report_violation("unchecked", {"unchecked": type(error).__name__})
            return
        assert found == []


@pytest.mark.parametrize("detector", case("049")["detector"])
async def test_a_detector_that_fails_lets_nothing_through_unless_that_was_asked_for(
    drive: Drive, detector: str
) -> None:
    """FR-049; R6.10, R6.11, R17.1. A crash that the guard does not handle is a run error, not a tripwire (R17.1)."""
    given = case("049")
    for strategy in ("strict", "warn", None):
        model, store, reported = ScriptedModel(["ok"]), InMemoryStore(), []
        guard = Detecting(DETECTORS[detector], strategy)
        guard.on_violation = reported.append
        outcome = await drive(
            agent_of(model, input_processors=[guard], memory=Memory(store)), given["messages"], memory=THREAD
        )
        if strategy is None:
            assert isinstance(outcome.error, ProcessorError)
            assert outcome.error.processor_id == "detecting"
            assert model.calls == 0
        else:
            expected = given["expect"][strategy]
            assert model.calls == expected["model_calls"]
            assert (outcome.tripwire is not None) is expected.get("tripwire", False)
            assert [violation.message for violation in reported] == ["unchecked"]
        if strategy != "warn":
            assert await kept_in(store) == "[]"


async def test_a_guard_sees_every_part_of_the_request(drive: Drive) -> None:
    """FR-061; R2.2, R4.2"""
    given = case("061")
    unchecked = []

    def check(args: Any) -> None:
        for message in args.messages:
            for part in message.content.parts:
                if part.type != "text":
                    unchecked.append(part.type)
                elif "BADWORD" in part.text:
                    args.abort("bad word")

    outcome = await drive(agent_of([], input_processors=[made_sync(process_input=check)]), given["messages"])
    assert (outcome.tripwire is not None) is given["expect"]["tripwire"]
    assert len(unchecked) == given["expect"]["unchecked_parts_reported"]


async def test_a_guard_can_look_at_the_new_turn_only(drive: Drive) -> None:
    """FR-065; R2.10a, R13.4"""
    given = case("065")
    *history, new = given["messages"]
    store, model = InMemoryStore(), ScriptedModel(["hello", "you are welcome"])
    await drive(agent_of(model, memory=Memory(store)), history, memory=THREAD)
    assert len(await saved(store)) == 2
    asked = []

    def detect(args: Any) -> None:
        texts = [part.text for message in args.message_list.get.input.db() for part in message.content.parts]
        asked.extend(texts)
        if "BADWORD" in texts:
            args.abort("bad word")

    agent = agent_of(model, input_processors=[made_sync(process_input=detect)], memory=Memory(store))
    outcome = await drive(agent, [new], memory=THREAD)
    assert (outcome.tripwire is not None) is given["expect"]["tripwire"]
    assert asked == given["expect"]["detector_inputs"]
    assert len(model.prompts[1]) > 1
