"""What a run came to, as plain values (R12.16, R12.20–R12.24)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from interlock.agent.run import Run
from interlock.chunks import ABORTED, SUSPENDED, File, Source, ToolCall, ToolResult
from interlock.messages import Message, MessageList
from interlock.messages.parts import ReasoningPart
from interlock.processors import StepResult, TripwireInfo
from interlock.usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    ObjectT = TypeVarWithDefault("ObjectT", default=Any)
else:
    ObjectT = TypeVar("ObjectT")
"""Type of ``object``; ``AgentResult`` without one says nothing about it."""

Status = Literal["running", "success", "failed", "suspended", "canceled", "tripwire"]


class Response:
    """The messages that the run wrote, and what the provider said about its last reply (R12.24)."""

    def __init__(self, message_list: MessageList, step: StepResult | None) -> None:
        facts = step.response if step is not None else {}
        self.id: str | None = facts.get("id")
        self.model_id: str | None = facts.get("modelId") or (step.model_id if step is not None else None)
        self.timestamp: Any = facts.get("timestamp")
        self.headers: dict[str, str] | None = facts.get("headers")
        self._view = message_list.get.response

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The response messages in model format."""
        return self._view.model()

    @property
    def ui_messages(self) -> list[dict[str, Any]]:
        """The response messages in UI format."""
        return self._view.ui()

    @property
    def db_messages(self) -> list[Message]:
        """The response messages as they are stored."""
        return self._view.db()

    def __repr__(self) -> str:
        return f"Response(id={self.id!r}, model_id={self.model_id!r})"


class AgentResult(Generic[ObjectT]):
    """The outcome of ``generate``; a stopped run has ``tripwire`` set, a failed one has raised instead."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state = run.state

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._state.run_id

    @property
    def text(self) -> str:
        """The answer: the texts of all accepted steps, as output processors left them (R12.20)."""
        return self._state.text

    @property
    def object(self) -> ObjectT:
        """The structured object, ``None`` without structured output or when the run was stopped."""
        value: ObjectT = self._state.object
        return value

    @property
    def finish_reason(self) -> str:
        """Why the run ended (R5.5)."""
        return self._state.finish_reason or "unknown"

    @property
    def tripwire(self) -> TripwireInfo | None:
        """Why and by whom the run was stopped; ``None`` if it was not (R6.5)."""
        return self._state.tripwire

    @property
    def error(self) -> BaseException | None:
        """What made the run fail."""
        return self._state.error

    @property
    def status(self) -> Status:
        """How the run stands."""
        state = self._state
        if state.finish_reason is None:
            return "running"
        if state.tripwire is not None:
            return "tripwire"
        if state.error is not None:
            return "failed"
        if state.finish_reason == SUSPENDED:
            return "suspended"
        return "canceled" if state.finish_reason == ABORTED else "success"

    @property
    def steps(self) -> list[StepResult]:
        """Accepted steps, and rejected or blocked attempts that had a response (R6.7)."""
        return list(self._state.listed_steps)

    @property
    def usage(self) -> Usage:
        """Sum over all attempts of the run (R12.22)."""
        return self._state.usage

    @property
    def total_usage(self) -> Usage:
        """The same as ``usage``."""
        return self._state.usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Calls of the accepted steps (R12.21)."""
        return [call for step in self._state.steps for call in step.tool_calls]

    @property
    def tool_results(self) -> list[ToolResult]:
        """Results of the accepted steps, as output processors left them (R12.21)."""
        return [result for step in self._state.steps for result in step.tool_results]

    @property
    def reasoning(self) -> list[ReasoningPart]:
        """Reasoning of the accepted steps."""
        return [part for step in self._state.steps for part in step.reasoning]

    @property
    def reasoning_text(self) -> str | None:
        """Text of the reasoning, ``None`` when there is none."""
        parts = self.reasoning
        return "".join(part.reasoning for part in parts) if parts else None

    @property
    def sources(self) -> list[Source]:
        """Sources of the accepted steps."""
        return [source for step in self._state.steps for source in step.sources]

    @property
    def files(self) -> list[File]:
        """Files of the accepted steps."""
        return [file for step in self._state.steps for file in step.files]

    @property
    def content(self) -> list[dict[str, Any]]:
        """Parts of the accepted steps, in their JSON form."""
        return [part for step in self._state.steps for part in step.content]

    @property
    def warnings(self) -> list[Any]:
        """The provider's warnings of the last step."""
        return self._state.steps[-1].warnings if self._state.steps else []

    @property
    def request(self) -> Any:
        """What the last step sent, as the model tells it."""
        return self._state.steps[-1].request if self._state.steps else None

    @property
    def provider_metadata(self) -> dict[str, Any] | None:
        """The provider's metadata of the last step; ``None`` if a hook changed what the step said: it may quote it."""
        return self._state.steps[-1].provider_metadata if self._state.steps else None

    @property
    def response(self) -> Response:
        """The messages that the run wrote."""
        return Response(self._state.message_list, self._state.steps[-1] if self._state.steps else None)

    @property
    def suspend_payload(self) -> Any:
        """What a suspended run waits for (R12.36)."""
        return self._state.suspend_payload

    @property
    def message_list(self) -> MessageList:
        """The run's message list."""
        return self._state.message_list

    def __repr__(self) -> str:
        return f"AgentResult(run_id={self.run_id!r}, status={self.status!r}, text={self.text[:60]!r})"
