"""From an agent, messages and options to a run whose ``process_input`` is done (R1.5, R12.2, R12.8–R12.12)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from interlock._ids import new_id
from interlock.agent.call import UsualCall
from interlock.agent.deadlines import TOTAL_TIMEOUT, Deadlines, check_timeout
from interlock.agent.kept_options import keep_options
from interlock.agent.options import DEFAULT_MAX_STEPS, merge_options
from interlock.agent.ports import Memory, MemoryCall, resolve_memory
from interlock.agent.run import Run
from interlock.agent.run_store import RunStore
from interlock.agent.state import RunState
from interlock.agent.structured import structured_output
from interlock.agent.structuring import STRUCTURING
from interlock.context import AbortSignal, RequestContext
from interlock.errors import ConfigurationError, ProcessorError, TripWire
from interlock.messages import MessageList, copy_given
from interlock.models import ModelFallback, check_model_id, to_language_model
from interlock.processors import Pipeline, TripwireInfo
from interlock.processors.bound import BoundProcessor
from interlock.processors.hooks import INPUT, snake_settings
from interlock.processors.observe import Observer, Observers
from interlock.processors.pipeline import run_hook
from interlock.processors.scope import RunScope
from interlock.tools import Tool, as_tools

CALLBACKS = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_iteration_complete")

DEFAULT_RETRIES_WITH_ERROR_PROCESSORS = 10
"""R7.1; the reference page's "defaults to 10"."""

_log = logging.getLogger("interlock")

_PLAIN = frozenset({type(None), str, list, tuple, dict})

_KEPT_PIPELINES = 16
"""Compiled pipelines that an agent keeps for calls whose processors were seen before."""

_ARRAYS = ("input", "output", "error")


class Configured(Protocol):
    """What preparing a run reads of an agent."""

    id: str
    instructions: Any
    model: Any
    tools: Any
    memory: Any
    max_processor_retries: int | None
    max_retries: int | None
    default_options: Mapping[str, Any]
    tracer: Observer | None
    run_store: RunStore
    static_tools: dict[str, Tool] | None
    """The tools, where they are not a function."""
    static_models: list[ModelFallback] | None
    """The models, where they need no resolving at the call."""
    static_pipeline: Pipeline | None
    """The compiled pipeline, where no processor array is a function."""
    pipelines: dict[tuple[tuple[int, ...], ...], Pipeline]
    """Pipelines of calls with other processors, the oldest first."""

    usual_call: UsualCall | None
    """What the calls of all runs have in common that are as the agent was configured."""
    kept_states: dict[str, dict[str, dict[str, Any]]]
    """Processors' state of runs that were suspended in this process, with what JSON cannot hold (R8.4)."""

    def warn_once(self, message: str) -> None:
        """Log a warning about the configuration, once an agent."""
        ...


class DynamicArguments(msgspec.Struct, kw_only=True):
    """What a function-valued setting of an agent is called with (R12.2)."""

    request_context: RequestContext


def is_dynamic(value: Any) -> bool:
    """Whether a setting is a function to be called once a run."""
    return value.__class__ not in _PLAIN and inspect.isroutine(value)


def resolve_models(given: Any) -> list[ModelFallback]:
    """The enabled models of an agent or a call, resolved, in order (R12.3).

    Raises:
        ConfigurationError: none is enabled, or one cannot be resolved.
    """
    entries = given if isinstance(given, (list, tuple)) else [given]
    models = [entry if isinstance(entry, ModelFallback) else ModelFallback(entry) for entry in entries]
    enabled = [_resolved(entry) for entry in models if entry.enabled]
    if not enabled:
        raise ConfigurationError("no model is enabled: enable one of the fallback entries")
    return enabled


def static_models(given: Any) -> list[ModelFallback] | None:
    """The models of an agent where no string has to be resolved; ``None`` where that waits for the run.

    A string may need a key or an extra that the process gets later; that it names a model at all is checked now.

    Raises:
        ConfigurationError: a string names no model, something is no model, or none is enabled.
    """
    entries = given if isinstance(given, (list, tuple)) else [given]
    models = [entry.model if isinstance(entry, ModelFallback) else entry for entry in entries]
    names = [model for model in models if isinstance(model, str)]
    for name in names:
        check_model_id(name)
    return None if names else resolve_models(given)


