"""Models behind OpenAI Chat Completions endpoints, which most other servers offer too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.chunks import Chunk, GenericChunk
from interlock.models.base import ModelRequest
from interlock.models.dialects import OPENAI, Dialect
from interlock.models.http import (
    ApiKey,
    AsyncClient,
    Timeout,
    bare_url,
    event_stream,
    join_url,
    shared_client,
)
from interlock.models.network import is_loopback, require_model_requests
from interlock.models.openai_chat_wire import FromOpenAIChat, to_openai_chat


class OpenAIChatModel:
    """A model behind a Chat Completions endpoint.

    Args:
        model_id: The model's name at the server.
        api_key: Sent as a bearer token; ``None`` sends none.
        base_url: The address before ``/chat/completions``.
        provider: Short name; also the namespace of ``provider_options`` and provider metadata.
        dialect: How the server differs from the others.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client; stays the caller's to close.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events. ``model_settings.timeout`` bounds the whole call.

    Raises:
        ConfigurationError: The base URL is no address, or the key cannot be a key.
    """

    def __init__(
        self,
        model_id: str,
        *,
        api_key: str | ApiKey | None = None,
        base_url: str = "https://api.openai.com/v1",
        provider: str = "openai",
        dialect: Dialect = OPENAI,
        headers: Mapping[str, str] | None = None,
        client: AsyncClient | None = None,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 600.0,
    ) -> None:
        self.model_id = model_id
        self.provider = provider
        self.supported_urls: Mapping[str, Sequence[str]] = (
            {"image/*": [r"^https?://"]} if dialect.fetches_images else {}
        )
        self._url = join_url(base_url, "chat/completions")
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._dialect = dialect
        self._headers = dict(headers or {})
        self._client = client
        self._timeout = Timeout(read_timeout_s, connect=connect_timeout_s)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, or the answer broke off.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        is_local = is_loopback(self._url)
        if self._client is None and not is_local:
            require_model_requests(f"{self.provider}/{self.model_id}")
        client = self._client or await shared_client(is_direct=is_local)
        warnings: list[dict[str, Any]] = []
        body = to_openai_chat(request, self.model_id, self.provider, self._dialect, warnings)
        post = client.build_request(
            "POST",
            self._url,
            headers=self._request_headers(request),
            content=msgspec.json.encode(body),
            timeout=self._timeout,
        )
        async with event_stream(client, post, key=self._key) as reply:
            yield GenericChunk(type="stream-start", payload={"warnings": warnings, "request": {"body": body}})
            hide = self._key.hidden_in if self._key else str
            reader = FromOpenAIChat(reply.headers, request, self.provider, bare_url(self._url), hide)
            async for event in reply.events:
                for chunk in reader.read(event.event, event.data):
                    yield chunk
                if reader.is_done:
                    await reply.drain()
                    break
            for chunk in reader.end():
                yield chunk

    def _request_headers(self, request: ModelRequest) -> dict[str, str]:
        headers = {"accept": "text/event-stream", "content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.reveal()}"
        for extra in (self._headers, request.settings.get("headers"), request.headers):
            headers.update({name.lower(): value for name, value in (extra or {}).items()})
        return headers

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model_id!r}, provider={self.provider!r}, url={bare_url(self._url)!r})"
