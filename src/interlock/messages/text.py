"""The text of messages."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.messages.parts import Message, MessageContent, Part, ReasoningPart


def get_text(message: Message) -> str:
    """The concatenated text parts of ``message``, else its legacy ``content`` string, else ``""`` (R4.8).

    Nothing is put between two parts. Missing contents, missing parts and ``None`` among the parts are tolerated.
    """
    content = getattr(message, "content", None)
    text = "".join(texts_of(getattr(content, "parts", None) or ()))
    if text:
        return text
    legacy = getattr(content, "content", None)
    return legacy if isinstance(legacy, str) else ""


def texts_of(parts: Iterable[Part | None]) -> list[str]:
    """The strings of the text parts, in order."""
    texts = []
    for part in parts:
        if part is not None and part.type == "text":
            text = getattr(part, "text", None)
            if isinstance(text, str):
                texts.append(text)
    return texts


def mirrored_text(content: MessageContent) -> str | None:
    """What ``content.content`` must say: the legacy mirror follows the parts, which are the truth (R4.2).

    A hook that edits text in place does not know of the mirror; what it took out must not stay there.
    """
    if content.content is None or not content.parts:
        return content.content
    texts = texts_of(content.parts)
    return "\n".join(texts) if texts else None


def follow_reasoning(part: Part) -> None:
    """Let the details of an edited reasoning part say what its text says.

    The signature of other words goes, and so does what the provider gave to hand these words back with.
    """
    if not isinstance(part, ReasoningPart) or not part.details:
        return
    told = [detail for detail in part.details if detail.get("type") == "text"]
    if told and "".join(str(detail.get("text") or "") for detail in told) != part.reasoning:
        redacted = [detail for detail in part.details if detail.get("type") == "redacted"]
        part.details = [{"type": "text", "text": part.reasoning}, *redacted]
        part.provider_metadata = None
