"""A cache in two hooks: one answers before the model is called, the other keeps what the model said.

What is kept went through the output processors, and a replayed reply passes them again. So a guard sees every answer,
and what a guard has masked is not in the cache.

Run it with `python examples/response_cache.py`. The model plays a script; it would complain about a third call.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import msgspec

from interlock import Agent, Processor
from interlock.processors import CachedStepResponse
from interlock.testing import ScriptedModel


class Cache(Processor):
    """Answers from memory where the same prompt went to the same model before."""

    id = "cache"

    def __init__(self) -> None:
        self.replies: dict[str, CachedStepResponse] = {}

    def process_llm_request(self, args: Any) -> dict[str, Any] | None:
        key = hashlib.sha256(msgspec.json.encode([args.model.model_id, args.prompt])).hexdigest()
        # Both hooks of a processor share `state` during a run.
        args.state["key"] = key
        return {"response": self.replies[key]} if key in self.replies else None

    def process_llm_response(self, args: Any) -> None:
        if not args.from_cache:
            self.replies[args.state["key"]] = CachedStepResponse(chunks=args.chunks, warnings=args.warnings)


async def main() -> None:
    model = ScriptedModel(["It is 4 degrees and raining.", "It is 31 degrees and sunny."])
    agent = Agent(id="weather", model=model, input_processors=[Cache()])

    for question in ("Weather in Bergen?", "Weather in Cairo?", "Weather in Bergen?"):
        result = await agent.generate(question)
        print(f"{question} {result.text} (calls of the model so far: {model.calls})")


if __name__ == "__main__":
    asyncio.run(main())
