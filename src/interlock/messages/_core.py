"""The core and model shapes of messages, ``{role, content: text or parts}``, in and out (R3.5, R3.9, R3.11)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from interlock._text import sendable, well_formed, well_formed_data
from interlock.messages._merge import find_call, update_invocation
from interlock.messages._model_output import noted_output
from interlock.messages._openai_chat import CHAT_READERS, read_chat_file
from interlock.messages.parts import (
    PART_TYPES,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolApproval,
    ToolInvocation,
    ToolInvocationPart,
    part_from_dict,
)
from interlock.messages.prompt import (
    FAILED_TEXT,
    blocks,
    denial,
    file_part,
    is_reasoning,
    provider_options,
    reasoning_parts,
    reasoning_text,
    sent_text,
    split_data_uri,
    tool_output,
)

WireMessage = dict[str, Any]


class _Shape(NamedTuple):
    """Where the core and the model shape differ."""

    args_key: str
    media_key: str
    outcome: Callable[[ToolInvocationPart], dict[str, Any]]
    reasoning: Callable[[Part], list[dict[str, Any]]]


def core_messages(message: Message) -> list[WireMessage]:
    """The message in core shape: calls have ``args``, results ``result``."""
    return _messages(message, _CORE, keep_pending=True)


def model_messages(message: Message, *, keep_pending: bool = True) -> list[WireMessage]:
    """The message in model shape: calls have ``input``, results ``output``; optionally without unanswered calls."""
    return _messages(message, _MODEL, keep_pending=keep_pending)


def _messages(message: Message, shape: _Shape, *, keep_pending: bool) -> list[WireMessage]:
    content = message.content
    parts: Sequence[Part] = content.parts
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    options = provider_options(content.provider_metadata)
    extra = {"providerOptions": options} if options else {}
    if message.role != "assistant":
        asked = [sent for part in parts if part.type in ("text", "file") for sent in _content(part, shape)]
        return [{"role": "user", "content": asked, **extra}] if asked else []
    out: list[WireMessage] = []
    for block in blocks(parts):
        said: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for part in block:
            if part.type != "tool-invocation" or not isinstance(part, ToolInvocationPart):
                said += _content(part, shape)
                continue
            is_pending = part.tool_invocation.is_pending
            if is_pending and not keep_pending and not part.provider_executed:
                continue
            said.append(_call(part, shape))
            if not is_pending:
                (said if part.provider_executed else results).append(_result(part, shape))
        if said:
            out.append({"role": "assistant", "content": said, **extra})
        if results:
            out.append({"role": "tool", "content": results})
    return out


def _content(part: Part, shape: _Shape) -> list[dict[str, Any]]:
    if part.type == "text":
        text = sent_text(part)
        return [_optioned({"type": "text", "text": text}, part)] if text else []
    if is_reasoning(part):
        return shape.reasoning(part)
    if part.type == "file":
        file = file_part(part)
        if file is not None:
            file[shape.media_key] = file.pop("mediaType")
            return [file]
    return []


def _call(part: ToolInvocationPart, shape: _Shape) -> dict[str, Any]:
    invocation = part.tool_invocation
    call = {
        "type": "tool-call",
        "toolCallId": invocation.tool_call_id,
        "toolName": invocation.tool_name,
        shape.args_key: {} if invocation.args is None else sendable(invocation.args),
    }
    if part.provider_executed:
        call["providerExecuted"] = True
    return _optioned(call, part)


def _result(part: ToolInvocationPart, shape: _Shape) -> dict[str, Any]:
    invocation = part.tool_invocation
    result = {
        "type": "tool-result",
        "toolCallId": invocation.tool_call_id,
        "toolName": invocation.tool_name,
        **shape.outcome(part),
    }
    return _optioned(result, part)


def _optioned(sent: dict[str, Any], part: Part) -> dict[str, Any]:
    options = provider_options(part.provider_metadata)
    return {**sent, "providerOptions": options} if options else sent


def _core_outcome(part: ToolInvocationPart) -> dict[str, Any]:
    invocation = part.tool_invocation
    if invocation.state == "output-error":
        return {"result": well_formed(invocation.error_text or FAILED_TEXT), "isError": True}
    if invocation.state == "output-denied":
        return {"result": denial(invocation)}
    return {"result": sendable(invocation.result), **({"isError": True} if invocation.is_error else {})}


def _core_reasoning(part: Part) -> list[dict[str, Any]]:
    details = [detail for detail in getattr(part, "details", None) or () if isinstance(detail, dict)]
    sent: list[dict[str, Any]] = []
    for detail in details:
        if detail.get("type") == "redacted":
            sent.append({"type": "redacted-reasoning", "data": detail.get("data")})
        elif detail.get("text") or detail.get("signature"):
            signed = {"signature": detail["signature"]} if detail.get("signature") else {}
            sent.append({"type": "reasoning", "text": well_formed(detail.get("text") or ""), **signed})
    if not sent and reasoning_text(part):
        sent.append({"type": "reasoning", "text": reasoning_text(part)})
    return [_optioned(one, part) for one in sent]


_CORE = _Shape("args", "mimeType", _core_outcome, _core_reasoning)
_MODEL = _Shape("input", "mediaType", lambda part: {"output": tool_output(part)}, reasoning_parts)


def parts_of_content(content: Sequence[Any]) -> list[Part]:
    """Message parts from a list of core or model content parts (R3.5).

    A result whose call is in the same list goes into that call; other results become parts in state ``result``.

    Raises:
        TypeError: a part is no dict.
        ValueError: a part has a type that is none of these shapes', or lacks what its type needs.
    """
    parts: list[Part] = []
    for position, item in enumerate(content):
        if isinstance(item, Part):
            parts.append(item)
            continue
        if isinstance(item, str):
            item = {"type": "text", "text": item}
        if not isinstance(item, Mapping):
            raise TypeError(f"content part {position} must be a dict with a type, not {type(item).__name__}")
        try:
            part = part_of_content(item) if item.get("type") in _READERS else _rare_part(item)
        except (TypeError, ValueError) as error:
            raise ValueError(f"content part {position} cannot be read: {error}") from error
        if item.get("type") == "tool-result" and isinstance(part, ToolInvocationPart):
            call = find_call(parts, part.tool_invocation.tool_call_id)
            if call is not None:
                update_invocation(call, part)
                continue
        parts.append(part)
    return parts


def _rare_part(item: Mapping[str, Any]) -> Part:
    """One message part from a content part that only some callers have: of Chat Completions, or as it is stored."""
    kind = item.get("type")
    if kind in CHAT_READERS:
        return CHAT_READERS[kind](item)
    # No prompt has a part of an unknown type: it would be left out without a word.
    if not isinstance(kind, str) or not (kind in _STORED_TYPES or _is_of_a_family(kind, item)):
        known = ", ".join(sorted({*_READERS, *CHAT_READERS, *_STORED_TYPES}))
        raise ValueError(f"nothing has the type {kind!r}; the known ones are {known}")
    return part_from_dict(dict(item))


def _is_of_a_family(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the types are open: data, and the tools of a UI message."""
    return kind.startswith("data-") or (kind.startswith("tool-") and "toolCallId" in item)


