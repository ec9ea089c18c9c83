"""`@tool`: what a model is told about a function, and which functions cannot be tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from interlock.errors import ConfigurationError
from interlock.tools import ToolContext, tool

if TYPE_CHECKING:
    from decimal import Decimal

pytestmark = pytest.mark.anyio


class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Place(BaseModel):
    city: str
    country: str = "DE"


class Folder(BaseModel):
    name: str
    folders: list[Folder] = []


@dataclass
class Point:
    x: float
    y: float


def test_name_and_description_come_from_the_function() -> None:
    @tool
    def weather(city: str) -> str:
        """Forecast for a city.

        Only for today.

        Args:
            city: Its name.

        Returns:
            One sentence.
        """
        return city

    assert (weather.id, weather.description) == ("weather", "Forecast for a city.\n\nOnly for today.")


def test_options_take_the_place_of_name_and_docstring() -> None:
    @tool(name="forecast", description="Says what comes.")
    def weather(city: str) -> str:
        """Not this."""
        return city

    assert (weather.id, weather.description) == ("forecast", "Says what comes.")


def test_a_tool_without_docstring_has_no_description() -> None:
    @tool
    def bare(x: int) -> int:
        return x

    assert bare.description == ""


GOOGLE = """Do it.

Args:
    city: Name of
        the city.
    days (int): How many.
"""
NUMPY = """Do it.

Parameters
----------
city : str
    Name of
    the city.
days : int
    How many.
"""
REST = """Do it.

:param city: Name of
    the city.
:param days: How many.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_arguments_are_described_by_the_docstring(docstring: str) -> None:
    def forecast(city: str, days: int = 1) -> str:
        return city

    forecast.__doc__ = docstring
    made = tool(forecast)
    descriptions = {name: shown["description"] for name, shown in made.json_schema["properties"].items()}
    assert made.description == "Do it."
    assert descriptions == {"city": "Name of\nthe city.", "days": "How many."}


def test_a_field_describes_an_argument_better_than_the_docstring() -> None:
    @tool
    def forecast(
        city: Annotated[str, Field(description="The town.", max_length=3)], days: Annotated[int, "Count."]
    ) -> str:
        """Do it.

        Args:
            city: Not this.
            days: Nor this.
        """
        return city

    assert forecast.json_schema["properties"] == {
        "city": {"description": "The town.", "maxLength": 3, "type": "string"},
        "days": {"description": "Count.", "type": "integer"},
    }


def test_the_schema_shows_types_and_defaults_and_nothing_else() -> None:
    @tool
    def search(
        text: str,
        unit: Unit,
        kind: Literal["a", "b"] = "a",
        near: Point | None = None,
        on: date = date(2026, 1, 2),
        check: Any = print,
    ) -> str:
        return text

    assert search.json_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "unit": {"$ref": "#/$defs/Unit"},
            "kind": {"enum": ["a", "b"], "type": "string", "default": "a"},
            "near": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
            "on": {"format": "date", "type": "string", "default": "2026-01-02"},
            "check": {},
        },
        "required": ["text", "unit"],
        "additionalProperties": False,
        "$defs": {
            "Unit": {"enum": ["celsius", "kelvin"], "title": "Unit", "type": "string"},
            "Point": {
                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                "required": ["x", "y"],
                "title": "Point",
                "type": "object",
                "additionalProperties": False,
            },
        },
    }


def test_parameters_may_have_any_name() -> None:
    @tool
    def odd(json: str, copy: int, _hidden: bool, model_config: str, schema: str) -> str:
        return json

    args = {"json": "a", "copy": 1, "_hidden": True, "model_config": "m", "schema": "s"}
    assert odd.validate(args) == args


def test_types_local_to_a_function_are_found() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def first(x: Local) -> int:
        return x.n

    @tool(name="second_tool")
    def second(x: list[Local]) -> int:
        return len(x)

    assert first.validate({"x": {"n": 1}})["x"].n == 1
    assert second.validate({"x": [{"n": 2}]})["x"][0].n == 2


