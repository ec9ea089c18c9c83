"""Tools from typed functions: ``@tool``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_type_hints,
    overload,
)

from interlock.errors import ConfigurationError
from interlock.tools.base import Tool, check_executable, is_async
from interlock.tools.context import ToolContext
from interlock.tools.observers import InputAvailableEvent, InputDeltaEvent, InputStartEvent, OutputEvent

if TYPE_CHECKING:
    from interlock.tools.schema import Schema

P = ParamSpec("P")
R = TypeVar("R")


class ToolOptions(TypedDict, total=False):
    """Options of ``@tool``; what they mean is said at ``Tool``."""

    name: str
    """The tool's id, if it is not the function's name."""
    description: str
    """What the model is told, if it is not the function's docstring."""
    in_thread: bool
    require_approval: bool | Callable[..., Any]
    to_model_output: Callable[[Any], Any]
    on_input_start: Callable[[InputStartEvent], Any]
    on_input_delta: Callable[[InputDeltaEvent], Any]
    on_input_available: Callable[[InputAvailableEvent], Any]
    on_output: Callable[[OutputEvent], Any]
    suspend_schema: Any
    resume_schema: Any


class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function by ``tool``; calling it calls the function."""

    __slots__ = ("function",)

    def __init__(
        self,
        function: Callable[P, R],
        namespace: Mapping[str, Any],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Any,
    ) -> None:
        check_executable(function, "a tool")
        id = name or _name_of(function)  # noqa: A001  (as in Tool)
        documented, descriptions = _read_docstring(function)
        signature = _Signature(function, id, namespace)
        super().__init__(
            id=id,
            description=documented if description is None else description,
            input_schema=signature.schema(descriptions),
            execute=_by_keyword(function, signature.context),
            **options,
        )
        # What the lambda around the function hides from Tool.
        self._is_async = is_async(function)
        self.function = function
        """The function itself."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as if it were not decorated."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool from a typed function, as ``@tool`` or ``@tool(name=…, …)``.

    The model sees the function's name, its docstring up to the arguments, and a JSON Schema of its parameters with the
    docstring's descriptions of them (Google, numpy or reST style). A parameter annotated as ``ToolContext`` gets the
    call's context and is not shown. A sync function runs in a worker thread, so that it never blocks the event loop::

        @tool
        async def weather(city: str, days: int = 1) -> str:
            "Forecast for a city, up to ten days ahead."
            return await forecasts.get(city, days)

    Args:
        function: The function; bound methods, partials and callable objects work too.
        **options: See ``ToolOptions``.

    Raises:
        ConfigurationError: the function has no name, or a parameter that a model cannot fill in.
    """
    # Types that are local to where the decorator stands are needed to read annotations that are kept as text.
    namespace = sys._getframe(1).f_locals
    if function is None:
        return lambda function: FunctionTool(function, namespace, **options)
    return FunctionTool(function, namespace, **options)


class _Signature:
    """A function's parameters, sorted into those that the model fills in and the one for the context."""

    def __init__(self, function: Callable[..., Any], name: str, namespace: Mapping[str, Any]) -> None:
        self.name = name
        self.context: str | None = None
        self.types: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        global_names = getattr(_plain(function), "__globals__", {})
        for parameter in inspect.signature(function).parameters.values():
            self._check_kind(parameter)
            hint = self._hint(parameter, global_names, namespace)
            if hint is ToolContext or ToolContext in get_args(hint):
                self._take_context(parameter)
                continue
            self.types[parameter.name] = hint
            if parameter.default is not Parameter.empty:
                self.defaults[parameter.name] = parameter.default

    def schema(self, descriptions: Mapping[str, str]) -> Schema:
        # The first tool imports pydantic; `import interlock` does not.
        from interlock.tools.typed_schema import arguments_schema

        return arguments_schema(self.name, self.types, descriptions, self.defaults)

    def _check_kind(self, parameter: Parameter) -> None:
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise self._unusable(
                parameter,
                "a model cannot fill it in: declare each argument, or use Tool(input_schema=..., execute=...)",
            )
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise self._unusable(
                parameter, "it is positional-only, but a model gives arguments by name: remove the '/'"
            )
        if parameter.annotation is Parameter.empty:
            cure = f"annotate it, as in '{parameter.name}: str'"
            if parameter.name == "self":
                cure = "make the tool of the bound method, tool(obj.method)"
            raise self._unusable(parameter, f"it has no type: {cure}")

    def _hint(self, parameter: Parameter, global_names: dict[str, Any], namespace: Mapping[str, Any]) -> Any:
        def annotated() -> None: ...

        annotated.__annotations__ = {"hint": parameter.annotation}
        try:
            return get_type_hints(annotated, global_names, dict(namespace), include_extras=True)["hint"]
        except NameError as error:
            raise self._unusable(
                parameter,
                f"its type {parameter.annotation!r} is not known at run time ({error}): import it outside of "
                "TYPE_CHECKING, and decorate the function where the type can be seen",
            ) from error
        except (SyntaxError, TypeError) as error:
            raise self._unusable(parameter, f"{parameter.annotation!r} is not a type: {error}") from error

    def _take_context(self, parameter: Parameter) -> None:
        if self.context is not None:
            raise self._unusable(parameter, f"{self.context!r} takes the ToolContext already: leave one of them out")
        self.context = parameter.name

    def _unusable(self, parameter: Parameter, reason: str) -> ConfigurationError:
        return ConfigurationError(f"tool {self.name!r}: parameter {_spelled(parameter)!r}: {reason}")


def _spelled(parameter: Parameter) -> str:
    stars = 1 if parameter.kind is Parameter.VAR_POSITIONAL else 2 if parameter.kind is Parameter.VAR_KEYWORD else 0
    return "*" * stars + parameter.name


def _by_keyword(function: Callable[..., Any], context_name: str | None) -> Callable[..., Any]:
    """``execute(args)`` or ``execute(args, context)`` for a function that takes its arguments by name."""
    if context_name is None:
        return lambda arguments: function(**arguments)
    return lambda arguments, context: function(**arguments, **{context_name: context})


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise ConfigurationError(f"{function!r} has no name of its own: give one, tool(name=...)")
    return str(name)


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring's text before the arguments, and what it says about each argument."""
    text = _plain(function).__doc__
    if not text:
        return "", {}
    from docstring_parser import parse

    parsed = parse(text)
    descriptions = {item.arg_name: item.description.strip() for item in parsed.params if item.description}
    return (parsed.description or "").strip(), descriptions


def _plain(function: Any) -> Any:
    """The ``def`` behind a partial, a decorated function or a callable object: it has the docstring and the globals."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if hasattr(function, "__globals__") else type(function).__call__
