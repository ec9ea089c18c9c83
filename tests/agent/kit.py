"""What tests of runs share: one way to drive a run, one way to make a processor, short forms of what came out."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

from interlock import Agent, AgentResult, APICallError, Chunk, Message, Processor, get_text, tool
from interlock.memory import InMemoryStore
from interlock.testing import ScriptedModel, drain, tool_call

THREAD = {"thread": "t", "resource": "u"}
"""The ``memory`` option of runs that remember."""

NINE_HOOKS = [
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_api_error",
    "process_output_result",
]


PATIENCE_S = 5.0
"""A run that takes longer hangs."""


def agent_of(model: Any, **settings: Any) -> Agent:
    """An agent over a model, or over the turns of a scripted one."""
    return Agent(id="agent", model=model if hasattr(model, "stream") else ScriptedModel(model), **settings)


class Outcome:
    """What a run came to, and the chunks of a streamed one; has the attributes of ``AgentResult``."""

    def __init__(
        self, result: AgentResult | None, error: BaseException | None = None, chunks: Sequence[Chunk] = ()
    ) -> None:
        self.result = result
        self.error = error
        self.chunks = list(chunks)

    def __getattr__(self, name: str) -> Any:
        if self.result is None:
            raise AssertionError(f"the run raised {self.error!r} and has no {name}") from self.error
        return getattr(self.result, name)


Drive = Callable[..., Awaitable[Outcome]]


async def generated(agent: Agent, messages: Any = "hi", **options: Any) -> Outcome:
    """Drive a run with ``generate``."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return Outcome(await agent.generate(messages, **options))
    except Exception as error:
        return Outcome(None, error)


async def streamed(agent: Agent, messages: Any = "hi", **options: Any) -> Outcome:
    """Drive a run with ``stream``, reading every chunk."""
    try:
        async with asyncio.timeout(PATIENCE_S), agent.stream(messages, **options) as stream:
            chunks = await drain(stream.full_stream)
            check_stream(chunks, stream.run_id)
            return Outcome(await stream.get_full_output(), stream.error, chunks)
    except Exception as error:
        return Outcome(None, error)


ENDS = frozenset({"finish", "tripwire", "abort", "error", "tool-call-approval", "tool-call-suspended"})
"""What a stream may end with (R5.4, R6.5, R12.28, R12.36, R17.2)."""


def check_stream(chunks: Sequence[Chunk], run_id: str) -> None:
    """What holds for every stream, however its run went."""
    kinds = [chunk.type for chunk in chunks]
    assert {chunk.run_id for chunk in chunks} == {run_id}, kinds
    assert kinds[-1] in ENDS, kinds
    assert kinds[0] == "start" or kinds == ["tripwire"], kinds
    assert kinds.count("start") <= 1, kinds
    assert sum(kinds.count(end) for end in ("finish", "tripwire", "abort")) <= 1, kinds


