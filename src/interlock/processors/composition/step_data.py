"""What the conditions and maps of a workflow see, and what a map may hand on (R16.2, R16.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from interlock._json import camel
from interlock.chunks import Chunk
from interlock.context import RequestContext
from interlock.messages import Message, MessageList
from interlock.processors.args import HookArgs, MessageHookArgs
from interlock.processors.stages import Model
from interlock.processors.steps import OutputResult, StepResult, ToolCallInfo
from interlock.usage import Usage

Phase = Literal["input", "inputStep", "outputStream", "outputStep", "toolResult", "outputResult"]

_COMMON = ("messages", "message_list", "system_messages", "request_context", "retry_count")
_STEP = (*_COMMON, "step_number", "steps")
SETTINGS = (
    "model",
    "tools",
    "tool_choice",
    "active_tools",
    "provider_options",
    "model_settings",
    "structured_output",
)
"""What ``process_input_step`` may override."""

_JUDGED = ("finish_reason", "provider_metadata", "tool_calls", "text", "usage")
_CALL = ("tool_name", "tool_call_id", "args", "result", "provider_executed")

_PHASES: dict[str, tuple[Phase, tuple[str, ...]]] = {
    "process_input": ("input", _COMMON),
    "process_input_step": ("inputStep", (*_STEP, *SETTINGS, "message_id")),
    "process_output_stream": ("outputStream", (*_STEP, "part", "stream_parts", "from_cache")),
    "process_output_step": ("outputStep", (*_STEP, *_JUDGED)),
    "process_tool_result": ("toolResult", (*_STEP, *_CALL)),
    "process_output_result": ("outputResult", (*_COMMON, "result")),
}
"""Hook → its phase, and the fields that the phase has."""

PHASE_HOOKS = tuple(_PHASES)
"""The hooks that a workflow runs (R16.2)."""

_FIELDS = {name for _, fields in _PHASES.values() for name in fields} | {"phase"}
_NAMES = {camel(name): name for name in _FIELDS} | {name: name for name in _FIELDS}


class ProcessorStepData:
    """The data at one place of a workflow, in one phase.

    Its values are those that a hook of the phase would get from its args; a field that the phase has not is ``None``.
    Lists are snapshots, the messages and the chunk in them are live: what a later step edits in place shows. The data
    of a parallel branch belongs to the branch's own fork of the message list.

    A map that builds its own gives only what it wants to change: ``ProcessorStepData(phase="input", messages=[…])``, or
    a mapping of the same names.

    Args:
        phase: One of ``input``, ``inputStep``, ``outputStream``, ``outputStep``, ``toolResult``, ``outputResult``.
        **fields: Any of the fields below.

    Raises:
        TypeError: an unknown field.
    """

    phase: Phase
    messages: list[Message]
    message_list: MessageList
    system_messages: list[dict[str, Any]]
    request_context: RequestContext
    retry_count: int
    step_number: int
    steps: list[StepResult]
    model: Model
    tools: dict[str, Any]
    tool_choice: str | dict[str, Any] | None
    active_tools: list[str] | None
    provider_options: dict[str, Any] | None
    model_settings: dict[str, Any]
    structured_output: Any
    message_id: str
    part: Chunk | list[Chunk] | None
    """The chunk; a list when a branch made several of it, ``None`` when it dropped it."""
    stream_parts: list[Chunk]
    from_cache: bool
    finish_reason: str | None
    provider_metadata: dict[str, Any] | None
    tool_calls: list[ToolCallInfo] | None
    text: str
    usage: Usage
    tool_name: str
    tool_call_id: str
    args: Any
    result: OutputResult | Any
    """The tool's result in ``toolResult``, the run's outcome in ``outputResult``."""
    provider_executed: bool | None

    def __init__(self, *, phase: Phase, **fields: Any) -> None:
        self._source: HookArgs | None = None
        self.phase = phase
        for name, value in fields.items():
            if name not in _FIELDS:
                raise TypeError(f"ProcessorStepData has no field {name!r}; it has {', '.join(sorted(_FIELDS))}")
            setattr(self, name, value)

    @classmethod
    def read(cls, args: MessageHookArgs) -> Self:
        """All that the phase has, as it is now."""
        phase, names = _PHASES[args._hook]
        data = cls(phase=phase)
        for name in names:
            setattr(data, name, getattr(args, name))
        return data

    @classmethod
    def of_chunk(cls, part: Chunk | list[Chunk] | None, args: HookArgs) -> Self:
        """A chunk, and the rest when it is asked for: nothing may be computed for every chunk."""
        data = cls.__new__(cls)
        data.__dict__ = {"phase": "outputStream", "part": part, "_source": args}
        return data

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(f"ProcessorStepData has no field {name!r}")
        source = self.__dict__.get("_source")
        if source is None:
            return None
        value = self.__dict__[name] = getattr(source, name, None)
        return value

    def __repr__(self) -> str:
        return f"ProcessorStepData(phase={self.phase!r}, fields={sorted(self.__dict__.keys() - {'_source', 'phase'})})"


def read_step_data(value: Any) -> dict[str, Any] | None:
    """The fields that a map's result sets; ``None`` if it is neither a ``ProcessorStepData`` nor an equal mapping."""
    if isinstance(value, ProcessorStepData):
        return {name: field for name, field in vars(value).items() if name != "_source"}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key in _NAMES for key in value):
        return None
    fields = {_NAMES[key]: field for key, field in value.items()}
    return fields if len(fields) == len(value) else None


def hook_result(phase: Phase, fields: Mapping[str, Any], current: MessageHookArgs) -> Any:
    """The fields that a map set, as the phase's hook would return them; what a hook cannot change is left out."""
    if phase == "inputStep":
        return {name: fields[name] for name in ("messages", "system_messages", *SETTINGS) if name in fields}
    messages, system_messages = fields.get("messages"), fields.get("system_messages")
    if phase != "input" or (messages is None and system_messages is None):
        return messages
    return {
        "messages": current.messages if messages is None else messages,
        "system_messages": current.system_messages if system_messages is None else system_messages,
    }


class MapArgs:
    """What a map gets (R16.7)."""

    __slots__ = ("_results", "_step_ids", "initial_data", "input_data", "request_context")

    def __init__(
        self,
        input_data: Any,
        initial_data: ProcessorStepData,
        request_context: RequestContext,
        results: Mapping[str, ProcessorStepData],
        step_ids: Sequence[str],
    ) -> None:
        self.input_data = input_data
        """The data at this place; after a parallel or a branch a dict of such data by step id."""
        self.initial_data = initial_data
        """The data with which the workflow began."""
        self.request_context = request_context
        self._results = results
        self._step_ids = step_ids

    def get_step_result(self, step_id: str) -> ProcessorStepData | None:
        """What an earlier step made; ``None`` if it did not run.

        Raises:
            ValueError: the workflow has no step of that id.
        """
        if step_id not in self._step_ids:
            known = ", ".join(map(repr, self._step_ids))
            raise ValueError(f"the workflow has no step {step_id!r}; its steps are {known}")
        return self._results.get(step_id)
