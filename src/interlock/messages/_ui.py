"""The UI shape of messages, ``{id, role, metadata, parts}``, in and out (R3.9, R3.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock._json import iso, to_json
from interlock._text import well_formed_data
from interlock.messages._copying import copy_data
from interlock.messages._core import part_of_content
from interlock.messages.parts import (
    DataPart,
    FilePart,
    Message,
    Part,
    SourceDocumentPart,
    SourcePart,
    TextPart,
    ToolApproval,
    ToolInvocation,
    ToolInvocationPart,
    part_from_dict,
)
from interlock.messages.prompt import is_reasoning, reasoning_text

_UI_STATES = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}
_STATES = {ui: state for state, ui in _UI_STATES.items()}


def to_ui_message(message: Message) -> dict[str, Any]:
    """The message as a chat client shows it; ``metadata`` has date, thread and resource besides its own."""
    content = message.content
    metadata: dict[str, Any] = {}
    if message.created_at is not None:
        metadata["createdAt"] = iso(message.created_at)
    if message.thread_id is not None:
        metadata["threadId"] = message.thread_id
    if message.resource_id is not None:
        metadata["resourceId"] = message.resource_id
    parts: Sequence[Part] = content.parts
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    return {
        "id": message.id,
        "role": message.role,
        "metadata": {**metadata, **to_json(copy_data(content.metadata or {}))},
        "parts": [_to_ui_part(part) for part in parts],
    }


def _to_ui_part(part: Part) -> dict[str, Any]:
    if part.type == "tool-invocation" and isinstance(part, ToolInvocationPart):
        return _to_ui_tool(part)
    if is_reasoning(part):
        return _described({"type": "reasoning", "text": reasoning_text(part)}, part)
    if part.type == "file" and isinstance(part, FilePart):
        file = {"type": "file", "mediaType": part.mime_type, "url": _url_of(part)}
        if part.filename is not None:
            file["filename"] = part.filename
        return _described(file, part)
    if part.type == "source" and isinstance(part, SourcePart):
        source = part.source
        out = {"type": "source-url", "sourceId": source.get("id"), "url": source.get("url")}
        if source.get("title") is not None:
            out["title"] = source["title"]
        if source.get("providerMetadata") is not None:
            out["providerMetadata"] = copy_data(source["providerMetadata"])
        return _described(out, part)
    # Text, documents, step starts and data look alike in both shapes; unknown parts are passed on as they are.
    out = copy_data(part.to_dict())
    out.pop("createdAt", None)
    return out  # type: ignore[no-any-return]  # a dict went in


def _to_ui_tool(part: ToolInvocationPart) -> dict[str, Any]:
    invocation = part.tool_invocation
    out: dict[str, Any] = {
        "type": f"tool-{invocation.tool_name}",
        "toolCallId": invocation.tool_call_id,
        "state": _UI_STATES.get(invocation.state, invocation.state),
        "input": to_json(copy_data(invocation.args)),
    }
    if invocation.state == "result":
        out["output"] = to_json(copy_data(invocation.result))
    if invocation.state == "output-error":
        out["errorText"] = invocation.error_text or ""
    optional = {
        "rawInput": invocation.raw_input,
        "approval": invocation.approval,
        "providerExecuted": part.provider_executed,
        "title": part.title,
        "preliminary": part.preliminary,
        "callProviderMetadata": part.provider_metadata,
    }
    out |= {key: to_json(copy_data(value)) for key, value in optional.items() if value is not None}
    return out


def _url_of(part: FilePart) -> str:
    """A URL for the file: URLs and data URIs as they are, base64 as a data URI."""
    data = part.data
    if data[:5].lower() == "data:" or "://" in data[:64]:
        return data
    return f"data:{part.mime_type};base64,{data}"


def _described(out: dict[str, Any], part: Part) -> dict[str, Any]:
    if part.provider_metadata is not None:
        out.setdefault("providerMetadata", copy_data(part.provider_metadata))
    return out


def part_of_ui(item: Mapping[str, Any]) -> Part:
    """One message part from one part of a UI message, or of the older shapes that clients send in its place."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return part_from_dict(dict(item))
    if _is_ui_tool(kind, item):
        return _tool_of_ui(kind, item)
    if kind == "source-url":
        source = {"sourceType": "url", "id": item.get("sourceId"), "url": item.get("url")}
        source |= {key: item[key] for key in ("title",) if item.get(key) is not None}
        return SourcePart(source=source, provider_metadata=item.get("providerMetadata"))
    if kind == "source-document":
        return SourceDocumentPart.from_dict(dict(item))
    if kind.startswith("data-"):
        return DataPart.from_dict(dict(item))
    if kind in ("tool-invocation", "source", "step-start"):
        return part_from_dict(
            {key: value for key, value in item.items() if not (kind == "step-start" and key == "state")}
        )
    return part_of_content(item)


def _is_ui_tool(kind: str, item: Mapping[str, Any]) -> bool:
    if kind == "dynamic-tool":
        return True
    return kind.startswith("tool-") and isinstance(item.get("state"), str) and "toolInvocation" not in item


def _tool_of_ui(kind: str, item: Mapping[str, Any]) -> Part:
    approval = item.get("approval")
    state = item["state"]
    invocation = ToolInvocation(
        state=_STATES.get(state, state),
        tool_call_id=str(item.get("toolCallId") or ""),
        tool_name=str(item.get("toolName") or "") if kind == "dynamic-tool" else kind.removeprefix("tool-"),
        args=well_formed_data(item.get("input")),
        result=well_formed_data(item.get("output")),
        error_text=item.get("errorText") if state == "output-error" else None,
        raw_input=item.get("rawInput"),
        approval=ToolApproval.from_dict(dict(approval)) if isinstance(approval, Mapping) else None,
    )
    return ToolInvocationPart(
        tool_invocation=invocation,
        provider_executed=item.get("providerExecuted"),
        title=item.get("title"),
        preliminary=item.get("preliminary"),
        provider_metadata=item.get("callProviderMetadata") or item.get("providerMetadata"),
    )
