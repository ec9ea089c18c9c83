"""What composing processors costs a chunk: each composed form beside the same processors in a plain list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.subject import WritingModel
from benchmarks.workloads import Workload
from interlock import Agent, Processor, TextDelta
from interlock.processors import create_workflow, parallel, sequence, when

HOOKS = 4


class Passing(Processor):
    """Looks at every chunk and passes it on."""

    def __init__(self, number: int) -> None:
        self.id = f"passing-{number}"

    def process_output_stream(self, args: Any) -> Any:
        return args.part


def composition_workloads(*, chunks: int = 2_000) -> list[Workload]:
    """Streams of ``chunks`` deltas through four processors, put together in each way.

    Args:
        chunks: Deltas of a streamed reply.
    """
    plain = [Passing(number) for number in range(HOOKS)]
    mapped = create_workflow("mapped")
    for processor in plain:
        mapped.then(processor)
    composed = {
        "sequence": ([sequence(*plain)], 1.3),
        "nested": ([sequence(sequence(*plain[:2]), sequence(*plain[2:]))], 1.3),
        "when_all": ([when(_always, sequence(*plain))], None),
        "when_each": ([when(_always, processor) for processor in plain], None),
        "mapped": ([mapped.map(lambda args: args.input_data).commit()], None),
        "parallel": ([parallel(*plain, keep=plain[0])], None),
    }
    return [
        Workload(
            name=name,
            bare=_streamer(plain, chunks),
            ours=_streamer(processors, chunks),
            expected=chunks,
            units=chunks,
            aim=aim,
        )
        for name, (processors, aim) in composed.items()
    ]


def composition_names() -> list[str]:
    """The names of the workloads."""
    return [workload.name for workload in composition_workloads(chunks=1)]


def _always(data: Any) -> bool:
    return True


def _streamer(processors: list[Any], chunks: int) -> Callable[[], Awaitable[int]]:
    agent = Agent(id="benchmark", model=WritingModel(chunks), output_processors=processors)

    async def run() -> int:
        n = 0
        async with agent.stream("hi") as stream:
            async for chunk in stream.full_stream:
                n += isinstance(chunk, TextDelta)
        return n

    return run
