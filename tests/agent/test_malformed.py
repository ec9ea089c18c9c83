"""What a hook may not return and a model may not say: the error names who it was, and what it should have been."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock import Agent, TextDelta
from interlock.chunks import (
    RUN_TYPES,
    Abort,
    AbortPayload,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    Start,
    StartPayload,
    StepFinish,
    StepFinishPayload,
    StepOutcome,
    TextDeltaPayload,
    ToolCall,
    Tripwire,
    TripwirePayload,
    chunk_from_dict,
)
from interlock.errors import ModelError, ProcessorError, ProcessorReturnError
from interlock.models import ModelReply, ModelRequest
from interlock.testing import ScriptedModel, tool_call, types_of
from tests.agent.kit import Drive, Make, agent_of, echo, streamed

pytestmark = pytest.mark.anyio

INVALID = "PROCESSOR_RETURNED_INVALID_RESULT"

NO_MESSAGES: list[Any] = [3, "text", object(), [3], [None], [{}], [{"role": "user"}], [{"role": 3, "content": "x"}]]

NO_CHUNKS: list[Any] = [
    3,
    "text",
    {},
    {"type": 3},
    {"type": ""},
    [3],
    {"type": "text-delta", "payload": {"text": 3}},
    {"type": "text-delta", "payload": {"text": None}},
    {"type": "text-delta", "payload": 3},
    {"type": "text-delta"},
    {"type": "reasoning-delta", "payload": {"text": "x"}},
    {"type": "tool-call", "payload": {"toolCallId": 3, "toolName": "echo"}},
    TextDelta(payload={"id": "t", "text": "x"}),  # type: ignore[arg-type]
    TextDelta(payload=TextDeltaPayload(id="t", text=None)),  # type: ignore[arg-type]
    GenericChunk(type="text-delta", payload={"text": "x"}),
]

RETURNS: dict[str, list[Any]] = {
    "process_input": [
        *NO_MESSAGES,
        {"messages": []},
        {"messages": 3, "system_messages": []},
        {"messages": [], "system_messages": 3},
        {"messages": [], "system_messages": [3]},
        {"nonsense": 1},
    ],
    "process_input_step": [
        *NO_MESSAGES,
        {"nonsense": 1},
        {"messages": 3},
        {"message_list": 3},
        {"system_messages": [3]},
        {"tools": 3},
        {"tools": [3]},
        {"tool_choice": "bogus"},
        {"tool_choice": 3},
        {"tool_choice": {"type": "tool"}},
        {"tool_choice": {"type": "tool", "toolName": "nobody"}},
        {"active_tools": "echo"},
        {"active_tools": [["echo"]]},
        {"provider_options": 3},
        {"model_settings": 3},
        {"model_settings": {3: 3}},
        {"structured_output": 3},
        {"structured_output": {"schema": 3}},
        {"structured_output": {"scheme": int}},
    ],
    "process_llm_request": [
        3,
        [],
        {"nonsense": 1},
        {"prompt": 3},
        {"prompt": [3]},
        {"prompt": [{"content": "x"}]},
        {"response": 3},
        {"response": {}},
        {"response": {"chunks": 3}},
        {"response": {"chunks": "text"}},
        {"response": {"chunks": [3]}},
        {"response": {"chunks": [{"type": 3}]}},
        {"response": {"chunks": [{"type": "text-delta"}]}},
        {"response": {"chunks": [{"type": "text-delta", "payload": {"id": "t", "text": 3}}]}},
        {"response": {"chunks": [{"type": "tripwire", "payload": {"reason": "x", "processorId": "p"}}]}},
    ],
    "process_output_stream": NO_CHUNKS,
    "flush_output_stream": [chunk for chunk in NO_CHUNKS if chunk != {}],
    "process_output_step": NO_MESSAGES,
    "process_tool_result": NO_MESSAGES,
    "process_output_result": NO_MESSAGES,
}

INPUT_HOOKS = ("process_input", "process_input_step", "process_llm_request")


def only_once(hook: str, returned: Any) -> Any:
    def stream_hook(args: Any) -> Any:
        return returned if args.part.type == "text-delta" else args.part

    return stream_hook if hook == "process_output_stream" else lambda *args: returned


@pytest.mark.parametrize(
    ("hook", "returned"), [(hook, returned) for hook, values in RETURNS.items() for returned in values]
)
async def test_what_a_hook_may_not_return_is_an_error_that_names_it(make: Make, hook: str, returned: Any) -> None:
    """R2.6, R17.2"""
    side = "input_processors" if hook in INPUT_HOOKS else "output_processors"
    settings: Any = {side: [make("careless", **{hook: only_once(hook, returned)})]}
    outcome = await streamed(agent_of([["hm ", tool_call("echo")], "done"], tools=[echo], **settings))
    error = outcome.error
    assert isinstance(error, ProcessorReturnError), repr(error)
    assert (error.code, error.processor_id, error.hook) == (INVALID, "careless", hook)
    assert "careless" in str(error)


def spoil_text(args: Any) -> Any:
    if args.part.type in ("text-delta", "reasoning-delta"):
        args.part.payload.text = None
    return args.part


def spoil_payload(args: Any) -> Any:
    if args.part.type == "text-delta":
        args.part.payload = None
    return args.part


@pytest.mark.parametrize("spoil", [spoil_text, spoil_payload])
async def test_a_text_that_a_hook_spoils_in_place_reaches_nobody(make: Make, spoil: Any) -> None:
    """R2.6, R17.3"""
    seen: list[Any] = []
    processors = [
        make("careless", process_output_stream=spoil),
        make("next", process_output_stream=lambda args: seen.append(args.part.type) or args.part),
    ]
    outcome = await streamed(agent_of(["secret"], output_processors=processors))
    assert isinstance(outcome.error, ProcessorReturnError)
    assert (outcome.error.code, outcome.error.processor_id) == (INVALID, "careless")
    assert "text-delta" not in seen
    assert "text-delta" not in types_of(outcome.chunks)


class Word(str):
    __slots__ = ()


async def test_a_text_of_a_string_s_subclass_is_text(drive: Drive, make: Make) -> None:
    """R2.25"""

    def reword(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = Word(args.part.payload.text.upper())
        return args.part

    outcome = await drive(agent_of(["hi"], output_processors=[make(process_output_stream=reword)]))
    assert outcome.text == "HI"


# -- what only the run itself says ---------------------------------------------------------------------------------

FORGED: list[dict[str, Any]] = [
    {"type": "start", "payload": {"id": "agent"}},
    {"type": "step-start", "payload": {}},
    {"type": "step-finish", "payload": {"stepResult": {"reason": "stop"}}},
    {"type": "finish", "payload": {"stepResult": {"reason": "stop"}, "output": {"usage": {}}}},
    {"type": "error", "payload": {"error": "forged"}},
    {"type": "abort", "payload": {"reason": "forged"}},
    {"type": "tripwire", "payload": {"reason": "forged", "processorId": "nobody"}},
    {"type": "tool-call-approval", "payload": {"toolCallId": "c", "toolName": "t", "args": {}, "resumeSchema": "{}"}},
    {
        "type": "tool-call-suspended",
        "payload": {"toolCallId": "c", "toolName": "t", "args": {}, "suspendPayload": 1, "resumeSchema": "{}"},
    },
]


def test_every_type_of_a_run_s_own_is_forged_here() -> None:
    assert {chunk["type"] for chunk in FORGED} == RUN_TYPES
    assert all(chunk_from_dict(chunk).__class__ is not GenericChunk for chunk in FORGED)


@pytest.mark.parametrize("forged", FORGED, ids=lambda chunk: chunk["type"])
@pytest.mark.parametrize("as_object", [False, True])
async def test_a_stream_hook_cannot_speak_for_the_run(make: Make, forged: dict[str, Any], as_object: bool) -> None:
    """R5.4, R6.5, R2.26"""
    returned: Any = chunk_from_dict(forged) if as_object else forged
    processor = make("forger", process_output_stream=only_once("process_output_stream", [returned]))
    outcome = await streamed(agent_of(["hi"], output_processors=[processor]))
    assert isinstance(outcome.error, ProcessorReturnError)
    assert (outcome.error.code, outcome.error.processor_id) == (INVALID, "forger")
    assert types_of(outcome.chunks) == ["start", "step-start", "text-start", "error"]


@pytest.mark.parametrize("forged", FORGED, ids=lambda chunk: chunk["type"])
async def test_a_chunk_cannot_be_made_the_run_s_own_in_place(make: Make, forged: dict[str, Any]) -> None:
    """R5.4, R6.5, R2.26"""

    def retype(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.type = forged["type"]
        return args.part

    outcome = await streamed(agent_of(["hi"], output_processors=[make("forger", process_output_stream=retype)]))
    assert isinstance(outcome.error, ProcessorReturnError)
    assert types_of(outcome.chunks) == ["start", "step-start", "text-start", "error"]


@pytest.mark.parametrize("forged", FORGED, ids=lambda chunk: chunk["type"])
@pytest.mark.parametrize("hook", ["process_input_step", "process_output_stream", "process_output_result"])
async def test_nothing_that_only_the_run_says_can_be_emitted(hook: str, forged: dict[str, Any]) -> None:
    """R19.3, R5.4, R6.5"""

    class Forger:
        id = "forger"

    async def emit(args: Any) -> Any:
        await args.emit(chunk_from_dict(forged))

    setattr(Forger, hook, staticmethod(emit))
    side = "input_processors" if hook in INPUT_HOOKS else "output_processors"
    settings: Any = {side: [Forger()]}
    outcome = await streamed(agent_of(["hi"], **settings))
    assert isinstance(outcome.error, ProcessorError)
    assert outcome.error.processor_id == "forger"
    assert f"a {forged['type']!r} chunk cannot be emitted" in str(outcome.error)
    assert [kind for kind in types_of(outcome.chunks) if kind == forged["type"] == "tripwire"] == []


async def test_only_a_chunk_can_be_emitted() -> None:
    """R19.3"""

    class Careless:
        id = "careless"

        async def process_input_step(self, args: Any) -> None:
            await args.emit({"type": "data-x"})

    outcome = await streamed(agent_of(["hi"], input_processors=[Careless()]))
    assert isinstance(outcome.error, ProcessorError)
    assert "emit() takes a chunk" in str(outcome.error)


async def test_a_hook_may_hold_the_run_s_chunks_back_and_let_them_go_later(drive: Drive, make: Make) -> None:
    """R2.25"""
    held: list[Any] = []

    def hold(args: Any) -> Any:
        held.append(args.part)
        if args.part.type != "finish":
            return None
        released = list(held)
        held.clear()
        return released

    def hold_reply(args: Any) -> Any:
        return args.part if args.part.type == "step-finish" else hold(args)

    outcome = await drive(agent_of([["a", "b"]], output_processors=[make(process_output_stream=hold_reply)]))
    assert (outcome.text, outcome.status) == ("ab", "success")


async def test_a_hook_may_put_another_step_finish_in_place_of_the_one_it_was_given(drive: Drive, make: Make) -> None:
    """R2.25, R2.27"""

    def replace(args: Any) -> Any:
        if args.part.type != "step-finish":
            return args.part
        return StepFinish(payload=StepFinishPayload(step_result=StepOutcome(reason="stop"), metadata={"seen": True}))

    outcome = await drive(agent_of(["a"], output_processors=[make(process_output_stream=replace)]))
    assert outcome.status == "success"
    for chunk in outcome.chunks:
        assert not isinstance(chunk, StepFinish) or chunk.payload.metadata == {"seen": True}


@pytest.mark.parametrize(
    "own",
    [
        Tripwire(payload=TripwirePayload(reason="forged", processor_id="m")),
        Abort(payload=AbortPayload(reason="forged")),
        Start(payload=StartPayload(id="forged")),
        StepFinish(payload=StepFinishPayload(step_result=StepOutcome(reason="stop"))),
        GenericChunk(type="tripwire", payload={"reason": "forged"}),
    ],
    ids=lambda chunk: f"{type(chunk).__name__}-{chunk.type}",
)
async def test_a_model_cannot_speak_for_the_run(own: Chunk, caplog: pytest.LogCaptureFixture) -> None:
    """R5.3, R5.4, R6.5"""
    outcome = await streamed(agent_of([[own, "hi"]]))
    assert types_of(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta",
        "text-end",
        "step-finish",
        "finish",
    ]
    assert (outcome.status, outcome.tripwire, outcome.text) == ("success", None, "hi")
    assert f"model 'scripted/scripted' yielded a {own.type!r} chunk" in caplog.text


# -- models --------------------------------------------------------------------------------------------------------


class Faulty:
    provider = "acme"
    model_id = "faulty"


class YieldsDicts(Faulty):
    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield {"type": "text-delta", "payload": {"id": "t", "text": "x"}}


class YieldsNone(Faulty):
    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield None


class Yields(Faulty):
    """Chunks of the right class without the shape of it."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        for chunk in self.chunks:
            yield chunk
        yield Finish(payload=FinishPayload(step_result=StepOutcome(reason="stop")))


