"""The agent: configuration, and the doors through which it is run (R12.1–R12.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, overload

from interlock.agent.accepted import AGENT_SETTINGS, check_values
from interlock.agent.blocking import SyncStream, run_blocking
from interlock.agent.call import UsualCall
from interlock.agent.options import RESUME_NAMES, CallOptions, ResumeOptions, UntypedOptions, read_options
from interlock.agent.prepare import is_dynamic, prepare_run, static_models
from interlock.agent.result import AgentResult
from interlock.agent.resume import resume_run
from interlock.agent.run_store import InMemoryRunStore, RunStore
from interlock.agent.stream import AgentStream, run_to_end
from interlock.agent.suspension import Resumption
from interlock.errors import ConfigurationError
from interlock.processors import Observer, Pipeline
from interlock.tools import as_tools

_log = logging.getLogger("interlock")

T = TypeVar("T")

_KEPT_STATES = 1000
"""Runs whose processors' state stays in memory while they are suspended; older ones go on with what JSON kept."""

_COMPILED = frozenset(
    {"model", "tools", "input_processors", "output_processors", "error_processors", "default_options"}
)
"""Settings that are read when an agent is made."""


class Agent:
    """A model with instructions, tools and processors.

    ``instructions``, ``model``, ``tools``, ``memory`` and the three processor arrays may be functions, sync or async;
    they are called once a run with one argument that has the run's ``request_context`` (R12.2).

    An agent holds no state of its runs: any number of them may go on at the same time. Model, tools, processors and
    default options are checked and compiled when it is made and cannot be changed afterwards: lists become tuples, and
    assigning another value raises ``AttributeError``. What differs from call to call is an option of the call.

    Args:
        id: The agent's id; ``name`` if it is left out.
        name: For people.
        description: For people and other agents.
        instructions: A string, a list of strings, or system messages (R12.5).
        model: A model, a router id such as ``"openai/gpt-5"``, or a list of these or of ``ModelFallback``, tried in
            order.
        tools: A mapping from name to tool, or a list of tools.
        memory: Loads and saves conversations, such as ``interlock.memory.Memory``.
        input_processors: Processors of the input side, in order.
        output_processors: Processors of the output side, in order.
        error_processors: Processors asked when a provider call has failed.
        max_processor_retries: Retries that processors may cause in one run; by default 10 with error processors, else
            none.
        max_retries: Repeats of a failed provider call inside the model client (R7.13).
        default_options: Call options used where a call gives none.
        logger: Where warnings about the configuration go.
        tracer: Told of every hook call.
        run_store: Where suspended and paused runs wait; in this process if it is left out.

    Raises:
        ValueError: neither ``id`` nor ``name``, or a number out of range.
        ConfigurationError: a processor, a tool or the model cannot work.
        TypeError: an unknown default option, or a setting of the wrong kind.
    """

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002  (the spec's name)
        name: str | None = None,
        description: str | None = None,
        instructions: Any = None,
        model: Any,
        tools: Any = None,
        memory: Any = None,
        input_processors: Sequence[Any] | Callable[..., Any] | None = None,
        output_processors: Sequence[Any] | Callable[..., Any] | None = None,
        error_processors: Sequence[Any] | Callable[..., Any] | None = None,
        max_processor_retries: int | None = None,
        max_retries: int | None = None,
        default_options: Mapping[str, Any] | None = None,
        logger: logging.Logger | None = None,
        tracer: Observer | None = None,
        run_store: RunStore | None = None,
    ) -> None:
        given = {
            "id": id,
            "name": name,
            "description": description,
            "instructions": instructions,
            "memory": memory,
            "max_processor_retries": max_processor_retries,
            "max_retries": max_retries,
            "default_options": default_options,
            "logger": logger,
            "tracer": tracer,
            "run_store": run_store,
        }
        check_values(given, AGENT_SETTINGS)
        options = read_options(default_options or {})
        identifier = id or name
        if not identifier:
            raise ValueError("an agent needs an id (or at least a name): Agent(id='support', …)")
        if model is None or model == []:
            raise ConfigurationError(
                f"agent {identifier!r} has no model: give an instance or an id like 'openai/gpt-5'"
            )
        self.id = identifier
        self.name = name or identifier
        self.description = description
        self.instructions = instructions
        self.model = _fixed(model)
        self.tools = _fixed(tools)
        self.memory = memory
        self.input_processors = _fixed(input_processors)
        self.output_processors = _fixed(output_processors)
        self.error_processors = _fixed(error_processors)
        self.max_processor_retries = max_processor_retries
        self.max_retries = max_retries
        self.default_options: Mapping[str, Any] = MappingProxyType(options)
        self.logger = logger or _log
        self.tracer = tracer
        self.run_store: RunStore = run_store or InMemoryRunStore()
        self._warned = set[str]()
        self.kept_states: dict[str, dict[str, dict[str, Any]]] = {}
        # What can be checked and compiled now is, so that a mistake shows before the first request.
        self.static_tools = None if is_dynamic(tools) else as_tools(tools or {})
        self.usual_call: UsualCall | None = None
        self.static_models = None if is_dynamic(model) else static_models(model)
        arrays = (input_processors, output_processors, error_processors)
        self.pipelines: dict[tuple[tuple[int, ...], ...], Pipeline] = {}
        self.static_pipeline: Pipeline | None = None
        if not any(is_dynamic(array) for array in arrays):
            self.static_pipeline = Pipeline(
                _as_list(input_processors), _as_list(output_processors), _as_list(error_processors), self.warn_once
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _COMPILED and name in self.__dict__:
            raise AttributeError(
                f"{name} of agent {self.id!r} cannot be changed any more, it is compiled already: "
                "make another agent, or give the call an option"
            )
        super().__setattr__(name, value)

    @overload
    def stream(
        self, messages: Any, *, structured_output: type[T], run_id: str = ..., **options: Unpack[UntypedOptions]
    ) -> AgentStream[T | None]: ...

    @overload
    def stream(self, messages: Any, **options: Unpack[CallOptions]) -> AgentStream: ...

    def stream(self, messages: Any, **options: Unpack[CallOptions]) -> AgentStream[Any]:
        """Run the agent and read its answer while it is written (R12.6).

        The returned stream is awaited, entered with ``async with``, or iterated; each prepares the run first.

        Args:
            messages: A string, a message, or a list of these.
            **options: See ``CallOptions``.

        Raises:
            TypeError: an unknown option, or one that does not take the value.
            ValueError: a number that is out of range, or an unknown word.
        """
        given = read_options(options)
        return AgentStream(lambda: prepare_run(self, messages, given))

    @overload
    async def generate(
        self, messages: Any, *, structured_output: type[T], run_id: str = ..., **options: Unpack[UntypedOptions]
    ) -> AgentResult[T | None]: ...

    @overload
    async def generate(self, messages: Any, **options: Unpack[CallOptions]) -> AgentResult: ...

    async def generate(self, messages: Any, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """Run the agent to its end (R12.16).

        Args:
            messages: A string, a message, or a list of these.
            **options: See ``CallOptions``.

        Returns:
            The outcome; one that a processor stopped has ``tripwire`` set.

        Raises:
            ProcessorError: a hook failed (R17.2).
            Exception: what the model raised, when nothing recovered it (R12.19).
        """
        return await run_to_end(await prepare_run(self, messages, read_options(options)))

    def approve_tool_call(
        self, run_id: str, tool_call_id: str | None = None, *, args: Any = None, **options: Unpack[ResumeOptions]
    ) -> AgentStream:
        """Go on with a suspended run: the call may be executed (R12.37, R12.38).

        Args:
            run_id: Id of the suspended run.
            tool_call_id: The call that is meant; may be left out if only one waits.
            args: Arguments in place of the model's own.
            **options: Call options; what the first call was given and JSON can hold is kept.

        Raises:
            RunNotFoundError: no run of that id was suspended.
            RunStateError: it was resumed already, no such call waits, or ``args`` do not fit the tool's schema.
        """
        return self._resume(run_id, Resumption(tool_call_id=tool_call_id, is_approved=True, args=args), options)

    def decline_tool_call(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        reason: str | None = None,
        **options: Unpack[ResumeOptions],
    ) -> AgentStream:
        """Go on with a suspended run: the call is not executed, and the model is told why (R12.38).

        Args:
            run_id: Id of the suspended run.
            tool_call_id: The call that is meant; may be left out if only one waits.
            reason: Told to the model.
            **options: Call options.

        Raises:
            RunNotFoundError: no run of that id was suspended.
            RunStateError: it was resumed already, or no such call waits.
        """
        return self._resume(run_id, Resumption(tool_call_id=tool_call_id, is_approved=False, reason=reason), options)

    def resume_stream(
        self, resume_data: Any, run_id: str, tool_call_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> AgentStream:
        """Go on with a run whose tool suspended itself: the tool runs again with ``resume_data`` (R12.39).

        Args:
            resume_data: What the tool waits for.
            run_id: Id of the suspended run.
            tool_call_id: The call that is meant; may be left out if only one waits.
            **options: Call options.

        Raises:
            RunNotFoundError: no run of that id was suspended.
            RunStateError: it was resumed already, no such call waits, or the data does not fit the tool.
        """
        return self._resume(run_id, Resumption(tool_call_id=tool_call_id, data=resume_data), options)

    def continue_stream(self, run_id: str, **options: Unpack[ResumeOptions]) -> AgentStream:
        """Go on with a run that ``pause_when`` stored between two steps, as if it had never stopped.

        Args:
            run_id: Id of the run.
            **options: Call options; what the first call was given and JSON can hold is kept, but for ``pause_when``.

        Raises:
            RunNotFoundError: no run of that id was stored.
            RunStateError: it was resumed already, it waits for somebody's decision about a tool call, or it was started
                with options that JSON cannot hold and that are not given again.
        """
        return self._resume(run_id, None, options)

    async def continue_generate(self, run_id: str, **options: Unpack[ResumeOptions]) -> AgentResult:
        """``continue_stream``, to the end of the run."""
        return await self._resume_to_end(run_id, None, options)

    async def approve_tool_call_generate(
        self, run_id: str, tool_call_id: str | None = None, *, args: Any = None, **options: Unpack[ResumeOptions]
    ) -> AgentResult:
        """``approve_tool_call``, to the end of the run."""
        resumption = Resumption(tool_call_id=tool_call_id, is_approved=True, args=args)
        return await self._resume_to_end(run_id, resumption, options)

    async def decline_tool_call_generate(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        reason: str | None = None,
        **options: Unpack[ResumeOptions],
    ) -> AgentResult:
        """``decline_tool_call``, to the end of the run."""
        resumption = Resumption(tool_call_id=tool_call_id, is_approved=False, reason=reason)
        return await self._resume_to_end(run_id, resumption, options)

    async def resume_generate(
        self, resume_data: Any, run_id: str, tool_call_id: str | None = None, **options: Unpack[ResumeOptions]
    ) -> AgentResult:
        """``resume_stream``, to the end of the run."""
        resumption = Resumption(tool_call_id=tool_call_id, data=resume_data)
        return await self._resume_to_end(run_id, resumption, options)

    def _resume(self, run_id: str, resumption: Resumption | None, options: ResumeOptions) -> AgentStream:
        given = read_options(options, RESUME_NAMES)
        return AgentStream(lambda: resume_run(self, run_id, resumption, given))

    async def _resume_to_end(
        self, run_id: str, resumption: Resumption | None, options: ResumeOptions
    ) -> AgentResult[Any]:
        given = read_options(options, RESUME_NAMES)
        return await run_to_end(await resume_run(self, run_id, resumption, given))

    @overload
    def generate_sync(
        self, messages: Any, *, structured_output: type[T], run_id: str = ..., **options: Unpack[UntypedOptions]
    ) -> AgentResult[T | None]: ...

    @overload
    def generate_sync(self, messages: Any, **options: Unpack[CallOptions]) -> AgentResult: ...

    def generate_sync(self, messages: Any, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """``generate`` for scripts and notebooks: blocks, also where an event loop is running already."""
        return run_blocking(lambda: self.generate(messages, **options))

    @overload
    def stream_sync(
        self, messages: Any, *, structured_output: type[T], run_id: str = ..., **options: Unpack[UntypedOptions]
    ) -> SyncStream[T | None]: ...

    @overload
    def stream_sync(self, messages: Any, **options: Unpack[CallOptions]) -> SyncStream: ...

    def stream_sync(self, messages: Any, **options: Unpack[CallOptions]) -> SyncStream[Any]:
        """``stream`` for scripts and notebooks: a context manager and iterator over chunks that blocks.

        ``with agent.stream_sync("hi") as stream: for chunk in stream: …``
        """
        return SyncStream(lambda: self.stream(messages, **options))

    def keep_states(self, suspension_id: str, states: dict[str, dict[str, Any]]) -> None:
        """Keep the state of a stored run's processors as it is, for a resumption in this process (R8.4).

        Args:
            suspension_id: Tells this stop of the run from others, which another process may have gone on from.
            states: The live state.
        """
        if len(self.kept_states) >= _KEPT_STATES:
            del self.kept_states[next(iter(self.kept_states))]
        self.kept_states[suspension_id] = states

    def warn_once(self, message: str) -> None:
        """Log a warning about the configuration, once an agent."""
        if message not in self._warned:
            self._warned.add(message)
            self.logger.warning("agent %r: %s", self.id, message)

    def __repr__(self) -> str:
        model = self.model if isinstance(self.model, str) else getattr(self.model, "model_id", self.model)
        return f"Agent(id={self.id!r}, model={model!r})"


def _fixed(setting: Any) -> Any:
    """A setting that nobody can add to, since it was compiled as it is."""
    if isinstance(setting, list):
        return tuple(setting)
    return MappingProxyType(dict(setting)) if isinstance(setting, dict) else setting


def _as_list(array: Any) -> Sequence[Any]:
    if array is None:
        return ()
    if isinstance(array, (list, tuple)):
        return array
    raise ConfigurationError(f"a processor array must be a list, not {type(array).__name__}: write [{array!r}]")
