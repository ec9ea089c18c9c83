"""What the type checker knows inside the hooks of a user's program; checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

from interlock import Chunk, Message, MessageList, Processor, TextDelta
from interlock.messages.parts import ReasoningPart, TextPart, ToolInvocationPart
from interlock.processors import HookArgs, ProcessInputArgs, ProcessOutputStreamArgs, ProcessToolResultArgs


class Lowercase(Processor):
    id = "lowercase"

    def process_input(self, args: ProcessInputArgs) -> list[Message]:
        for message in args.messages:
            for part in message.content.parts:
                assert_type(part.type, str)
                if isinstance(part, TextPart):
                    part.text = part.text.lower()
                if isinstance(part, ReasoningPart):
                    part.type = "thinking"
        return args.messages

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk | None:
        if isinstance(args.part, TextDelta):
            assert_type(args.part.payload.text, str)
        return args.part

    def process_tool_result(self, args: ProcessToolResultArgs) -> None:
        assert_type(args.result, Any)
        for part in args.messages[-1].content.parts:
            if isinstance(part, ToolInvocationPart):
                assert_type(part.tool_invocation.state, str)


def of_any_hook(args: HookArgs) -> None:
    """A function that all hooks of a processor may call."""
    assert_type(args.message_list, MessageList)
    assert_type(args.messages, list[Message])