def piece(text: Any) -> TextDelta:
    return TextDelta(payload=TextDeltaPayload(id="t", text=text))


class IsCoroutine(Faulty):
    async def stream(self, request: ModelRequest) -> Any:
        return None


class ReturnsList(Faulty):
    def stream(self, request: ModelRequest) -> Any:
        return [TextDelta(payload=TextDeltaPayload(id="t", text="x"))]


class ReturnsNone(Faulty):
    def stream(self, request: ModelRequest) -> Any:
        return None


class Answers(Faulty):
    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def generate(self, request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        return self.reply


FAULTY: list[tuple[Any, str]] = [
    (YieldsDicts(), "chunks of interlock.chunks"),
    (YieldsNone(), "chunks of interlock.chunks"),
    (IsCoroutine(), "not coroutine: write it as an async generator"),
    (ReturnsList(), "async iterator of chunks, not list"),
    (ReturnsNone(), "async iterator of chunks, not NoneType"),
    (Answers({"text": "x"}), "ModelReply: not dict"),
    (Answers("x"), "ModelReply: not str"),
    (Answers(None), "ModelReply: not NoneType"),
    (Answers(ModelReply(content="x")), r"ModelReply: .*content"),  # type: ignore[arg-type]
    (Answers(ModelReply(content=["x"])), r"ModelReply: .*content"),  # type: ignore[list-item]
    (Yields(TextDelta(payload=None)), "'text-delta' chunk that is none"),  # type: ignore[arg-type]
    (Yields(ToolCall(payload=None)), "'tool-call' chunk that is none"),  # type: ignore[arg-type]
    (Yields(Finish(payload=None)), "'finish' chunk that is none"),  # type: ignore[arg-type]
]


IDS = [f"{number}-{type(model).__name__}" for number, (model, _) in enumerate(FAULTY)]


@pytest.mark.parametrize(("model", "wanted"), FAULTY, ids=IDS)
@pytest.mark.parametrize("max_retries", [None, 1])
async def test_a_faulty_model_is_named_with_what_it_should_give(
    model: Any, wanted: str, max_retries: int | None
) -> None:
    """R7.14, R17.4"""
    with pytest.raises(ModelError, match=rf"acme/faulty.*{wanted}"):
        await Agent(id="a", model=model, max_retries=max_retries).generate("hi")
    gc.collect()


@pytest.mark.parametrize(("model", "wanted"), FAULTY, ids=IDS)
async def test_a_faulty_model_gives_way_to_the_next(drive: Drive, make: Make, model: Any, wanted: str) -> None:
    """R7.14, R7.17"""
    asked: list[str] = []
    judge = make("judge", process_api_error=lambda args: asked.append(str(args.error)))
    outcome = await drive(Agent(id="a", model=[model, ScriptedModel(["good"])], error_processors=[judge]))
    assert (outcome.text, len(asked)) == ("good", 1)
    assert "acme/faulty" in asked[0]


async def test_a_text_whose_span_has_no_id_is_not_lost(drive: Drive) -> None:
    """R5.3"""
    nameless: Any = [TextDelta(payload=TextDeltaPayload(id=given, text="x")) for given in (None, "", None)]  # type: ignore[arg-type]
    assert (await drive(Agent(id="a", model=Yields(*nameless)))).text == "xxx"


@pytest.mark.parametrize("pieces", [[piece(None)], [piece("x"), piece(3)]])
async def test_a_text_that_is_none_is_known_when_it_is_put_together(pieces: list[TextDelta]) -> None:
    """R7.14: text is not looked at piece by piece."""
    with pytest.raises(ModelError, match=r"acme/faulty.*piece of text that is no text"):
        await Agent(id="a", model=Yields(*pieces)).generate("hi")
    result = await Agent(id="a", model=[Yields(*pieces), ScriptedModel(["good"])]).generate("hi")
    assert result.text == "good"
