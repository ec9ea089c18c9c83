"""From a model string such as ``"openai/gpt-5"`` to a model (R12.3)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches

from interlock.errors import ConfigurationError
from interlock.models.api_key import ApiKey
from interlock.models.base import GenerateModel, LanguageModel
from interlock.models.lift import as_streaming
from interlock.models.network import is_loopback, require_address
from interlock.models.providers import PROVIDERS, ProviderEntry
from interlock.models.wires import WIRES, Connection

LOCAL = "local"
ANYLLM = "anyllm"


def resolve_model(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> LanguageModel:
    """The model that a string names.

    Nothing is sent and no weights are loaded before the first call.

    Args:
        name: ``"provider/model"``; what follows the first slash is the provider's name of the model.
        api_key: Used instead of the provider's environment variable.
        base_url: Used instead of the provider's address and of ``<PROVIDER>_BASE_URL``; for Azure, the resource's.
        headers: Sent with every call.

    Raises:
        ConfigurationError: The string has no provider, the provider is unknown, its key or an extra is missing, what
            a variable gives is no address, or the local model is not installed.
    """
    check_model_id(name)
    provider, _, model_id = name.partition("/")
    if provider == LOCAL:
        from interlock.models.local import LocalModel

        return LocalModel(model_id)
    if provider == ANYLLM:
        from interlock.models import AnyLLMModel

        return AnyLLMModel(model_id, api_key=api_key, api_base=base_url, headers=headers)
    entry = PROVIDERS[provider]
    address = base_url or _address(provider, entry)
    if address is None:
        raise ConfigurationError(f"{name!r} needs an address: set the environment variable {entry.address_variable}")
    key = api_key or (os.environ.get(entry.key_variable) if entry.key_variable else None)
    # A server on this machine is a stand-in for the provider, or a proxy that holds the key itself.
    if not key and entry.key_variable is not None and not is_loopback(address):
        raise ConfigurationError(f"{name!r} needs an API key: set the environment variable {entry.key_variable}")
    return WIRES[entry.wire](
        Connection(
            model_id=model_id,
            provider=entry.name or provider,
            key=ApiKey(key, "api_key" if api_key else str(entry.key_variable)) if key else None,
            address=address,
            headers=headers,
            dialect=entry.dialect,
        )
    )


def check_model_id(name: str) -> None:
    """Raise if the string can name no model, whatever keys and extras there are.

    Raises:
        ConfigurationError: The string has no provider, or the provider is unknown.
    """
    provider, slash, model_id = name.partition("/")
    if not slash or not provider or not model_id:
        raise ConfigurationError(f"{name!r} names no model: write 'provider/model', such as 'openai/gpt-5'")
    if provider not in (*PROVIDERS, LOCAL, ANYLLM):
        raise ConfigurationError(_unknown(provider, name))


def missing_key_variable(name: str) -> str | None:
    """The environment variable whose key the model ``name`` needs and that is not set; ``None`` if none is missing."""
    provider = name.partition("/")[0]
    entry = PROVIDERS.get(provider)
    if entry is None or entry.key_variable is None or os.environ.get(entry.key_variable):
        return None
    address = _address(provider, entry)
    return None if address is not None and is_loopback(address) else entry.key_variable


def to_language_model(model: LanguageModel | GenerateModel | str) -> LanguageModel:
    """Any form of a model as a ``LanguageModel``: a router id, a streaming model, a model that answers in one piece.

    Raises:
        ConfigurationError: It is none of these, or the id cannot be resolved.
    """
    if isinstance(model, str):
        return resolve_model(model)
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, GenerateModel):
        return as_streaming(model)
    raise ConfigurationError(
        f"{model!r} is no model: give an id such as 'openai/gpt-5', or an object with provider, model_id and stream()"
    )


def _address(provider: str, entry: ProviderEntry) -> str | None:
    """Where the provider is: what a variable says, which is checked here so that the error can name it."""
    for variable in (f"{(entry.name or provider).upper()}_BASE_URL", entry.address_variable):
        given = os.environ.get(variable) if variable else None
        if variable and given:
            return require_address(given, variable)
    return entry.base_url


def _unknown(provider: str, name: str) -> str:
    known = sorted([*PROVIDERS, LOCAL, ANYLLM])
    near = get_close_matches(provider.lower(), known, n=2)
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"unknown model provider {provider!r} in {name!r}.{guess} Known: {', '.join(known)}"
