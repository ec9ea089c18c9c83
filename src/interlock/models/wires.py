"""The protocols that a provider may speak, and the model class for each, imported when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from interlock.models.base import LanguageModel
from interlock.models.openai.dialects import Dialect

if TYPE_CHECKING:
    from interlock.models.api_key import ApiKey
    from interlock.models.openai.azure import Azure


class Connection(msgspec.Struct, kw_only=True):
    """What the router knows of a model."""

    model_id: str
    provider: str
    key: ApiKey | None
    address: str
    headers: Mapping[str, str] | None
    dialect: Dialect


def _chat(to: Connection) -> LanguageModel:
    from interlock.models import OpenAIChatModel

    return OpenAIChatModel(
        to.model_id,
        api_key=to.key,
        base_url=to.address,
        provider=to.provider,
        dialect=to.dialect,
        headers=to.headers,
    )


def _anthropic(to: Connection) -> LanguageModel:
    from interlock.models import AnthropicModel

    return AnthropicModel(to.model_id, api_key=to.key, base_url=to.address, provider=to.provider, headers=to.headers)


def _azure_chat(to: Connection) -> LanguageModel:
    from interlock.models import OpenAIChatModel

    return OpenAIChatModel(
        to.model_id,
        api_key=to.key,
        azure=_azure_resource(to),
        provider=to.provider,
        dialect=to.dialect,
        headers=to.headers,
    )


def _responses(to: Connection) -> LanguageModel:
    from interlock.models import OpenAIModel

    return OpenAIModel(to.model_id, api_key=to.key, base_url=to.address, provider=to.provider, headers=to.headers)


def _azure(to: Connection) -> LanguageModel:
    from interlock.models import OpenAIModel

    return OpenAIModel(to.model_id, api_key=to.key, azure=_azure_resource(to), provider=to.provider, headers=to.headers)


def _azure_resource(to: Connection) -> Azure:
    from interlock.models.openai.azure import Azure

    return Azure(endpoint=to.address, api_version=os.environ.get("OPENAI_API_VERSION") or None)


def _google(to: Connection) -> LanguageModel:
    from interlock.models import GoogleModel

    return GoogleModel(to.model_id, api_key=to.key, base_url=to.address, provider=to.provider, headers=to.headers)


WIRES: dict[str, Callable[[Connection], LanguageModel]] = {
    "anthropic": _anthropic,
    "azure": _azure,
    "azure-chat": _azure_chat,
    "chat": _chat,
    "google": _google,
    "responses": _responses,
}
"""By the name that ``ProviderEntry.wire`` has for it."""
