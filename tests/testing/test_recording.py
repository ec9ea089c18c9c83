from __future__ import annotations

import pytest

from interlock import Agent, tool
from interlock.testing import RecordingProcessor, ScriptedModel, cuts, text, tool_call

pytestmark = pytest.mark.anyio


@tool
async def echo(word: str) -> str:
    """Say it again."""
    return word


async def test_a_recorder_in_all_arrays_sees_the_whole_order_of_a_run() -> None:
    """R1.4"""
    recorder = RecordingProcessor()
    agent = Agent(
        id="a",
        model=ScriptedModel([[tool_call("echo", {"word": "hey"})], "done"]),
        tools=[echo],
        input_processors=[recorder],
        output_processors=[recorder],
        error_processors=[recorder],
    )
    await agent.generate("hi")
    step = ["process_input_step", "process_llm_request", "process_output_stream", "process_llm_response"]
    assert recorder.hooks == [
        "process_input",
        *step,
        "process_output_step",
        "process_tool_result",
        "process_output_stream",
        *step,
        "process_output_step",
        "process_output_stream",
        "process_output_result",
    ]
    assert recorder.part_types.count("tool-result") == 1


def test_cuts_gives_every_cut_and_the_whole_text() -> None:
    assert list(cuts("abc", 2)) == [["abc"], ["a", "bc"], ["ab", "c"]]
    assert all("".join(pieces) == "abcde" for pieces in cuts("abcde", 4))
    assert len(list(cuts("abcde", 4))) == 1 + 4


async def test_a_text_reads_the_same_however_it_is_cut() -> None:
    """R12.20"""
    for deltas in cuts("hello", 3):
        result = await Agent(id="a", model=ScriptedModel([[*text(*deltas)]])).generate("hi")
        assert result.text == "hello"
