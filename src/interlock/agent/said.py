"""What a provider tells about its reply may quote the reply: it is kept only while the reply still says the same.

The probabilities of tokens, or the passages that a source supports, repeat the answer in a form that no processor
reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """Pieces of the content of one reply. How it was cut into chunks does not count, nor does the order of calls."""

    texts: list[str] = []
    thoughts: dict[str, str] = {}
    """Id of a span of reasoning → what it says."""
    others: list[bytes] = []
    """Calls, what those that the provider executed came to, sources and files."""

    def add(self, chunk: Chunk, content: str | bytes) -> None:
        """Add what a chunk said; it need not say so any more.

        Args:
            chunk: The chunk.
            content: What ``content_of`` told of it.
        """
        if isinstance(content, bytes):
            self.others.append(content)
        elif isinstance(chunk, ReasoningDelta):
            self.thoughts[chunk.payload.id] = self.thoughts.get(chunk.payload.id, "") + content
        else:
            self.texts.append(content)

    def hear(self, chunk: Chunk) -> None:
        """Add what a chunk says; types that are no content are ignored."""
        content = content_of(chunk)
        if content is not None:
            self.add(chunk, content)


class Alterations(msgspec.Struct):
    """What of a reply the stream hooks changed, and into what; of what passed as it was no account is kept.

    A hook may hold content back for a while: it counts as changed then, and as left once it is released.
    """

    heard: Said = msgspec.field(default_factory=Said)
    """What the provider said."""
    left: Said = msgspec.field(default_factory=Said)
    """What the hooks made of it."""

    def note(self, chunk: Chunk, content: str | bytes | None, passed: Sequence[Chunk]) -> None:
        """Note what became of a chunk, unless it passed as it was.

        Args:
            chunk: The chunk.
            content: Its ``content_of`` before the hooks.
            passed: What they passed on.
        """
        if len(passed) == 1 and passed[0] is chunk and content_of(chunk) == content:
            return
        if content is not None:
            self.heard.add(chunk, content)
        for one in passed:
            self.left.hear(one)

    @property
    def is_nothing(self) -> bool:
        """Whether the reply still says what the provider said."""
        heard, left = self.heard, self.left
        return heard == left or (
            "".join(heard.texts) == "".join(left.texts)
            and "".join(heard.thoughts.values()) == "".join(left.thoughts.values())
            and sorted(heard.others) == sorted(left.others)
        )

    def has_thought(self, span_id: str) -> bool:
        """Whether a span of reasoning was changed, as far as it has come."""
        return self.heard.thoughts.get(span_id) != self.left.thoughts.get(span_id)


def content_of(chunk: Chunk) -> str | bytes | None:
    """What a chunk says of the reply's content: text as it is, everything else as JSON; ``None`` if it has none."""
    if isinstance(chunk, ToolCall):
        return _encode((chunk.payload.tool_name, chunk.payload.args))
    if isinstance(chunk, (TextDelta, ReasoningDelta)):
        return chunk.payload.text
    if isinstance(chunk, ToolResult):
        return _encode((chunk.payload.tool_call_id, chunk.payload.result))
    if isinstance(chunk, ToolErrorChunk):
        return _encode((chunk.payload.tool_call_id, chunk.payload.error))
    if isinstance(chunk, (Source, File)):
        return _encode(chunk.payload.to_dict())
    return None


def without_quotes(finish: Finish) -> Finish:
    """The end of a reply without what the provider tells about its content."""
    outcome = msgspec.structs.replace(finish.payload.step_result, logprobs=None)
    payload = msgspec.structs.replace(
        finish.payload, step_result=outcome, metadata=None, provider_metadata=None, messages=None, response=None
    )
    return msgspec.structs.replace(finish, payload=payload)


def quotable(steps: Iterable[StepResult]) -> list[tuple[StepResult, bytes]]:
    """What the steps say whose provider told more about them; taken before hooks may change their parts."""
    return [(step, _parts_written(step.parts)) for step in steps if step.provider_metadata is not None]


def forget_quotes(before: Iterable[tuple[StepResult, bytes]]) -> None:
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


def _parts_written(parts: Sequence[Part]) -> bytes:
    return _encode([part.to_dict() for part in parts])


_encode = msgspec.json.Encoder(enc_hook=repr).encode
