"""Validating the arguments of a call and executing it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock.errors import ConfigurationError, ToolError
from interlock.tools import Tool, ToolContext, ToolSuspended, tool

pytestmark = pytest.mark.anyio


class Query(BaseModel):
    text: str
    limit: int = 10


@dataclass
class Range:
    start: int
    end: int


class Address(TypedDict):
    city: str


QUERY_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def call(made: Tool, args: Any, context: ToolContext | None = None) -> Any:
    return await made.run(made.validate(args), context)


@tool
async def search(text: str, limit: int = 10, tags: list[str] | None = None) -> list[Any]:
    return [text, limit, tags]


async def test_arguments_arrive_typed_and_with_the_functions_defaults() -> None:
    assert await call(search, {"text": "a", "limit": "3"}) == ["a", 3, None]


async def test_no_arguments_at_all_count_as_an_empty_object() -> None:
    @tool
    async def ping() -> str:
        return "pong"

    assert await call(ping, None) == "pong"


def test_a_bad_call_tells_the_model_where_and_what_is_wrong() -> None:
    """R10.13"""
    with pytest.raises(ToolError) as caught:
        search.validate({"limit": "many", "tags": ["a", 3], "size": 1})
    assert str(caught.value) == (
        "The arguments of search are not valid:\n"
        "- text: required, but missing\n"
        "- limit: Input should be a valid integer, unable to parse string as an integer (got 'many')\n"
        "- tags[1]: Input should be a valid string (got 3)\n"
        "- size: unknown; the known ones are text, limit, tags"
    )


@pytest.mark.parametrize("args", ["text", 3, ["text"]])
def test_arguments_that_are_no_object_are_refused(args: Any) -> None:
    with pytest.raises(ToolError, match=r"arguments of search are not valid:\n- \(root\): "):
        search.validate(args)


def test_the_recorded_arguments_are_out_of_a_tools_reach() -> None:
    @tool
    def eat(data: Any) -> None:
        data["deep"].clear()

    recorded: dict[str, Any] = {"data": {"deep": [1]}}
    eat.function(**eat.validate(recorded))
    raw = Tool(id="raw", execute=lambda args: args)
    raw.validate(recorded)["data"]["deep"].clear()
    assert recorded == {"data": {"deep": [1]}}


async def test_the_schema_of_a_tool_may_be_a_model_a_dataclass_a_typed_dict_or_json_schema() -> None:
    async def echo(args: Any) -> Any:
        return args

    assert await call(Tool(id="m", input_schema=Query, execute=echo), {"text": "a"}) == Query(text="a")
    assert await call(Tool(id="d", input_schema=Range, execute=echo), {"start": 1, "end": 2}) == Range(1, 2)
    assert await call(Tool(id="t", input_schema=Address, execute=echo), {"city": "X"}) == {"city": "X"}
    assert await call(Tool(id="j", input_schema=QUERY_SCHEMA, execute=echo), {"text": "a", "b": 1}) == {
        "text": "a",
        "b": 1,
    }
    assert await call(Tool(id="any", execute=echo), {"what": "ever"}) == {"what": "ever"}


@pytest.mark.parametrize("schema", [int, list[int], {"type": "string"}, Query | Range])
def test_a_schema_of_arguments_must_be_an_object(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="input_schema of tool 't' must describe an object"):
        Tool(id="t", input_schema=schema)


def test_a_recursive_model_has_its_members_at_the_root_of_the_schema() -> None:
    class Node(BaseModel):
        children: list[Node] = []

    Node.model_rebuild()
    schema = Tool(id="t", input_schema=Node).json_schema
    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


async def test_sync_tools_run_in_a_worker_thread_with_the_callers_context_variables() -> None:
    user: ContextVar[str] = ContextVar("user")
    user.set("ann")

    @tool
    def where() -> tuple[bool, str]:
        return threading.current_thread() is threading.main_thread(), user.get()

    assert await call(where, {}) == (False, "ann")


async def test_a_sync_tool_can_run_inline() -> None:
    @tool(in_thread=False)
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await call(where, {})


async def test_a_sync_tool_does_not_block_the_loop() -> None:
    loop, started, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    @tool
    def block() -> str:
        loop.call_soon_threadsafe(started.set)
        assert release.wait(10)
        return "done"

    running = asyncio.create_task(call(block, {}))
    await started.wait()
    release.set()
    assert await running == "done"


async def test_what_a_sync_function_returns_is_awaited_if_it_can_be() -> None:
    async def later() -> str:
        return "later"

    assert await call(Tool(id="t", execute=lambda args: later()), {}) == "later"


@pytest.mark.parametrize("value", [False, 0, "", None, [], {}])
async def test_an_empty_result_is_a_result(value: Any) -> None:
    """R10.5, FR-122"""
    assert await call(Tool(id="t", execute=lambda args: value), {}) is value


@pytest.mark.parametrize("in_thread", [True, False])
async def test_what_a_tool_raises_reaches_the_caller(in_thread: bool) -> None:
    """R10.13"""

    @tool(in_thread=in_thread)
    def fail() -> None:
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        await call(fail, {})


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_tool_that_raises_stop_iteration_fails_instead_of_hanging(in_thread: bool) -> None:
    @tool(in_thread=in_thread)
    def exhausted() -> int:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(call(exhausted, {}), 10)


async def test_a_cancelled_async_tool_is_cancelled() -> None:
    """R12.28"""
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(call(wait, {}))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_the_context_is_handed_to_the_tools_that_take_one() -> None:
    @tool
    async def mine(text: str, run: ToolContext) -> str:
        return run.tool_call_id + text

    raw = Tool(id="raw", execute=lambda args, context: context.tool_call_id)
    context = ToolContext(tool_call_id="c1")
    assert await call(mine, {"text": "!"}, context) == "c1!"
    assert await call(raw, {}, context) == "c1"
    assert not search.takes_context


async def test_a_value_bound_early_is_not_taken_for_the_context() -> None:
    assert await call(Tool(id="t", execute=lambda args, row=7: row), {}) == 7


async def test_a_tool_that_takes_a_context_can_be_tried_without_a_run() -> None:
    @tool
    async def report(context: ToolContext) -> bool:
        await context.writer.custom({"type": "data-x", "data": 1})
        await context.writer.write("half")
        return context.abort_signal.aborted

    assert await call(report, {}) is False


def test_the_messages_of_a_context_are_a_list_of_its_own() -> None:
    live: list[Any] = ["m"]
    context = ToolContext(get_messages=lambda: list(live))
    context.messages.clear()
    assert context.messages == ["m"]


async def test_a_client_tool_cannot_be_run_here() -> None:
    """R12.40"""
    color = Tool(id="color", input_schema=QUERY_SCHEMA)
    assert color.is_client_side
    with pytest.raises(ToolError, match="color is executed by the client"):
        await call(color, {"text": "red"})


async def test_suspend_ends_the_execution_with_its_payload() -> None:
    """R12.39"""

    @tool
    async def ask(context: ToolContext) -> str:
        context.suspend({"question": "sure?", "choices": ("yes", "no")})

    with pytest.raises(ToolSuspended) as caught:
        await call(ask, {}, ToolContext())
    assert caught.value.payload == {"question": "sure?", "choices": ["yes", "no"]}


async def test_a_resumed_tool_finds_its_data() -> None:
    """R12.39"""

    @tool
    def ask(context: ToolContext) -> str:
        if context.resume_data is None:
            context.suspend()
        return f"answer: {context.resume_data}"

    with pytest.raises(ToolSuspended):
        await call(ask, {}, ToolContext())
    assert await call(ask, {}, ToolContext(resume_data="yes")) == "answer: yes"


@pytest.mark.parametrize("ending", ["returns", "raises"])
async def test_a_suspension_cannot_be_swallowed(ending: str) -> None:
    """R12.39"""

    @tool
    async def careless(context: ToolContext) -> str:
        try:
            context.suspend("p")
        except Exception:
            if ending == "raises":
                raise ValueError("something else") from None
        return "fine"

    with pytest.raises(ToolSuspended):
        await call(careless, {}, ToolContext())


async def test_a_payload_that_the_suspend_schema_refuses_is_a_tool_error() -> None:
    """R12.39"""

    @tool(suspend_schema=Query, resume_schema={"type": "object", "required": ["ok"]})
    async def ask(context: ToolContext) -> str:
        context.suspend({"limit": 3})

    with pytest.raises(ToolError, match=r"ask suspended with a payload that is not valid:\n- text: required"):
        await call(ask, {}, ToolContext())
    with pytest.raises(ToolError, match=r"data to resume ask with is not valid:\n- ok: required"):
        ask.validate_resume({})
    assert ask.validate_resume({"ok": True}) == {"ok": True}
    assert search.validate_resume("anything") == "anything"
    assert ask.resume_schema == {"type": "object", "required": ["ok"]}
    assert ask.suspend_schema is not None


def test_a_tool_says_whether_its_calls_may_have_to_wait() -> None:
    """R10.1"""
    assert not search.may_pause
    assert Tool(id="t", require_approval=True).may_pause
    assert Tool(id="t", require_approval=lambda args, context: False).may_pause
    assert Tool(id="t", suspend_schema={}).may_pause


@pytest.mark.parametrize("bad", ["", None, 3])
def test_a_tool_needs_an_id(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="non-empty string as its id"):
        Tool(id=bad)


def test_execute_must_be_a_function_of_the_arguments() -> None:
    with pytest.raises(ConfigurationError, match="execute of tool 't' must be a function, not int"):
        Tool(id="t", execute=3)
    with pytest.raises(ConfigurationError, match="execute of tool 't' takes no argument"):
        Tool(id="t", execute=lambda: 1)


def test_a_tool_shows_its_id_and_arguments() -> None:
    assert repr(search) == "FunctionTool(id='search', arguments=['text', 'limit', 'tags'])"
