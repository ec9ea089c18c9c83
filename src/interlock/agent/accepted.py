"""What each setting of an agent and each option of a call takes; whatever is wrong is told by name (R12.1, R12.7).

Messages, models, tools, processors and schemas are not here: those who read them say what is wrong with them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from interlock.context import AbortSignal, RequestContext
from interlock.messages import Message
from interlock.processors.results import is_tool_choice


class Taken(NamedTuple):
    """What a setting takes beside ``None``."""

    wanted: str
    fits: Callable[[Any], bool]
    error: type[Exception] = TypeError


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _having(*methods: str) -> Callable[[Any], bool]:
    return lambda value: all(callable(getattr(value, method, None)) for method in methods)


def _count(least: int) -> Taken:
    return Taken(
        f"an integer of at least {least}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
        ValueError,
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


def _is_instruction(value: Any) -> bool:
    if isinstance(value, (str, Mapping, Message)):
        return True
    return _is_list(value) and all(isinstance(one, (str, Mapping, Message)) for one in value)


def _is_observed(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() <= {"observer"} and _OBSERVER.fits(value.get("observer"))


_STRING = Taken("a string", _of(str))
_ID = Taken("a non-empty string", lambda value: isinstance(value, str) and value != "")
_MAPPING = Taken("a mapping", _of(Mapping))
_FUNCTION = Taken("a function", callable)
_SETTINGS = Taken(
    "a mapping from names to values",
    lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
)
_INSTRUCTIONS = Taken(
    "a string, a list of strings, system messages, or a function that returns these",
    lambda value: inspect.isroutine(value) or _is_instruction(value),
)
_OBSERVER = Taken(
    "an object with hook_started(event) and hook_ended(event)",
    lambda value: value is None or _having("hook_started", "hook_ended")(value),
)
_PREDICATES = Taken(
    "a function of the steps so far, or a list of such functions",
    lambda value: callable(value) or (_is_list(value) and all(map(callable, value))),
)
_RETRIES = _count(0)

AGENT_SETTINGS: Mapping[str, Taken] = {
    "id": _STRING,
    "name": _STRING,
    "description": _STRING,
    "instructions": _INSTRUCTIONS,
    "memory": Taken(
        "a memory such as interlock.memory.Memory, or a function that returns one",
        lambda value: inspect.isroutine(value) or _having("prepare", "input_processors", "output_processors")(value),
    ),
    "max_processor_retries": _RETRIES,
    "max_retries": _RETRIES,
    "default_options": Taken("a mapping of call options", _of(Mapping)),
    "logger": Taken("a logging.Logger", _of(logging.Logger, logging.LoggerAdapter)),
    "tracer": _OBSERVER,
    "run_store": Taken(
        "a store with the async methods save, load, take and finish", _having("save", "load", "take", "finish")
    ),
}
"""Settings of ``Agent``."""

CALL_OPTIONS: Mapping[str, Taken] = {
    "run_id": _ID,
    "instructions": _INSTRUCTIONS,
    "system": Taken("a string, a list of strings, or system messages", _is_instruction),
    "memory": Taken("a mapping with 'thread', 'resource' and 'options'", _of(Mapping)),
    "request_context": Taken("a RequestContext or a mapping", _of(RequestContext, Mapping)),
    "max_steps": _count(1),
    "stop_when": _PREDICATES,
    "pause_when": _PREDICATES,
    "prepare_step": _FUNCTION,
    "toolsets": Taken(
        "a list of toolsets, or a mapping from name to toolset",
        lambda value: isinstance(value, Mapping) or _is_list(value),
    ),
    "tool_choice": Taken(
        "'auto', 'none', 'required' or {'type': 'tool', 'toolName': name}", is_tool_choice, ValueError
    ),
    "active_tools": Taken(
        "a list of tool names", lambda value: _is_list(value) and all(isinstance(name, str) for name in value)
    ),
    "tool_call_concurrency": _count(1),
    "require_tool_approval": Taken(
        "a bool, or a function that returns one", lambda value: isinstance(value, bool) or callable(value)
    ),
    "max_processor_retries": _RETRIES,
    "model_settings": _SETTINGS,
    "provider_options": _MAPPING,
    "include_raw_chunks": Taken("a bool", _of(bool)),
    "abort_signal": Taken("an interlock.AbortSignal", _of(AbortSignal)),
    "on_chunk": _FUNCTION,
    "on_step_finish": _FUNCTION,
    "on_finish": _FUNCTION,
    "on_error": _FUNCTION,
    "on_abort": _FUNCTION,
    "on_iteration_complete": _FUNCTION,
    "tracing_options": Taken("a mapping whose 'observer' has hook_started(event) and hook_ended(event)", _is_observed),
}
"""Options of a call."""


def check_values(values: Mapping[str, Any], table: Mapping[str, Taken]) -> None:
    """Raise for the first value that its name does not take; ``None`` always fits.

    Raises:
        TypeError: a value of the wrong kind.
        ValueError: a number that is out of range, or a word that is none of the known ones.
    """
    for name, value in values.items():
        if value is None:
            continue
        taken = table.get(name)
        if taken is not None and not taken.fits(value):
            raise taken.error(f"{name} must be {taken.wanted}, got {value!r}")
