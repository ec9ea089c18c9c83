"""Composed processors: several guards that stand in a list of processors as one.

Run it with `python examples/composition.py`. The model plays a script, so nothing has to be installed and the output is
always the same.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from interlock import Agent, Processor, get_text
from interlock.messages.parts import TextPart
from interlock.processors import ProcessorStepData, parallel, sequence, when
from interlock.testing import ScriptedModel


class Emails(Processor):
    """Masks e-mail addresses in what the user writes."""

    id = "emails"

    def process_input(self, args: Any) -> None:
        for part in _texts(args.messages):
            part.text = re.sub(r"\S+@\S+\w", "[e-mail]", part.text)


class Spaces(Processor):
    """Turns runs of white space into one space."""

    id = "spaces"

    def process_input(self, args: Any) -> None:
        for part in _texts(args.messages):
            part.text = " ".join(part.text.split())


class Blocklist(Processor):
    """Blocks messages from one address; it has to see what `Emails` masks."""

    id = "blocklist"

    def process_input(self, args: Any) -> None:
        if any("mallory@" in part.text for part in _texts(args.messages)):
            args.abort("Mallory may not ask.")


class Shouting(Processor):
    """Answers in capitals."""

    id = "shouting"

    def process_output_stream(self, args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = args.part.payload.text.upper()
        return args.part


def _texts(messages: list[Any]) -> list[TextPart]:
    return [part for message in messages for part in message.content.parts if isinstance(part, TextPart)]


def is_for_a_loud_client(data: ProcessorStepData) -> bool:
    return bool(data.request_context.get("loud"))


def build_agent(model: Any) -> Agent:
    emails = Emails()
    return Agent(
        id="composed",
        model=model,
        input_processors=[
            # One after the other, as if they stood in the list themselves.
            sequence(
                Spaces(),
                # Side by side: each sees what `Spaces` left, and only the edits of `emails` count.
                parallel(emails, Blocklist(), keep=emails),
            ),
        ],
        output_processors=[
            # Only where the condition holds.
            when(is_for_a_loud_client, Shouting()),
        ],
    )


async def main() -> None:
    agent = build_agent(ScriptedModel(["We wrote to her.", "We wrote to her."]))
    for question, context in (
        ("Did you   write to ann@example.com ?", {}),
        ("Did you write to ann@example.com?", {"loud": True}),
        ("I am mallory@example.com", {}),
    ):
        result = await agent.generate(question, request_context=context)
        print("asked:   ", get_text(result.message_list.get.input.db()[0]))
        if result.tripwire is None:
            print("answered:", result.text)
        else:
            print("blocked: ", result.tripwire.processor_id, "said:", result.tripwire.reason)


if __name__ == "__main__":
    asyncio.run(main())