def test_a_recursive_model_is_a_usable_argument() -> None:
    @tool
    def walk(root: Folder) -> int:
        return len(root.folders)

    assert walk.validate({"root": {"name": "a", "folders": [{"name": "b"}]}})["root"].folders[0].name == "b"


def test_a_context_parameter_is_not_shown_to_the_model() -> None:
    """R9.13"""

    @tool
    async def note(text: str, context: ToolContext) -> str:
        return text

    @tool
    async def maybe(text: str, context: ToolContext | None = None) -> str:
        return text

    for made in (note, maybe):
        assert list(made.json_schema["properties"]) == ["text"]
        assert made.takes_context


def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8


async def test_bound_methods_partials_and_callable_objects_are_tools() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, amount: int) -> int:
            """Add up."""
            self.total += amount
            return self.total

        async def __call__(self, amount: int) -> int:
            """Add twice."""
            self.total += 2 * amount
            return self.total

    counter = Counter()

    def power(base: int, exponent: int) -> int:
        """Raise it."""
        return int(base**exponent)

    square = tool(partial(power, exponent=2), name="square")
    twice = tool(counter, name="twice")
    add = tool(counter.add)
    assert [made.description for made in (square, twice, add)] == ["Raise it.", "Add twice.", "Add up."]
    assert await add.run(add.validate({"amount": 3})) == 3
    assert await twice.run(twice.validate({"amount": 3})) == 9
    assert await square.run(square.validate({"base": 5})) == 25


async def test_a_wrapped_function_keeps_its_own_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def shout(text: str) -> str:
        """Louder."""
        return text.upper()

    assert shout.description == "Louder."
    assert await shout.run(shout.validate({"text": "a"})) == "A"


def _star(*names: str) -> None: ...
def _stars(**options: int) -> None: ...
def _positional(x: int, /) -> None: ...
def _untyped(x) -> None: ...
def _method(self, x: int) -> None: ...
def _unknown(x: Decimal) -> None: ...
def _no_type(x: 3) -> None: ...
def _unsupported(x: int, where: threading_lock) -> None: ...  # noqa: F821
def _two_contexts(a: ToolContext, b: ToolContext) -> None: ...
def _field_default(x: int = Field(3, ge=1)) -> None: ...


class Opaque:
    pass


def _opaque(x: int, handle: Opaque) -> None: ...
def _callback(then: Callable[[int], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_star, r"tool '_star': parameter '\*names': a model cannot fill it in: declare each argument"),
        (_stars, r"tool '_stars': parameter '\*\*options': a model cannot fill it in"),
        (_positional, r"parameter 'x': it is positional-only.*remove the '/'"),
        (_untyped, r"tool '_untyped': parameter 'x': it has no type: annotate it, as in 'x: str'"),
        (_method, r"parameter 'self': .* tool\(obj.method\)"),
        (_unknown, r"parameter 'x': its type 'Decimal' is not known at run time .*outside of TYPE_CHECKING"),
        (_no_type, r"tool '_no_type'.*parameter 'x'"),
        (_two_contexts, r"parameter 'b': 'a' takes the ToolContext already"),
        (_field_default, r"parameter 'x' has a Field as its default: write x: Annotated"),
        (_opaque, r"tool '_opaque': the schema of parameter 'handle' cannot be made from .*Opaque"),
        (_callback, r"tool '_callback': the schema of parameter 'then' cannot be made from"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_function_that_a_model_cannot_call_is_refused_when_it_is_decorated(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tool(function)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ConfigurationError, match=r"no name of its own: give one, tool\(name=\.\.\.\)"):
        tool(lambda: 1)
    assert tool(lambda: 1, name="one").id == "one"


def test_a_generator_is_no_tool() -> None:
    def count(to: int) -> Any:
        yield to

    with pytest.raises(ConfigurationError, match=r"is a generator, but a tool has one result.*context\.writer\.write"):
        tool(count)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="timeout"):
        tool(name="one", timeout=3)(lambda: 1)


def test_importing_tools_does_not_import_pydantic() -> None:
    code = "import sys, interlock.tools; print({'pydantic', 'docstring_parser'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
