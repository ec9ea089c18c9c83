"""Models: what the loop calls, and the adapters that speak the providers' protocols."""

from __future__ import annotations

from importlib import import_module
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
from interlock.models.context_overflow import is_context_overflow
from interlock.models.fallback import ModelFallback
from interlock.models.lift import as_streaming
from interlock.models.local import LocalModel
from interlock.models.local_weights import install_local_model
from interlock.models.network import allow_model_requests
from interlock.models.openai.azure import Azure
from interlock.models.retry import stream_with_retries
from interlock.models.router import check_model_id, missing_key_variable, resolve_model, to_language_model

if TYPE_CHECKING:
    from interlock.models.anthropic.model import AnthropicModel
    from interlock.models.anyllm import AnyLLMModel
    from interlock.models.google.model import GoogleModel
    from interlock.models.openai.chat import OpenAIChatModel
    from interlock.models.openai.responses import OpenAIModel

__all__ = [
    "AnthropicModel",
    "AnyLLMModel",
    "Azure",
    "GenerateModel",
    "GoogleModel",
    "LanguageModel",
    "LocalModel",
    "ModelFallback",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "OpenAIChatModel",
    "OpenAIModel",
    "Prompt",
    "ToolChoice",
    "ToolSpec",
    "allow_model_requests",
    "as_streaming",
    "check_model_id",
    "download_assets",
    "install_local_model",
    "is_context_overflow",
    "missing_key_variable",
    "resolve_model",
    "stream_with_retries",
    "to_language_model",
]


_ADAPTERS = {
    "AnthropicModel": ("anthropic.model", "anthropic"),
    "AnyLLMModel": ("anyllm", "anyllm"),
    "GoogleModel": ("google.model", "google"),
    "OpenAIChatModel": ("openai.chat", "openai"),
    "OpenAIModel": ("openai.responses", "openai"),
}
"""Class → its module, and the extra that brings what it needs."""


def __getattr__(name: str) -> Any:
    """Load an adapter when it is first asked for, since it brings an HTTP client with it."""
    if name not in _ADAPTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _ADAPTERS[name]
    from interlock.models.extras import require_package

    require_package("httpx2", extra, name)
    return getattr(import_module(f"{__name__}.{module}"), name)