def _resolved(entry: ModelFallback) -> ModelFallback:
    return ModelFallback(
        to_language_model(entry.model),
        max_retries=entry.max_retries,
        model_settings=snake_settings(entry.model_settings) if entry.model_settings else None,  # type: ignore[arg-type]
        provider_options=entry.provider_options,
        headers=entry.headers,
    )


async def prepare_run(agent: Configured, messages: Any, given: Mapping[str, Any]) -> Run:
    """Resolve everything, fill the message list, run ``process_input``.

    Raises:
        ConfigurationError: something cannot work as given.
        ProcessorError: a ``process_input`` hook failed (R17.1).
    """
    options = merge_options(agent.default_options, given) if given or agent.default_options else {}
    context = to_request_context(options.get("request_context"))
    dynamic = DynamicArguments(request_context=context)
    memory, call = await memory_of(agent, options, context, dynamic)
    pipeline = agent.static_pipeline
    if pipeline is None or memory is not None or options:
        pipeline = await pipeline_of(agent, options, memory, call, dynamic)
    state = _state(agent, options, call)
    instructions = options.get("instructions", agent.instructions)
    if is_dynamic(instructions):
        instructions = await _value(instructions, dynamic)
    _fill(state.message_list, instructions, messages, options)
    signal: AbortSignal | None = options.get("abort_signal")
    scope = RunScope(state, agent, context, signal, observer_of(agent, options))
    run = Run(agent, state, scope, pipeline)
    await read_settings(run, agent, options, dynamic)
    if pipeline.by_hook["process_input"]:
        await _process_input(run)
    state.system_baseline = state.message_list.get_system_messages()
    return run


def to_request_context(given: Any) -> RequestContext:
    """The call's request context; values that come in a mapping are put into a new one.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(given, RequestContext):
        return given
    if given is None or isinstance(given, Mapping):
        return RequestContext(given)
    raise TypeError(f"request_context must be a RequestContext or a mapping, not {type(given).__name__}")


def observer_of(agent: Configured, options: Mapping[str, Any]) -> Observer | None:
    """Who is told of every hook call: the agent's tracer, the observer of the call, or both."""
    if not options:
        return agent.tracer
    given: Observer | None = (options.get("tracing_options") or {}).get("observer")
    if given is None or agent.tracer is None:
        return given or agent.tracer
    return Observers(given, agent.tracer)


async def _value(setting: Any, dynamic: DynamicArguments) -> Any:
    """A setting, called if it is a function."""
    if not is_dynamic(setting):
        return setting
    value = setting(dynamic)
    return await value if inspect.isawaitable(value) else value


async def memory_of(
    agent: Configured, options: Mapping[str, Any], context: RequestContext, dynamic: DynamicArguments
) -> tuple[Memory | None, MemoryCall | None]:
    """The agent's memory, and the thread and resource of this call (R13.1)."""
    option = options.get("memory")
    if agent.memory is None and option is None and not len(context):
        return None, None
    memory = await _value(agent.memory, dynamic)
    call = resolve_memory(option, context)
    if memory is None or call is None:
        return None, call
    await memory.prepare(call)
    return memory, call


# -- processors ---------------------------------------------------------------------------------------------------


async def pipeline_of(
    agent: Configured,
    options: Mapping[str, Any],
    memory: Memory | None,
    call: MemoryCall | None,
    dynamic: DynamicArguments,
) -> Pipeline:
    """The effective processors of the run (R12.9, R13.2)."""
    overrides = [options.get(f"{kind}_processors") for kind in _ARRAYS]
    structured = structured_output(options.get("structured_output"))
    is_plain = memory is None and structured is None and overrides == [None, None, None]
    if agent.static_pipeline is not None and is_plain:
        return agent.static_pipeline
    arrays: list[list[Any]] = []
    for kind, override in zip(_ARRAYS, overrides, strict=True):
        setting = override if override is not None else getattr(agent, f"{kind}_processors")
        arrays.append(_checked(await _value(setting, dynamic), kind))
    user_input, user_output, error = arrays
    if structured is not None:
        user_output = [*user_output, *_automatic([STRUCTURING], user_output)]
    if memory is not None and call is not None:
        early = [one for one in user_input if getattr(one, "stage", None) == "pre_memory"]
        late = [one for one in user_input if getattr(one, "stage", None) != "pre_memory"]
        user_input = [*early, *_automatic(memory.input_processors(call), user_input), *late]
        user_output = [*user_output, *_automatic(memory.output_processors(call), user_output)]
    return _compiled(agent, user_input, user_output, error)


