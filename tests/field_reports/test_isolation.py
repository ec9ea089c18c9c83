"""State of one request, and replies that come from somewhere else than the model."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from interlock import Agent, Processor, RequestContext
from interlock.chunks import Chunk
from interlock.processors import CachedStepResponse
from interlock.testing import ScriptedModel, text, types_of
from tests.agent.kit import Drive, Recorder, agent_of, generated, made_sync, streamed, told
from tests.field_reports.cases import case

pytestmark = pytest.mark.anyio


class Identifying(Processor):
    """Notes the request in the state, lets others run, and compares in every later hook."""

    id = "identifying"

    def __init__(self) -> None:
        self.mismatches: list[Any] = []
        self.states: list[set[int]] = []

    async def _compare(self, args: Any) -> None:
        await asyncio.sleep(0)
        if args.state["request"] != args.request_context.get("request"):
            self.mismatches.append((args.state["request"], args.request_context.get("request")))
        args.state["identities"].add(id(args.state))

    async def process_input(self, args: Any) -> None:
        args.state["request"] = args.request_context.get("request")
        args.state["identities"] = {id(args.state)}
        await self._compare(args)

    async def process_input_step(self, args: Any) -> None:
        await self._compare(args)

    async def process_llm_request(self, args: Any) -> None:
        await self._compare(args)

    async def process_llm_response(self, args: Any) -> None:
        await self._compare(args)

    async def process_output_stream(self, args: Any) -> Chunk:
        await self._compare(args)
        part: Chunk = args.part
        return part

    async def process_output_step(self, args: Any) -> None:
        await self._compare(args)

    async def process_output_result(self, args: Any) -> None:
        await self._compare(args)
        self.states.append(args.state["identities"])


async def test_requests_that_run_at_once_see_only_their_own(drive: Drive) -> None:
    """FR-136; R1.19, R8.1, R8.3, R12.2"""
    given = case("136")
    guard = Identifying()
    model = ScriptedModel(lambda request: text("you are ", request.prompt[0]["content"]))
    agent = Agent(
        id="shared",
        model=model,
        instructions=lambda args: args.request_context.get("request"),
        input_processors=[guard],
        output_processors=[guard],
        default_options={"max_steps": 3},
    )
    before = dict(agent.default_options)
    runs = [
        drive(agent, f"I am {number}", request_context={"request": f"request {number}"}, max_steps=number + 1)
        for number in range(given["concurrency"])
    ]
    outcomes = await asyncio.gather(*runs)
    assert len(guard.mismatches) == given["expect"]["mismatches"]
    assert [outcome.text for outcome in outcomes] == [f"you are request {n}" for n in range(given["concurrency"])]
    for number, prompt in enumerate(sorted(model.prompts, key=lambda prompt: int(prompt[0]["content"].split()[1]))):
        assert told(prompt) == [("system", f"request {number}"), ("user", f"I am {number}")]
    assert (agent.default_options == before) is given["expect"]["agent_defaults_unchanged"]
    is_shared = all(len(identities) == 1 for identities in guard.states)
    assert is_shared is given["expect"]["state_shared_between_hooks"]


class Cache(Processor):
    """Answers equal prompts of a model from what it said before."""

    id = "cache"

    def __init__(self) -> None:
        self.kept: dict[str, CachedStepResponse] = {}
        self.was_cached: list[bool] = []

    def process_llm_request(self, args: Any) -> Any:
        asked = json.dumps([args.model.model_id, args.request_context.get("user"), args.prompt], sort_keys=True)
        key = args.state["key"] = hashlib.sha256(asked.encode()).hexdigest()
        return {"response": self.kept[key]} if key in self.kept else None

    def process_llm_response(self, args: Any) -> None:
        self.was_cached.append(args.from_cache)
        if not args.from_cache:
            self.kept[args.state["key"]] = CachedStepResponse(chunks=args.chunks)


def picture(part: dict[str, Any], words: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"type": "text", "text": words}, part]}]


async def test_prompts_that_differ_only_in_the_picture_share_no_reply() -> None:
    """FR-137; R4.16, R11.1, R11.8"""
    given = case("137")
    cache = Cache()
    count = iter(range(100))
    models = [
        ScriptedModel(lambda _: f"answer {next(count)}", model_id=name, supported_urls={"*": [".*"]})
        for name in ("one", "two")
    ]
    first: list[str] = []
    for _ in range(2):
        again: list[str] = []
        for part in given["parts"]:
            for model in models:
                for user in ("a", "b"):
                    agent = agent_of(model, input_processors=[cache])
                    context = RequestContext({"user": user})
                    outcome = await generated(agent, picture(part, given["text"]), request_context=context)
                    again.append(outcome.text)
        first = first or again
        assert again == first
    assert len(set(first)) == given["expect"]["distinct_keys"] * 4
    assert sum(model.calls for model in models) == len(first)


async def test_a_ready_answer_takes_the_place_of_the_models_in_both_modes() -> None:
    """FR-141; R11.2 to R11.5"""
    given = case("141")
    expected = given["expect"]
    for mode in given["modes"]:
        model, recorder, from_cache = ScriptedModel([]), Recorder(), []
        canned = made_sync(
            "canned",
            process_llm_request=lambda args: {"response": {"chunks": text(given["canned"])}},
            process_llm_response=lambda args, seen=from_cache: seen.append(args.from_cache),
        )
        agent = agent_of(model, input_processors=[canned], output_processors=[recorder])
        outcome = await (streamed if mode == "stream" else generated)(agent)
        assert outcome.text == expected["text"]
        assert outcome.finish_reason == "stop"
        assert model.calls == expected["model_calls"]
        assert from_cache == [expected["process_llm_response_from_cache"]]
        assert recorder.hooks == ["process_output_step(0)", "process_output_result"]
        seen = [kind for kind in recorder.parts if kind in expected["stream_types"]]
        assert seen == expected["stream_types"]
        if mode == "stream":
            seen = [kind for kind in types_of(outcome.chunks) if kind in expected["stream_types"]]
            assert seen == expected["stream_types"]
