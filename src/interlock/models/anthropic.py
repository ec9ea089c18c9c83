"""Models behind Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from interlock.chunks import Chunk, GenericChunk
from interlock.errors import ConfigurationError
from interlock.models.anthropic_files import SUPPORTED_URLS
from interlock.models.anthropic_wire import API_VERSION, AnthropicCall, FromAnthropic, to_anthropic
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

ANTHROPIC_URL = "https://api.anthropic.com/v1"


class AnthropicModel:
    """A model behind the Messages API.

    ``provider_options["anthropic"]`` holds what only this API has, in camelCase or snake_case: ``thinking``,
    ``effort``, ``cacheControl``, ``disableParallelToolUse``, ``sendReasoning``, ``structuredOutputMode``
    (``"outputFormat"``, ``"jsonTool"`` or ``"auto"``), ``tools`` (those that the API executes itself, in its own form),
    ``anthropicBeta``; other fields go into the request as they are.

    Args:
        model_id: The model's name, such as ``claude-sonnet-5-5``.
        api_key: Sent as ``x-api-key``; ``None`` sends none.
        base_url: The address before ``/v1/messages``, with or without ``/v1``; ``None`` for Anthropic's own.
        provider: Short name.
        api_version: Version of the API. The settings ``temperature``, ``top_p`` and ``top_k`` are sent before
            ``2026-10-21`` only. ``None`` for that version, or for the one that an SDK's client speaks.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client, and stays the caller's to close: an
            ``httpx2.AsyncClient``, or an SDK's client such as ``AsyncAnthropic``, whose address, key and retries count.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events. ``model_settings.timeout`` bounds the whole call.

    Raises:
        ConfigurationError: The address is none, the key cannot be a key, or the client is none or conflicts with them.
    """

    supported_urls: Mapping[str, Sequence[str]] = SUPPORTED_URLS

    def __init__(
        self,
        model_id: str,
        *,
        api_key: str | ApiKey | None = None,
        base_url: str | None = None,
        provider: str = "anthropic",
        api_version: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: AsyncClient | SdkClient | None = None,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 600.0,
    ) -> None:
        self.model_id = model_id
        self.provider = provider
        self._client = client if isinstance(client, AsyncClient) else None
        self._sdk = None if client is None or isinstance(client, AsyncClient) else client
        if self._sdk is not None:
            require_async(self._sdk)
            if not (api_key is None and base_url is None):
                raise ConfigurationError("the SDK's client has a key and an address of its own: give them to it")
        self._url = _messages_url(str(self._sdk.base_url) if self._sdk is not None else base_url or ANTHROPIC_URL)
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._api_version = api_version
        self._headers = dict(headers or {})
        self._timeout = Timeout(read_timeout_s, connect=connect_timeout_s)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, or the answer broke off.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        warnings: list[dict[str, Any]] = []
        call = to_anthropic(request, self.model_id, self._api_version or API_VERSION, warnings)
        async with await self._send(call, request) as reply:
            yield GenericChunk(type="stream-start", payload={"warnings": warnings, "request": {"body": call.body}})
            reader = FromAnthropic(call, reply.headers, request, bare_url(self._url), reply.hide)
            async for event in reply.events:
                for chunk in reader.read(event.event, event.data):
                    yield chunk
                if reader.is_done:
                    await reply.drain()
                    break
            for chunk in reader.end():
                yield chunk

    async def _send(self, call: AnthropicCall, request: ModelRequest) -> AbstractAsyncContextManager[EventReply]:
        """A context that sends the request when it is entered, and closes the connection when it is left."""
        name = f"{self.provider}/{self.model_id}"
        headers = self._request_headers(call, request)
        if self._sdk is not None:
            return sdk_event_stream(self._sdk, "/v1/messages", call.body, headers=headers, model=name)
        is_local = is_loopback(self._url)
        if self._client is None and not is_local:
            require_model_requests(name)
        client = self._client or await shared_client(is_direct=is_local)
        own = {"accept": "text/event-stream", "content-type": "application/json", "anthropic-version": API_VERSION}
        if self._key is not None:
            own["x-api-key"] = self._key.reveal()
        post = client.build_request(
            "POST",
            self._url,
            headers={**own, **headers},
            content=msgspec.json.encode(call.body),
            timeout=self._timeout,
        )
        return event_stream(client, post, key=self._key, model=name)

    def _request_headers(self, call: AnthropicCall, request: ModelRequest) -> dict[str, str]:
        headers = {} if self._api_version is None else {"anthropic-version": self._api_version}
        for extra in (self._headers, request.settings.get("headers"), request.headers):
            headers.update({name.lower(): value for name, value in (extra or {}).items()})
        if call.betas:
            named = headers.get("anthropic-beta", "").split(",")
            headers["anthropic-beta"] = ",".join(filter(None, dict.fromkeys([*named, *call.betas])))
        return headers

    def __repr__(self) -> str:
        return f"AnthropicModel({self.model_id!r}, provider={self.provider!r}, url={bare_url(self._url)!r})"


def _messages_url(base_url: str) -> str:
    """The endpoint; Anthropic's own tools give the address without the version, other tools with it."""
    has_version = urlsplit(base_url).path.rstrip("/").endswith("/v1")
    return join_url(base_url, "messages" if has_version else "v1/messages")
