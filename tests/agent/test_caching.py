"""Replies that a processor supplies in place of a provider call (runtime specification, section 11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock import AbortSignal, APICallError
from interlock.chunks import StepFinish
from interlock.memory import InMemoryStore, Memory
from interlock.processors import CachedStepChunk, CachedStepResponse
from interlock.testing import ScriptedModel, drain, finish, reasoning, tool_call, types_of
from tests.agent.kit import THREAD, Drive, Make, Recorder, agent_of, chunks_of, echo, outline, saved, streamed, told

pytestmark = pytest.mark.anyio


def chunk(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "payload": payload}


SAYING_CACHED = [
    chunk("text-start", id="t"),
    chunk("text-delta", id="t", text="cached"),
    chunk("text-end", id="t"),
]
FINISH = chunk(
    "finish", stepResult={"reason": "stop"}, output={"usage": {"inputTokens": 7, "outputTokens": 8, "totalTokens": 15}}
)


def replying(chunks: list[Any], **fields: Any) -> Any:
    return lambda args: {"response": CachedStepResponse(chunks=chunks, **fields)}


class Cache:
    """The cache of the specification; keeps replies by prompt."""

    id = "cache"

    def __init__(self) -> None:
        self.replies: dict[str, CachedStepResponse] = {}

    def process_llm_request(self, args: Any) -> Any:
        args.state["key"] = key = json.dumps(args.prompt, sort_keys=True)
        return {"response": self.replies[key]} if key in self.replies else None

    def process_llm_response(self, args: Any) -> None:
        if not args.from_cache:
            self.replies[args.state["key"]] = CachedStepResponse(chunks=args.chunks, warnings=args.warnings)


async def test_each_request_hook_gets_what_the_one_before_returned_and_the_last_one_is_sent(
    drive: Drive, make: Make
) -> None:
    """R11.1"""
    model, seen = ScriptedModel(["x"]), list[Any]()

    def adding(text: str) -> Any:
        def hook(args: Any) -> Any:
            seen.append(told(args.prompt)[-1][1])
            return {"prompt": [*args.prompt, {"role": "user", "content": [{"type": "text", "text": text}]}]}

        return hook

    processors = [make(name, process_llm_request=adding(name)) for name in ("one", "two")]
    await drive(agent_of(model, input_processors=processors))
    assert seen == ["hi", "one"]
    assert [words for _, words in told(model.prompts[0])] == ["hi", "one", "two"]


async def test_step_start_records_the_prompt_that_was_sent(make: Make) -> None:
    """R11.1"""
    model = ScriptedModel(["x"])
    added = {"role": "user", "content": [{"type": "text", "text": "more"}]}
    processor = make(process_llm_request=lambda args: {"prompt": [*args.prompt, added]})
    outcome = await streamed(agent_of(model, input_processors=[processor]))
    (start,) = chunks_of(outcome.chunks, "step-start")
    assert start.to_dict()["payload"]["request"]["body"] == model.prompts[0]


async def test_the_first_response_wins_and_later_hooks_still_run(drive: Drive, make: Make) -> None:
    """R11.2"""
    ran: list[str] = []
    other = [chunk("text-delta", id="t", text="other")]
    processors = [
        make("first", process_llm_request=replying(SAYING_CACHED)),
        make("second", process_llm_request=lambda args: ran.append("second") or replying(other)(args)),
        make("third", process_llm_request=lambda args: ran.append("third")),
    ]
    model = ScriptedModel([])
    outcome = await drive(agent_of(model, input_processors=processors))
    assert (outcome.text, model.calls) == ("cached", 0)
    assert ran == ["second", "third"]


@pytest.mark.parametrize(
    "response",
    [
        CachedStepResponse(chunks=SAYING_CACHED),
        {"chunks": SAYING_CACHED},
        {"chunks": [CachedStepChunk(**one) for one in SAYING_CACHED], "rawResponse": {}},
    ],
    ids=["object", "mapping", "mapping of objects"],
)
async def test_a_response_may_be_an_object_or_a_mapping(drive: Drive, make: Make, response: Any) -> None:
    """R11.2, R0.5"""
    processor = make(process_llm_request=lambda args: {"response": response})
    outcome = await drive(agent_of([], input_processors=[processor]))
    assert outcome.text == "cached"


async def test_replayed_chunks_belong_to_this_run_and_get_step_start_and_finish(make: Make) -> None:
    """R11.3"""
    old = [{**one, "runId": "old", "from": "USER"} for one in SAYING_CACHED]
    outcome = await streamed(agent_of([], input_processors=[make(process_llm_request=replying(old))]))
    assert {(one.run_id, one.from_) for one in outcome.chunks} == {(outcome.run_id, "AGENT")}
    assert outline(outcome.chunks) == [
        "start",
        "step-start",
        "text-start",
        "text-delta(cached)",
        "text-end",
        "step-finish(stop)",
        "finish(stop)",
    ]
    assert outcome.usage.to_dict() == {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


async def test_a_cached_step_start_is_kept_without_its_time(make: Make) -> None:
    """R11.3"""
    cached = [chunk("step-start", messageId="m-old", startedAt=12345), *SAYING_CACHED, FINISH]
    outcome = await streamed(agent_of([], input_processors=[make(process_llm_request=replying(cached))]))
    (start,) = chunks_of(outcome.chunks, "step-start")
    assert start.payload.started_at is None


async def test_a_replay_without_finish_that_holds_calls_ends_in_tool_calls_and_runs_them(make: Make) -> None:
    """R11.3"""
    ran: list[str] = []
    cached = [tool_call("echo", {"text": "yo"})]

    def first_only(args: Any) -> Any:
        return replying(cached)(args) if args.step_number == 0 else None

    model = ScriptedModel(["done"])
    watcher = make("watcher", process_tool_result=lambda args: ran.append(args.result))
    agent = agent_of(
        model,
        tools=[echo],
        input_processors=[make("cache", process_llm_request=first_only)],
        output_processors=[watcher],
    )
    outcome = await streamed(agent)
    assert ran == ["yo"]
    assert [step.finish_reason for step in outcome.steps] == ["tool-calls", "stop"]
    assert told(model.prompts[0])[-1] == ("tool", "yo")


async def test_replayed_chunks_pass_the_stream_hooks_which_are_told(make: Make) -> None:
    """R11.4"""
    seen: list[tuple[str, bool]] = []

    def censor(args: Any) -> Any:
        seen.append((args.part.type, args.from_cache))
        if args.part.type == "text-delta":
            args.part.payload.text = "***"
        return args.part

    agent = agent_of(
        [],
        input_processors=[make("cache", process_llm_request=replying([*SAYING_CACHED, FINISH]))],
        output_processors=[make("censor", process_output_stream=censor)],
    )
    outcome = await streamed(agent)
    assert outcome.text == "***"
    assert ("text-delta", True) in seen
    assert [kind for kind, _ in seen] == [
        "step-start",
        "text-start",
        "text-delta",
        "text-end",
        "finish",
        "step-finish",
    ]


async def test_live_chunks_are_not_from_a_cache_even_after_a_replayed_step(make: Make) -> None:
    """R11.4"""
    seen: dict[str, bool] = {}

    def look(args: Any) -> Any:
        if args.part.type == "text-delta":
            seen[args.part.payload.text] = args.from_cache
        return args.part

    cached = [chunk("text-delta", id="t", text="old"), tool_call("echo")]
    processor = make(
        "p",
        process_llm_request=lambda args: replying(cached)(args) if args.step_number == 0 else None,
        process_output_stream=look,
    )
    agent = agent_of(["new"], tools=[echo], input_processors=[processor], output_processors=[processor])
    await streamed(agent)
    assert seen == {"old": True, "new": False}


async def test_every_other_output_hook_runs_on_a_replay(drive: Drive, make: Make) -> None:
    """R11.4, R11.5"""
    recorder = Recorder()
    store = InMemoryStore()
    cached = make("cache", process_llm_request=replying(SAYING_CACHED))
    agent = agent_of([], memory=Memory(store), input_processors=[cached, recorder], output_processors=[recorder])
    await drive(agent, memory=THREAD)
    assert recorder.hooks[-3:] == ["process_llm_response(0)", "process_output_step(0)", "process_output_result"]
    assert await saved(store) == [("user", "hi"), ("assistant", "cached")]


async def test_the_response_hook_after_a_replay_sees_what_was_replayed(drive: Drive, make: Make) -> None:
    """R11.5"""
    seen: list[Any] = []

    def look(args: Any) -> None:
        seen.append((args.from_cache, args.warnings, args.request, args.raw_response))
        seen.append([one.type for one in args.chunks])

    processor = make(
        process_llm_request=replying(
            [*SAYING_CACHED, FINISH], warnings=["w"], request={"body": 1}, raw_response={"id": "r"}
        ),
        process_llm_response=look,
    )
    await drive(agent_of([], input_processors=[processor]))
    assert seen == [
        (True, ["w"], {"body": 1}, {"id": "r"}),
        ["step-start", "text-start", "text-delta", "text-end", "finish"],
    ]


async def test_the_chunks_are_those_that_survived_as_json(drive: Drive, make: Make) -> None:
    """R11.6"""
    kept: list[list[Any]] = []

    def redact(args: Any) -> Any:
        if args.part.type == "text-delta":
            if args.part.payload.text == "b":
                return None
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    def keep(args: Any) -> None:
        kept.append(args.chunks)

    metadata = chunk("response-metadata", id="r1", modelId="m")
    agent = agent_of(
        [[metadata, *reasoning("hm"), "a", "b", finish()]],
        input_processors=[make("cache", process_llm_response=keep)],
        output_processors=[make("redact", process_output_stream=redact)],
    )
    await drive(agent)
    (chunks,) = kept
    assert [one.type for one in chunks] == [
        "step-start",
        "response-metadata",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "finish",
    ]
    assert [one.payload["text"] for one in chunks if one.type == "text-delta"] == ["A"]
    json.dumps([one.to_dict() for one in chunks])


async def test_the_chunks_are_detached_copies(drive: Drive, make: Make) -> None:
    """R11.6"""

    def deface(args: Any) -> None:
        for one in args.chunks:
            if one.type == "text-delta":
                one.payload["text"] = "defaced"

    outcome = await drive(agent_of(["x"], input_processors=[make(process_llm_response=deface)]))
    assert outcome.text == "x"


async def test_a_stored_reply_reproduces_the_same_step_in_another_run(drive: Drive) -> None:
    """R11.6, R11.9"""
    cache = Cache()
    model = ScriptedModel([[*reasoning("hm", signature="sig"), "calling", tool_call("echo", id="c1")], "done"])
    agent = agent_of(model, tools=[echo], input_processors=[cache])
    first = await drive(agent)
    second = await drive(agent)
    assert model.calls == 2
    assert second.text == first.text == "callingdone"
    for one, other in zip(first.steps, second.steps, strict=True):
        assert one.content == other.content
        assert one.usage.to_dict() == other.usage.to_dict()
        assert one.finish_reason == other.finish_reason


def abort(args: Any) -> Any:
    return args.abort("no") if args.part.type == "text-end" else args.part


async def test_a_reply_that_was_tripped_while_it_streamed_is_not_offered_for_storing(drive: Drive, make: Make) -> None:
    """R11.7"""
    recorder = Recorder()
    agent = agent_of(["x"], input_processors=[recorder], output_processors=[make(process_output_stream=abort)])
    await drive(agent)
    assert "process_llm_response(0)" not in recorder.calls


async def test_a_reply_that_failed_or_was_cancelled_is_not_offered_for_storing(drive: Drive) -> None:
    """R11.7, R17.4a"""
    recorder, signal = Recorder(), AbortSignal()
    await drive(agent_of([["par", APICallError("x", status_code=400)]], input_processors=[recorder]))
    await drive(agent_of([["par", signal.abort, "tial"]], input_processors=[recorder]), abort_signal=signal)
    assert "process_llm_response(0)" not in recorder.calls


async def test_both_hooks_of_an_attempt_have_the_same_step_and_counter(drive: Drive, make: Make) -> None:
    """R11.8"""
    requests: list[Any] = []
    responses: list[Any] = []

    def reject(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("again", retry=True)

    processor = make(
        "p",
        process_llm_request=lambda args: requests.append((args.step_number, args.retry_count)),
        process_llm_response=lambda args: responses.append((args.step_number, args.retry_count)),
        process_output_step=reject,
    )
    agent = agent_of(
        ["bad", [tool_call("echo")], "x"],
        tools=[echo],
        input_processors=[processor],
        output_processors=[processor],
        max_processor_retries=1,
    )
    await drive(agent)
    assert requests == responses == [(0, 0), (0, 1), (1, 1)]


async def test_usage_of_a_replay_is_what_the_cached_finish_says(drive: Drive, make: Make) -> None:
    """R11.9"""
    processor = make(process_llm_request=replying([*SAYING_CACHED, FINISH]))
    outcome = await drive(agent_of([], input_processors=[processor]))
    assert outcome.steps[0].usage.to_dict() == {"inputTokens": 7, "outputTokens": 8, "totalTokens": 15}


async def test_a_replay_shows_no_chunks_of_the_provider() -> None:
    """R11.3"""
    cache = Cache()
    model = ScriptedModel([[chunk("response-metadata", id="r1"), "x"]])
    agent = agent_of(model, input_processors=[cache])
    first, second = await streamed(agent), await streamed(agent)
    assert types_of(first.chunks) == types_of(second.chunks)


@pytest.mark.parametrize("start", [[], [chunk("step-start")]], ids=["plain", "with its own start"])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_rejected_replay_is_finished_whoever_began_it(
    make: Make, start: list[dict[str, Any]], is_streamed: bool
) -> None:
    """R7.10, R12.26: a client that saw it begin learns that it came to nothing."""

    def reply(args: Any) -> Any:
        return None if args.retry_count else {"response": {"chunks": [*start, *SAYING_CACHED]}}

    def judge(args: Any) -> None:
        if not args.retry_count:
            args.abort("no", retry=True)

    steps: list[Any] = []
    agent = agent_of(
        ["good"],
        input_processors=[make("cache", process_llm_request=reply)],
        output_processors=[make("judge", process_output_step=judge)],
        max_processor_retries=1,
    )
    options: Any = {"on_step_finish": lambda step: steps.append((step.text, step.finish_reason))}
    if is_streamed:
        seen = await drain(agent.stream("hi", **options))
        assert [one.payload.step_result.reason for one in seen if isinstance(one, StepFinish)] == ["retry", "stop"]
    else:
        await agent.generate("hi", **options)
    assert steps == [("", "retry"), ("good", "stop")]
