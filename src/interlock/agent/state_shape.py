"""The types that a stored run state must have, checked before it is read: a store is outside, and may hold anything."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Data = dict[str, Any]


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


class ChunkShape(msgspec.Struct, rename="camel"):
    """A chunk of a step."""

    type: str
    payload: Data
    run_id: str = ""


class StepShape(msgspec.Struct, rename="camel"):
    """A step."""

    step_number: int
    text: str
    parts: list[PartShape]
    reasoning: list[PartShape]
    sources: list[ChunkShape]
    files: list[ChunkShape]
    tool_calls: list[ChunkShape]
    tool_results: list[ChunkShape]
    finish_reason: str
    warnings: list[Any]
    response: Data
    model_id: str
    provider_metadata: Data | None


class SuspendedShape(msgspec.Struct, rename="camel"):
    """The step that waits."""

    step: StepShape
    finish_reason: str
    waiting: dict[str, ChunkShape]
    resolved: int


class StateShape(msgspec.Struct, rename="camel"):
    """A run state."""

    run_id: str
    agent_id: str
    message_id: str
    messages: ListShape
    steps: list[StepShape]
    step_number: int
    retry_count: int
    processor_states: dict[str, Data]
    usage: Data
    system_baseline: list[SystemMessageShape]
    call_ids: list[str]
    request_context: Data
    options: Data
    suspended: SuspendedShape | None
