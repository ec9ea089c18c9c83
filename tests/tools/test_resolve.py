"""Tools in the forms that users give them in (R12.4)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import ConfigurationError
from interlock.tools import Tool, as_tools, tool


@tool
def alpha(x: int) -> int:
    return x


def beta(x: int) -> int:
    """Plain."""
    return x


CLIENT = {"id": "color", "description": "Sets it.", "inputSchema": {"type": "object", "required": ["c"]}}


def test_a_list_is_keyed_by_tool_id() -> None:
    """R12.4"""
    tools = as_tools([alpha, beta, CLIENT])
    assert list(tools) == ["alpha", "beta", "color"]
    assert tools["alpha"] is alpha
    assert tools["beta"].description == "Plain."
    assert tools["color"].is_client_side
    assert tools["color"].json_schema == {"type": "object", "required": ["c"]}


def test_a_mapping_keeps_its_keys() -> None:
    """R12.4"""
    tools = as_tools({"first": alpha, "second": beta, "third": {"input_schema": {"type": "object"}}})
    assert list(tools) == ["first", "second", "third"]
    assert (tools["first"].id, tools["third"].id) == ("alpha", "third")


def test_a_nameless_function_takes_its_key_as_name() -> None:
    assert as_tools({"one": lambda: 1})["one"].id == "one"


@pytest.mark.parametrize("empty", [None, [], {}])
def test_no_tools_are_no_tools(empty: Any) -> None:
    assert as_tools(empty) == {}


def test_two_tools_of_one_name_are_refused() -> None:
    """R12.4"""
    with pytest.raises(ConfigurationError, match="two tools are called 'alpha'"):
        as_tools([alpha, Tool(id="alpha")])


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"get weather": alpha}, "a tool cannot be called 'get weather': use letters, digits"),
        ({3: alpha}, "a tool cannot be called 3"),
        ([Tool(id="wörld")], "a tool cannot be called 'wörld'"),
        ([3], "3 is no tool: give a Tool, a typed function"),
        ([{"description": "?"}], "a client tool in a list needs an 'id'"),
        ("alpha", "tools must be a mapping .* not 'alpha'"),
        (3, "tools must be a mapping"),
    ],
)
def test_what_is_no_tool_is_named(tools: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        as_tools(tools)


def test_resolving_twice_changes_nothing() -> None:
    tools = as_tools([alpha, CLIENT])
    assert as_tools(tools) == tools
