"""What both of OpenAI's protocols have in common."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from interlock._json import camel
from interlock.errors import ModelError
from interlock.models.base import ModelRequest, Prompt
from interlock.models.streamed_calls import parsed_args

CLIENT_SETTINGS = frozenset({"max_retries", "timeout", "headers"})
"""Settings that are not the server's business."""

SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})
"""Settings that reasoning models choose themselves."""

REASONING_MODELS = ("o1", "o3", "o4", "gpt-5", "gpt-6", "codex-")
"""Beginnings of the names of OpenAI's reasoning models; those with ``-chat`` in their names do not reason."""


def is_reasoning(model_id: str, beginnings: tuple[str, ...], effort: Any) -> bool:
    """Whether the model reasons in this call, and so refuses sampling settings."""
    return model_id.startswith(beginnings) and "-chat" not in model_id and effort != "none"


def own_options(request: ModelRequest, provider: str, renamed: dict[str, str]) -> dict[str, Any]:
    """The call's ``provider_options`` for ``provider``, by the names that they have on the wire."""
    given = (request.provider_options or {}).get(provider) or {}
    return {renamed.get(name) or snake(name): value for name, value in given.items()}


def options_of(part: dict[str, Any], provider: str) -> dict[str, Any]:
    """What a part of a prompt carries for ``provider``."""
    return (part.get("providerOptions") or {}).get(provider) or {}


def earlier_call_ids(prompt: Prompt) -> Iterator[str]:
    """The ids of the calls in a prompt, which a new call must not take."""
    for message in prompt:
        if message["role"] == "assistant":
            for part in message["content"]:
                if part["type"] == "tool-call":
                    yield part["toolCallId"]


def to_arguments(args: Any) -> str:
    """A call's arguments as the text of a JSON object."""
    if isinstance(args, str):
        if isinstance(parsed_args(args), dict):
            return args
        # Text that was no JSON would make some servers refuse the whole history.
        args = {"unparsed": args}
    return msgspec.json.encode(args).decode()


def output_parts(output: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A tool's output (R4.11) as the parts of a prompt: ``text`` and ``file``."""
    value = output.get("value")
    if output["type"] in ("text", "error-text"):
        yield {"type": "text", "text": str(value)}
    elif output["type"] == "content" and isinstance(value, list):
        for item in value:
            match item.get("type"):
                case "text":
                    yield item
                case "media" | "image-data" | "file-data" | "file" if item.get("mediaType") and item.get("data"):
                    yield {**item, "type": "file"}
                case "image-url":
                    yield {**item, "type": "file", "mediaType": "image/*", "data": item["url"]}
                case "file-url":
                    yield {**item, "type": "file", "mediaType": "application/pdf", "data": item["url"]}
                case _:
                    yield {"type": "text", "text": msgspec.json.encode(item).decode()}
    else:
        yield {"type": "text", "text": msgspec.json.encode(value).decode()}


def bare_data(part: dict[str, Any]) -> str:
    """A file's data: base64 without the head of a data URI, an address, or a file id."""
    data: str = part["data"]
    return data.partition(",")[2] if data.startswith("data:") else data


def text_of_file(part: dict[str, Any]) -> str:
    """The text of a file that is text.

    Raises:
        ModelError: Its data is no base64.
    """
    try:
        return base64.b64decode(bare_data(part)).decode("utf-8", "replace")
    except binascii.Error as error:
        raise ModelError(f"a file of type {part['mediaType']!r} has data that is no base64: {error}") from error


def is_address(data: str) -> bool:
    """Whether a file is given by its address."""
    return data.startswith(("http://", "https://"))


def data_uri(media_type: str, data: str) -> str:
    """Base64 as a data URI."""
    return f"data:{media_type};base64,{data}"


def moment(seconds: float | None) -> datetime | None:
    """When a reply was made; ``None`` if its server gives no time, or none in seconds."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None


def unsupported(setting: str, details: str) -> dict[str, Any]:
    """The warning that a setting was left out."""
    return {"type": "unsupported-setting", "setting": camel(setting), "details": details}


def snake(name: str) -> str:
    """``reasoningEffort`` → ``reasoning_effort``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
