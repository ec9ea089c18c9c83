"""What a hook works on: the values that one processor's result changes for the next processor, one class a hook."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Protocol, Self

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


class Stage:
    """Base of the stages: how a branch of a workflow gets one of its own (R16.6)."""

    __slots__ = ()

    def fork(self, message_list: MessageList) -> Self:
        """A stage for one branch, which works on ``message_list``; what hooks do in it does not reach this one."""
        return copy(self)

    def adopt(self, fork: Self) -> None:
        """Take over what hooks decided in ``fork`` beside the messages and the values that their results replace."""


class StepStage(Stage):
    """The settings of one attempt, which ``process_input_step`` may change (R2.12–R2.18)."""

    __slots__ = (
        "active_tools",
        "message_id",
        "model",
        "model_settings",
        "provider_options",
        "resolve_model",
        "resolve_tools",
        "structured_output",
        "tool_choice",
        "tools",
    )

    def __init__(
        self,
        *,
        model: Any,
        tools: dict[str, Any],
        tool_choice: str | dict[str, Any] | None,
        active_tools: list[str] | None,
        provider_options: dict[str, Any] | None,
        model_settings: dict[str, Any],
        structured_output: Any,
        message_id: str,
        resolve_model: Callable[[Any], Any],
        resolve_tools: Callable[[Any], dict[str, Any]],
    ) -> None:
        self.model = model
        self.tools = tools
        self.tool_choice = tool_choice
        self.active_tools = active_tools
        self.provider_options = provider_options
        self.model_settings = model_settings
        self.structured_output = structured_output
        self.message_id = message_id
        self.resolve_model = resolve_model
        self.resolve_tools = resolve_tools


class RequestStage(Stage):
    """The prompt of one provider call, and a reply that replaces the call (R2.21)."""

    __slots__ = ("model", "prompt", "response")

    def __init__(self, prompt: list[dict[str, Any]], model: Model) -> None:
        self.prompt = prompt
        self.model = model
        self.response: CachedStepResponse | None = None


class ResponseStage(Stage):
    """A complete reply (section 2.5)."""

    __slots__ = ("chunks", "current", "from_cache", "model", "raw_response", "request", "warnings")

    def __init__(
        self,
        *,
        chunks: Callable[[], list[Any]],
        model: Model,
        from_cache: bool,
        warnings: list[Any] | None,
        request: Any,
        raw_response: Any,
        current: StepResult | None,
    ) -> None:
        self.chunks = chunks
        self.model = model
        self.from_cache = from_cache
        self.warnings = warnings
        self.request = request
        self.raw_response = raw_response
        self.current = current


class OutputStepStage(Stage):
    """A complete reply to be judged, and what becomes of its tool calls (section 2.7, R19.7)."""

    __slots__ = ("current", "finish_reason", "provider_metadata", "refused", "text", "tool_calls", "usage")

    def __init__(
        self,
        *,
        current: StepResult | None,
        finish_reason: str,
        provider_metadata: dict[str, Any] | None,
        text: str,
        tool_calls: list[ToolCallInfo],
        usage: Usage,
    ) -> None:
        self.current = current
        self.finish_reason = finish_reason
        self.provider_metadata = provider_metadata
        self.text = text
        self.tool_calls = tool_calls
        self.usage = usage
        self.refused: dict[str, Any] = {}
        """Call id → the result that stands in for the execution."""

    def fork(self, message_list: MessageList) -> Self:
        """A stage on which refusals of a branch are kept apart."""
        twin = copy(self)
        twin.refused = dict(self.refused)
        return twin

    def adopt(self, fork: Self) -> None:
        """Take over which calls were refused (R19.7)."""
        self.refused = fork.refused


class ToolOutcome(NamedTuple):
    """What the tool-result hooks left of a result."""

    result: Any
    error_text: str | None = None
    """Set when a hook made the call a failed one (R10.8)."""


class ToolResultStage(Stage):
    """The result of one successful tool call (section 2.8).

    ``result`` is read from the message list whenever a hook has put one there, so that each processor of the chain sees
    what the ones before it left (R10.7).
    """

    __slots__ = ("_message_list", "_raw", "args", "current", "provider_executed", "tool_call_id", "tool_name")

    def __init__(
        self,
        *,
        tool_name: str,
        tool_call_id: str,
        args: Any,
        result: Any,
        provider_executed: bool | None,
        current: StepResult | None,
        message_list: MessageList,
    ) -> None:
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.args = args
        self.provider_executed = provider_executed
        self.current = current
        self._raw = result
        self._message_list = message_list

    def fork(self, message_list: MessageList) -> Self:
        """A stage that reads the result from ``message_list``."""
        twin = copy(self)
        twin._message_list = message_list
        return twin

    @property
    def result(self) -> Any:
        """The result as it stands."""
        outcome = self.outcome()
        return self._raw if outcome is None or outcome.error_text is not None else outcome.result

    def outcome(self) -> ToolOutcome | None:
        """What the hooks made of the call; ``None`` if it is not in the message list any more."""
        part = self._message_list.peek_tool_invocation(self.tool_call_id)
        if part is None:
            return None
        recorded = part.tool_invocation
        if recorded.state == "output-error":
            return ToolOutcome(self._raw, recorded.error_text or "Tool execution failed")
        return ToolOutcome(recorded.result if recorded.state == "result" else self._raw)


class ErrorStage(Stage):
    """A failed provider call, and what an error processor asks for (R2.33, R19.5)."""

    __slots__ = ("delay", "error", "message_id", "model", "resolve_model", "retry")

    def __init__(self, error: BaseException, message_id: str, resolve_model: Callable[[Any], Any]) -> None:
        self.error = error
        self.message_id = message_id
        self.resolve_model = resolve_model
        self.retry = False
        self.model: Any = None
        self.delay = 0.0


class ResultStage(Stage):
    """The outcome of the run (section 2.10)."""

    __slots__ = ("result",)

    def __init__(self, result: OutputResult) -> None:
        self.result = result
