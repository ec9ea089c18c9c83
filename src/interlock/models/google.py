"""Gemini models, at Google's own API or at Vertex AI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from interlock.chunks import Chunk, GenericChunk
from interlock.errors import ConfigurationError
from interlock.models.base import ModelRequest
from interlock.models.google_prompt import SUPPORTED_URLS
from interlock.models.google_sdk import GenaiClient, SentReply, genai_event_stream, require_genai
from interlock.models.google_wire import FromGoogle, to_google
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

GOOGLE_URL = "https://generativelanguage.googleapis.com/v1beta"
_METHOD = "streamGenerateContent?alt=sse"


class GoogleModel:
    """A Gemini model.

    ``provider_options["google"]`` holds what only this API has: ``tools``, Google's own, such as ``["google_search",
    "url_context", "code_execution"]`` or the API's objects; ``tool_config``, ``safety_settings``, ``cached_content``,
    ``labels``; everything else, such as ``thinking_config`` or ``response_modalities``, becomes part of the API's
    ``generationConfig``.

    Args:
        model_id: The model's name, such as ``gemini-3-flash``; with a slash, its resource: ``tunedModels/…``.
        api_key: Sent as ``x-goog-api-key``; ``None`` sends none.
        base_url: The address before ``/models``; ``None`` for Google's own.
        provider: Short name; also the namespace of ``provider_options`` and provider metadata.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client, and stays the caller's to close: an
            ``httpx2.AsyncClient``, or a ``google.genai.Client``, whose address, sign-in, timeouts and retries count.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events. ``model_settings.timeout`` bounds the whole call.

    Raises:
        ConfigurationError: The address is none, the key cannot be a key, or the client is none or conflicts with them.
    """

    def __init__(
        self,
        model_id: str,
        *,
        api_key: str | ApiKey | None = None,
        base_url: str | None = None,
        provider: str = "google",
        headers: Mapping[str, str] | None = None,
        client: AsyncClient | GenaiClient | None = None,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 600.0,
    ) -> None:
        self.model_id = model_id
        self.provider = provider
        self.supported_urls: Mapping[str, Sequence[str]] = SUPPORTED_URLS
        self._client = client if isinstance(client, AsyncClient) else None
        self._sdk = None if client is None or self._client is not None else require_genai(client)
        if self._sdk is not None and not (api_key is None and base_url is None):
            raise ConfigurationError("the SDK's client has a key and an address of its own: give them to it")
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._path = f"{_resource(model_id, self._sdk is not None and self._sdk.vertexai)}:{_METHOD}"
        self._url = _with_query(join_url(base_url or GOOGLE_URL, self._path.partition("?")[0]), "alt=sse")
        self._shown_url = bare_url(self._url) if self._sdk is None else f"google.genai, {self._path.partition('?')[0]}"
        self._headers = dict(headers or {})
        self._timeout = Timeout(read_timeout_s, connect=connect_timeout_s)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, the answer broke off, or the model made a call that cannot be read.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        warnings: list[dict[str, Any]] = []
        body = to_google(request, self.model_id, self.provider, warnings)
        async with await self._call(body, request) as reply:
            yield GenericChunk(type="stream-start", payload={"warnings": warnings, "request": {"body": body}})
            hide = reply.hide if isinstance(reply, EventReply) else str
            reader = FromGoogle(reply.headers, request, self.provider, self._shown_url, hide)
            async for event in reply.events:
                for chunk in reader.read(event.data):
                    yield chunk
            for chunk in reader.end(reply.rest() if isinstance(reply, EventReply) else ""):
                yield chunk

    async def _call(
        self, body: dict[str, Any], request: ModelRequest
    ) -> AbstractAsyncContextManager[EventReply | SentReply]:
        model = f"{self.provider}/{self.model_id}"
        headers: dict[str, str] = {}
        for extra in (self._headers, request.settings.get("headers"), request.headers):
            headers.update({name.lower(): value for name, value in (extra or {}).items()})
        if self._sdk is not None:
            return genai_event_stream(self._sdk, self._path, body, headers=headers, model=model)
        is_local = is_loopback(self._url)
        if self._client is None and not is_local:
            require_model_requests(model)
        client = self._client or await shared_client(is_direct=is_local)
        key = {} if self._key is None else {"x-goog-api-key": self._key.reveal()}
        post = client.build_request(
            "POST",
            self._url,
            headers={"accept": "text/event-stream", "content-type": "application/json", **key, **headers},
            content=msgspec.json.encode(body),
            timeout=self._timeout,
        )
        return event_stream(client, post, key=self._key, model=model)

    def __repr__(self) -> str:
        return f"GoogleModel({self.model_id!r}, provider={self.provider!r}, url={self._shown_url!r})"


def _resource(model_id: str, is_vertex: bool) -> str:
    if "/" in model_id:
        return model_id
    return f"publishers/google/models/{model_id}" if is_vertex else f"models/{model_id}"


def _with_query(url: str, query: str) -> str:
    return f"{url}&{query}" if "?" in url else f"{url}?{query}"
