"""A guard on a stream: hold back what may be the beginning of a secret until it is clear what it is.

A card number or an e-mail address hardly ever arrives in one chunk. `Redaction` keeps the end of the text for as long
as it could still grow into one, and lets everything else through at once.

Run it with `python examples/stream_redaction.py`. The model plays a script, so that the secrets arrive in pieces.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from interlock import Agent, Chunk, Processor, TextDelta
from interlock.chunks import TextDeltaPayload
from interlock.testing import ScriptedModel

SECRET = re.compile(
    r"(?<!\d)(?:\d{4}[ -]?){3}(?P<last>\d{4})(?!\d)"  # a card number
    r"|[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"  # an e-mail address
)
UNFINISHED = re.compile(r"(?:\d[\d -]*|[A-Za-z0-9._+@-]+)$")
"""The end of a text that may still become one of them."""


def redacted(text: str) -> str:
    return SECRET.sub(lambda found: f"[card ending in {found['last']}]" if found["last"] else "[e-mail]", text)


def settled(text: str) -> int:
    """How much of a growing text can be judged by now."""
    unfinished = UNFINISHED.search(text)
    border = unfinished.start() if unfinished else len(text)
    return min([border, *(found.start() for found in SECRET.finditer(text) if found.end() > border)])


class Redaction(Processor):
    """Masks card numbers and e-mail addresses in the answer, however it is cut into chunks."""

    id = "redaction"

    def process_output_stream(self, args: Any) -> Chunk | list[Chunk]:
        part = args.part
        if not isinstance(part, TextDelta):
            # A text that ends releases what is held of it, before its end.
            return [*self._release(args), part]
        text = args.state.pop("held", "") + part.payload.text
        border = settled(text)
        args.state["held"], args.state["span"] = text[border:], part.payload.id
        part.payload.text = redacted(text[:border])
        return [part] if part.payload.text else []

    def flush_output_stream(self, args: Any, reason: str) -> list[Chunk]:
        """The stream has ended, perhaps in the middle of a word."""
        return self._release(args)

    def _release(self, args: Any) -> list[Chunk]:
        held = args.state.pop("held", "")
        if not held:
            return []
        return [TextDelta(payload=TextDeltaPayload(id=args.state["span"], text=redacted(held)))]


async def main() -> None:
    pieces = ["We refund card 4111 11", "11 1111", " 1111 and write", " to maria.kel", "ler@exam", "ple.com", " today."]
    agent = Agent(id="support", model=ScriptedModel([pieces]), output_processors=[Redaction()])

    print("the model sends:", pieces)
    async with agent.stream("Where is my money?") as stream:
        print("the client sees:", [text async for text in stream.text_stream])
        print("what is kept:   ", await stream.text)


if __name__ == "__main__":
    asyncio.run(main())
