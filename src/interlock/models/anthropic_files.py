"""Files of a prompt as Anthropic's image and document blocks (R4.16)."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.anthropic_options import options_of

SUPPORTED_URLS = {"image/*": [r"^https://"], "application/pdf": [r"^https://"]}
"""What the API loads from an address itself."""

_IMAGES = {"image/jpeg": "image/jpeg", "image/jpg": "image/jpeg"} | {
    kind: kind for kind in ("image/png", "image/gif", "image/webp")
}
_BEGINNINGS = {"/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How each kind of image begins, in base64."""

_TEXTS = frozenset({"application/json", "application/xml", "application/x-yaml", "application/javascript"})


class CitedDocument(msgspec.Struct):
    """A document that a citation can name by its place in the prompt."""

    media_type: str
    title: str | None
    filename: str | None


def to_file_block(part: dict[str, Any], documents: list[CitedDocument]) -> dict[str, Any]:
    """The block of one file; a document is added to ``documents`` as well.

    Raises:
        ModelError: The API takes no such file, or not in this form.
    """
    media_type: str = part["mediaType"]
    data: str = part["data"]
    if data.startswith("data:"):
        data = data.partition(",")[2]
    options = options_of(part)
    if options.get("container_upload"):
        return {"type": "container_upload", "file_id": data}
    if media_type.startswith("image/"):
        return {"type": "image", "source": _to_image_source(media_type, data)}
    block: dict[str, Any] = {"type": "document", "source": _to_document_source(media_type, data)}
    title = options.get("title") or part.get("filename")
    if title:
        block["title"] = title
    block |= {name: options[name] for name in ("context", "citations") if name in options}
    documents.append(CitedDocument(media_type, title, part.get("filename")))
    return block


def is_file_id(data: str) -> bool:
    """Whether ``data`` names a file that was uploaded to Anthropic; base64 has no underscore."""
    return data.startswith("file_")


def _to_image_source(media_type: str, data: str) -> dict[str, Any]:
    source = _to_named_source(data)
    if source is not None:
        return source
    kind = _IMAGES.get(media_type)
    if media_type == "image/*":
        kind = next((kind for start, kind in _BEGINNINGS.items() if data.startswith(start)), "image/jpeg")
    if kind is None:
        raise ModelError(f"Anthropic takes no image of type {media_type!r}: convert it to JPEG, PNG, GIF or WebP")
    return {"type": "base64", "media_type": kind, "data": data}


def _to_document_source(media_type: str, data: str) -> dict[str, Any]:
    is_text = media_type.startswith("text/") or media_type in _TEXTS
    if media_type == "application/pdf" or is_file_id(data):
        return _to_named_source(data) or {"type": "base64", "media_type": "application/pdf", "data": data}
    if not is_text:
        raise ModelError(
            f"Anthropic takes no file of type {media_type!r}: it takes images, PDF and text, and uploaded files by id"
        )
    if _is_address(data):
        raise ModelError(f"Anthropic cannot load a file of type {media_type!r} from an address: download it first")
    try:
        text = base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise ModelError(f"the data of a file of type {media_type!r} is no base64: {error}") from error
    return {"type": "text", "media_type": "text/plain", "data": text}


def _to_named_source(data: str) -> dict[str, Any] | None:
    """The source of a file that is not in the prompt itself."""
    if is_file_id(data):
        return {"type": "file", "file_id": data}
    return {"type": "url", "url": data} if _is_address(data) else None


def _is_address(data: str) -> bool:
    return data.startswith(("http://", "https://"))
