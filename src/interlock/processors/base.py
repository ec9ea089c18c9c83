"""What a processor is: an id and at least one of the nine hooks (runtime-spec sections 0 and 1)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

import msgspec

_log = logging.getLogger("interlock")

INPUT_HOOKS = ("process_input", "process_input_step", "process_llm_request", "process_llm_response")
OUTPUT_HOOKS = ("process_output_stream", "process_output_step", "process_tool_result", "process_output_result")
ERROR_HOOKS = ("process_api_error",)
FLUSH_HOOK = "flush_output_stream"

HOOKS_OF: dict[str, tuple[str, ...]] = {
    "input": INPUT_HOOKS,
    "output": (*OUTPUT_HOOKS, FLUSH_HOOK),
    "error": ERROR_HOOKS,
}
"""Which hooks the pipeline takes from each processor array (R1.1, R1.3)."""

ALL_HOOKS = (*INPUT_HOOKS, *OUTPUT_HOOKS, *ERROR_HOOKS, FLUSH_HOOK)


class ProcessorViolation(msgspec.Struct, kw_only=True):
    """What ``on_violation`` is told (R6.10)."""

    processor_id: str
    message: str
    """The reason of the abort, or the message of ``report_violation``."""
    detail: Any = None
    """The abort's metadata."""


class Processor:
    """Optional base class of processors; any object with an ``id`` and a hook will do (R0.7).

    Implement one or more hooks, each ``def`` or ``async def`` with one argument, its args object:

    ==========================  ==================  ===============================================
    hook                        array               runs
    ==========================  ==================  ===============================================
    ``process_input``           input_processors    once a run, before the first step
    ``process_input_step``      input_processors    at the start of every attempt of every step
    ``process_llm_request``     input_processors    before every provider call
    ``process_llm_response``    input_processors    after every complete reply
    ``process_output_stream``   output_processors   for every chunk
    ``process_output_step``     output_processors   after every complete reply, before tools
    ``process_tool_result``     output_processors   for every successful tool call
    ``process_output_result``   output_processors   once a run, at the end
    ``process_api_error``       error_processors    when a provider call has failed
    ==========================  ==================  ===============================================

    A processor takes part only through the arrays that hold it (R1.3).
    """

    id: str
    name: str | None = None
    description: str | None = None
    processor_index: int | None = None
    """Position in the effective list; set by the runtime (R16.10)."""
    process_data_parts: bool = False
    """Whether ``process_output_stream`` wants ``data-*`` chunks too (R9.8)."""
    on_violation: Callable[[ProcessorViolation], Any] | None = None
    """Called once for every abort of this processor, also one that asks for a retry (R6.10)."""
    stage: Literal["post_memory", "pre_memory"] = "post_memory"
    """``pre_memory`` runs the input hooks before the memory loaders (R19.6)."""
    fail_open: bool = False
    """Let the unprocessed chunk through when ``process_output_stream`` raises (section 18.3)."""

    async def report_violation(self, message: str, detail: Any = None) -> None:
        """Tell ``on_violation`` of a detection that does not abort (R6.11)."""
        await notify_violation(self, message, detail)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={getattr(self, 'id', None)!r})"


@runtime_checkable
class InputProcessor(Protocol):
    """A processor with at least one hook of ``input_processors`` (R1.20)."""

    id: str


@runtime_checkable
class OutputProcessor(Protocol):
    """A processor with at least one hook of ``output_processors`` (R1.20)."""

    id: str


@runtime_checkable
class ErrorProcessor(Protocol):
    """A processor with ``process_api_error`` (R1.20)."""

    id: str


def is_input_processor(x: object) -> TypeGuard[InputProcessor]:
    """Whether ``x`` has an id and at least one of the four input hooks."""
    return _has_id(x) and _implements(x, INPUT_HOOKS)


def is_output_processor(x: object) -> TypeGuard[OutputProcessor]:
    """Whether ``x`` has an id and at least one of the output hooks."""
    return _has_id(x) and _implements(x, HOOKS_OF["output"])


def is_error_processor(x: object) -> TypeGuard[ErrorProcessor]:
    """Whether ``x`` has an id and ``process_api_error``."""
    return _has_id(x) and _implements(x, ERROR_HOOKS)


def _has_id(x: object) -> bool:
    return bool(x) and isinstance(getattr(x, "id", None), str) and bool(getattr(x, "id", None))


def _implements(x: object, hooks: tuple[str, ...]) -> bool:
    return any(callable(getattr(x, hook, None)) for hook in hooks)


async def notify_violation(processor: Any, message: str, detail: Any) -> None:
    """Call the processor's ``on_violation``, if any; whatever it raises is swallowed (R6.10)."""
    callback = getattr(processor, "on_violation", None)
    if callback is None:
        return
    try:
        outcome = callback(ProcessorViolation(processor_id=processor.id, message=message, detail=detail))
        if inspect.isawaitable(outcome):
            await outcome
    except Exception:
        # The spec swallows it: a broken reporter must not change what the guard decided.
        _log.debug("on_violation of processor %r failed", processor.id, exc_info=True)