def _compiled(agent: Configured, inputs: list[Any], outputs: list[Any], errors: list[Any]) -> Pipeline:
    """The pipeline of these processors; the last ones are kept, since most calls have the same processors."""
    key = tuple(tuple(map(id, array)) for array in (inputs, outputs, errors))
    pipeline = agent.pipelines.pop(key, None)
    if pipeline is None:
        pipeline = Pipeline(inputs, outputs, errors, agent.warn_once)
        if len(agent.pipelines) >= _KEPT_PIPELINES:
            del agent.pipelines[next(iter(agent.pipelines))]
    # The pipeline holds its processors, so their ids stay theirs for as long as it is kept.
    agent.pipelines[key] = pipeline
    return pipeline


def _checked(value: Any, kind: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise ConfigurationError(f"{kind}_processors must be a list, or a function that returns one; got {value!r}")
    return list(value)


def _automatic(processors: Sequence[Any], users: Sequence[Any]) -> list[Any]:
    """The runtime's own processors without those that the user's list has under the same id (R13.3)."""
    taken = {getattr(processor, "id", None) for processor in users}
    return [processor for processor in processors if processor.id not in taken]


# -- messages -----------------------------------------------------------------------------------------------------


def _state(agent: Configured, options: Mapping[str, Any], call: MemoryCall | None) -> RunState:
    thread, resource = (None, None) if call is None else (call.thread_id, call.resource_id)
    message_list = MessageList(thread_id=thread, resource_id=resource)
    return RunState(options.get("run_id") or new_id(), agent.id, message_list, new_id())


def _fill(message_list: MessageList, instructions: Any, messages: Any, options: Mapping[str, Any]) -> None:
    """Instructions, ``system``, ``context`` and input, in this order (R12.10).

    What the caller gave is copied: neither a hook's edits nor ids and dates reach the caller's objects.
    """
    if instructions is not None and instructions != "":
        message_list.add_system(instructions)
    if options:
        system, context = options.get("system"), options.get("context")
        if system is not None and system != "":
            message_list.add_system(system)
        if context is not None:
            message_list.take_over(copy_given(context), "context")
    message_list.take_over(messages if messages.__class__ is str else copy_given(messages), "input")


# -- settings -----------------------------------------------------------------------------------------------------


async def read_settings(run: Run, agent: Configured, options: Mapping[str, Any], dynamic: DynamicArguments) -> None:
    """Resolve models and tools, and take over the options of the call."""
    models, tools = agent.static_models, agent.static_tools
    if not options and models is not None and tools is not None:
        run.models, run.tools, run.usual_call, run.is_as_configured = models, tools, agent.usual_call, True
    else:
        run.models = await _models(agent, options, dynamic)
        run.tools = await _tools(agent, options, dynamic)
    run.max_retries = agent.max_retries
    run.state.retry_limit = _retry_limit(agent, options, run.pipeline)
    run.max_steps = DEFAULT_MAX_STEPS
    if options:
        _apply(run, options)
        keep_options(run.state, options, agent.default_options)


def _apply(run: Run, options: Mapping[str, Any]) -> None:
    """Take over the options of a call."""
    run.tool_choice = options.get("tool_choice", "auto")
    active = options.get("active_tools")
    run.active_tools = None if active is None else list(active)
    run.provider_options = options.get("provider_options")
    run.model_settings = snake_settings(options.get("model_settings") or {})
    check_timeout(run.model_settings.get("timeout"))
    run.structured_output = structured_output(options.get("structured_output"))
    run.max_steps, run.stop_when = _step_limits(options)
    run.pause_when = _predicates(options.get("pause_when"))
    run.include_raw_chunks = bool(options.get("include_raw_chunks", False))
    run.tool_call_concurrency = options.get("tool_call_concurrency")
    run.require_tool_approval = options.get("require_tool_approval", False)
    run.callbacks = {name: options[name] for name in CALLBACKS if options.get(name) is not None}
    prepare_step = options.get("prepare_step")
    if prepare_step is not None:
        bound = BoundProcessor(PrepareStep(prepare_step), "process_input_step", len(run.pipeline.input), PrepareStep.id)
        run.input_step_hooks = run.pipeline.extended("process_input_step", bound)
    _check_tool_choice(run)


class PrepareStep:
    """The call's ``prepare_step`` as one more input processor (R1.6)."""

    id = "prepare-step"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.process_input_step = function


async def _models(agent: Configured, options: Mapping[str, Any], dynamic: DynamicArguments) -> list[ModelFallback]:
    if options.get("model") is not None:
        return resolve_models(options["model"])
    if agent.static_models is not None:
        return agent.static_models
    return resolve_models(await _value(agent.model, dynamic))


async def _tools(agent: Configured, options: Mapping[str, Any], dynamic: DynamicArguments) -> dict[str, Tool]:
    tools = agent.static_tools
    if tools is None:
        tools = as_tools(await _value(agent.tools, dynamic) or {})
    toolsets, client_tools = options.get("toolsets"), options.get("client_tools")
    if not toolsets and not client_tools:
        return tools
    tools = dict(tools)
    for toolset in (toolsets.values() if isinstance(toolsets, Mapping) else toolsets) or ():
        tools.update(as_tools(toolset))
    if client_tools:
        tools.update(as_tools(client_tools))
    return tools


def _retry_limit(agent: Configured, options: Mapping[str, Any], pipeline: Pipeline) -> int | None:
    limit = options.get("max_processor_retries")
    if limit is None:
        limit = agent.max_processor_retries
    if limit is None and pipeline.error:
        return DEFAULT_RETRIES_WITH_ERROR_PROCESSORS
    return limit


def _step_limits(options: Mapping[str, Any]) -> tuple[int | None, Sequence[Callable[..., Any]]]:
    predicates = _predicates(options.get("stop_when"))
    max_steps = options.get("max_steps")
    return (DEFAULT_MAX_STEPS if max_steps is None and not predicates else max_steps), predicates


def _predicates(given: Any) -> Sequence[Callable[..., Any]]:
    return () if given is None else (given,) if callable(given) else tuple(given)


def _check_tool_choice(run: Run) -> None:
    choice = run.tool_choice
    if isinstance(choice, Mapping) and not run.input_step_hooks and choice.get("toolName") not in run.tools:
        known = ", ".join(sorted(run.tools)) or "none"
        raise ValueError(f"tool_choice names the tool {choice.get('toolName')!r}; the agent has: {known}")


# -- process_input ------------------------------------------------------------------------------------------------


async def _process_input(run: Run) -> None:
    """Run ``process_input``; an abort is left in the state for the loop to tell (R6.8).

    Raises:
        ProcessorError: a hook failed (R17.1).
        TimeoutError: ``total_ms`` was over before the hooks were done (R17.9).
    """
    scope = run.scope
    if run.model_settings.get("timeout"):
        run.deadlines = Deadlines(scope, run.model_settings)
    scope.driver, scope.is_waiting = asyncio.current_task(), _always
    try:
        try:
            await run_hook(INPUT, run.pipeline.by_hook["process_input"], scope, None)
        except asyncio.CancelledError:
            if not scope.take_back_cancellation():
                raise
            if scope.is_aborted:
                run.state.message_list.clear.input.db()  # no guard has passed it
        if scope.interruption is not None:
            # Settled before the caller goes on in this task, also if a hook caught our cancellation.
            interruption = await scope.settle_interruption()
            await scope.check()
            if interruption == TOTAL_TIMEOUT:
                raise TimeoutError(f"the run took longer than {run.model_settings['timeout']['total_ms']} ms")
    except TripWire as tripwire:
        if tripwire.retry:
            _log.warning("processor %r asked for a retry, but process_input cannot be retried", tripwire.processor_id)
        run.state.tripwire = TripwireInfo.of(tripwire)
    except (ProcessorError, TimeoutError, asyncio.CancelledError) as error:
        if scope.is_aborted and isinstance(error, ProcessorError):
            # R12.30: it failed because of the cancellation. What no guard has passed is not kept.
            run.state.message_list.clear.input.db()
            return
        if run.deadlines is not None:
            run.deadlines.close()
        await scope.drop_tasks()
        scope.end()
        raise
    finally:
        scope.driver = None


def _always() -> bool:
    return True
