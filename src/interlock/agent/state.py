"""A run between two steps, as data: nothing that a later step needs lives anywhere else."""

from __future__ import annotations

from typing import Any

from interlock.agent.structured import ParsedObject, StructuredOutputOptions
from interlock.agent.suspension import SuspendedStep
from interlock.messages import MessageList
from interlock.processors import StepResult, TripwireInfo
from interlock.usage import Usage


class RunState:
    """What a run has come to so far.

    Args:
        run_id: Id of the run.
        agent_id: Id of the agent that runs.
        message_list: The run's one live message list.
        message_id: Id of the response message that the run is writing.
    """

    __slots__ = (
        "agent_id",
        "asked",
        "call_ids",
        "error",
        "finish_reason",
        "listed_steps",
        "message_id",
        "message_list",
        "options",
        "parsed",
        "processor_states",
        "request_context",
        "retry_count",
        "retry_limit",
        "run_id",
        "step_number",
        "steps",
        "suspend_payload",
        "suspended",
        "system_baseline",
        "text_override",
        "tripwire",
        "usage",
    )

    def __init__(self, run_id: str, agent_id: str, message_list: MessageList, message_id: str) -> None:
        self.run_id = run_id
        self.agent_id = agent_id
        self.message_list = message_list
        self.message_id = message_id
        self.steps: list[StepResult] = []
        """Accepted steps (R0.6)."""
        self.listed_steps: list[StepResult] = []
        """Accepted steps, and rejected or blocked attempts that had a response (R6.7)."""
        self.step_number = 0
        self.retry_count = 0
        """Retries granted, never reset (R7.3)."""
        self.retry_limit: int | None = None
        """Retries that processors may cause in this run (R7.1)."""
        self.processor_states: dict[str, dict[str, Any]] = {}
        self.usage = Usage()
        """Sum over all attempts that had a response (R12.22)."""
        self.system_baseline: list[Any] = []
        """Untagged system messages as ``process_input`` left them (R2.19)."""
        self.call_ids: set[str] = set()
        """Tool call ids of accepted steps; ids stay unique within a run."""
        self.finish_reason: str | None = None
        self.tripwire: TripwireInfo | None = None
        self.error: BaseException | None = None
        self.asked: StructuredOutputOptions | None = None
        """How the answer of the last accepted step was to be typed; ``None`` if it was not, or is no answer."""
        self.parsed: ParsedObject | None = None
        """The structured object of the last accepted step (R12.34)."""
        self.text_override: str | None = None
        """Text that ``process_output_result`` or the end of the run put in place of the steps' text (R2.35)."""
        self.suspend_payload: Any = None
        self.suspended: SuspendedStep | None = None
        """The step that waits for somebody, while the run is suspended."""
        self.request_context: dict[str, Any] = {}
        """JSON-safe part of the request context of a suspended run (R14.6)."""
        self.options: dict[str, Any] = {}
        """The call's options, as far as a resumed run can take them over."""

    @property
    def object(self) -> Any:
        """The structured object, ``None`` if there is none."""
        return None if self.parsed is None else self.parsed.value

    @property
    def has_retry_left(self) -> bool:
        """Whether the budget of retries, which is one for the whole run, is not used up (R7.4)."""
        return self.retry_limit is not None and self.retry_count < self.retry_limit

    @property
    def accepted_text(self) -> str:
        """Text of the accepted steps."""
        return "".join([step.text for step in self.steps])

    @property
    def text(self) -> str:
        """Text of the accepted steps, or what replaced it (R12.20)."""
        if self.text_override is not None:
            return self.text_override
        return self.accepted_text
