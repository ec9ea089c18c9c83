"""Properties that hold for any processors, any cut of a text and any interleaving of runs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import AgentStream, Message, Processor, RequestContext, ToolContext, tool
from interlock.memory import InMemoryStore, Memory
from interlock.messages.parts import MessageContent, TextPart
from interlock.testing import ScriptedModel, drain, text, text_of, tool_call
from tests.agent.kit import THREAD, agent_of, generated, kept, made_sync, saved, streamed, told

pytestmark = pytest.mark.anyio

bounded = settings(max_examples=60)
few = settings(max_examples=12)


# What a hook may legally do with messages, by name.


def user(words: str) -> Message:
    return Message(role="user", content=MessageContent(parts=[TextPart(text=words)]))


def edited(message: Message) -> dict[str, Any]:
    """A copy of the message with its texts marked."""
    copy = message.to_dict()
    for part in copy["content"]["parts"]:
        if part["type"] == "text":
            part["text"] += "*"
    return copy


def edit_in_place(args: Any) -> None:
    for message in args.messages:
        for part in message.content.parts:
            if part.type == "text":
                part.text += "+"


def add_to_the_list(args: Any) -> None:
    args.message_list.add("added", "context")


def add_and_return(args: Any) -> Any:
    args.message_list.add("kept", "context")
    return args.messages


ACTIONS: dict[str, Any] = {
    "nothing": lambda args: None,
    "the list": lambda args: args.message_list,
    "the same": lambda args: args.messages,
    "a tuple": lambda args: tuple(args.messages),
    "reversed": lambda args: list(reversed(args.messages)),
    "without the first": lambda args: args.messages[1:],
    "without the last": lambda args: args.messages[:-1] or args.messages,
    "copies": lambda args: [edited(message) for message in args.messages],
    "one copy": lambda args: [*args.messages[:-1], *map(edited, args.messages[-1:])],
    "twice": lambda args: [*args.messages, *args.messages],
    "new first": lambda args: [user("new"), *args.messages],
    "new last": lambda args: [*args.messages, user("new")],
    "system": lambda args: [{"role": "system", "content": "S"}, *args.messages],
    "edit": edit_in_place,
    "add": add_to_the_list,
    "add and return": add_and_return,
}
HOOKS = ["process_input", "process_input_step", "process_output_step", "process_tool_result", "process_output_result"]

steps_of_a_run = st.lists(st.dictionaries(st.sampled_from(HOOKS), st.sampled_from(sorted(ACTIONS))), max_size=3)


def check_list(messages: Any) -> None:
    """Every message is there once, in order, and belongs to exactly one source."""
    everything = messages.get.all.db()
    ids = [message.id for message in everything]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    dates = [message.created_at for message in everything]
    assert dates == sorted(dates)
    assert all(message.role in ("user", "assistant") for message in everything)
    views = [*messages.get.input.db(), *messages.get.response.db(), *messages.get.remembered.db()]
    assert len({message.id for message in views}) == len(views)
    for message in everything:
        source = messages.source_of(message)
        assert source in ("input", "response", "memory", "context")
        assert messages.is_new_message(message) == (source in ("input", "response"))


def check_prompt(prompt: list[dict[str, Any]]) -> None:
    """Systems first; every call has its result, and every result its call, right behind it."""
    roles = [message["role"] for message in prompt]
    assert roles == sorted(roles, key=lambda role: role != "system")
    for message, following in pairwise([*prompt, None]):
        assert message is not None
        if message["role"] == "assistant":
            calls = [part["toolCallId"] for part in message["content"] if part["type"] == "tool-call"]
            results = [] if following is None or following["role"] != "tool" else following["content"]
            assert [part["toolCallId"] for part in results] == calls
        elif message["role"] == "tool":
            assert message["content"]
    tools = [position for position, role in enumerate(roles) if role == "tool"]
    assert all(roles[position - 1] == "assistant" for position in tools)


@tool(in_thread=False)
def echo(text: str = "hey") -> str:
    """Say the text."""
    return text


@bounded
@given(steps_of_a_run)
async def test_any_legal_returns_keep_list_prompt_and_store_consistent(choices: list[dict[str, str]]) -> None:
    """R2.7–R2.12, R2.28–R2.35, R3.2, R3.14, R3.22–R3.25"""
    outcomes = []
    for run in (generated, streamed):
        store = InMemoryStore()
        await agent_of(["before"], memory=Memory(store)).generate("earlier", memory=THREAD)
        processors = [
            made_sync(f"p{number}", **{hook: ACTIONS[action] for hook, action in choice.items()})
            for number, choice in enumerate(choices)
            if choice
        ]
        hybrids = {"input_processors": processors, "output_processors": processors}
        model = ScriptedModel([["one ", tool_call("echo", id="c1"), tool_call("echo", id="c2")], "two", "three"])
        agent = agent_of(model, tools=[echo], memory=Memory(store), **hybrids)
        outcome = await run(agent, memory=THREAD)
        assert outcome.error is None
        assert outcome.status == "success"
        check_list(outcome.message_list)
        for prompt in model.prompts:
            check_prompt(prompt)
        new = [message for message in outcome.message_list.get.all.db() if outcome.message_list.is_new_message(message)]
        # Sorted: what a hook removed from the list no longer holds the dates of the messages after it back.
        in_store = sorted(await saved(store))
        assert set(kept(message for message in new if message.content.parts)) <= set(in_store)
        outcomes.append((outcome.text, [told(prompt) for prompt in model.prompts], in_store))
    assert outcomes[0] == outcomes[1]


# Processors that treat a text the same wherever it is cut.


def on_text(change: Any) -> Any:
    return lambda args: change(args.part) if args.part.type == "text-delta" else args.part


def rewrite(part: Any) -> Any:
    part.payload.text = part.payload.text.translate({ord("a"): "<A>", ord(" "): None})
    return part


def to_characters(part: Any) -> Any:
    return [{"type": "text-delta", "payload": {"id": part.payload.id, "text": one}} for one in part.payload.text]


class HoldBack(Processor):
    """Holds the last three characters back, and gives them out at the end."""

    id = "hold-back"

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-end":
            return [*self._release(args), args.part]
        if args.part.type != "text-delta":
            return args.part
        held = args.state.get("held", "") + args.part.payload.text
        args.state["held"], args.part.payload.text = held[-3:], held[:-3]
        return args.part if args.part.payload.text else None

    def _release(self, args: Any) -> list[Any]:
        held = args.state.pop("held", "")
        return [{"type": "text-delta", "payload": {"id": "t", "text": held}}] if held else []


REWRITERS: dict[str, Any] = {
    "rewrite": lambda: made_sync("rewrite", process_output_stream=on_text(rewrite)),
    "to characters": lambda: made_sync("characters", process_output_stream=on_text(to_characters)),
    "hold back": HoldBack,
}


def cut(whole: str, places: list[int]) -> list[str]:
    """The text in pieces; equal places give empty pieces."""
    borders = [0, *sorted(min(place, len(whole)) for place in places), len(whole)]
    return [whole[start:end] for start, end in pairwise(borders)]


texts = st.text(alphabet="ab \n\N{GRINNING FACE}e\u0301", max_size=12)


@bounded
@given(texts, st.lists(st.integers(0, 12), max_size=6), st.lists(st.sampled_from(sorted(REWRITERS)), max_size=3))
async def test_any_cut_of_a_text_gives_the_same_final_text(whole: str, places: list[int], names: list[str]) -> None:
    """R1.9, R2.25, R4.6, R12.20"""
    results = []
    for pieces in ([whole], cut(whole, places)):
        store = InMemoryStore()
        processors = [REWRITERS[name]() for name in dict.fromkeys(names)]
        agent = agent_of([text(*pieces)], memory=Memory(store), output_processors=processors)
        outcome = await streamed(agent, memory=THREAD)
        assert text_of(outcome.chunks) == outcome.text == outcome.steps[0].text
        answer = [words for role, words in await saved(store) if role == "assistant"]
        # Blank text is not stored.
        assert "".join(answer) == (outcome.text if outcome.text.strip() else "")
        results.append(outcome.text)
    assert results[0] == results[1]
    if not names:
        assert results[0] == whole


@bounded
@given(st.lists(st.lists(st.sampled_from(["a", "b", ""]), max_size=3), max_size=4))
async def test_spans_of_text_are_kept_apart_and_in_order(spans: list[list[str]]) -> None:
    """R4.6"""
    turn = [text(*pieces, id=f"t{number}") for number, pieces in enumerate(spans)]
    outcome = await streamed(agent_of([turn]))
    parts = [part.text for message in outcome.message_list.get.response.db() for part in message.content.parts]
    assert parts == ["".join(pieces) for pieces in spans if "".join(pieces)]
    assert outcome.text == "".join(parts)


# Readers and runs that go on at the same time.

reading = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12)


@bounded
@given(reading)
async def test_any_interleaving_of_readers_sees_the_same_chunks(pulls: list[tuple[int, int]]) -> None:
    """R12.17"""
    stream: AgentStream = await agent_of([["a", "b", tool_call("echo")], ["c"]], tools=[echo]).stream("hi")
    readers = [stream.full_stream for _ in range(3)]
    seen: list[list[Any]] = [[] for _ in readers]
    for reader, count in pulls:
        for _ in range(count):
            chunk = await anext(readers[reader], None)
            if chunk is not None:
                seen[reader].append(chunk)
    for reader, chunks in zip(readers, seen, strict=True):
        chunks += await drain(reader)
    assert [id(chunk) for chunk in seen[0]] == [id(chunk) for chunk in seen[1]] == [id(chunk) for chunk in seen[2]]
    assert await stream.text == "abc"


class Tenant(Processor):
    """Every hook sees its own run's tenant in its state, whatever else goes on."""

    id = "tenant"

    def __init__(self, pauses: list[int]) -> None:
        self._pauses = pauses
        self._calls = 0

    async def _look(self, args: Any) -> None:
        tenant = args.request_context.get("tenant")
        mine = args.state.setdefault("tenant", tenant)
        args.state["calls"] = args.state.get("calls", 0) + 1
        self._calls += 1
        for _ in range(self._pauses[self._calls % len(self._pauses)]):
            await asyncio.sleep(0)
        assert args.state["tenant"] == mine == tenant == args.request_context.get("tenant")

    async def process_input(self, args: Any) -> None:
        await self._look(args)

    async def process_input_step(self, args: Any) -> Any:
        await self._look(args)
        return {"system_messages": [f"you serve {args.state['tenant']}"]}

    async def process_output_stream(self, args: Any) -> Any:
        part = args.part
        await self._look(args)
        assert args.part is part
        return part

    async def process_output_step(self, args: Any) -> None:
        await self._look(args)

    async def process_tool_result(self, args: Any) -> None:
        await self._look(args)
        assert args.result == args.state["tenant"]

    async def process_output_result(self, args: Any) -> None:
        await self._look(args)
        args.messages[-1].content.metadata = {"tenant": args.state["tenant"], "calls": args.state["calls"]}


