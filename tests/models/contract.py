"""What every adapter must do: a list of capabilities, each a test of ``test_contract`` over every adapter.

``python -m tests.models.contract`` runs the tests and prints, for each capability of each adapter, which test shows it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

REFUSALS = (400, 401, 404, 429, 500, 529)

ASKED = (
    *("image by address", "image as data URI", "image by file id", "document in the prompt"),
    *("tool choice", "provider's own tool", "provider options", "cache marker", "stop sequences"),
)
"""What a request may ask for: cases of one test."""

CAPABILITIES: dict[str, str] = {
    "streamed text": "test_text_is_streamed",
    "tool call": "test_a_tool_is_called",
    "parallel tool calls": "test_tools_are_called_in_parallel",
    "missing call ids": "test_calls_without_ids_get_some",
    "reasoning": "test_reasoning_is_apart_from_text",
    "signed reasoning goes back": "test_signed_reasoning_goes_back",
    "provider-executed tools": "test_what_the_provider_executed_has_its_result",
    "citations": "test_what_is_cited_is_a_source",
    "content filter": "test_a_refused_answer_says_so",
    "usage": "test_usage_is_counted",
    "structured output": "test_an_answer_follows_a_schema",
    "image input": "test_an_image_is_sent",
    **{asked: f"test_what_is_asked_for_is_sent[{asked}]" for asked in ASKED},
    "another provider's file id": "test_a_file_id_of_another_provider_is_refused",
    **{f"error {status}": f"test_a_refusal_is_typed[{status}]" for status in REFUSALS},
    "error inside the stream": "test_an_error_inside_the_stream_is_typed",
    "bare error behind the events": "test_a_bare_error_behind_the_events_is_typed",
    "truncated stream": "test_a_truncated_stream_is_an_error",
    "web page": "test_a_web_page_says_to_check_the_address",
    "timeout": "test_a_timeout_is_an_error",
    "lost connection": "test_a_lost_connection_is_an_error",
    "odd chunk borders": "test_packets_may_be_cut_anywhere",
    "cut multi-byte characters": "test_characters_may_be_cut",
    "early close": "test_leaving_closes_the_reply",
    "cancellation": "test_cancelling_closes_the_reply",
    "unknown event": "test_an_unknown_event_is_passed_over",
    "raw events": "test_raw_events_come_when_asked_for",
    "unsupported setting": "test_an_unsupported_setting_warns",
}
"""Capability → the test that shows it; in brackets, the case of the test."""

NOT_OFFERED = "not offered by the provider"


def id_of(capability: str, adapter: str) -> str:
    """The name that pytest gives the test of a capability of an adapter."""
    test, _, case = CAPABILITIES[capability].rstrip("]").partition("[")
    return f"{test}[{adapter}-{case}]" if case else f"{test}[{adapter}]"


class Outcomes:
    """A plugin that notes which tests passed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if report.failed or report.skipped:
            self.failed.add(name)
        elif report.when == "call":
            self.passed.add(name)


class Column(Protocol):
    """What the table has to know of an adapter."""

    name: str
    not_offered: frozenset[str]
    """Capabilities that its provider has not."""


def table(adapters: Sequence[Column], outcomes: Outcomes) -> str:
    """Capabilities down, adapters across."""
    rows = [["capability", *(one.name for one in adapters)]]
    rows += [[capability, *(_cell(capability, one, outcomes) for one in adapters)] for capability in CAPABILITIES]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _cell(capability: str, adapter: Column, outcomes: Outcomes) -> str:
    if capability in adapter.not_offered:
        return NOT_OFFERED
    name = id_of(capability, adapter.name)
    if name in outcomes.passed and name not in outcomes.failed:
        return CAPABILITIES[capability]
    return f"FAILED {name}" if name in outcomes.failed else f"NOT RUN {name}"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the contract, print the table; 1 if a test failed.

    Args:
        arguments: For pytest, such as ``-k google``; what did not run is told in the table.
    """
    outcomes = Outcomes()
    said = io.StringIO()
    tests = str(Path(__file__).with_name("test_contract.py"))
    with contextlib.redirect_stdout(said):
        status = pytest.main(["-q", tests, *arguments], plugins=[outcomes])
    # pytest refuses to begin when packages that have plugins for it were imported before.
    from tests.models.contract_adapters import ADAPTERS

    print(table(ADAPTERS, outcomes))
    if status != pytest.ExitCode.OK:
        print(said.getvalue(), file=sys.stderr)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
