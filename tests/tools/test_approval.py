"""Which calls need a human (R12.35)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interlock.context import RequestContext
from interlock.tools import Tool, needs_approval

pytestmark = pytest.mark.anyio

CONTEXT = RequestContext({"role": "admin"})


def fails(*args: Any) -> bool:
    raise LookupError("policy server is down")


async def later(*args: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("of_tool", "of_run", "expected"),
    [
        (False, False, False),
        (True, False, True),
        (False, True, True),
        (lambda args, context: False, True, False),
        (lambda args, context: args["amount"] > 100, False, True),
        (lambda args, context: context.get("role") != "admin", True, False),
        (False, lambda name, args, context: name == "pay" and args["amount"] == 200, True),
        (False, lambda name, args, context: None, False),
        (True, lambda name, args, context: False, True),
        (later, False, True),
        (False, later, True),
    ],
)
async def test_the_tools_function_decides_before_either_flag(of_tool: Any, of_run: Any, expected: bool) -> None:
    """R12.35"""
    pay = Tool(id="pay-id", require_approval=of_tool)
    assert await needs_approval(pay, "pay", {"amount": 200}, CONTEXT, of_run) is expected


@pytest.mark.parametrize(("of_tool", "of_run"), [(fails, False), (False, fails)])
async def test_a_function_that_raises_means_yes(of_tool: Any, of_run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """R12.35"""
    with caplog.at_level(logging.ERROR, logger="interlock"):
        assert await needs_approval(Tool(id="t", require_approval=of_tool), "pay", {}, CONTEXT, of_run)
    assert "approval function for tool 'pay' failed" in caplog.text