@tool
async def whose(context: ToolContext) -> str:
    """Says whose run it is."""
    await asyncio.sleep(0)
    return str(context.request_context.get("tenant"))


def answer(request: Any) -> Any:
    """Calls the tool, then says whom the prompt names and what the tool said."""
    lines = told(request.prompt)
    if lines[-1][0] == "tool":
        return [lines[0][1].removeprefix("you serve "), " ", lines[-1][1]]
    return [lambda: asyncio.sleep(0), tool_call("whose")]


@few
@given(st.lists(st.integers(0, 4), min_size=1, max_size=7))
async def test_fifty_runs_at_once_never_share_state(pauses: list[int]) -> None:
    """R1.19, R8.3"""
    tenant, store = Tenant(pauses), InMemoryStore()
    agent = agent_of(answer, tools=[whose], memory=Memory(store), input_processors=[tenant], output_processors=[tenant])
    names = [f"tenant-{number}" for number in range(50)]
    runs = [
        (generated if number % 2 else streamed)(
            agent,
            f"I am {name}",
            request_context=RequestContext({"tenant": name}),
            memory={"thread": name, "resource": name},
        )
        for number, name in enumerate(names)
    ]
    outcomes = await asyncio.gather(*runs)
    calls = set()
    for name, outcome in zip(names, outcomes, strict=True):
        assert outcome.text == f"{name} {name}"
        messages = await store.list_messages(name, resource_id=name)
        assert kept(messages) == [("user", f"I am {name}"), ("assistant", f"{name} {name}")]
        assert messages[-1].content.metadata["tenant"] == name
        calls.add(messages[-1].content.metadata["calls"])
    assert len(calls) == 1


