"""What output hooks change in live messages shows in the steps and the result, however they got hold of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.kit import Drive, Make, agent_of

pytestmark = pytest.mark.anyio


def _parts_of_messages(args: Any) -> Any:
    return args.messages[-1].content.parts


def _parts_of_list(args: Any) -> Any:
    return args.message_list.get.response.db()[-1].content.parts


def _parts_by_id(args: Any) -> Any:
    message_list = args.message_list
    (known,) = message_list.get.response.ui()
    return message_list.get_by_id(known["id"]).content.parts


@pytest.mark.parametrize("reach", [_parts_of_messages, _parts_of_list, _parts_by_id, lambda args: args.steps[-1].parts])
async def test_the_step_follows_an_edit_in_place_by_whatever_way(drive: Drive, make: Make, reach: Any) -> None:
    """R2.30: what nobody got hold of is not compared, so every way to get hold of it has to count."""

    def edit(args: Any) -> None:
        reach(args)[-1].text = "edited"

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_step=edit)]))
    assert (outcome.text, outcome.steps[-1].text) == ("edited", "edited")


@pytest.mark.parametrize(
    "reach",
    [_parts_of_messages, _parts_of_list, _parts_by_id, lambda args: args.result.steps[-1].parts],
)
async def test_the_result_follows_an_edit_in_place_by_whatever_way(drive: Drive, make: Make, reach: Any) -> None:
    """R2.35: as for the step."""

    def edit(args: Any) -> None:
        reach(args)[-1].text = "edited"

    outcome = await drive(agent_of(["x"], output_processors=[make(process_output_result=edit)]))
    assert (outcome.text, outcome.steps[-1].text) == ("edited", "edited")
