from __future__ import annotations

import io

from interlock import Chunk, TextDelta
from interlock.chunks import RETRY, STOP, StepFinish, StepFinishPayload, StepOutcome, TextDeltaPayload
from interlock.cli.answer import TextWriter


def delta(text: str) -> Chunk:
    return TextDelta(payload=TextDeltaPayload(id="t", text=text))


def step_finish(reason: str) -> Chunk:
    outcome = StepOutcome(reason=reason, retry_reason="Say more.", retry_processor_id="longer")
    return StepFinish(payload=StepFinishPayload(step_result=outcome))


def written(*chunks: Chunk, is_held: bool) -> tuple[str, list[str]]:
    """What goes to standard output and what is told beside it."""
    out, told = io.StringIO(), list[str]()
    writer = TextWriter(out, told.append, is_held=is_held)
    for chunk in chunks:
        writer.see(chunk)
    writer.end()
    return out.getvalue(), told


def test_a_rejected_attempt_that_is_on_the_screen_is_marked() -> None:
    chunks = (delta("Short."), step_finish(RETRY), delta("A longer answer."), step_finish(STOP))
    assert written(*chunks, is_held=False) == (
        "Short.\nA longer answer.\n",
        ["rejected by longer: Say more.; trying again"],
    )


def test_a_rejected_attempt_that_was_held_leaves_no_trace() -> None:
    chunks = (delta("Short."), step_finish(RETRY), delta("A longer answer."), step_finish(STOP))
    assert written(*chunks, is_held=True) == ("A longer answer.\n", [])


def test_what_is_held_of_a_run_that_breaks_off_is_written_at_its_end() -> None:
    assert written(delta("Half an ans"), is_held=True) == ("Half an ans\n", [])


def test_a_text_that_ends_its_line_gets_no_other_end() -> None:
    assert written(delta("One.\n"), delta(""), step_finish(STOP), is_held=False) == ("One.\n", [])
