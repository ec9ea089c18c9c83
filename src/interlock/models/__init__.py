"""Models: what the loop calls, and the adapters that speak the providers' protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.models.assets import download_assets
from interlock.models.base import (
    GenerateModel,
    LanguageModel,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Prompt,
    ToolChoice,
    ToolSpec,
)
from interlock.models.fallback import ModelFallback
from interlock.models.lift import as_streaming
from interlock.models.local import LocalModel
from interlock.models.local_weights import install_local_model
from interlock.models.network import allow_model_requests
from interlock.models.retry import stream_with_retries
from interlock.models.router import check_model_id, missing_key_variable, resolve_model, to_language_model

if TYPE_CHECKING:
    from interlock.models.openai_chat import OpenAIChatModel

__all__ = [
    "GenerateModel",
    "LanguageModel",
    "LocalModel",
    "ModelFallback",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "OpenAIChatModel",
    "Prompt",
    "ToolChoice",
    "ToolSpec",
    "allow_model_requests",
    "as_streaming",
    "check_model_id",
    "download_assets",
    "install_local_model",
    "missing_key_variable",
    "resolve_model",
    "stream_with_retries",
    "to_language_model",
]


def __getattr__(name: str) -> Any:
    """Load an adapter when it is first asked for, since it brings an HTTP client with it."""
    if name == "OpenAIChatModel":
        from interlock.models.openai_chat import OpenAIChatModel

        return OpenAIChatModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
