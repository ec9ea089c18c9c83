"""What a model is to the loop: something that streams chunks for a prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, TypedDict, runtime_checkable

import msgspec

from interlock.chunks import Chunk
from interlock.context import AbortSignal

Prompt = list[dict[str, Any]]
"""A provider prompt: ``{role, content, providerOptions?}`` messages (R4.9)."""

ToolChoice = str | dict[str, Any]
"""``"auto"``, ``"none"``, ``"required"`` or ``{"type": "tool", "toolName": name}``."""


class ModelSettings(TypedDict, total=False):
    """Settings of a provider call; what a provider does not offer becomes a warning."""

    temperature: float
    max_output_tokens: int
    top_p: float
    top_k: int
    presence_penalty: float
    frequency_penalty: float
    stop_sequences: list[str]
    seed: int
    max_retries: int
    """Repeats of a failed call inside the model client (R7.13)."""
    timeout: dict[str, float]
    """``total_ms`` bounds the run, ``step_ms`` each provider call, in milliseconds (R17.9)."""
    headers: dict[str, str]


class ToolSpec(msgspec.Struct, kw_only=True):
    """A tool as a model sees it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    """JSON Schema of the arguments."""


class ModelRequest(msgspec.Struct, kw_only=True):
    """One provider call."""

    prompt: Prompt
    """For reading: later calls of the run send the same messages."""
    tools: list[ToolSpec] = []
    tool_choice: ToolChoice | None = None
    settings: ModelSettings = {}
    provider_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    """``{"type": "json", "schema"?: JSON Schema, "name"?, "description"?}``, or ``None`` for text."""
    headers: dict[str, str] | None = None
    include_raw_chunks: bool = False
    abort_signal: AbortSignal | None = None


@runtime_checkable
class LanguageModel(Protocol):
    """A streaming model.

    ``stream`` yields chunks of ``interlock.chunks``: optionally one ``stream-start`` (``GenericChunk`` whose payload is
    ``{"warnings": [...], "request": ...}``) and one ``response-metadata``, then spans, files, sources and tool calls,
    and at last exactly one ``finish`` with a normalised reason and the usage. ``run_id`` may be left empty. A failure
    is raised (``APICallError``) or yielded as an ``error`` chunk. Closing the iterator must release the connection.

    A model may also have ``supported_urls``, a mapping from a media type (or ``*``) to regular expressions of URLs that
    the provider fetches itself (R4.16).
    """

    @property
    def provider(self) -> str:
        """Short provider name, such as ``openai``."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at its provider."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Start one call; nothing is sent before the first chunk is asked for."""
        ...


@runtime_checkable
class GenerateModel(Protocol):
    """A model that answers in one piece; ``as_streaming`` lifts it into a ``LanguageModel`` (R1.18)."""

    @property
    def provider(self) -> str:
        """Short provider name."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at its provider."""
        ...

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer the request."""
        ...


class ModelReply(msgspec.Struct, kw_only=True):
    """A whole reply of a model that does not stream."""

    content: list[dict[str, Any]]
    """``{"type": "text", "text"}``, ``{"type": "reasoning", "text"}``, ``{"type": "tool-call", "toolCallId",
    "toolName", "input"}``, ``{"type": "file", "mediaType", "data"}`` and ``{"type": "source", "id", "url", …}``, in
    order."""
    finish_reason: str = "stop"
    usage: dict[str, Any] | None = None
    """camelCase counts of R12.22."""
    warnings: list[Any] = []
    provider_metadata: dict[str, Any] | None = None
    request: Any = None
    response: dict[str, Any] | None = None
