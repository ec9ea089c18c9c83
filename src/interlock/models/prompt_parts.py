"""The parts of a provider prompt (R4.9 to R4.16), read in the way that every protocol wants them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.streamed_calls import parsed_args

ANY_IMAGE = "image/*"

_TEXTS = frozenset({"application/json", "application/xml", "application/x-yaml", "application/javascript"})
_BEGINNINGS = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How each kind of image begins, in base64."""

_FILE_ID = re.compile(r"(?:file[-_]|files/|assistant-)[\w-]{1,100}")
"""What an uploaded file is called at any of the providers; the beginning of no base64 that is worth sending."""


def options_of(holder: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """What a prompt's message, or a part of one, carries for ``provider``."""
    return (holder.get("providerOptions") or {}).get(provider) or {}


def output_parts(output: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A tool's output (R4.11) as the parts of a prompt: ``text`` and ``file``."""
    value = output.get("value")
    if output["type"] in ("text", "error-text"):
        yield {"type": "text", "text": str(value)}
    elif output["type"] == "content" and isinstance(value, list):
        yield from map(_output_part, value)
    else:
        yield {"type": "text", "text": json_text(value)}


def _output_part(item: dict[str, Any]) -> dict[str, Any]:
    match item.get("type"):
        case "text":
            return item
        case "media" | "image-data" | "file-data" | "file" if item.get("mediaType") and item.get("data"):
            return {**item, "type": "file"}
        case "image-url":
            return {**item, "type": "file", "mediaType": ANY_IMAGE, "data": item["url"]}
        case "file-url":
            return {**item, "type": "file", "mediaType": "application/pdf", "data": item["url"]}
    return {"type": "text", "text": json_text(item)}


def call_args(args: Any) -> dict[str, Any]:
    """A call's arguments as an object; what was none would make some servers refuse the whole history."""
    parsed = parsed_args(args)
    return parsed if isinstance(parsed, dict) else {"unparsed": args}


def bare_data(part: Mapping[str, Any]) -> str:
    """A file's data: base64 without the head of a data URI, an address, or a file id."""
    data: str = part["data"]
    return data.partition(",")[2] if data.startswith("data:") else data


def base64_of(part: Mapping[str, Any]) -> str:
    """A file's data, which must be in the prompt itself.

    Raises:
        ModelError: It is the id of a file that another provider has.
    """
    data = bare_data(part)
    if _FILE_ID.fullmatch(data):
        raise ModelError(
            f"{data!r} is the id of a file at another provider: upload the file to this one, or give its data"
        )
    return data


def text_of_file(part: Mapping[str, Any]) -> str:
    """The text of a file that is text.

    Raises:
        ModelError: Its data is no base64.
    """
    data = base64_of(part)
    try:
        return base64.b64decode("".join(data.split()), validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise ModelError(f"the data of a file of type {part['mediaType']!r} is no base64: {error}") from error


def is_text(media_type: str) -> bool:
    """Whether a file of this type can be read as text."""
    return media_type.startswith("text/") or media_type in _TEXTS


def is_address(data: str) -> bool:
    """Whether a file is given by its address."""
    return data.startswith(("http://", "https://"))


def image_type(media_type: str, data: str) -> str:
    """The type of an image; of one that is only known to be an image, as its base64 begins."""
    if media_type != ANY_IMAGE:
        return media_type
    return next((kind for start, kind in _BEGINNINGS.items() if data.startswith(start)), "image/jpeg")


def data_uri(media_type: str, data: str) -> str:
    """Base64 as a data URI."""
    return f"data:{media_type};base64,{data}"


def json_text(value: Any) -> str:
    """``value`` as JSON."""
    return msgspec.json.encode(value).decode()
