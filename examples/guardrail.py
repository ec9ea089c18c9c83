"""A guard that blocks: `abort` in a hook ends the run, and the result says why.

Run it with `python examples/guardrail.py`. The model plays a script, so nothing has to be installed and the output is
always the same; put a model string such as "openai/gpt-5" in its place for a real one.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from interlock import Agent, Processor, get_text
from interlock.testing import ScriptedModel


class NoSecrets(Processor):
    """Blocks a message that holds an API key, before any model sees it."""

    id = "no-secrets"

    def process_input(self, args: Any) -> None:
        for message in args.message_list.get.input.db():
            if re.search(r"\bsk-[A-Za-z0-9]{8,}", get_text(message)):
                args.abort("The message holds an API key.", metadata={"kind": "api-key"})


async def main() -> None:
    model = ScriptedModel(["Paris."])
    agent = Agent(id="geographer", model=model, input_processors=[NoSecrets()])

    for question in ("What is the capital of France?", "My key is sk-1234567890, what is it for?"):
        result = await agent.generate(question)
        print("asked:   ", question)
        if result.tripwire is None:
            print("answered:", result.text)
        else:
            print("blocked: ", result.tripwire.processor_id, "said:", result.tripwire.reason, result.tripwire.metadata)
    print("calls of the model:", model.calls)


if __name__ == "__main__":
    asyncio.run(main())
