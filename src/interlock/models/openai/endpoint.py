"""Where OpenAI's protocols are spoken: at OpenAI, at Azure, at a server that is compatible with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from interlock.errors import ConfigurationError
from interlock.models.api_key import ApiKey
from interlock.models.endpoint import Endpoint
from interlock.models.http import AsyncClient, join_url
from interlock.models.openai.azure import Azure
from interlock.models.sdk_client import SdkClient, require_async, sdk_event_stream, told_apart

OPENAI_URL = "https://api.openai.com/v1"


def openai_endpoint(
    path: str,
    model: str,
    *,
    api_key: str | ApiKey | None,
    base_url: str | None,
    azure: Azure | None,
    headers: Mapping[str, str] | None,
    client: AsyncClient | SdkClient | None,
    connect_timeout_s: float,
    read_timeout_s: float,
) -> Endpoint:
    """The endpoint of one of OpenAI's protocols.

    Args:
        path: Below the address: ``chat/completions`` or ``responses``.
        model: ``provider/model``, for errors; after the slash the deployment, at Azure.
        api_key: Sent as a bearer token, to Azure as ``api-key``; ``None`` sends none.
        base_url: The address before ``path``; ``None`` for OpenAI's own.
        azure: The resource, instead of ``base_url``.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client; an SDK's client knows address and key itself.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events.

    Raises:
        ConfigurationError: The address is none, the key cannot be a key, or the client is none or conflicts with them.
    """
    http, sdk = told_apart(client, api_key, base_url, azure)
    if sdk is not None:
        require_async(sdk)
        url = join_url(str(sdk.base_url), path)
    elif azure is None:
        url = join_url(base_url or OPENAI_URL, path)
    elif base_url is None:
        url = azure.url(path, model.partition("/")[2])
    else:
        raise ConfigurationError("azure and base_url both say where the model is: give one of them")
    return Endpoint(
        url,
        model,
        key_header="authorization" if azure is None else "api-key",
        api_key=api_key,
        headers=headers,
        client=http,
        sdk=None if sdk is None else partial(sdk_event_stream, sdk, f"/{path}", model),
        connect_timeout_s=connect_timeout_s,
        read_timeout_s=read_timeout_s,
    )
