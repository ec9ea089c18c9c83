"""What a hook works on: the values that one processor's result changes for the next processor, one class a hook."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, Self

import msgspec

from interlock.chunks import Chunk
from interlock.messages import MessageList
from interlock.processors.results import CachedStepResponse
from interlock.processors.steps import OutputResult, StepResult, ToolCallInfo
from interlock.usage import Usage


class Model(Protocol):
    """A resolved language model, as far as processors need to know it."""

    @property
    def provider(self) -> str:
        """Short provider name."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at its provider."""
        ...


class Stage(msgspec.Struct, eq=False):
    """Base of the stages: how a branch of a workflow gets one of its own (R16.6)."""

    def fork(self, message_list: MessageList) -> Self:
        """A stage for one branch, which works on ``message_list``; what hooks do in it does not reach this one."""
        return copy(self)

    def adopt(self, fork: Self) -> None:
        """Take over what hooks decided in ``fork`` beside the messages and the values that their results replace."""


class StepStage(Stage, kw_only=True):
    """The settings of one attempt, which ``process_input_step`` may change (R2.12–R2.18)."""

    model: Any
    tools: dict[str, Any]
    tool_choice: str | dict[str, Any] | None
    active_tools: list[str] | None
    provider_options: dict[str, Any] | None
    model_settings: dict[str, Any]
    structured_output: Any
    message_id: str
    resolve_model: Callable[[Any], Any]
    resolve_tools: Callable[[Any], dict[str, Any]]
    resolve_object: Callable[[Any], Any]
    choice_of: str | None = None
    """Id of the processor that set ``tool_choice``."""

    def has_settings_of(self, other: StepStage) -> bool:
        """Whether nobody has set anything since this was copied from ``other``."""
        return (
            self.model is other.model
            and self.tools is other.tools
            and self.tool_choice is other.tool_choice
            and self.active_tools is other.active_tools
            and self.provider_options is other.provider_options
            and self.model_settings is other.model_settings
            and self.structured_output is other.structured_output
            and self.choice_of is other.choice_of
        )


class RequestStage(Stage):
    """The prompt of one provider call, and a reply that replaces the call (R2.21)."""

    prompt: list[dict[str, Any]]
    model: Model
    response: CachedStepResponse | None = None
    replayed: list[Chunk] = []
    """The chunks of ``response``, read."""


class ResponseStage(Stage, kw_only=True):
    """A complete reply (section 2.5)."""

    chunks: Callable[[], list[Any]]
    model: Model
    from_cache: bool
    warnings: list[Any] | None
    request: Any
    raw_response: Any
    current: StepResult | None


class OutputStepStage(Stage, kw_only=True):
    """A complete reply to be judged, and what becomes of its tool calls (section 2.7, R19.7)."""

    current: StepResult | None
    finish_reason: str
    provider_metadata: dict[str, Any] | None
    text: str
    tool_calls: list[ToolCallInfo]
    usage: Usage
    refused: dict[str, Any] = {}
    """Call id → the result that stands in for the execution."""

    def fork(self, message_list: MessageList) -> Self:
        """A stage on which refusals of a branch are kept apart."""
        twin = copy(self)
        twin.refused = dict(self.refused)
        return twin

    def adopt(self, fork: Self) -> None:
        """Take over which calls were refused (R19.7)."""
        self.refused = fork.refused


class ToolOutcome(msgspec.Struct, frozen=True):
    """What the tool-result hooks left of a result."""

    result: Any
    error_text: str | None = None
    """Set when a hook made the call a failed one (R10.8)."""


class ToolResultStage(Stage, kw_only=True):
    """The result of one successful tool call (section 2.8).

    ``result`` is read from the message list whenever a hook has put one there, so that each processor of the chain sees
    what the ones before it left (R10.7).
    """

    tool_name: str
    tool_call_id: str
    args: Any
    raw: Any
    """The result as the tool gave it."""
    provider_executed: bool | None
    current: StepResult | None
    message_list: MessageList
    result: Any = None
    """The result as it stood when it was last read."""
    read_at: int = -1
    """The revision of the list at that time."""

    def fork(self, message_list: MessageList) -> Self:
        """A stage that reads the result from ``message_list``."""
        twin = copy(self)
        twin.message_list = message_list
        twin.read_at = -1
        return twin

    def read(self) -> None:
        """Look up what ``result`` is now."""
        outcome = self.outcome()
        self.result = self.raw if outcome is None or outcome.error_text is not None else outcome.result
        self.read_at = self.message_list.changes.revision

    def outcome(self) -> ToolOutcome | None:
        """What the hooks made of the call; ``None`` if it is not in the message list any more."""
        part = self.message_list.peek_tool_invocation(self.tool_call_id)
        if part is None:
            return None
        recorded = part.tool_invocation
        if recorded.state == "output-error":
            return ToolOutcome(self.raw, recorded.error_text or "Tool execution failed")
        return ToolOutcome(recorded.result if recorded.state == "result" else self.raw)


class ErrorStage(Stage):
    """A failed provider call, and what an error processor asks for (R2.33, R19.5)."""

    error: BaseException
    message_id: str
    resolve_model: Callable[[Any], Any]
    retry: bool = False
    model: Any = None
    delay: float = 0.0


class ResultStage(Stage):
    """The outcome of the run (section 2.10)."""

    result: OutputResult
