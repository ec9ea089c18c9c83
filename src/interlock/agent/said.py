"""What a provider tells about its reply may quote the reply: it is kept only while the reply still says the same.

The probabilities of tokens, or the passages that a source supports, repeat the answer in a form that no processor
reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from interlock.chunks import (
    Chunk,
    File,
    Finish,
    ReasoningDelta,
    Source,
    StepFinish,
    TextDelta,
    ToolCall,
    ToolErrorChunk,
    ToolResult,
)
from interlock.messages.parts import Part
from interlock.processors import StepResult


class Said(msgspec.Struct):
    """Content of one reply, to compare what the provider sent with what is left of it behind the stream hooks.

    How it was cut into chunks does not count, nor does the order of calls: a hook may hold content back for a while.
    """

    texts: list[str] = []
    thoughts: dict[str, str] = {}
    """Id of a span of reasoning → what it says."""
    others: list[str] = []
    """Calls, what those that the provider executed came to, sources and files, each as it was when it was heard."""

    def hear(self, chunk: Chunk) -> None:
        """Take one chunk; types that are no content are ignored."""
        if isinstance(chunk, (TextDelta, ReasoningDelta)):
            self.hear_text(chunk, chunk.payload.text)
        elif isinstance(chunk, ToolCall):
            self.others.append(_written([chunk.payload.tool_name, chunk.payload.args]))
        elif isinstance(chunk, ToolResult):
            self.others.append(_written([chunk.payload.tool_call_id, chunk.payload.result]))
        elif isinstance(chunk, ToolErrorChunk):
            self.others.append(_written([chunk.payload.tool_call_id, chunk.payload.error]))
        elif isinstance(chunk, (Source, File)):
            self.others.append(_written(chunk.payload.to_dict()))

    def hear_text(self, chunk: TextDelta | ReasoningDelta, text: str) -> None:
        """Take a piece of text or of reasoning, which may not be what the chunk says any more."""
        if isinstance(chunk, TextDelta):
            self.texts.append(text)
        else:
            self.thoughts[chunk.payload.id] = self.thoughts.get(chunk.payload.id, "") + text

    def is_same(self, other: Said) -> bool:
        """Whether both say the same."""
        return (
            "".join(self.texts) == "".join(other.texts)
            and "".join(self.thoughts.values()) == "".join(other.thoughts.values())
            and sorted(self.others) == sorted(other.others)
        )


def without_quotes(finish: Finish) -> Finish:
    """The end of a reply without what the provider tells about its content."""
    outcome = msgspec.structs.replace(finish.payload.step_result, logprobs=None)
    payload = msgspec.structs.replace(
        finish.payload, step_result=outcome, metadata=None, provider_metadata=None, messages=None, response=None
    )
    return msgspec.structs.replace(finish, payload=payload)


def quotable(steps: Iterable[StepResult]) -> list[tuple[StepResult, str]]:
    """What the steps say whose provider told more about them; taken before hooks may change their parts."""
    return [(step, _parts_written(step.parts)) for step in steps if step.provider_metadata is not None]


def forget_quotes(before: Iterable[tuple[StepResult, str]]) -> None:
    """Drop what the provider told about those of the steps that say something else now."""
    for step, said in before:
        if _parts_written(step.parts) != said:
            step.provider_metadata = None


def follow_finish(step: StepResult, shown: Iterable[Chunk]) -> None:
    """Let the step tell what stream hooks left of the metadata in its ``step-finish``, if they passed one."""
    if step.provider_metadata is None:
        return
    for chunk in shown:
        if isinstance(chunk, StepFinish):
            step.provider_metadata = (chunk.payload.metadata or {}).get("providerMetadata")


def _parts_written(parts: Sequence[Part]) -> str:
    return _written([part.to_dict() for part in parts])


def _written(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()
