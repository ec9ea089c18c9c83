"""A run between two steps, as data: nothing that a later step needs lives anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock._json import to_json
from interlock.agent.accepted import CALL_OPTIONS, check_values
from interlock.agent.state_json import (
    PartPlaces,
    decode,
    encode,
    json_safe,
    step_from_dict,
    step_to_dict,
    storable,
    usage_from_dict,
    waiting_from_dict,
)
from interlock.agent.state_shape import StateShape
from interlock.agent.structured import ParsedObject, StructuredOutputOptions
from interlock.agent.suspension import SuspendedStep
from interlock.chunks import chunk_to_dict
from interlock.errors import InvalidMessageError, RunStateError
from interlock.messages import MessageList
from interlock.processors import StepResult, TripwireInfo
from interlock.processors.scope import RunBudget
from interlock.usage import Usage

VERSION = 1
"""Of the JSON form. It rises when an older interlock could not read what is written."""


class RunState(msgspec.Struct, eq=False):
    """What a run has come to so far.

    Its JSON form is what a ``RunStore`` keeps of a run that is suspended or paused: messages with their sources, steps,
    processors' state, usage, retries, limits used up, calls that wait, and what of the request context and of the
    call's options JSON can hold. ``from_json(text).to_json() == text``. Not in it: the prompts that were sent, headers,
    errors, and whatever is no JSON.

    Args:
        run_id: Id of the run.
        agent_id: Id of the agent that runs.
        message_list: The run's one live message list.
        message_id: Id of the response message that the run is writing.
    """

    run_id: str
    agent_id: str
    message_list: MessageList
    message_id: str
    steps: list[StepResult] = []
    """Accepted steps (R0.6)."""
    listed_steps: list[StepResult] = []
    """Accepted steps, and rejected or blocked attempts that had a response (R6.7)."""
    step_number: int = 0
    retry_count: int = 0
    """Retries granted, never reset (R7.3)."""
    retry_limit: int | None = None
    """Retries that processors may cause in this run (R7.1)."""
    processor_states: dict[str, dict[str, Any]] = {}
    usage: Usage = msgspec.field(default_factory=Usage)
    """Sum over all attempts that had a response (R12.22)."""
    system_baseline: list[Any] = []
    """Untagged system messages as ``process_input`` left them (R2.19)."""
    call_ids: set[str] = set()
    """Tool call ids of accepted steps; ids stay unique within a run."""
    finish_reason: str | None = None
    tripwire: TripwireInfo | None = None
    error: BaseException | None = None
    asked: StructuredOutputOptions | None = None
    """How the answer of the last accepted step was to be typed; ``None`` if it was not, or is no answer."""
    parsed: ParsedObject | None = None
    """The structured object of the last accepted step (R12.34)."""
    text_override: str | None = None
    """Text that ``process_output_result`` or the end of the run put in place of the steps' text (R2.35)."""
    suspend_payload: Any = None
    suspended: SuspendedStep | None = None
    """The step that waits for somebody; a stored run without one is paused between two steps."""
    suspension_id: str | None = None
    """Changes each time the run is stored, so that nobody goes on with what it was before."""
    request_context: dict[str, Any] = {}
    """JSON-safe part of the request context of a stored run (R14.6)."""
    options: dict[str, Any] = {}
    """The call's options, as far as a resumed run can take them over."""
    required_options: list[str] = []
    """Names of options that JSON cannot hold and that a resumed run has to be given again."""
    budget: RunBudget | None = None
    """What the processors of a stored run have used together (R19.9)."""
    used_ms: float = 0.0
    """How much of its time limit a stored run has used up (R17.9)."""

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

    def __repr__(self) -> str:
        return f"RunState(run_id={self.run_id!r}, agent_id={self.agent_id!r}, steps={len(self.steps)})"

    def to_json(self) -> str:
        """The state as JSON text, for ``from_json``; takes time in proportion to its size.

        Raises:
            RunStateError: a message, an argument or a result is no JSON.
        """
        return encode(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str | bytes, agent_id: str | None = None) -> RunState:
        """Read what ``to_json`` wrote.

        Args:
            text: The text.
            agent_id: The agent that is to go on with the run, if that is to be checked.

        Raises:
            RunStateError: it is no run state, of a newer version, or of another agent (R12.37).
        """
        return cls.from_dict(decode(text), agent_id)

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON data, for ``from_dict``; processors' state that JSON cannot hold is left out (R8.4).

        Raises:
            RunStateError: something in it refers to itself.
        """
        try:
            return self._written()
        except RecursionError as error:
            raise RunStateError("the run cannot be stored: something in its messages refers to itself") from error

    def _written(self) -> dict[str, Any]:
        accepted = {id(step) for step in self.steps}
        messages = self.message_list.serialize()
        if self.suspended is None:
            # The snapshot is for taking back an attempt; between two steps there is none.
            messages.pop("attempt", None)
        places = PartPlaces(self.message_list.stage())
        return {
            "version": VERSION,
            "runId": self.run_id,
            "agentId": self.agent_id,
            "suspensionId": self.suspension_id,
            "messageId": self.message_id,
            "messages": messages,
            "steps": [{**step_to_dict(step, places), "isAccepted": id(step) in accepted} for step in self.listed_steps],
            "stepNumber": self.step_number,
            "retryCount": self.retry_count,
            "processorStates": {key: storable(value) for key, value in self.processor_states.items()},
            "usage": self.usage.to_dict(),
            "budget": None if self.budget is None else _budget_to_dict(self.budget),
            "usedMs": self.used_ms,
            "systemBaseline": to_json(self.system_baseline),
            "callIds": sorted(self.call_ids),
            "requestContext": json_safe(self.request_context),
            "options": json_safe(self.options),
            "requiredOptions": self.required_options,
            "suspended": None if self.suspended is None else _suspended_to_dict(self.suspended, places),
        }

    @classmethod
    def from_dict(cls, data: Any, agent_id: str | None = None) -> RunState:
        """Read what ``to_dict`` wrote; the state takes the data over.

        Args:
            data: The JSON data.
            agent_id: The agent that is to go on with the run, if that is to be checked.

        Raises:
            RunStateError: the data is no run state, of a newer version, or of another agent (R12.37).
        """
        _check_origin(data, agent_id)
        try:
            msgspec.convert(data, StateShape)
            return cls._read(data)
        except (
            AttributeError,
            InvalidMessageError,
            LookupError,
            OverflowError,
            RecursionError,
            TypeError,
            ValueError,
            msgspec.MsgspecError,
        ) as error:
            raise RunStateError(f"the run state is malformed: {type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> RunState:
        message_list = MessageList.deserialize(data["messages"])
        places = PartPlaces(message_list.stage())
        state = cls(data["runId"], data["agentId"], message_list, data["messageId"])
        for entry in data["steps"]:
            step = step_from_dict(entry, places)
            state.listed_steps.append(step)
            if entry["isAccepted"]:
                state.steps.append(step)
        state.suspension_id = data["suspensionId"]
        state.step_number = data["stepNumber"]
        state.retry_count = data["retryCount"]
        state.processor_states = {key: dict(value) for key, value in data["processorStates"].items()}
        state.usage = usage_from_dict(data["usage"])
        budget = data["budget"]
        if budget is not None:
            state.budget = RunBudget(retries=budget["retries"], guard_calls=budget["guardCalls"], cost=budget["cost"])
        state.used_ms = data["usedMs"]
        state.system_baseline = data["systemBaseline"]
        state.call_ids = set(data["callIds"])
        state.request_context = data["requestContext"]
        state.options = data["options"]
        check_values(state.options, CALL_OPTIONS)
        state.required_options = data["requiredOptions"]
        if data["suspended"] is not None:
            state.suspended = _suspended_from_dict(data["suspended"], places)
            for call_id in state.suspended.waiting:
                if message_list.peek_tool_invocation(call_id) is None:
                    raise ValueError(f"no message has the tool call {call_id!r} that waits")
        return state


def _check_origin(data: Any, agent_id: str | None) -> None:
    """Refuse what is no state, or none that this agent and this version can go on with."""
    if not isinstance(data, Mapping):
        raise RunStateError(f"a run state must be a JSON object, got {type(data).__name__}")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RunStateError("this is no run state: it has no version")
    if version > VERSION:
        raise RunStateError(f"the run state has version {version}; this interlock reads up to {VERSION}: upgrade it")
    if version < 1:
        raise RunStateError(f"this is no run state: there is no version {version}")
    if agent_id is not None and data.get("agentId") != agent_id:
        raise RunStateError(f"the run belongs to agent {data.get('agentId')!r}, not to {agent_id!r}")


def _budget_to_dict(budget: RunBudget) -> dict[str, Any]:
    return {"retries": budget.retries, "guardCalls": budget.guard_calls, "cost": budget.cost}


def _suspended_to_dict(suspended: SuspendedStep, places: PartPlaces) -> dict[str, Any]:
    return {
        "step": step_to_dict(suspended.step, places),
        "finishReason": suspended.finish_reason,
        "modelIndex": suspended.model_index,
        "waiting": {key: chunk_to_dict(chunk) for key, chunk in suspended.waiting.items()},
        "resolved": suspended.resolved,
    }


def _suspended_from_dict(data: Mapping[str, Any], places: PartPlaces) -> SuspendedStep:
    return SuspendedStep(
        step=step_from_dict(data["step"], places),
        finish_reason=data["finishReason"],
        model_index=data["modelIndex"],
        waiting={key: waiting_from_dict(value) for key, value in data["waiting"].items()},
        resolved=data["resolved"],
    )
