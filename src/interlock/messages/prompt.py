"""Messages → provider prompt (R4.9 to R4.20): pure, deterministic, no downloads.

A prompt message is a plain camelCase dict ``{role, content, providerOptions?}``. Nothing in it is shared with the
message it was made from, so that an edit of the message never reaches a prompt that was already sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

from interlock._json import copy_json
from interlock._text import sendable, well_formed
from interlock.messages._model_output import model_output
from interlock.messages.parts import (
    PENDING_STATES,
    FilePart,
    Message,
    Part,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
)
from interlock.messages.text import get_text

PromptMessage = dict[str, Any]
"""``{role, content, providerOptions?}`` (R4.9)."""

BOOKKEEPING_NAMESPACES = ("mastra", "interlock")
"""Namespaces of provider metadata that are ours and never sent (R4.18)."""

DENIED_TEXT = "Tool call was not approved by the user"
UNKNOWN_TOOL = "unknown_tool"
FAILED_TEXT = "Tool execution failed"
DEFAULT_MEDIA_TYPE = "application/octet-stream"

_tool_name = re.compile(r"[A-Za-z0-9_-]+")


def prompt_of(message: Message, start: int = 0, stop: int | None = None) -> list[PromptMessage]:
    """The prompt messages of one message, or of its parts from ``start`` to ``stop`` only.

    An empty list means that nothing of it is sent. A tool message always follows the call it answers (R4.12).
    """
    content = message.content
    parts = content.parts
    role = message.role
    if role == "system":
        return [{"role": "system", "content": well_formed(get_text(message))}]
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    elif start or stop is not None:
        parts = parts[start:stop]
    options = provider_options(content.provider_metadata)
    if role == "assistant":
        sent: list[PromptMessage] = []
        for block in blocks(parts):
            sent += _assistant_block(block, options)
        return sent
    return _with_content("user", [said for part in parts if (said := _user_part(part)) is not None], options)


def text_prompts_of(messages: Iterable[Message]) -> list[PromptMessage]:
    """The prompt messages of messages that are a text and nothing else, as most are, up to the first other one.

    Each of them is one prompt message.
    """
    sent: list[PromptMessage] = []
    for message in messages:
        content = message.content
        parts, role = content.parts, message.role
        if len(parts) != 1 or content.provider_metadata is not None:
            break
        part = parts[0]
        if part.__class__ is not TextPart or part.type != "text" or part.provider_metadata is not None:
            break
        text = part.text
        if not text or (role != "user" and (role != "assistant" or text.isspace())):
            break
        if not text.isascii():
            text = well_formed(text)
        sent.append({"role": role, "content": [{"type": "text", "text": text}]})
    return sent


def step_prompt_of(parts: Sequence[Part]) -> list[PromptMessage] | None:
    """The prompt messages of a step that is texts and then answered calls, as most are; ``None`` for all others."""
    content: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in parts:
        kind = part.__class__
        if part.provider_metadata is not None:
            return None
        if kind is ToolInvocationPart and part.type == "tool-invocation":
            assert isinstance(part, ToolInvocationPart)
            invocation = part.tool_invocation
            if invocation.state != "result" or part.provider_executed:
                return None
            call_id, name = invocation.tool_call_id, _prompt_tool_name(invocation.tool_name)
            args, result = invocation.args, invocation.result
            sent_args = {} if args is None else sendable(args)
            content.append({"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": sent_args})
            if isinstance(result, str):
                output = {"type": "text", "value": result if result.isascii() else well_formed(result)}
            else:
                output = {"type": "json", "value": sendable(result)}
            results.append({"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output})
        elif results:
            return None
        elif kind is TextPart and part.type == "text":
            text = sent_text(part)
            if text and not text.isspace():
                content.append({"type": "text", "text": text})
        elif content or part.type != "step-start":
            return None
    if results:
        return [{"role": "assistant", "content": content}, {"role": "tool", "content": results}]
    return [{"role": "assistant", "content": content}] if content else []


def blocks(parts: Sequence[Part]) -> list[list[Part]]:
    """Cut an assistant message where another step begins, so that calls of two steps never look parallel (R3.11).

    Cuts are the ``step-start`` parts, and the first text, reasoning or file after the result of a call.
    """
    cut: list[list[Part]] = []
    block: list[Part] = []
    has_result = False
    for part in parts:
        kind = part.type
        if kind == "step-start" or (has_result and _is_content(part)):
            if block:
                cut.append(block)
            block, has_result = [], False
            if kind == "step-start":
                continue
        if kind == "tool-invocation" and isinstance(part, ToolInvocationPart) and not part.provider_executed:
            has_result = has_result or part.tool_invocation.state not in PENDING_STATES
        block.append(part)
    if block:
        cut.append(block)
    return cut


def _assistant_block(block: list[Part], options: dict[str, Any] | None) -> list[PromptMessage]:
    content: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in block:
        if part.type == "tool-invocation":
            if isinstance(part, ToolInvocationPart):
                _call_and_result(part, content, results)
        elif part.type == "text":
            text = sent_text(part)
            if text and not text.isspace():
                content.append(_with_options({"type": "text", "text": text}, part))
        elif is_reasoning(part):
            content += reasoning_parts(part)
        elif part.type == "file":
            file = file_part(part)
            if file is not None:
                content.append(file)
    messages = _with_content("assistant", content, options)
    if results:
        messages.append({"role": "tool", "content": results})
    return messages


def _call_and_result(part: ToolInvocationPart, content: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    invocation = part.tool_invocation
    is_pending = invocation.state in PENDING_STATES
    if is_pending and not part.provider_executed:
        return
    name = _prompt_tool_name(invocation.tool_name)
    call = {
        "type": "tool-call",
        "toolCallId": invocation.tool_call_id,
        "toolName": name,
        "input": {} if invocation.args is None else sendable(invocation.args),
    }
    if part.provider_executed:
        call["providerExecuted"] = True
    content.append(_with_options(call, part))
    if is_pending:
        return
    result = {
        "type": "tool-result",
        "toolCallId": invocation.tool_call_id,
        "toolName": name,
        "output": tool_output(part),
    }
    # A provider's own call keeps its result beside it (R4.13).
    (content if part.provider_executed else results).append(_with_options(result, part))


def _user_part(part: Part) -> dict[str, Any] | None:
    if part.type == "text":
        text = sent_text(part)
        return _with_options({"type": "text", "text": text}, part) if text else None
    return file_part(part) if part.type == "file" else None


def sent_text(part: Part) -> str:
    """The text of a part of type ``text`` as it is sent."""
    text = getattr(part, "text", None)
    return well_formed(text) if isinstance(text, str) else ""


def tool_output(part: ToolInvocationPart) -> dict[str, Any]:
    """What the model is told of a finished call (R4.11)."""
    invocation = part.tool_invocation
    output = model_output(part) if part.provider_metadata and invocation.state == "result" else None
    if output is not None:
        return sendable(output)  # type: ignore[no-any-return]  # stored as an output of this shape
    if invocation.state == "output-error":
        return {"type": "error-text", "value": well_formed(invocation.error_text or FAILED_TEXT)}
    if invocation.state == "output-denied":
        return {"type": "text", "value": denial(invocation)}
    if isinstance(invocation.result, str):
        return {"type": "text", "value": well_formed(invocation.result)}
    return {"type": "json", "value": sendable(invocation.result)}


def denial(invocation: ToolInvocation) -> str:
    """Why a call was declined."""
    reason = invocation.approval.reason if invocation.approval is not None else None
    return well_formed(reason) if reason else DENIED_TEXT


def reasoning_parts(part: Part) -> list[dict[str, Any]]:
    """Reasoning as it is sent: a part for each signed or redacted piece, none if it says nothing (R4.14, R4.15).

    Signatures and redacted data travel in the options of the provider they came from; without one on the part, that is
    ``anthropic``, whose terms they are.
    """
    options = provider_options(part.provider_metadata)
    sent: list[dict[str, Any]] = []
    for detail in _signed_details(part):
        own = dict(options or {})
        namespace = next(iter(own), "anthropic")
        facts = {"redactedData": detail.get("data")} if detail.get("type") == "redacted" else {}
        if detail.get("signature"):
            facts["signature"] = detail["signature"]
        own[namespace] = {**facts, **own[namespace]} if isinstance(own.get(namespace), dict) else facts
        sent.append({"type": "reasoning", "text": well_formed(detail.get("text") or ""), "providerOptions": own})
    if sent:
        return sent
    text = reasoning_text(part)
    if not text and not options:
        return []
    return [_with_options({"type": "reasoning", "text": text}, part)]


def is_reasoning(part: Part) -> bool:
    """Whether the part is sent as reasoning; ``thinking`` is another name for it (R4.3)."""
    return part.type == "reasoning" or part.type == "thinking"


def _signed_details(part: Part) -> list[dict[str, Any]]:
    details = [detail for detail in getattr(part, "details", None) or () if isinstance(detail, dict)]
    if any(detail.get("signature") or detail.get("type") == "redacted" for detail in details):
        return details
    return []


def reasoning_text(part: Part) -> str:
    """The text of a reasoning or thinking part, whichever field a type change in place left it in (R4.3)."""
    extra = part.extra or {}
    for text in (
        getattr(part, "reasoning", None),
        getattr(part, "text", None),
        *(extra.get(key) for key in ("reasoning", "thinking", "text")),
    ):
        if isinstance(text, str) and text:
            return well_formed(text)
    details = getattr(part, "details", None) or ()
    return "".join(well_formed(detail.get("text") or "") for detail in details if isinstance(detail, dict))


def file_part(part: Part) -> dict[str, Any] | None:
    """A file as it is sent: a data URI is split, URLs and file ids are left as they are (R4.16)."""
    if not isinstance(part, FilePart) or not part.data:
        return None
    media_type, data = split_data_uri(part.data)
    file = {
        "type": "file",
        "mediaType": part.mime_type or media_type or DEFAULT_MEDIA_TYPE,
        "data": data,
    }
    if part.filename is not None:
        file["filename"] = part.filename
    return _with_options(file, part)


def split_data_uri(data: str) -> tuple[str | None, str]:
    """Media type and bare base64 of a data URI; anything else is returned as it is."""
    if data[:5].lower() != "data:" or "," not in data:
        return None, data
    head, payload = data[5:].split(",", 1)
    media_type, *parameters = head.split(";")
    if not any(parameter.strip().lower() == "base64" for parameter in parameters):
        payload = base64.b64encode(unquote_to_bytes(payload)).decode()
    return media_type.strip() or None, payload


def provider_options(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Provider metadata as it is sent back: without our own bookkeeping, ``None`` if nothing is left (R4.18)."""
    if not metadata:
        return None
    options = {name: copy_json(value) for name, value in metadata.items() if name not in BOOKKEEPING_NAMESPACES}
    return options or None


def _is_content(part: Part) -> bool:
    if part.type == "text":
        text = sent_text(part)
        return bool(text) and not text.isspace()
    return part.type == "file" or is_reasoning(part)


def _with_content(role: str, content: list[dict[str, Any]], options: dict[str, Any] | None) -> list[PromptMessage]:
    if not content:
        return []
    return [{"role": role, "content": content, **({"providerOptions": options} if options else {})}]


def _with_options(sent: dict[str, Any], part: Part) -> dict[str, Any]:
    if part.provider_metadata is not None:
        options = provider_options(part.provider_metadata)
        if options:
            sent["providerOptions"] = options
    return sent


@lru_cache(maxsize=1024)
def _prompt_tool_name(name: str) -> str:
    return name if _tool_name.fullmatch(name) else UNKNOWN_TOOL
