"""The options of one call (R12.7, R12.8)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from interlock.context import AbortSignal, RequestContext
from interlock.models.base import ModelSettings
from interlock.processors import Observer

DEFAULT_MAX_STEPS = 5


class TracingOptions(TypedDict, total=False):
    """How a call is traced."""

    observer: Observer
    """Told of every hook call of this run, beside the agent's own tracer."""


class ResumeOptions(TypedDict, total=False):
    """Options of a call that goes on with a suspended run; unknown names are a ``TypeError``."""

    instructions: Any
    """Replaces the agent's instructions (R12.10)."""
    system: Any
    """System text or messages after the instructions."""
    context: Any
    """Messages that are in the prompt and never stored."""
    memory: Mapping[str, Any]
    """``thread``, ``resource`` and ``options`` (R13.1)."""
    request_context: RequestContext | Mapping[str, Any]
    max_steps: int
    """Bound on accepted steps (R12.12)."""
    stop_when: Callable[..., Any] | Sequence[Callable[..., Any]]
    """Predicates over the steps so far; any true one ends the run."""
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
    structured_output: Any
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


class CallOptions(ResumeOptions, total=False):
    """Options of ``generate`` and ``stream``; unknown names are a ``TypeError``."""

    run_id: str
    """Id of the run; a random one if it is left out."""


_NAMES = frozenset(CallOptions.__annotations__)
_PROCESSOR_ARRAYS = ("input_processors", "output_processors", "error_processors")


def merge_options(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The call's options over the agent's defaults; a processor array of ``None`` means "not set" (R12.8).

    Raises:
        TypeError: an unknown name.
        ValueError: a number that is out of range.
    """
    check_names(given)
    counting = {name: value for name, value in given.items() if value is not None or name not in _PROCESSOR_ARRAYS}
    merged = {**defaults, **counting}
    _check_count(merged, "max_processor_retries", least=0, may_be_none=True)
    _check_count(merged, "max_steps", least=1, may_be_none=True)
    _check_count(merged, "tool_call_concurrency", least=1, may_be_none=True)
    return merged


def check_names(options: Mapping[str, Any]) -> None:
    """Raise ``TypeError`` for a name that is no call option, with the nearest known one."""
    for name in options:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(_NAMES))}"
            raise TypeError(f"unknown option {name!r}; {hint}")


def check_retries(value: Any, name: str = "max_processor_retries") -> None:
    """Raise ``ValueError`` unless ``value`` is a number of retries or ``None`` (R7.1)."""
    _check_count({name: value}, name, least=0, may_be_none=True)


def _check_count(options: Mapping[str, Any], name: str, *, least: int, may_be_none: bool) -> None:
    value = options.get(name)
    if value is None and may_be_none:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