# Retries.

REJECTING = ["process_input_step", "process_llm_request", "process_llm_response", "process_output_step"]


@bounded
@given(
    st.lists(st.tuples(st.sampled_from(REJECTING), st.booleans()), max_size=8),
    st.one_of(st.none(), st.integers(0, 4)),
)
async def test_any_pattern_of_rejections_keeps_the_books(pattern: list[tuple[str, bool]], limit: int | None) -> None:
    """R7.3, R7.4, R7.6, R6.5"""
    pending, counts = list(pattern), list[int]()

    def hook(name: str) -> Any:
        def judge(args: Any) -> None:
            counts.append(args.retry_count)
            if pending and pending[0][0] == name:
                _, retry = pending.pop(0)
                args.abort("no", retry=retry)

        return judge

    judging = made_sync("judge", **{name: hook(name) for name in REJECTING})
    model = ScriptedModel(lambda request: "x")
    store = InMemoryStore()
    agent = agent_of(
        model,
        memory=Memory(store),
        input_processors=[judging],
        output_processors=[judging],
        max_processor_retries=limit,
    )
    outcome = await generated(agent, memory=THREAD)
    granted = counts[-1]
    assert counts == sorted(counts)
    assert granted <= (limit or 0)
    plain = next((number for number, (_, retry) in enumerate(pattern) if not retry), len(pattern))
    expected_grants = min(plain, limit or 0)
    is_tripped = expected_grants < len(pattern)
    assert granted == expected_grants
    assert (outcome.tripwire is not None) == is_tripped
    assert outcome.text == ("" if is_tripped else "x")
    assert await saved(store) == ([] if is_tripped else [("user", "hi"), ("assistant", "x")])
    assert sum(step.finish_reason == "retry" for step in outcome.steps) <= granted
