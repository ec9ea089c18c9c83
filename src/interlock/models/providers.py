"""The providers that a model string can name: where they are, and which variable holds their key."""

from __future__ import annotations

import msgspec

from interlock.models.openai.dialects import (
    COMPATIBLE,
    DEEPSEEK,
    MISTRAL,
    OPENAI,
    OPENROUTER,
    SELF_HOSTED,
    THINKING,
    Dialect,
)


class ProviderEntry(msgspec.Struct, frozen=True):
    """Where a provider is, and how it is spoken to."""

    base_url: str | None
    """``None`` if every user has an address of their own."""
    key_variable: str | None = None
    """Environment variable of the API key; ``None`` if the server needs none."""
    dialect: Dialect = COMPATIBLE
    """How its Chat Completions differ from those of others."""
    wire: str = "chat"
    """The protocol, a row of ``wires.WIRES``."""
    name: str | None = None
    """Its name in options, metadata and ``<NAME>_BASE_URL``, where that is not the word before the slash."""
    address_variable: str | None = None
    """Another environment variable that may hold the address."""


PROVIDERS: dict[str, ProviderEntry] = {
    "anthropic": ProviderEntry("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", wire="anthropic"),
    "azure": ProviderEntry(None, "AZURE_OPENAI_API_KEY", OPENAI, "azure", address_variable="AZURE_OPENAI_ENDPOINT"),
    "azure-chat": ProviderEntry(
        None, "AZURE_OPENAI_API_KEY", OPENAI, "azure-chat", name="azure", address_variable="AZURE_OPENAI_ENDPOINT"
    ),
    "cerebras": ProviderEntry("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepinfra": ProviderEntry("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": ProviderEntry("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", DEEPSEEK),
    "fireworks": ProviderEntry("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "google": ProviderEntry("https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY", wire="google"),
    "groq": ProviderEntry("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "huggingface": ProviderEntry("https://router.huggingface.co/v1", "HF_TOKEN"),
    "lmstudio": ProviderEntry("http://localhost:1234/v1", None, SELF_HOSTED),
    "mistral": ProviderEntry("https://api.mistral.ai/v1", "MISTRAL_API_KEY", MISTRAL),
    "moonshot": ProviderEntry("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", THINKING),
    "nvidia": ProviderEntry("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "ollama": ProviderEntry("http://localhost:11434/v1", None, SELF_HOSTED),
    "openai": ProviderEntry("https://api.openai.com/v1", "OPENAI_API_KEY", wire="responses"),
    "openai-chat": ProviderEntry("https://api.openai.com/v1", "OPENAI_API_KEY", OPENAI, name="openai"),
    "openrouter": ProviderEntry("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", OPENROUTER),
    "perplexity": ProviderEntry("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "together": ProviderEntry("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "vllm": ProviderEntry("http://localhost:8000/v1", None, SELF_HOSTED),
    "xai": ProviderEntry("https://api.x.ai/v1", "XAI_API_KEY"),
}
"""By the word before the slash. ``<NAME>_BASE_URL`` in the environment replaces the address."""
