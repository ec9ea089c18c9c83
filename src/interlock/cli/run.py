"""``interlock run``: one run of an agent, from the first chunk to the exit status."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from interlock import AbortSignal, Agent, AgentResult, CallOptions
from interlock.cli.answer import ChunkWriter, JsonWriter, TextWriter
from interlock.cli.failures import describe
from interlock.cli.report import RunReport
from interlock.models import LanguageModel

OK, FAILED, USAGE, TRIPWIRE, INTERRUPTED, READER_LEFT = 0, 1, 2, 3, 130, 141


def tell(line: str) -> None:
    """Write a line to standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  (this is what a command line does)


async def run_agent(
    agent: Agent, text: str, *, model: LanguageModel | None, as_json: bool = False, is_quiet: bool = False
) -> int:
    """Run ``agent`` on ``text``: its answer to standard output, the report to standard error.

    Args:
        agent: The agent.
        text: The user's message.
        model: Used instead of the agent's model.
        as_json: Write every chunk as a line of JSON instead of the text.
        is_quiet: Leave the report out; a failure or a tripwire is told all the same.

    Returns:
        The exit status.
    """
    report, abort = RunReport(), AbortSignal()
    writer: ChunkWriter = JsonWriter(sys.stdout) if as_json else _text_writer(agent)
    options: CallOptions = {"abort_signal": abort, "tracing_options": {"observer": report}}
    if model is not None:
        options["model"] = model
    stream = agent.stream(text, **options)
    result: AgentResult | None = None
    failure: BaseException | None = None
    begun = time.perf_counter()
    with _interrupt_sets(abort):
        try:
            async with stream:
                async for chunk in stream.full_stream:
                    report.see(chunk)
                    writer.see(chunk)
                result = await stream.get_full_output()
                failure = result.error
        except BrokenPipeError:
            raise  # the reader of standard output has had enough
        except Exception as error:
            # Preparing the run failed; what fails later is in the result.
            failure = error
    writer.end()
    if not is_quiet:
        for line in report.lines(result, time.perf_counter() - begun):
            tell(line)
    return _conclude(result, failure)


def _text_writer(agent: Agent) -> TextWriter:
    may_retry = bool(
        agent.error_processors
        or agent.max_processor_retries
        or agent.default_options.get("error_processors")
        or agent.default_options.get("max_processor_retries")
    )
    return TextWriter(sys.stdout, tell, is_held=may_retry and not sys.stdout.isatty())


@contextmanager
def _interrupt_sets(abort: AbortSignal) -> Iterator[None]:
    """Make the first Ctrl-C cancel the run in good order; a second one stops the program."""
    loop, previous = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, previous)
        loop.call_soon_threadsafe(abort.abort, "interrupted")

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _conclude(result: AgentResult | None, failure: BaseException | None) -> int:
    """Say how the run ended, unless it simply succeeded; the exit status."""
    if failure is not None or result is None:
        tell(f"error: {describe(failure) if failure is not None else 'the run did not begin'}")
        return FAILED
    match result.status:
        case "tripwire":
            assert result.tripwire is not None
            tell(f"blocked by {result.tripwire.processor_id}: {result.tripwire.reason}")
            return TRIPWIRE
        case "canceled":
            tell("cancelled")
            return INTERRUPTED
        case "suspended":
            tell(f"suspended: a tool call waits for somebody ({result.suspend_payload})")
            return FAILED
        case _:
            return OK
