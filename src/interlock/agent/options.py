"""The options of one call (R12.7, R12.8)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from interlock.agent.accepted import CALL_OPTIONS, check_values
from interlock.agent.structured import structured_output
from interlock.context import AbortSignal, RequestContext
from interlock.models.base import ModelSettings
from interlock.processors import Observer

DEFAULT_MAX_STEPS = 5


class TracingOptions(TypedDict, total=False):
    """How a call is traced."""

    observer: Observer
    """Told of every hook call of this run, beside the agent's own tracer."""


class LaterOptions(TypedDict, total=False):
    """The options that a run can be given anew when it goes on, whatever the type of its answer."""

    memory: Mapping[str, Any]
    """``thread``, ``resource`` and ``options`` (R13.1)."""
    request_context: RequestContext | Mapping[str, Any]
    max_steps: int
    """Bound on accepted steps (R12.12)."""
    stop_when: Callable[..., Any] | Sequence[Callable[..., Any]]
    """Predicates over the steps so far; any true one ends the run."""
    pause_when: Callable[..., Any] | Sequence[Callable[..., Any]]
    """Predicates over the steps so far, asked after a step behind which another would follow: any true one stores the
    run there, and ``continue_stream`` goes on with it, also in another process."""
    prepare_step: Callable[..., Any]
    """One more ``process_input_step`` (R12.13)."""
    toolsets: Any
    client_tools: Any
    tool_choice: Any
    active_tools: Sequence[str] | None
    tool_call_concurrency: int
    require_tool_approval: Any
    input_processors: Sequence[Any] | None
    output_processors: Sequence[Any] | None
    error_processors: Sequence[Any] | None
    max_processor_retries: int | None
    model_settings: ModelSettings | Mapping[str, Any]
    provider_options: Mapping[str, Any] | None
    include_raw_chunks: bool
    abort_signal: AbortSignal | None
    on_chunk: Callable[..., Any]
    on_step_finish: Callable[..., Any]
    on_finish: Callable[..., Any]
    on_error: Callable[..., Any]
    on_abort: Callable[..., Any]
    on_iteration_complete: Callable[..., Any]
    tracing_context: Any
    tracing_options: TracingOptions
    model: Any


class UntypedOptions(LaterOptions, total=False):
    """The options that have nothing to do with the type of the answer."""

    instructions: Any
    """Replaces the agent's instructions (R12.10)."""
    system: Any
    """System text or messages after the instructions."""
    context: Any
    """Messages that are in the prompt and never stored."""


class ResumeOptions(LaterOptions, total=False):
    """Options of a call that goes on with a stored run; unknown names are a ``TypeError``."""

    structured_output: Any
    """A type or a JSON Schema that the answer is to fit, or ``StructuredOutputOptions`` (R12.31)."""


class CallOptions(UntypedOptions, ResumeOptions, total=False):
    """Options of ``generate`` and ``stream``; unknown names are a ``TypeError``."""

    run_id: str
    """Id of the run; a random one if it is left out."""


_NAMES = frozenset(CallOptions.__required_keys__ | CallOptions.__optional_keys__)
RESUME_NAMES = frozenset(ResumeOptions.__required_keys__ | ResumeOptions.__optional_keys__)
_PROCESSOR_ARRAYS = ("input_processors", "output_processors", "error_processors")


def merge_options(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The call's options over the agent's defaults; a processor array of ``None`` means "not set" (R12.8)."""
    counting = {name: value for name, value in given.items() if value is not None or name not in _PROCESSOR_ARRAYS}
    return {**defaults, **counting}


def read_options(given: Mapping[str, Any], known: frozenset[str] = _NAMES) -> dict[str, Any]:
    """The options, checked; a schema among them is read, so that a mistake in it shows before anything is done.

    Raises:
        TypeError: an unknown name, with the nearest known one; a value of the wrong kind.
        ValueError: a number that is out of range, or an unknown word.
        ConfigurationError: what is to be a schema is none.
    """
    if not given:
        return {}
    check_options(given, known)
    options = dict(given)
    if options.get("structured_output") is not None:
        options["structured_output"] = structured_output(options["structured_output"])
    return options


def check_options(options: Mapping[str, Any], known: frozenset[str] = _NAMES) -> None:
    """Raise for a name that is no option of the call, or a value that the option does not take.

    Raises:
        TypeError: an unknown name, with the nearest known one; a value of the wrong kind.
        ValueError: a number that is out of range, or an unknown word.
    """
    for name in options:
        if name not in known:
            if name in _NAMES:
                raise TypeError(f"{name} belongs to the beginning of a run; one that goes on has it already")
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(known))}"
            raise TypeError(f"unknown option {name!r}; {hint}")
    check_values(options, CALL_OPTIONS)
