"""Where a provider's protocol is spoken: an address, a key, and who sends the requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from interlock.chunks import Chunk, GenericChunk
from interlock.models.api_key import ApiKey
from interlock.models.base import ModelRequest
from interlock.models.http import AsyncClient, EventReply, Timeout, event_stream, shared_client
from interlock.models.network import is_loopback, require_model_requests
from interlock.models.reading import read_end, read_event
from interlock.models.reply import ReplyHead, ReplyReader
from interlock.models.secrets import bare_url

SdkSender = Callable[[Mapping[str, Any], Mapping[str, str]], AbstractAsyncContextManager[EventReply]]
"""Sends a body with headers through an SDK's client: a context that yields the reply."""


class WireCall(msgspec.Struct, kw_only=True):
    """One call in a provider's protocol: what is sent, and who reads the answer."""

    body: dict[str, Any]
    read: Callable[[ReplyHead], ReplyReader]
    warnings: list[dict[str, Any]]
    """What the caller asked for and the provider does not offer."""
    headers: Mapping[str, str] = {}
    """Those that the call needs, laid over all others."""


class Endpoint:
    """One address of a provider, or of a server that speaks its protocol.

    Args:
        url: The address.
        model: ``provider/model``, for errors.
        key_header: Carries the key; ``authorization`` carries it as a bearer token.
        api_key: ``None`` sends none.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client.
        sdk: Sends the requests, with an address and a key of its own.
        protocol_headers: Sent with every call, but not through an SDK, which has its own.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events.

    Raises:
        ConfigurationError: The key cannot be a key.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_header: str,
        api_key: str | ApiKey | None,
        headers: Mapping[str, str] | None,
        client: AsyncClient | None,
        sdk: SdkSender | None,
        protocol_headers: Mapping[str, str] | None = None,
        connect_timeout_s: float,
        read_timeout_s: float,
    ) -> None:
        self.url = bare_url(url)
        """The address, fit to be shown."""
        self._url = url
        self._model = model
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._key_header = key_header
        self._headers = dict(headers or {})
        self._client = client
        self._sdk = sdk
        self._protocol_headers = dict(protocol_headers or {})
        self._timeout = Timeout(read_timeout_s, connect=connect_timeout_s)

    async def stream(
        self, request: ModelRequest, prepare: Callable[[ModelRequest], WireCall]
    ) -> AsyncGenerator[Chunk, None]:
        """Make one call, and the chunks of its answer; leaving the stream closes the connection.

        Args:
            request: What is asked for.
            prepare: Puts it into the protocol's form.

        Raises:
            APICallError: The call failed, or the answer broke off.
            ModelError: The prompt holds something that the protocol cannot carry, or calls of real models are off.
        """
        call = prepare(request)
        async with await self._send(call, request) as reply:
            yield GenericChunk(type="stream-start", payload={"warnings": call.warnings, "request": {"body": call.body}})
            reader = call.read(reply.head)
            async for event in reply.events:
                for chunk in read_event(reader, reply.head, event.event, event.data):
                    yield chunk
                if reader.is_done:
                    await reply.drain()
                    break
            for chunk in read_end(reader, reply.head, reply.rest()):
                yield chunk

    def headers_of(self, request: ModelRequest) -> dict[str, str]:
        """The headers that the model's maker, its settings and the caller ask for, each laid over those before it."""
        headers: dict[str, str] = {}
        for given in (self._headers, request.settings.get("headers"), request.headers):
            headers.update({name.lower(): value for name, value in (given or {}).items()})
        return headers

    async def _send(self, call: WireCall, request: ModelRequest) -> AbstractAsyncContextManager[EventReply]:
        """A context that sends the request when it is entered, and closes the connection when it is left."""
        headers = {**self.headers_of(request), **call.headers}
        if self._sdk is not None:
            return self._sdk(call.body, headers)
        is_local = is_loopback(self._url)
        if self._client is None and not is_local:
            require_model_requests(self._model)
        client = self._client or await shared_client(is_direct=is_local)
        own = {"accept": "text/event-stream", "content-type": "application/json"}
        post = client.build_request(
            "POST",
            self._url,
            headers={**own, **self._protocol_headers, **self._key_line(), **headers},
            content=msgspec.json.encode(call.body),
            timeout=self._timeout,
        )
        return event_stream(client, post, key=self._key, model=self._model)

    def _key_line(self) -> dict[str, str]:
        if self._key is None:
            return {}
        key = self._key.reveal()
        return {self._key_header: f"Bearer {key}" if self._key_header == "authorization" else key}
