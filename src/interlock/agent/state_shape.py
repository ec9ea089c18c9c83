"""The types that a stored run state must have, checked before it is read: a store is outside, and may hold anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Data = dict[str, Any]
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class InvocationShape(msgspec.Struct, rename="camel"):
    """A tool call."""

    state: str
    tool_call_id: str
    tool_name: str
    error_text: str | None = None
    approval: Data | None = None


class PartShape(msgspec.Struct, rename="camel"):
    """A part; which fields it has hangs on its type."""

    type: str
    text: str = ""
    reasoning: str = ""
    details: list[Data] | None = None
    tool_invocation: InvocationShape | None = None
    mime_type: str = ""
    filename: str | None = None
    source: Data | None = None
    error: Data | None = None
    provider_metadata: Data | None = None

    def __post_init__(self) -> None:
        if self.type == "tool-invocation" and self.tool_invocation is None:
            raise ValueError("a part of type 'tool-invocation' has a toolInvocation")


class ContentShape(msgspec.Struct, rename="camel"):
    """The content of a message."""

    parts: list[PartShape]
    content: str | None = None
    tool_invocations: list[Data] | None = None
    metadata: Data | None = None
    provider_metadata: Data | None = None


class MessageShape(msgspec.Struct, rename="camel"):
    """A message."""

    id: str
    role: str
    content: ContentShape
    created_at: str
    thread_id: str | None = None
    resource_id: str | None = None
    type: str | None = None


class EntryShape(msgspec.Struct):
    """A message of a list, with its source."""

    source: Literal["input", "response", "memory", "context"]
    message: MessageShape


class SystemMessageShape(msgspec.Struct):
    """A system message."""

    role: Literal["system"]
    content: str


class SystemShape(msgspec.Struct):
    """The two stores of system messages."""

    untagged: list[SystemMessageShape]
    tagged: dict[str, list[SystemMessageShape]]


class ListShape(msgspec.Struct, rename="camel"):
    """A message list."""

    messages: list[EntryShape]
    system: SystemShape
    thread_id: str | None = None
    resource_id: str | None = None
    attempt: Data | None = None


Place = tuple[Count, Count]
"""Position of a message, and of a part in it."""


class ChunkShape(msgspec.Struct, rename="camel"):
    """A chunk of a step."""

    type: str
    payload: Data
    run_id: str = ""


class CallShape(msgspec.Struct, rename="camel"):
    """The payload of a chunk about a tool call."""

    tool_call_id: str
    tool_name: str


class CallChunkShape(msgspec.Struct, rename="camel"):
    """A chunk about a tool call."""

    type: str
    payload: CallShape
    run_id: str = ""


class TripwireShape(msgspec.Struct, rename="camel"):
    """Why a step was rejected or blocked."""

    reason: str
    processor_id: str
    retry: bool
    metadata: Any


class StepShape(msgspec.Struct, rename="camel"):
    """A step."""

    step_number: Count
    step_type: Literal["initial", "tool-result"]
    text: str
    parts: list[PartShape | Place]
    reasoning: list[PartShape | Place]
    sources: list[ChunkShape]
    files: list[ChunkShape]
    tool_calls: list[CallChunkShape]
    tool_results: list[CallChunkShape]
    finish_reason: str
    warnings: list[Any]
    response: Data
    model_id: str
    provider_metadata: Data | None
    tripwire: TripwireShape | None


class EndedShape(StepShape, rename="camel"):
    """A step that is over."""

    is_accepted: bool


class SuspendedShape(msgspec.Struct, rename="camel"):
    """The step that waits."""

    step: StepShape
    finish_reason: str
    model_index: Count
    waiting: Annotated[dict[str, CallChunkShape], msgspec.Meta(min_length=1)]
    resolved: Count


class BudgetShape(msgspec.Struct, rename="camel"):
    """What the processors have used."""

    retries: Count
    guard_calls: Count
    cost: float


class StateShape(msgspec.Struct, rename="camel"):
    """A run state."""

    run_id: str
    agent_id: str
    suspension_id: str | None
    message_id: str
    messages: ListShape
    steps: list[EndedShape]
    step_number: Count
    retry_count: Count
    processor_states: dict[str, Data]
    usage: Data
    budget: BudgetShape | None
    used_ms: Amount
    system_baseline: list[SystemMessageShape]
    call_ids: list[str]
    request_context: Data
    options: Data
    required_options: list[str]
    suspended: SuspendedShape | None
