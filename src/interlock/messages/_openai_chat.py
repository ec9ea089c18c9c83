"""Reads what OpenAI's Chat Completions spell differently: calls beside the content, answers, and media parts (R3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from interlock._text import well_formed, well_formed_data
from interlock.messages.parts import FilePart, Part, TextPart, ToolInvocation, ToolInvocationPart
from interlock.messages.prompt import split_data_uri

NEEDS_CALL_ID = "a tool message holds tool-result parts, or text beside the tool_call_id of the call that it answers"

_AUDIO_TYPES = {"mp3": "audio/mpeg"}
"""The media types of formats that are called otherwise."""


def is_chat_message(item: Mapping[str, Any]) -> bool:
    """Whether the message has something that only Chat Completions put beside ``content``."""
    return bool(item.get("tool_calls") or item.get("tool_call_id") or item.get("function_call"))


def parts_beside_content(item: Mapping[str, Any]) -> list[Part]:
    """The calls of an assistant's message, or the one outcome of a ``tool`` message.

    Raises:
        ValueError: something in it has no counterpart here.
    """
    if item.get("function_call"):
        raise ValueError("function_call has no id that its result could name: write tool_calls=[{id, function}]")
    if item["role"] == "tool":
        return [_outcome(item)]
    if item["role"] != "assistant" or not item.get("tool_calls"):
        raise ValueError(
            f"a message of role {item['role']!r} cannot have "
            + ("a tool_call_id" if item.get("tool_call_id") else "tool_calls")
        )
    return [_call(call, index) for index, call in enumerate(item["tool_calls"])]


def _call(call: Any, index: int) -> Part:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not function.get("name"):
        raise ValueError(f"tool_calls[{index}] is no {{id, type: 'function', function: {{name, arguments}}}}")
    invocation = ToolInvocation(
        tool_call_id=str(call.get("id") or ""),
        tool_name=str(function["name"]),
        args=_arguments(function.get("arguments")),
    )
    return ToolInvocationPart(tool_invocation=invocation)


def _arguments(given: Any) -> Any:
    """The arguments from their JSON text; text that cannot be read is kept (R5.6)."""
    if not isinstance(given, str):
        return {} if given is None else well_formed_data(given)
    try:
        return well_formed_data(msgspec.json.decode(given)) if given.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return well_formed(given)


def _outcome(item: Mapping[str, Any]) -> Part:
    if not item.get("tool_call_id"):
        raise ValueError(NEEDS_CALL_ID)
    invocation = ToolInvocation(
        state="result",
        tool_call_id=str(item["tool_call_id"]),
        tool_name=str(item.get("name") or ""),
        result=_text_of(item.get("content")),
    )
    return ToolInvocationPart(tool_invocation=invocation)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return well_formed(content)
    texts = []
    for index, part in enumerate(content or ()):
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError(f"content part {index} of a tool message with a tool_call_id is no {{type: 'text', text}}")
        texts.append(part["text"])
    return well_formed("".join(texts))


def read_chat_file(file: Mapping[str, Any]) -> Part:
    """A file from the ``file`` member of a part: its data, or the id that the provider gave it.

    Raises:
        ValueError: it has neither.
    """
    data = file.get("file_id") or _member(file, "file_data", "file")
    return _file(data, "application/pdf", file.get("filename"))


def _read_image_url(item: Mapping[str, Any]) -> Part:
    image: Any = item.get("image_url")
    if isinstance(image, str):
        image = {"url": image}
    part = _file(_member(image, "url", "image_url"), "image/jpeg")
    if image.get("detail") is not None:
        part.provider_metadata = {"openai": {"imageDetail": image["detail"]}}
    return part


def _read_input_audio(item: Mapping[str, Any]) -> Part:
    audio = item.get("input_audio")
    kind = _member(audio, "format", "input_audio")
    return _file(_member(audio, "data", "input_audio"), _AUDIO_TYPES.get(kind, f"audio/{kind}"))


def _read_refusal(item: Mapping[str, Any]) -> Part:
    return TextPart(text=well_formed(_member(item, "refusal", "a refusal")))


def _file(data: str, media_type: str, filename: str | None = None) -> Part:
    return FilePart(mime_type=split_data_uri(data)[0] or media_type, data=data, filename=filename)


def _member(holder: Any, key: str, owner: str) -> str:
    value = holder.get(key) if isinstance(holder, Mapping) else None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{owner} has no {key}")
    return value


CHAT_READERS: dict[str, Callable[[Mapping[str, Any]], Part]] = {
    "image_url": _read_image_url,
    "input_audio": _read_input_audio,
    "refusal": _read_refusal,
}
"""Content part type → how such a part is read."""
