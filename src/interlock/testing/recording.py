"""A processor that changes nothing and remembers what it saw, and every way to cut a text into chunks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from interlock.chunks import Chunk
from interlock.processors import (
    HookArgs,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    Processor,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
)


class HookCall(msgspec.Struct, kw_only=True):
    """One call of one hook."""

    hook: str
    step_number: int
    retry_count: int
    part: Chunk | None = None
    """The chunk of ``process_output_stream``."""


class RecordingProcessor(Processor):
    """Has every hook, changes nothing, and keeps a record of the calls in order.

    List it in all three arrays to see a whole run.
    """

    def __init__(self, id: str = "recorder") -> None:  # noqa: A002  (the attribute's name)
        self.id = id
        self.calls: list[HookCall] = []

    @property
    def hooks(self) -> list[str]:
        """Names of the hooks that were called, in order; the calls for the chunks of one stream count as one."""
        names: list[str] = []
        for call in self.calls:
            if call.hook != "process_output_stream" or not names or names[-1] != call.hook:
                names.append(call.hook)
        return names

    @property
    def part_types(self) -> list[str]:
        """Types of the chunks that ``process_output_stream`` saw."""
        return [call.part.type for call in self.calls if call.part is not None]

    def _record(self, hook: str, args: HookArgs, part: Chunk | None = None) -> None:
        self.calls.append(HookCall(hook=hook, step_number=args.step_number, retry_count=args.retry_count, part=part))

    def process_input(self, args: ProcessInputArgs) -> None:
        """Record the call."""
        self._record("process_input", args)

    def process_input_step(self, args: ProcessInputStepArgs) -> None:
        """Record the call."""
        self._record("process_input_step", args)

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> None:
        """Record the call."""
        self._record("process_llm_request", args)

    def process_llm_response(self, args: ProcessLLMResponseArgs) -> None:
        """Record the call."""
        self._record("process_llm_response", args)

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        """Record the chunk and pass it on."""
        self._record("process_output_stream", args, args.part)
        return args.part

    def process_output_step(self, args: ProcessOutputStepArgs) -> None:
        """Record the call."""
        self._record("process_output_step", args)

    def process_tool_result(self, args: ProcessToolResultArgs) -> None:
        """Record the call."""
        self._record("process_tool_result", args)

    def process_api_error(self, args: ProcessAPIErrorArgs) -> None:
        """Record the call."""
        self._record("process_api_error", args)

    def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """Record the call."""
        self._record("process_output_result", args)


def cuts(content: str, pieces: int = 3) -> Iterator[list[str]]:
    """Every way to cut a text into so many non-empty pieces, and the text whole; for guards that work on streams.

    ``for deltas in cuts("4111 1111"): ScriptedModel([text(*deltas)])``
    """
    yield [content]

    def rest(start: int, left: int) -> Iterator[list[str]]:
        if left == 1:
            yield [content[start:]]
            return
        for end in range(start + 1, len(content) - left + 2):
            for tail in rest(end, left - 1):
                yield [content[start:end], *tail]

    if pieces > 1:
        yield from rest(0, pieces)
