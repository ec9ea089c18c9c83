"""A provider prompt as Anthropic's system blocks and messages (R4.9 to R4.20)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.anthropic.files import CitedDocument, is_file_id, to_file_block
from interlock.models.anthropic.options import own_options
from interlock.models.anthropic.server_tools import is_own_call, to_server_call, to_server_result
from interlock.models.base import Prompt
from interlock.models.prompt_parts import call_args, json_text, output_parts

MAX_CACHE_MARKERS = 4

_FAILED_TEXT = "Tool execution failed"
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")
_THOUGHTS = ("thinking", "redacted_thinking")

Block = dict[str, Any]


class AnthropicPrompt(msgspec.Struct):
    """What a prompt becomes, and what had to be left out or changed on the way."""

    system: list[Block] = []
    messages: list[dict[str, Any]] = []
    documents: list[CitedDocument] = []
    """In the order in which citations count them."""
    warnings: list[dict[str, Any]] = []

    def say(self, role: str, blocks: list[Block]) -> None:
        """Add to the conversation; messages of one role in a row become one."""
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})

    def warn(self, message: str) -> None:
        """Tell the caller of a change."""
        self.warnings.append({"type": "other", "message": message})


def to_prompt(prompt: Prompt, *, sends_reasoning: bool = True) -> AnthropicPrompt:
    """The prompt in Anthropic's form.

    Args:
        prompt: A provider prompt.
        sends_reasoning: Whether earlier thinking is given back to the model.

    Raises:
        ModelError: It holds something that the API cannot carry.
    """
    out = AnthropicPrompt()
    reach = _last_question(prompt)
    for place, message in enumerate(prompt):
        blocks = list(_to_blocks(message, out, is_past=place < reach, sends_reasoning=sends_reasoning))
        _mark(blocks, own_options(message), out)
        match message["role"]:
            case "system":
                if out.messages:
                    out.warn("a system message in the middle of the conversation was sent before it")
                out.system += blocks
            case "assistant":
                out.say("assistant", blocks)
            case _:
                out.say("user", blocks)
    _mend_ends(out)
    return out


def limit_cache_markers(blocks: list[Block], warnings: list[dict[str, Any]], *, others: int) -> None:
    """Take the first cache markers away if the API would refuse their number.

    Args:
        blocks: All blocks of the request, in order.
        warnings: Is told.
        others: Markers of the request that stand elsewhere.
    """
    marked = [block for block in blocks if "cache_control" in block]
    surplus = marked[: max(0, len(marked) + others - MAX_CACHE_MARKERS)]
    for block in surplus:
        del block["cache_control"]
    if surplus:
        message = f"the first {len(surplus)} cache markers were left out: a request may have {MAX_CACHE_MARKERS}"
        warnings.append({"type": "other", "message": message})


def _last_question(prompt: Prompt) -> int:
    """Place of the last user message; a call of the API's own tools before it can get no result any more."""
    return max((place for place, message in enumerate(prompt) if message["role"] == "user"), default=-1)


def _to_blocks(
    message: Mapping[str, Any], out: AnthropicPrompt, *, is_past: bool, sends_reasoning: bool
) -> Iterator[Block]:
    content = message["content"]
    match message["role"]:
        case "system":
            if content.strip():
                yield {"type": "text", "text": content}
        case "user":
            for part in content:
                yield from _marked(part, _to_user_block(part, out), out)
        case "assistant":
            results = {part["toolCallId"] for part in content if part["type"] == "tool-result"}
            for part in content:
                if part["type"] == "reasoning" and not sends_reasoning:
                    continue
                is_lost = is_past and part["type"] == "tool-call" and part["toolCallId"] not in results
                yield from _marked(part, _to_assistant_block(part, out, is_lost=is_lost), out)
        case "tool":
            for part in content:
                yield from _marked(part, _to_tool_result(part, out), out)
        case role:
            raise ModelError(f"a prompt message has the role {role!r}; it is system, user, assistant or tool")


