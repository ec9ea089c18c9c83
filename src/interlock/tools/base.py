"""A tool: a name and a schema that a model sees, and what happens when it is called (runtime-spec section 10)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from inspect import Parameter
from typing import Any

from interlock._json import copy_json
from interlock.errors import ConfigurationError, ToolError
from interlock.tools.context import ToolContext
from interlock.tools.observers import InputAvailableEvent, InputDeltaEvent, InputStartEvent, OutputEvent
from interlock.tools.schema import Schema, SchemaMismatch
from interlock.tools.schema_source import as_arguments, as_schema
from interlock.tools.serialize import to_serializable


class Tool:
    """Something that a model can call.

    ``tool`` makes one from a typed function. This constructor is for the rest: a schema that exists already, or a tool
    that the client runs (R12.40).

    Args:
        id: Its name in a list of tools; in a mapping the model sees the mapping's key (R12.4).
        description: What it does and when to use it, for the model.
        input_schema: The arguments as a JSON Schema, pydantic model, dataclass or ``TypedDict``; ``None`` allows any.
        execute: ``execute(args)`` or ``execute(args, context)``, sync or async; ``args`` are of the schema's type, a
            dict for a JSON Schema. ``None`` makes a client tool: the run ends at its call (R12.40).
        in_thread: Run a sync ``execute`` in a worker thread, so that it never blocks the event loop.
        require_approval: Whether a human must approve each call, or a function ``(args, request_context)`` that decides
            about a call by its JSON arguments (R12.35).
        to_model_output: Makes what the model sees from the recorded result, after output processors (R10.10).
        on_input_start: Told when the arguments begin to stream (R10.17).
        on_input_delta: Told of each piece of the arguments (R10.17).
        on_input_available: Told once the arguments are complete and valid, before execution (R10.17).
        on_output: Told of the raw result, before output processors (R10.11).
        suspend_schema: What the tool suspends with, as a schema; checked when it does (R12.39).
        resume_schema: What it must be resumed with, as a schema (R12.39).

    Raises:
        ConfigurationError: one of the arguments cannot work.
    """

    __slots__ = (
        "_input",
        "_is_async",
        "_resume",
        "_suspend",
        "description",
        "execute",
        "id",
        "in_thread",
        "on_input_available",
        "on_input_delta",
        "on_input_start",
        "on_output",
        "require_approval",
        "takes_context",
        "to_model_output",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002  (the word of the wire and of every other part of interlock)
        description: str = "",
        input_schema: Any = None,
        execute: Callable[..., Any] | None = None,
        in_thread: bool = True,
        require_approval: bool | Callable[..., Any] = False,
        to_model_output: Callable[[Any], Any] | None = None,
        on_input_start: Callable[[InputStartEvent], Any] | None = None,
        on_input_delta: Callable[[InputDeltaEvent], Any] | None = None,
        on_input_available: Callable[[InputAvailableEvent], Any] | None = None,
        on_output: Callable[[OutputEvent], Any] | None = None,
        suspend_schema: Any = None,
        resume_schema: Any = None,
    ) -> None:
        if not isinstance(id, str) or not id:
            raise ConfigurationError(f"a tool needs a non-empty string as its id, got {id!r}")
        self.id = id
        self.description = description
        self.execute = execute
        self.in_thread = in_thread
        self.require_approval = require_approval
        self.to_model_output = to_model_output
        self.on_input_start = on_input_start
        self.on_input_delta = on_input_delta
        self.on_input_available = on_input_available
        self.on_output = on_output
        self.takes_context = execute is not None and _takes_context(execute, id)
        self._is_async = is_async(execute)
        self._input = as_arguments(input_schema, owner=f"input_schema of tool {id!r}")
        self._suspend = _optional(suspend_schema, f"suspend_schema of tool {id!r}")
        self._resume = _optional(resume_schema, f"resume_schema of tool {id!r}")

    @property
    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments; always of type ``object``."""
        return self._input.json_schema

    @property
    def suspend_schema(self) -> dict[str, Any] | None:
        """JSON Schema of what the tool suspends with, if it was given."""
        return self._suspend.json_schema if self._suspend is not None else None

    @property
    def resume_schema(self) -> dict[str, Any] | None:
        """JSON Schema of what the tool is resumed with, if it was given."""
        return self._resume.json_schema if self._resume is not None else None

    @property
    def is_client_side(self) -> bool:
        """Whether the client executes the tool (R12.40)."""
        return self.execute is None

    @property
    def may_pause(self) -> bool:
        """Whether a call may have to wait for somebody, as far as the declaration tells (R10.1)."""
        return bool(self.require_approval) or self._suspend is not None or self._resume is not None

    def validate(self, args: Any) -> Any:
        """The arguments as the tool takes them; a copy, so that a tool cannot change what is recorded.

        Args:
            args: The parsed JSON arguments of a call; ``None`` counts as none given.

        Raises:
            ToolError: they do not fit; the message tells the model where and what is wrong.
        """
        try:
            return self._input.validate({} if args is None else copy_json(args))
        except SchemaMismatch as mismatch:
            raise ToolError(f"The arguments of {self.id} are not valid:\n{mismatch}") from mismatch

    def validate_resume(self, data: Any) -> Any:
        """``data`` as the type of ``resume_schema``; anything goes if there is none.

        Raises:
            ToolError: it does not fit.
        """
        if self._resume is None:
            return data
        try:
            return self._resume.validate(data)
        except SchemaMismatch as mismatch:
            raise ToolError(f"The data to resume {self.id} with is not valid:\n{mismatch}") from mismatch

    def run(self, arguments: Any, context: ToolContext | None = None) -> Coroutine[Any, Any, Any]:
        """Execute one call; awaiting it gives the tool's raw result.

        What the tool raises is raised. A cancelled sync tool is no longer waited for, but its thread runs to its end.

        Args:
            arguments: What ``validate`` returned.
            context: For a tool that takes one (``takes_context``); each call needs its own.

        Raises:
            ToolSuspended: the tool suspended its call, even if it caught the exception (R12.39); its payload is JSON.
            ToolError: the tool is a client tool, or it suspended with a payload that cannot be JSON or that its
                ``suspend_schema`` refuses.
        """
        if self.execute is None:
            raise ToolError(f"{self.id} is executed by the client, not here")
        if self.takes_context:
            return self._run_with(self.execute, arguments, context)
        outcome: Coroutine[Any, Any, Any] = (
            self.execute(arguments) if self._is_async else self._call(self.execute, arguments)
        )
        return outcome

    async def _run_with(self, execute: Callable[..., Any], arguments: Any, context: ToolContext | None) -> Any:
        context = context or ToolContext()
        try:
            result = await self._call(execute, arguments, context)
        except Exception:
            self._raise_suspension(context)
            raise
        self._raise_suspension(context)
        return result

    async def _call(self, execute: Callable[..., Any], *args: Any) -> Any:
        if self._is_async:
            return await execute(*args)
        result = await asyncio.to_thread(_in_thread, execute, *args) if self.in_thread else execute(*args)
        return await result if inspect.isawaitable(result) else result

    def _raise_suspension(self, context: ToolContext) -> None:
        suspension = context.suspension
        if suspension is None:
            return
        suspension.payload = to_serializable(suspension.payload)
        if self._suspend is not None:
            try:
                self._suspend.validate(suspension.payload)
            except SchemaMismatch as mismatch:
                raise ToolError(f"{self.id} suspended with a payload that is not valid:\n{mismatch}") from mismatch
        raise suspension from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, arguments={list(self.json_schema.get('properties', ()))})"


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether calling ``function`` gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def check_executable(function: Any, owner: str) -> None:
    """Raise ``ConfigurationError`` if ``function`` is nothing that returns one result when it is called."""
    if not callable(function):
        raise ConfigurationError(f"{owner} must be a function, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{owner} is a generator, but a tool has one result: "
            "return it, and report progress with context.writer.write(...)"
        )


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def _takes_context(execute: Callable[..., Any], tool_id: str) -> bool:
    check_executable(execute, f"execute of tool {tool_id!r}")
    try:
        parameters = inspect.signature(execute).parameters.values()
    except ValueError:
        # Some functions written in C do not tell their signature; none of them knows a ToolContext.
        return False
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    if not positional:
        raise ConfigurationError(
            f"execute of tool {tool_id!r} takes no argument: write execute(args) or execute(args, context)"
        )
    # `lambda args, row=row: …` binds a value early; it does not ask for the context.
    return len(positional) > 1 and (positional[1].default is Parameter.empty or positional[1].default is None)


def _in_thread(execute: Callable[..., Any], *args: Any) -> Any:
    try:
        return execute(*args)
    except StopIteration as error:
        # asyncio cannot carry it out of a thread: the awaiting run would hang for ever.
        raise RuntimeError("the tool raised StopIteration") from error


def _optional(source: Any, owner: str) -> Schema | None:
    return None if source is None else as_schema(source, owner=owner)