@pytest.fixture(params=[generated, streamed], ids=["generate", "stream"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """``generate`` and ``stream``, for what must not depend on it (R1.18)."""
    driver: Drive = request.param
    return driver


class Made(Processor):
    """A processor whose hooks are the given functions."""

    def __init__(self, id: str, **attributes: Any) -> None:  # noqa: A002 - the field's name
        self.id = id
        for name, value in attributes.items():
            setattr(self, name, value)


Make = Callable[..., Made]


def made_sync(id: str = "p", **attributes: Any) -> Made:  # noqa: A002 - the field's name
    """A processor from functions, as they are."""
    return Made(id, **attributes)


def made_async(id: str = "p", **attributes: Any) -> Made:  # noqa: A002 - the field's name
    """A processor from functions, each turned into a coroutine function that gives way once."""
    return Made(id, **{name: _as_async(value) if callable(value) else value for name, value in attributes.items()})


def _as_async(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        return function

    async def hook(*args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    return hook


@pytest.fixture(params=[made_sync, made_async], ids=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Make:
    """``make("id", process_input=function, …)``: sync and async hooks, for what must not depend on it (R0.3)."""
    maker: Make = request.param
    return maker


class Recorder(Processor):
    """Implements every hook, changes nothing, and notes what was called."""

    process_data_parts = True

    def __init__(self, id: str = "recorder") -> None:  # noqa: A002 - the field's name
        self.id = id
        self.calls: list[str] = []
        """``process_input``, ``process_input_step(0)``, ``process_output_stream(text-delta)`` …"""

    def process_input(self, args: Any) -> None:
        self.calls.append("process_input")

    def process_input_step(self, args: Any) -> None:
        self.calls.append(f"process_input_step({args.step_number})")

    def process_llm_request(self, args: Any) -> None:
        self.calls.append(f"process_llm_request({args.step_number})")

    def process_llm_response(self, args: Any) -> None:
        self.calls.append(f"process_llm_response({args.step_number})")

    def process_output_stream(self, args: Any) -> Any:
        self.calls.append(f"process_output_stream({args.part.type})")
        return args.part

    def process_output_step(self, args: Any) -> None:
        self.calls.append(f"process_output_step({args.step_number})")

    def process_tool_result(self, args: Any) -> None:
        self.calls.append(f"process_tool_result({args.step_number})")

    def process_api_error(self, args: Any) -> None:
        self.calls.append("process_api_error")

    def process_output_result(self, args: Any) -> None:
        self.calls.append("process_output_result")

    @property
    def hooks(self) -> list[str]:
        """The calls without those for chunks."""
        return [call for call in self.calls if not call.startswith("process_output_stream")]

    @property
    def parts(self) -> list[str]:
        """The types of the chunks that were seen."""
        return [call[22:-1] for call in self.calls if call.startswith("process_output_stream")]

    @property
    def everywhere(self) -> dict[str, list[Any]]:
        """The three arrays with this processor in each."""
        return {"input_processors": [self], "output_processors": [self], "error_processors": [self]}


@tool(in_thread=False)
def echo(text: str = "hey") -> str:
    """Say the text."""
    return text


class Looker(Processor):
    """Implements every hook with the same look at its arguments."""

    id = "looker"

    def __init__(self, look: Callable[[str, Any], None]) -> None:
        for hook in NINE_HOOKS:
            setattr(self, hook, self._hook(hook, look))

    def _hook(self, hook: str, look: Callable[[str, Any], None]) -> Callable[[Any], Any]:
        def process(args: Any) -> Any:
            look(hook, args)
            if hook == "process_api_error":
                return {"retry": True}
            return args.part if hook == "process_output_stream" else None

        return process


async def look_at_every_hook(look: Callable[[str, Any], None], **options: Any) -> None:
    """A run in which every hook has its turn: a failed call, a step with a tool, a step without."""
    looker = Looker(look)
    model = ScriptedModel([APICallError("busy", status_code=400), ["hm", tool_call("echo")], "done"])
    agent = agent_of(
        model,
        instructions="SYS",
        tools=[echo],
        input_processors=[looker],
        output_processors=[looker],
        error_processors=[looker],
    )
    outcome = await streamed(agent, **options)
    assert outcome.error is None


def told(prompt: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Role and contents of each message of a provider prompt: text, ``call NAME``, a tool's output, a file's type."""
    return [(message["role"], _words(message["content"])) for message in prompt]


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(_word(part) for part in content)


def _word(part: dict[str, Any]) -> str:
    kind = part["type"]
    if kind == "tool-call":
        return f"call {part['toolName']}"
    if kind == "tool-result":
        value = part["output"]["value"]
        return value if isinstance(value, str) else json.dumps(value)
    return str(part["text"] if kind in ("text", "reasoning") else part["mediaType"])


def feedback_in(prompt: Sequence[dict[str, Any]]) -> list[str]:
    """The feedback system messages of a prompt (R7.8)."""
    return [
        content for role, content in told(prompt) if role == "system" and content.startswith("[Processor Feedback]")
    ]


def kept(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Role and text of each message."""
    return [(message.role, get_text(message)) for message in messages]


def part_types(message: Message) -> list[str]:
    """The types of a message's parts."""
    return [part.type for part in message.content.parts]


async def stored(store: InMemoryStore) -> list[Message]:
    """The messages of the thread of ``THREAD``."""
    return await store.list_messages("t", resource_id="u")


async def saved(store: InMemoryStore) -> list[tuple[str, str]]:
    """Role and text of each message of that thread."""
    return kept(await stored(store))


def chunks_of(chunks: Iterable[Chunk], kind: str) -> list[Any]:
    """The chunks of one type."""
    return [chunk for chunk in chunks if chunk.type == kind]


def outline(chunks: Iterable[Chunk]) -> list[str]:
    """The types of chunks in order; texts and finish reasons in brackets."""
    return [_outlined(chunk) for chunk in chunks]


def _outlined(chunk: Any) -> str:
    if chunk.type == "text-delta":
        return f"text-delta({chunk.payload.text})"
    if chunk.type in ("step-finish", "finish"):
        return f"{chunk.type}({chunk.payload.step_result.reason})"
    return str(chunk.type)
