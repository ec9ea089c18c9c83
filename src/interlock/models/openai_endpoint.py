"""Where OpenAI's protocols are spoken: an address, a key, and who sends the requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from interlock.errors import ConfigurationError
from interlock.models.azure import Azure
from interlock.models.base import ModelRequest
from interlock.models.http import (
    ApiKey,
    AsyncClient,
    EventReply,
    Timeout,
    bare_url,
    event_stream,
    join_url,
    shared_client,
)
from interlock.models.network import is_loopback, require_model_requests
from interlock.models.sdk_client import SdkClient, require_async, sdk_event_stream

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIEndpoint:
    """One endpoint of OpenAI, of Azure, or of a server that is compatible with it.

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

    def __init__(
        self,
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
    ) -> None:
        self._sdk = None if client is None or isinstance(client, AsyncClient) else client
        self._client = client if isinstance(client, AsyncClient) else None
        if self._sdk is not None:
            require_async(self._sdk)
            if not (api_key is None and base_url is None and azure is None):
                raise ConfigurationError("the SDK's client has a key and an address of its own: give them to it")
        if azure is not None and base_url is not None:
            raise ConfigurationError("azure and base_url both say where the model is: give one of them")
        self._path = f"/{path}"
        self._model = model
        if self._sdk is not None:
            self._url = join_url(str(self._sdk.base_url), path)
        elif azure is not None:
            self._url = azure.url(path, model.partition("/")[2])
        else:
            self._url = join_url(base_url or OPENAI_URL, path)
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._key_header = "api-key" if azure is not None else "authorization"
        self._headers = dict(headers or {})
        self._timeout = Timeout(read_timeout_s, connect=connect_timeout_s)

    @property
    def url(self) -> str:
        """The address, fit to be shown."""
        return bare_url(self._url)

    @asynccontextmanager
    async def call(self, body: dict[str, Any], request: ModelRequest) -> AsyncIterator[EventReply]:
        """Send ``body`` and read the events of the reply; leaving the context closes the connection.

        Raises:
            APICallError: As ``event_stream`` raises it.
            ModelError: Calls of real models are switched off.
        """
        headers: dict[str, str] = {}
        for extra in (self._headers, request.settings.get("headers"), request.headers):
            headers.update({name.lower(): value for name, value in (extra or {}).items()})
        if self._sdk is not None:
            async with sdk_event_stream(self._sdk, self._path, body, headers=headers, model=self._model) as reply:
                yield reply
            return
        is_local = is_loopback(self._url)
        if self._client is None and not is_local:
            require_model_requests(self._model)
        client = self._client or await shared_client(is_direct=is_local)
        post = client.build_request(
            "POST",
            self._url,
            headers={"accept": "text/event-stream", "content-type": "application/json", **self._key_line(), **headers},
            content=msgspec.json.encode(body),
            timeout=self._timeout,
        )
        async with event_stream(client, post, key=self._key, model=self._model) as reply:
            yield reply

    def _key_line(self) -> dict[str, str]:
        if self._key is None:
            return {}
        key = self._key.reveal()
        return {self._key_header: key if self._key_header == "api-key" else f"Bearer {key}"}
