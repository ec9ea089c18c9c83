"""The argument objects, one class a hook (runtime-spec section 2).

An attribute is computed when it is first read: what a hook does not look at costs nothing. Assigning to an attribute is
allowed and has no effect on the run (R0.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar, overload

import msgspec

from interlock._json import copy_json
from interlock.chunks import RUN_TYPES, Chunk, flaw_of
from interlock.context import AbortSignal, RequestContext
from interlock.errors import TripWire
from interlock.messages import Message, MessageList, Source
from interlock.messages.parts import ToolInvocationPart
from interlock.processors.bound import BoundProcessor
from interlock.processors.observe import NO_TRACING, TracingContext
from interlock.processors.results import CachedStepChunk
from interlock.processors.scope import RunBudget, RunScope
from interlock.processors.stages import (
    ErrorStage,
    Model,
    OutputStepStage,
    RequestStage,
    ResponseStage,
    ResultStage,
    StepStage,
    ToolResultStage,
)
from interlock.processors.steps import OutputResult, StepResult, ToolCallInfo
from interlock.processors.writer import ProcessorStreamWriter
from interlock.usage import Usage

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801  (reads as a decorator, like property)
    """An attribute that is computed once, when it is first read; may be assigned over."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


# One is made for every call of a hook: a struct takes half the time of an object with an ``__init__`` of its own.
class HookArgs(msgspec.Struct, dict=True, eq=False):
    """What every hook gets (section 2.1)."""

    _scope: RunScope
    _bound: BoundProcessor

    _hook = ""

    if TYPE_CHECKING:
        # A field of the hooks that are called once, and looked up anew for each chunk in the hook of the stream.

        @property
        def message_list(self) -> MessageList:
            """The run's one live message list."""
            ...

        @property
        def messages(self) -> list[Message]:
            """All messages, in order, with live elements (R2.2)."""
            ...

    def abort(self, reason: str | None = None, *, retry: bool = False, metadata: Any = None) -> NoReturn:
        """Stop the run, or with ``retry`` ask for another attempt of this step (R6.1, R7.6).

        It never returns, and it cannot be swallowed: catching the ``TripWire`` changes nothing (R6.3).

        Args:
            reason: What the caller is told, and with ``retry`` what the model is told; has a default.
            retry: Ask for another attempt; granted while the run's retry budget lasts (R7.4).
            metadata: Anything for the caller; never shown to the model.

        Raises:
            TripWire: always.
        """
        tripwire = TripWire(reason, retry=retry, metadata=metadata, processor_id=self._bound.processor.id)
        raise self._scope.record_trip(tripwire, self._bound.processor, self._hook)

    async def emit(self, chunk: Chunk) -> None:
        """Emit a chunk downstream of this processor, now (R19.3); nothing happens once the run has ended.

        Raises:
            TypeError: it is no chunk.
            ValueError: it has not the shape of its type, or is one that only the run itself sends.
        """
        if not isinstance(chunk, Chunk):
            raise TypeError(f"emit() takes a chunk of interlock.chunks, not {type(chunk).__name__}")
        flaw = "only the run itself sends it" if chunk.type in RUN_TYPES else flaw_of(chunk)
        if flaw is not None:
            raise ValueError(f"a {chunk.type!r} chunk cannot be emitted: {flaw}")
        await self._scope.emit(chunk, self._bound.downstream)

    def cancel_run(self, reason: str | None = None, *, metadata: Any = None) -> None:
        """End the run in a tripwire of this processor, from a task that the processor started (R19.4).

        The provider call and running tools are cancelled.
        """
        tripwire = TripWire(reason, metadata=metadata, processor_id=self._bound.processor.id)
        self._scope.record_trip(tripwire, self._bound.processor, self._hook)
        self._scope.interrupt("tripwire")

    def create_task(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T | None]:
        """Start a task that belongs to the run: it is cancelled, at the latest, before the run ends (R19.4).

        An exception in it fails the run; a ``TripWire`` in it trips the run.
        """
        return self._scope.create_task(coro, self._bound.processor, self._hook)

    @lazy
    def retry_count(self) -> int:
        """Retries granted so far in this run (R7.3)."""
        return self._scope.data.retry_count

    @lazy
    def request_context(self) -> RequestContext:
        """The run's request context, live (R14.1)."""
        return self._scope.request_context

    @lazy
    def tracing_context(self) -> TracingContext:
        """``current_span`` is this processor's own span, ``None`` while tracing is off (R15.6)."""
        return NO_TRACING

    @lazy
    def writer(self) -> ProcessorStreamWriter | None:
        """Writes ``data-*`` chunks (section 9)."""
        return ProcessorStreamWriter(self._scope, 0, uses_message_id=False)

    @lazy
    def abort_signal(self) -> AbortSignal:
        """The run's cancellation signal."""
        return self._scope.signal

    @lazy
    def state(self) -> dict[str, Any]:
        """This processor's state in this run; the same object in all its hooks (R8.1)."""
        return self._scope.state_of(self._bound.state_key)

    @lazy
    def agent(self) -> Any:
        """The running agent."""
        return self._scope.agent

    @lazy
    def run_id(self) -> str:
        """Id of the run."""
        return self._scope.data.run_id

    @lazy
    def budget(self) -> RunBudget:
        """What the run's processors have used together (R19.9)."""
        return self._scope.use_budget()

    @lazy
    def system_messages(self) -> list[dict[str, Any]]:
        """The untagged system messages as ``{"role": "system", "content": …}``; copies (R2.4)."""
        return self._scope.data.message_list.get_system_messages()

    @lazy
    def step_number(self) -> int:
        """0-based number of the step; a retry has the same number (R7.6)."""
        return self._scope.data.step_number

    @lazy
    def steps(self) -> list[StepResult]:
        """Accepted steps, in order (R2.5)."""
        self._scope.data.message_list.expose()
        return list(self._scope.data.steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(processor={self._bound.processor.id!r}, run_id={self._scope.data.run_id!r})"


class MessageHookArgs(HookArgs):
    """What the hooks get that are run in a row, each once (all but those of the stream)."""

    _stage: Any
    message_list: MessageList
    """The run's one live message list."""
    _staged: list[Message] | None = None
    """The messages before the hook ran: what it returns is reconciled against these (R3.22)."""

    _stage_source: ClassVar[Source | None] = None
    """Of which messages the hook gives back a changed list; ``None`` for all."""

    @property
    def _stage_messages(self) -> list[Message]:
        if self._staged is None:
            self._staged = self._scope.data.message_list.stage(self._stage_source)
        return self._staged

    @lazy
    def messages(self) -> list[Message]:
        """All messages, in order: a list of its own, with live elements (R2.2)."""
        self._scope.data.message_list.expose()
        return list(self._stage_messages)


class _WithCurrentStep(MessageHookArgs):
    @lazy
    def steps(self) -> list[StepResult]:
        """Accepted steps and, last, the step being processed, without tool results yet (R2.5)."""
        self._scope.data.message_list.expose()
        current: StepResult | None = self._stage.current
        steps = self._scope.data.steps
        return [*steps, current] if current is not None else list(steps)


class ProcessInputArgs(MessageHookArgs):
    """Arguments of ``process_input`` (section 2.2).

    Runs: before the first step, when history, context and input are in the message list.
    How often: once a run; not again on retries, further steps or after a suspension (R1.5).
    May change: messages and system messages; the latter become the baseline of every step (R2.11).
    Returns: a list of messages, the message list, ``{messages, system_messages}`` or ``None`` (R2.8).
    If it raises: the call raises ``ProcessorError``; there is no stream and nothing is saved (R17.1).
    """

    _hook = "process_input"

    @lazy
    def writer(self) -> ProcessorStreamWriter | None:
        """``None``: there is no stream yet."""
        return None


class ProcessInputStepArgs(MessageHookArgs):
    """Arguments of ``process_input_step`` (section 2.3).

    Runs: at the start of an attempt, before the prompt is made.
    How often: once for every attempt of every step.
    May change: for this step its model, tools, tool choice, settings and options; for good the messages (R2.14).
    Returns: an object with any of these, a list of messages, the message list or ``None`` (R2.12).
    If it raises: the run fails; error processors and fallback models are not tried (R17.1).
    """

    _hook = "process_input_step"
    _stage: StepStage

    @lazy
    def model(self) -> Model:
        """The model that the step would use, resolved."""
        model: Model = self._stage.model
        return model

    @lazy
    def tools(self) -> dict[str, Any]:
        """The tools by name; a copy of the mapping."""
        return dict(self._stage.tools)

    @lazy
    def tool_choice(self) -> str | dict[str, Any] | None:
        """``"auto"``, ``"none"``, ``"required"`` or ``{"type": "tool", "toolName": …}``."""
        return self._stage.tool_choice

    @lazy
    def active_tools(self) -> list[str] | None:
        """Names of the tools that may be used; ``None`` means all."""
        active = self._stage.active_tools
        return None if active is None else list(active)

    @lazy
    def provider_options(self) -> dict[str, Any] | None:
        """Options by provider namespace; a copy."""
        options: dict[str, Any] | None = copy_json(self._stage.provider_options)
        return options

    @lazy
    def model_settings(self) -> dict[str, Any]:
        """Settings of the call, snake_case; a copy."""
        settings: dict[str, Any] = copy_json(self._stage.model_settings)
        return settings

    @lazy
    def structured_output(self) -> Any:
        """The structured-output options of the step, or ``None``."""
        return self._stage.structured_output

    @lazy
    def message_id(self) -> str:
        """Id that the step's response message will have."""
        return self._stage.message_id


class ProcessLLMRequestArgs(MessageHookArgs):
    """Arguments of ``process_llm_request`` (section 2.4).

    Runs: when the prompt is made, before the provider is called.
    How often: once for every provider call; not for repeats inside the model client (R1.8).
    May change: the prompt of this one call; nothing of that reaches messages, storage or later calls (R2.22).
    Returns: ``{prompt}``, ``{response}`` to answer instead of the provider, both, or ``None`` (R2.21).
    If it raises: the run fails (R17.1).
    """

    _hook = "process_llm_request"
    _stage: RequestStage

    @lazy
    def prompt(self) -> list[dict[str, Any]]:
        """The provider prompt; a deep copy, sent only if it is returned (R2.21)."""
        prompt: list[dict[str, Any]] = copy_json(self._stage.prompt)
        return prompt

    @lazy
    def model(self) -> Model:
        """The model that will be called."""
        return self._stage.model


class ProcessLLMResponseArgs(_WithCurrentStep):
    """Arguments of ``process_llm_response`` (section 2.5).

    Runs: when a reply is complete and in the message list, also one from a cache (R11.5).
    How often: once for every complete reply; not for failed, cancelled or tripped ones (R11.7).
    May change: nothing; it observes, for instance to fill a cache.
    Returns: ``None``; anything else is ignored (R2.23).
    If it raises: the run fails (R17.1).
    """

    _hook = "process_llm_response"
    _stage: ResponseStage

    @lazy
    def chunks(self) -> list[CachedStepChunk]:
        """The chunks that survived output processing, JSON-ready and detached (R11.6)."""
        return self._stage.chunks()

    @lazy
    def model(self) -> Model:
        """The model that was called, or would have been."""
        return self._stage.model

    @lazy
    def from_cache(self) -> bool:
        """Whether the reply came from a ``process_llm_request`` (R11.5)."""
        return self._stage.from_cache

    @lazy
    def warnings(self) -> list[Any] | None:
        """The provider's warnings."""
        return self._stage.warnings

    @lazy
    def request(self) -> Any:
        """What was sent, as the model tells it."""
        return self._stage.request

    @lazy
    def raw_response(self) -> Any:
        """What the provider says about its reply."""
        return self._stage.raw_response


class ProcessOutputStreamArgs(HookArgs):
    """Arguments of ``process_output_stream`` (section 2.6).

    One object serves all chunks of a run (R0.4): keep ``args.part`` if a chunk must be kept, not ``args``.

    Runs: for each chunk, before the client sees it (R5.9).
    How often: once a chunk that earlier processors passed on.
    May change: the chunk; a dropped one is in no answer, history or later prompt, and a dropped call is not made.
    Returns: a chunk, the same or another, a list of chunks, or ``None`` to drop it (R2.25).
    If it raises: the run fails and the chunk does not leave, unless the processor sets ``fail_open`` (R17.3).
    """

    _hook = "process_output_stream"

    _stage: Any = None
    part: Chunk = None  # type: ignore[assignment]  # there is one in every call
    """The chunk to pass, change, replace or drop."""
    stream_parts: list[Chunk] = []
    """Every chunk that this processor received in the run, ``part`` last; do not change it (R5.12)."""
    from_cache: bool = False
    """Whether the chunk is replayed from a cache (R11.4)."""

    @property
    def retry_count(self) -> int:  # varies while the object lives
        """Retries granted so far in this run (R7.3)."""
        return self._scope.data.retry_count

    @property
    def messages(self) -> list[Message]:  # varies while the object lives
        """All messages, without the response that is being streamed."""
        return self._scope.data.message_list.get.all.db()

    @property
    def step_number(self) -> int:  # varies while the object lives
        """0-based number of the step."""
        return self._scope.data.step_number

    @property
    def steps(self) -> list[StepResult]:  # varies while the object lives
        """Accepted steps, in order."""
        self._scope.data.message_list.expose()
        return list(self._scope.data.steps)

    @property
    def message_list(self) -> MessageList:  # in a branch of a workflow, another fork for every chunk
        """The run's one live message list."""
        return self._scope.data.message_list

    @lazy
    def writer(self) -> ProcessorStreamWriter | None:
        """Writes ``data-*`` chunks; they pass the later processors that opted in (R9.9)."""
        return ProcessorStreamWriter(self._scope, self._bound.downstream, uses_message_id=True)


class FlushOutputStreamArgs(ProcessOutputStreamArgs):
    """Arguments of ``flush_output_stream``, whose second argument is the reason (R19.2).

    Runs: when the attempt's stream ends: ``finish``, ``error``, ``cancel`` or ``tripwire``.
    How often: once an attempt.
    May change: it may release chunks that were held back; after ``cancel`` and ``tripwire`` they are discarded.
    Returns: a chunk, a list of chunks or ``None``.
    If it raises: the run fails, unless it has its outcome already.
    """

    _hook = "flush_output_stream"


class ProcessOutputStepArgs(_WithCurrentStep):
    """Arguments of ``process_output_step`` (section 2.7).

    Runs: when a reply is complete, before any of its tools is executed (R1.11).
    How often: once for every complete reply.
    May change: the response, and so the text, and which tools run with which arguments (R2.30, R2.31, R19.7).
    Returns: a list of messages, the message list or ``None``; an empty list means no change (R2.28, R2.29).
    If it raises: the run fails; no tool runs (R17.1).
    """

    _hook = "process_output_step"
    _stage: OutputStepStage

    @lazy
    def finish_reason(self) -> str | None:
        """Normalised finish reason (R5.5)."""
        return self._stage.finish_reason

    @lazy
    def provider_metadata(self) -> dict[str, Any] | None:
        """The provider's metadata of the step."""
        return self._stage.provider_metadata

    @lazy
    def tool_calls(self) -> list[ToolCallInfo] | None:
        """The calls that the model made; ``None`` when there are none."""
        return list(self._stage.tool_calls) or None

    @lazy
    def text(self) -> str:
        """Text of this attempt after stream processing."""
        return self._stage.text

    @lazy
    def usage(self) -> Usage:
        """Usage of this attempt."""
        return self._stage.usage

    def refuse_tool_call(self, tool_call_id: str, result: str) -> None:
        """Do not execute this call; the model gets ``result`` as its failed result (R19.7).

        Raises:
            ValueError: the step has no such call.
        """
        self._known_call(tool_call_id)
        self._stage.refused[tool_call_id] = result

    def replace_tool_args(self, tool_call_id: str, args: Mapping[str, Any]) -> None:
        """Execute this call with other arguments (R19.7).

        Raises:
            ValueError: the step has no such call.
        """
        self._known_call(tool_call_id)
        invocation = _find_call(self.message_list, tool_call_id)
        if invocation is not None:
            invocation.tool_invocation.args = dict(args)

    def _known_call(self, tool_call_id: str) -> None:
        known = [call.tool_call_id for call in self._stage.tool_calls]
        if tool_call_id not in known:
            raise ValueError(f"this step has no tool call {tool_call_id!r}; it has {', '.join(known) or 'none'}")


class ProcessToolResultArgs(_WithCurrentStep):
    """Arguments of ``process_tool_result`` (section 2.8).

    Runs: when all tools of the step have settled, before the result is recorded (R10.2).
    How often: once for every successful call, in the order of the calls; not for failed ones (R10.4).
    May change: the result, through ``message_list.update_tool_invocation``; the raw one appears nowhere (R10.7).
    Returns: a list of messages, the message list or ``None``; an empty list means no change (R2.32).
    If it raises: the run fails; the result is not recorded (R10.15).
    """

    _hook = "process_tool_result"
    _stage: ToolResultStage

    @lazy
    def tool_name(self) -> str:
        """Name of the tool."""
        return self._stage.tool_name

    @lazy
    def tool_call_id(self) -> str:
        """Id of the call."""
        return self._stage.tool_call_id

    @lazy
    def args(self) -> Any:
        """The tool's input."""
        return self._stage.args

    result: Any = None
    """The result as earlier processors left it (R10.7); what this hook does to it changes nothing here (R0.4)."""

    def __post_init__(self) -> None:
        # Read before the hook can edit the message that it comes from, and only if somebody else may have.
        stage, changes = self._stage, self.message_list.changes
        if changes.is_exposed or changes.revision != stage.read_at:
            stage.read()
        self.result = stage.result

    @lazy
    def provider_executed(self) -> bool | None:
        """``True`` for a call that the provider executed, ``None`` for a local one (R10.12)."""
        return self._stage.provider_executed

    @lazy
    def system_messages(self) -> list[dict[str, Any]]:
        """All system messages, untagged then tagged, for reading only (R2.4)."""
        return self._scope.data.message_list.get_all_system_messages()


class ProcessAPIErrorArgs(MessageHookArgs):
    """Arguments of ``process_api_error`` (section 2.9).

    Runs: when a provider call has failed and its model client gave up (R7.14).
    How often: once a failure; the first processor that asks for a retry ends the chain (R7.15).
    May change: messages, for the next attempt; the model of it and how long to wait (R19.5).
    Returns: ``{retry, model?, delay?}`` or ``None`` (R2.33).
    If it raises: it is logged, and the next processor is asked (R7.18).
    """

    _hook = "process_api_error"
    _stage: ErrorStage

    @lazy
    def error(self) -> BaseException:
        """The original exception."""
        return self._stage.error

    @lazy
    def message_id(self) -> str:
        """Id that the step's response message would have had."""
        return self._stage.message_id


class ProcessOutputResultArgs(MessageHookArgs):
    """Arguments of ``process_output_result`` (section 2.10).

    Runs: at the end, after completion, a step limit, a model error or a cancellation; not after a tripwire (R1.14).
    How often: once a run.
    May change: the response messages, and so the text of the result (R2.35).
    Returns: a list of messages, the message list or ``None``; an empty list removes the response (R2.34).
    If it raises: the run fails; later processors, memory too, do not run (R17.1).
    """

    _hook = "process_output_result"
    _stage_source = "response"
    _stage: ResultStage

    @lazy
    def result(self) -> OutputResult:
        """Text, usage, finish reason and steps of the run."""
        # The steps in it have the live parts of the response.
        self._scope.data.message_list.expose()
        return self._stage.result

    @lazy
    def writer(self) -> ProcessorStreamWriter | None:
        """Writes ``data-*`` chunks straight to the client (R9.9)."""
        return ProcessorStreamWriter(self._scope, self._bound.end, uses_message_id=True)


def _find_call(message_list: MessageList, tool_call_id: str) -> ToolInvocationPart | None:
    for message in reversed(message_list.get.response.db()):
        for part in message.content.parts:
            if isinstance(part, ToolInvocationPart) and part.tool_invocation.tool_call_id == tool_call_id:
                return part
    return None
