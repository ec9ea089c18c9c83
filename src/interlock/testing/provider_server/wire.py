"""A reply in a provider's protocol: what all of them do alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from interlock.chunks import (
    STOP,
    Chunk,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningSignature,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from interlock.usage import Usage

Event = dict[str, Any]


class Wire:
    """One reply. What a method yields are events; ``encode`` makes bytes of them.

    Args:
        model: The model that was asked for.
        body: The request.
        number: Which request it was, from 1; ids are made of it.
    """

    name: ClassVar[str]
    """The protocol, for errors."""

    def __init__(self, model: str, body: dict[str, Any], number: int) -> None:
        self.model = model
        self.body = body
        self.number = number
        self._streamed_calls: set[str] = set()
        self._open = ""
        """The kind of span that is open: ``text``, ``reasoning`` or none."""

    def say(self, chunk: Chunk) -> Iterator[Event]:
        """The events of one chunk.

        Raises:
            TypeError: The protocol, or this stand-in for it, has no words for the chunk.
        """
        match chunk:
            case TextStart():
                metadata = chunk.payload.provider_metadata or {}
                yield from self._opened("text", is_refusal=any(own.get("refusal") for own in metadata.values()))
            case TextDelta():
                yield from self._opened("text")
                yield from self.text(chunk.payload.text)
            case ReasoningStart():
                yield from self._opened("reasoning")
            case ReasoningDelta():
                yield from self._opened("reasoning")
                yield from self.reasoning(chunk.payload.text)
            case ReasoningSignature():
                yield from self._opened("reasoning")
                yield from self.signature(chunk.payload.signature)
            case ReasoningEnd() if chunk.payload.signature:
                yield from self._opened("reasoning")
                yield from self.signature(chunk.payload.signature)
                yield from self._closed()
            case TextEnd() | ReasoningEnd():
                yield from self._closed()
            case ToolInputStart(payload=call) if not call.provider_executed:
                yield from self._closed()
                self._streamed_calls.add(call.tool_call_id)
                yield from self.call_start(call.tool_call_id, call.tool_name)
            case ToolInputDelta():
                yield from self.arguments(chunk.payload.args_text_delta)
            case ToolInputEnd():
                yield from self.call_end()
            case ToolCall(payload=call) if not call.provider_executed:
                # The input of a call that was streamed has been said already.
                if call.tool_call_id not in self._streamed_calls:
                    yield from self._closed()
                    yield from self.call_start(call.tool_call_id, call.tool_name)
                    yield from self.arguments(_arguments(call.args))
                    yield from self.call_end()
            case Finish():
                yield from self._closed()
                output = chunk.payload.output
                usage = output.usage if output is not None and output.usage is not None else Usage()
                yield from self.finish(chunk.payload.step_result.reason, usage)
            case Chunk(type="stream-start" | "response-metadata" | "raw"):
                pass
            case _:
                raise TypeError(f"the stand-in for {self.name} cannot say a chunk of type {chunk.type!r}")

    def _opened(self, kind: str, *, is_refusal: bool = False) -> Iterator[Event]:
        if self._open != kind:
            yield from self._closed()
            self._open = kind
            yield from self.text_start(is_refusal=is_refusal) if kind == "text" else self.reasoning_start()

    def _closed(self) -> Iterator[Event]:
        kind, self._open = self._open, ""
        if kind:
            yield from self.text_end() if kind == "text" else self.reasoning_end()

    def begin(self) -> Iterable[Event]:
        """Before the first chunk."""
        return ()

    def text_start(self, *, is_refusal: bool) -> Iterable[Event]:
        """A text, or a refusal, begins."""
        return ()

    def text(self, piece: str) -> Iterable[Event]:
        """A piece of the text."""
        raise NotImplementedError

    def text_end(self) -> Iterable[Event]:
        """The text is complete."""
        return ()

    def reasoning_start(self) -> Iterable[Event]:
        """Reasoning begins."""
        return ()

    def reasoning(self, piece: str) -> Iterable[Event]:
        """A piece of the reasoning."""
        raise NotImplementedError

    def signature(self, signature: str) -> Iterable[Event]:
        """The signature of the reasoning, where a protocol has one."""
        return ()

    def reasoning_end(self) -> Iterable[Event]:
        """The reasoning is complete."""
        return ()

    def call_start(self, call_id: str, name: str) -> Iterable[Event]:
        """A call begins."""
        raise NotImplementedError

    def arguments(self, piece: str) -> Iterable[Event]:
        """A piece of the call's arguments, as JSON text."""
        raise NotImplementedError

    def call_end(self) -> Iterable[Event]:
        """The call is complete."""
        return ()

    def finish(self, reason: str, usage: Usage) -> Iterable[Event]:
        """The reply is complete."""
        raise NotImplementedError

    def failure(self, status: int, message: str, code: str | None) -> Iterable[Event]:
        """An error inside the reply."""
        return (self.refusal(status, message, code),)

    @classmethod
    def refusal(cls, status: int, message: str, code: str | None) -> Event:
        """The body of an error."""
        raise NotImplementedError

    def encode(self, event: Event) -> bytes:
        """An event on the wire."""
        return b"data: " + msgspec.json.encode(event) + b"\n\n"

    def closing(self) -> bytes:
        """What stands behind the last event."""
        return b""


def counts(usage: Usage) -> tuple[int, int]:
    """Tokens in and out; providers give numbers, also where a script gives none."""
    return usage.input_tokens or 0, usage.output_tokens or 0


def reason_in(reasons: dict[str, str], reason: str) -> str:
    """A finish reason by a provider's name for it."""
    return reasons.get(reason, reasons[STOP])


def _arguments(args: Any) -> str:
    return args if isinstance(args, str) else msgspec.json.encode({} if args is None else args).decode()
