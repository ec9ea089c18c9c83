"""Files of a prompt as Anthropic's image and document blocks (R4.16)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.anthropic.options import own_options
from interlock.models.prompt_parts import bare_data, base64_of, image_type, is_address, is_text, text_of_file

SUPPORTED_URLS = {"image/*": [r"^https://"], "application/pdf": [r"^https://"]}
"""What the API loads from an address itself."""

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


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
    options = own_options(part)
    if options.get("container_upload"):
        return {"type": "container_upload", "file_id": bare_data(part)}
    if media_type.startswith("image/"):
        return {"type": "image", "source": _to_image_source(part)}
    block: dict[str, Any] = {"type": "document", "source": _to_document_source(part)}
    title = options.get("title") or part.get("filename")
    if title:
        block["title"] = title
    block |= {name: options[name] for name in ("context", "citations") if name in options}
    documents.append(CitedDocument(media_type, title, part.get("filename")))
    return block


def is_file_id(data: str) -> bool:
    """Whether ``data`` names a file that was uploaded to Anthropic; base64 has no underscore."""
    return data.startswith("file_")


def _to_image_source(part: dict[str, Any]) -> dict[str, Any]:
    source = _to_named_source(part)
    if source is not None:
        return source
    data = base64_of(part)
    kind = image_type(part["mediaType"], data).replace("image/jpg", "image/jpeg")
    if kind not in _IMAGES:
        raise ModelError(f"Anthropic takes no image of type {kind!r}: convert it to JPEG, PNG, GIF or WebP")
    return {"type": "base64", "media_type": kind, "data": data}


def _to_document_source(part: dict[str, Any]) -> dict[str, Any]:
    media_type = part["mediaType"]
    if media_type == "application/pdf" or is_file_id(bare_data(part)):
        named = _to_named_source(part)
        return named or {"type": "base64", "media_type": "application/pdf", "data": base64_of(part)}
    if not is_text(media_type):
        raise ModelError(
            f"Anthropic takes no file of type {media_type!r}: it takes images, PDF and text, and uploaded files by id"
        )
    if is_address(bare_data(part)):
        raise ModelError(f"Anthropic cannot load a file of type {media_type!r} from an address: download it first")
    return {"type": "text", "media_type": "text/plain", "data": text_of_file(part)}


def _to_named_source(part: dict[str, Any]) -> dict[str, Any] | None:
    """The source of a file that is not in the prompt itself."""
    data = bare_data(part)
    if is_file_id(data):
        return {"type": "file", "file_id": data}
    return {"type": "url", "url": data} if is_address(data) else None
