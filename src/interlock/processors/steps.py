"""What one step of a run produced, as hooks, callbacks and results see it (R12.23)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from interlock.chunks import File, Source, ToolCall, ToolResult
from interlock.errors import TripWire
from interlock.messages.parts import Part, ReasoningPart
from interlock.usage import Usage


class TripwireInfo(msgspec.Struct, kw_only=True):
    """Why a run or an attempt was stopped, and by whom (R6.5)."""

    reason: str
    processor_id: str
    retry: bool = False
    """Whether the processor had asked for another try."""
    metadata: Any = None
    cause: BaseException | None = None
    """The provider's error when ``process_api_error`` aborted (R6.8)."""

    @classmethod
    def of(cls, tripwire: TripWire, cause: BaseException | None = None) -> TripwireInfo:
        """The facts of a raised ``TripWire``."""
        return cls(
            reason=tripwire.reason,
            processor_id=tripwire.processor_id,
            retry=tripwire.retry,
            metadata=tripwire.metadata,
            cause=cause,
        )


class ToolCallInfo(msgspec.Struct, kw_only=True):
    """A tool call of the reply that ``process_output_step`` judges."""

    tool_name: str
    tool_call_id: str
    args: Any = None


class StepResult(msgspec.Struct, kw_only=True):
    """One attempt of a step: accepted, or rejected or blocked after it had a response (R6.7)."""

    step_number: int
    step_type: Literal["initial", "tool-result"] = "initial"
    text: str = ""
    reasoning: list[ReasoningPart] = []
    sources: list[Source] = []
    files: list[File] = []
    tool_calls: list[ToolCall] = []
    tool_results: list[ToolResult] = []
    """Results as output processors left them (R10.7)."""
    parts: list[Part] = []
    """The message parts of the step, in order."""
    finish_reason: str = "unknown"
    usage: Usage = msgspec.field(default_factory=Usage)
    warnings: list[Any] = []
    request: Any = None
    response: dict[str, Any] = {}
    """``id``, ``modelId``, ``timestamp`` and ``headers`` as far as the provider gave them."""
    model_id: str = ""
    provider_metadata: dict[str, Any] | None = None
    """What the provider told about its reply; dropped when a hook changed the reply, which it may quote."""
    tripwire: TripwireInfo | None = None
    """Set for a rejected (``finish_reason`` ``retry``) or blocked (``tripwire``) attempt."""

    @property
    def reasoning_text(self) -> str | None:
        """The text of all reasoning, ``None`` when there is none."""
        return "".join(part.reasoning for part in self.reasoning) if self.reasoning else None

    @property
    def content(self) -> list[dict[str, Any]]:
        """The parts in their JSON form."""
        return [part.to_dict() for part in self.parts]


class OutputResult(msgspec.Struct, kw_only=True):
    """The outcome that ``process_output_result`` sees (section 2.10)."""

    text: str
    """Text of all accepted steps."""
    usage: Usage
    """Total of the run, rejected attempts included."""
    finish_reason: str
    steps: list[StepResult]
