"""Observers of tool calls (R10.11, R10.17)."""

from __future__ import annotations

import logging

import pytest

from interlock.tools import InputDeltaEvent, OutputEvent, notify

pytestmark = pytest.mark.anyio


async def test_observers_may_be_sync_or_async() -> None:
    """R10.17"""
    seen: list[str] = []

    async def later(event: InputDeltaEvent) -> None:
        seen.append("async " + event.delta)

    event = InputDeltaEvent(tool_name="t", tool_call_id="c", delta="{")
    await notify(lambda event: seen.append("sync " + event.delta), event)
    await notify(later, event)
    await notify(None, event)
    assert seen == ["sync {", "async {"]


async def test_an_observer_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """R12.27"""

    def fails(event: OutputEvent) -> None:
        raise ValueError("no")

    with caplog.at_level(logging.ERROR, logger="interlock"):
        await notify(fails, OutputEvent(tool_name="t", tool_call_id="c", output=1))
    assert "an observer of tool 't' failed" in caplog.text
