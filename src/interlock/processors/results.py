"""The object forms that hooks may return; a mapping with the same keys does as well (R0.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from interlock._json import Record, by_name
from interlock.chunks import Chunk
from interlock.messages import Message, MessageList


class CachedStepChunk(Record, kw_only=True):
    """A chunk of a finished reply: ``type`` and ``payload`` only, in JSON form (R11.6)."""

    type: str
    payload: Any = None


class CachedStepResponse(Record, kw_only=True):
    """A reply to use instead of a provider call (R11.2)."""

    chunks: Sequence[CachedStepChunk | Chunk | dict[str, Any]]
    warnings: list[Any] | None = None
    request: Any = None
    raw_response: Any = None


class ProcessInputResult(msgspec.Struct, kw_only=True):
    """Messages and system messages from ``process_input``; both are required (R2.8)."""

    messages: Sequence[Message | dict[str, Any]]
    system_messages: Sequence[dict[str, Any] | str]


class ProcessInputStepResult(msgspec.Struct, kw_only=True):
    """What ``process_input_step`` or ``prepare_step`` changes for this step (R2.12–R2.15)."""

    model: Any = UNSET
    tool_choice: str | dict[str, Any] | UnsetType | None = UNSET
    active_tools: Sequence[str] | UnsetType | None = UNSET
    tools: Any = UNSET
    messages: Sequence[Message | dict[str, Any]] | UnsetType | None = UNSET
    message_list: MessageList | UnsetType = UNSET
    system_messages: Sequence[dict[str, Any] | str] | UnsetType = UNSET
    provider_options: dict[str, Any] | UnsetType | None = UNSET
    model_settings: Mapping[str, Any] | UnsetType | None = UNSET
    structured_output: Any = UNSET


class ProcessLLMRequestResult(msgspec.Struct, kw_only=True):
    """Another prompt for this call, a ready reply, or both (R2.21)."""

    prompt: list[dict[str, Any]] | UnsetType = UNSET
    response: CachedStepResponse | Mapping[str, Any] | UnsetType | None = UNSET


class ProcessAPIErrorResult(msgspec.Struct, kw_only=True):
    """Whether to repeat the failed call, with which model and after how long (R2.33, R19.5)."""

    retry: bool = False
    model: Any = UNSET
    delay: float = 0.0
    """Seconds to wait before the attempt; cancellable."""


class InvalidResultError(Exception):
    """A result that the hook may not return; the dispatcher names hook and processor."""

    def __init__(self, message: str, code: str = "PROCESSOR_RETURNED_INVALID_RESULT") -> None:
        self.code = code
        super().__init__(message)


def read_result(result: Any, form: type[msgspec.Struct]) -> dict[str, Any] | None:
    """The keys that an object-form result sets, in snake_case; ``None`` if it is no object form.

    Raises:
        InvalidResultError: an unknown key, or one key in both spellings (R0.5).
    """
    if isinstance(result, form):
        return {name: value for name in form.__struct_fields__ if (value := getattr(result, name)) is not UNSET}
    if not isinstance(result, Mapping):
        return None
    try:
        return by_name(result, form.__struct_fields__)
    except ValueError as error:
        raise InvalidResultError(str(error)) from None


def is_tool_choice(value: Any) -> bool:
    """Whether it is ``"auto"``, ``"none"``, ``"required"`` or ``{"type": "tool", "toolName": name}`` (R12.11)."""
    if isinstance(value, Mapping):
        return value.get("type") == "tool" and isinstance(value.get("toolName"), str)
    return value in ("auto", "none", "required")