def part_of_content(item: Mapping[str, Any]) -> Part:
    """One message part from one core or model content part; unknown ones are kept as they are."""
    read = _READERS.get(item.get("type"))  # type: ignore[arg-type]  # an unhashable type is no type
    part = part_from_dict(dict(item)) if read is None else read(item)
    options = item.get("providerOptions") or item.get("providerMetadata")
    if read is not None:
        if options:
            part.provider_metadata = {**options, **(part.provider_metadata or {})}
        if isinstance(item.get("createdAt"), int):
            part.created_at = item["createdAt"]
    return part


def _read_text(item: Mapping[str, Any]) -> Part:
    text = item.get("text")
    return TextPart(text=well_formed(text) if isinstance(text, str) else "")


def _read_reasoning(item: Mapping[str, Any]) -> Part:
    if "reasoning" in item or "details" in item:
        return part_from_dict(dict(item))
    text = well_formed(str(item.get("text") or ""))
    detail: dict[str, Any] = {"type": "text", "text": text}
    if item.get("signature"):
        detail["signature"] = item["signature"]
    return ReasoningPart(reasoning=text, details=[detail])


def _read_redacted(item: Mapping[str, Any]) -> Part:
    return ReasoningPart(details=[{"type": "redacted", "data": item.get("data")}])


def _read_image(item: Mapping[str, Any]) -> Part:
    return _file(item.get("image") or item.get("url"), item, "image/jpeg")


def _read_file(item: Mapping[str, Any]) -> Part:
    if isinstance(item.get("file"), Mapping):
        return read_chat_file(item["file"])
    return _file(item.get("data") or item.get("url"), item, "")


def _file(data: Any, item: Mapping[str, Any], default: str) -> Part:
    media_type = item.get("mediaType") or item.get("mimeType")
    if isinstance(data, (bytes, bytearray)):
        data = base64.b64encode(data).decode()
    data = data if isinstance(data, str) else str(data or "")
    return FilePart(
        mime_type=media_type or split_data_uri(data)[0] or default, data=data, filename=item.get("filename")
    )


def _read_call(item: Mapping[str, Any]) -> Part:
    return _invocation_part(item, state="call")


def _read_result(item: Mapping[str, Any]) -> Part:
    output = item.get("output")
    if "result" in item or not isinstance(output, Mapping) or "type" not in output:
        result = item.get("result", output)
        if item.get("isError") and isinstance(result, str):
            return _invocation_part(item, state="output-error", error_text=well_formed(result), is_error=True)
        return _invocation_part(
            item, state="result", result=well_formed_data(result), is_error=item.get("isError") or None
        )
    kind, value = output["type"], well_formed_data(output.get("value"))
    if kind == "error-text":
        return _invocation_part(item, state="output-error", error_text=str(value))
    if kind == "execution-denied":
        approval = ToolApproval(id=str(item.get("toolCallId") or ""), approved=False, reason=output.get("reason"))
        return _invocation_part(item, state="output-denied", approval=approval)
    part = _invocation_part(item, state="result", result=value, is_error=True if kind == "error-json" else None)
    if kind not in ("text", "json"):
        # Content outputs (images and the like) go back to the model as they came (R4.11).
        part.provider_metadata = noted_output(well_formed_data(dict(output)), value)
    return part


def _invocation_part(item: Mapping[str, Any], **outcome: Any) -> ToolInvocationPart:
    invocation = ToolInvocation(
        tool_call_id=str(item.get("toolCallId") or ""),
        tool_name=str(item.get("toolName") or ""),
        args=well_formed_data(item.get("input", item.get("args"))),
        **outcome,
    )
    return ToolInvocationPart(tool_invocation=invocation, provider_executed=item.get("providerExecuted") or None)


_READERS: dict[str, Callable[[Mapping[str, Any]], Part]] = {
    "text": _read_text,
    "reasoning": _read_reasoning,
    "redacted-reasoning": _read_redacted,
    "image": _read_image,
    "file": _read_file,
    "tool-call": _read_call,
    "tool-result": _read_result,
}

_STORED_TYPES = frozenset({*PART_TYPES, "tool-approval-request", "tool-approval-response", "source-url"})