def _to_user_block(part: dict[str, Any], out: AnthropicPrompt) -> Block | None:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]} if part["text"].strip() else None
    if part["type"] != "file":
        raise ModelError(f"a user message has a part of type {part['type']!r}, which Anthropic cannot carry")
    return to_file_block(part, out.documents)


def _to_assistant_block(part: dict[str, Any], out: AnthropicPrompt, *, is_lost: bool) -> Block | None:
    match part["type"]:
        case "text":
            if not part["text"].strip():
                return None
            citations = own_options(part).get("citations")
            return {"type": "text", "text": part["text"], **({"citations": citations} if citations else {})}
        case "reasoning":
            return _to_thinking(part, out)
        case "tool-call" if not part.get("providerExecuted"):
            options = own_options(part)
            call = {"id": _to_call_id(part), "name": part["toolName"], "input": call_args(part["input"])}
            return {"type": "tool_use", **call, **({"caller": options["caller"]} if "caller" in options else {})}
        case "tool-call" | "tool-result" if not is_own_call(part):
            out.warn(f"a call of {part['toolName']!r}, which another provider executed, was left out")
        case "tool-call" if is_lost:
            out.warn(f"a call of {part['toolName']!r} without a result was left out")
        case "tool-call":
            return to_server_call({**part, "input": call_args(part["input"])})
        case "tool-result":
            block, is_said = to_server_result(part)
            if not is_said:
                out.warn(f"the result of {part['toolName']!r} was replaced by a failure: it is not as the API sent it")
            return block
        case "file" if is_file_id(part["data"]):
            return {"type": "container_upload", "file_id": part["data"]}
        case kind:
            out.warn(f"an assistant message had a part of type {kind!r}, which Anthropic cannot carry")
    return None


def _to_thinking(part: dict[str, Any], out: AnthropicPrompt) -> Block | None:
    options = own_options(part)
    if options.get("signature"):
        return {"type": "thinking", "thinking": part["text"], "signature": options["signature"]}
    if options.get("redacted_data"):
        return {"type": "redacted_thinking", "data": options["redacted_data"]}
    out.warn("reasoning without Anthropic's signature was left out")
    return None


def _to_tool_result(part: dict[str, Any], out: AnthropicPrompt) -> Block:
    output = part["output"]
    kind, value = output["type"], output.get("value")
    is_error = kind.startswith("error-")
    content: Any
    if kind == "content":
        parts = output_parts(output)
        content = [block for item in parts if (block := _to_user_block(item, out)) is not None]
    elif kind in ("text", "error-text"):
        content = str(value)
    else:
        content = json_text(value)
    if not is_error:
        return {"type": "tool_result", "tool_use_id": _to_call_id(part), "content": content}
    return {
        "type": "tool_result",
        "tool_use_id": _to_call_id(part),
        "content": content or _FAILED_TEXT,
        "is_error": True,
    }


def _to_call_id(part: dict[str, Any]) -> str:
    """The call's id without the characters that the API refuses; other providers use some."""
    return _NO_ID.sub("_", part["toolCallId"])


def _marked(part: dict[str, Any], block: Block | None, out: AnthropicPrompt) -> Iterator[Block]:
    if block is not None:
        _mark([block], own_options(part), out)
        yield block


def _mark(blocks: list[Block], options: dict[str, Any], out: AnthropicPrompt) -> None:
    """Put a cache marker on the last block that can bear one."""
    marker = options.get("cache_control")
    if marker is None or not blocks:
        return
    for block in reversed(blocks):
        if block["type"] not in _THOUGHTS:
            block.setdefault("cache_control", marker)
            return
    out.warn("a cache marker on thinking was left out: Anthropic caches it with what follows")


def _mend_ends(out: AnthropicPrompt) -> None:
    """Make the first and the last message such as the API takes them."""
    messages = out.messages
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": "."}]})
        out.warn("the conversation began with the assistant: a user message '.' was put before it")
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"][-1]
        if last["type"] == "text":
            last["text"] = last["text"].rstrip()
