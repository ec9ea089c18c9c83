"""What Anthropic's Messages API answers; what is sent to it is written in ``request``.

What the blocks of an answer become is in a module of its own: ``blocks``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from interlock._json import camel
from interlock.chunks import (
    CONTENT_FILTER,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    UNKNOWN,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    StepOutcome,
    StepOutput,
)
from interlock.errors import APICallError, is_retryable_status
from interlock.models.anthropic.blocks import Blocks, Delta, OpenBlock
from interlock.models.anthropic.options import NAMESPACE
from interlock.models.anthropic.request import AnthropicCall
from interlock.models.base import ModelRequest
from interlock.models.counts import token_count
from interlock.models.reply import ReplyHead
from interlock.usage import Usage

_FINISH_REASONS = {
    "end_turn": STOP,
    "stop_sequence": STOP,
    "pause_turn": STOP,
    "tool_use": TOOL_CALLS,
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
    "refusal": CONTENT_FILTER,
}
_STATUS_CODES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error would have had before the answer began."""

_COUNTS = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")


class _Event(msgspec.Struct):
    type: str = ""
    index: int | None = 0
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: Any = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


class FromAnthropic:
    """Reads the events of one answer into chunks.

    Args:
        head: What is known of the reply.
        call: The request that it answers.
        request: What was asked for.
    """

    def __init__(self, head: ReplyHead, call: AnthropicCall, request: ModelRequest) -> None:
        self.is_done = False
        """Whether the server said that nothing follows."""
        self._head = head
        self._has_raw = request.include_raw_chunks
        self._blocks = Blocks(request.prompt, call.documents, call.json_tool)
        self._open: dict[int | None, OpenBlock] = {}
        self._usage: dict[str, Any] = {}
        self._ending = Delta()
        self._stray = ""
        """The latest event that does not say what it is: an answer that ends behind it ends because of it."""

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes; events that are new to us make none.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if not data:
            return out
        event = _decoder.decode(data)
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        if event.error or event.type == "error" or kind == "error":
            raise self._error(data)
        match event.type:
            case "content_block_delta" | "content_block_stop":
                block = self._open.get(event.index)
                if block is None:
                    raise self._head.unreadable(data, "it is about a block that has not begun")
                if event.type == "content_block_stop":
                    self._open.pop(event.index).close(out)
                elif event.delta is not None:
                    block.add(event.delta, out)
            case "content_block_start" if event.content_block is not None:
                replaced = self._open.pop(event.index, None)
                if replaced is not None:
                    # Its end was not told.
                    replaced.close(out)
                self._open[event.index] = self._blocks.open(event.index or 0, event.content_block, out)
            case "message_start":
                message = event.message or {}
                self._count(message.get("usage"))
                out.append(self._head.metadata(message.get("id"), message.get("model")))
            case "message_delta":
                self._ending = event.delta or self._ending
                self._count(event.usage)
            case "message_stop":
                self.is_done = True
            case "":
                self._stray = data
        return out

    def end(self, rest: str = "") -> list[Chunk]:
        """The chunks that close the answer.

        Args:
            rest: As for ``ReplyHead.broken_off``.

        Raises:
            APICallError: The stream ended before the answer did.
        """
        if self._ending.stop_reason is None and not self.is_done:
            raise self._head.broken_off(rest or self._stray)
        out: list[Chunk] = []
        for block in self._open.values():
            block.close(out)
        outcome = StepOutcome(reason=self._finish_reason(), raw_reason=self._ending.stop_reason)
        output = StepOutput(usage=_from_usage(self._usage))
        metadata = {NAMESPACE: self._closing_facts()}
        out.append(Finish(payload=FinishPayload(step_result=outcome, output=output, provider_metadata=metadata)))
        return out

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Take token counts, each of which replaces the earlier one."""
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _finish_reason(self) -> str:
        raw = self._ending.stop_reason
        if raw is None:
            return TOOL_CALLS if self._blocks.has_calls else UNKNOWN
        reason = _FINISH_REASONS.get(raw, OTHER)
        # The tool that stands for the answer is nobody else's call.
        return STOP if reason == TOOL_CALLS and not self._blocks.has_calls else reason

    def _closing_facts(self) -> dict[str, Any]:
        ending = self._ending
        facts = {
            "usage": self._usage,
            "cacheCreationInputTokens": self._usage.get("cache_creation_input_tokens"),
            "stopSequence": ending.stop_sequence,
            "stopDetails": ending.stop_details,
            "container": ending.container and {camel(key): value for key, value in ending.container.items()},
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _error(self, data: str) -> APICallError:
        error = self._head.failure(data)
        if error.status_code is None and error.code in _STATUS_CODES:
            error.status_code = _STATUS_CODES[error.code]
            error.is_retryable = is_retryable_status(error.status_code)
        return error


def _from_usage(usage: dict[str, Any]) -> Usage:
    """The counts; tokens that were read from the cache or written to it are input too."""
    read, written, fresh, output = (token_count(usage.get(name)) for name in _COUNTS)
    known = [count for count in (fresh, read, written) if count is not None]
    return Usage(
        input_tokens=sum(known) if known else None,
        output_tokens=output,
        total_tokens=sum(known) + output if known and output is not None else None,
        reasoning_tokens=token_count((usage.get("output_tokens_details") or {}).get("thinking_tokens")),
        cached_input_tokens=read,
    )
