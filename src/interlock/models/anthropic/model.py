"""Models behind Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from interlock.chunks import Chunk
from interlock.models.anthropic.files import SUPPORTED_URLS
from interlock.models.anthropic.reply import FromAnthropic
from interlock.models.anthropic.request import API_VERSION, to_anthropic
from interlock.models.api_key import ApiKey
from interlock.models.base import ModelRequest
from interlock.models.endpoint import Endpoint, WireCall
from interlock.models.http import AsyncClient, join_url
from interlock.models.sdk_client import SdkClient, require_async, sdk_event_stream, told_apart

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
        self._api_version = api_version or API_VERSION
        http, sdk = told_apart(client, api_key, base_url)
        if sdk is not None:
            require_async(sdk)
        name = f"{provider}/{model_id}"
        self._endpoint = Endpoint(
            _messages_url(base_url or ANTHROPIC_URL if sdk is None else str(sdk.base_url)),
            name,
            key_header="x-api-key",
            api_key=api_key,
            headers={**({"anthropic-version": api_version} if api_version else {}), **(headers or {})},
            client=http,
            sdk=None if sdk is None else partial(sdk_event_stream, sdk, "/v1/messages", name),
            protocol_headers={"anthropic-version": API_VERSION},
            connect_timeout_s=connect_timeout_s,
            read_timeout_s=read_timeout_s,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, or the answer broke off.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        return self._endpoint.stream(request, self._call)

    def _call(self, request: ModelRequest) -> WireCall:
        warnings: list[dict[str, Any]] = []
        call = to_anthropic(request, self.model_id, self._api_version, warnings)
        headers = {}
        if call.betas:
            asked_for = self._endpoint.headers_of(request).get("anthropic-beta", "").split(",")
            headers["anthropic-beta"] = ",".join(filter(None, dict.fromkeys([*asked_for, *call.betas])))
        return WireCall(
            body=call.body, read=partial(FromAnthropic, call=call, request=request), warnings=warnings, headers=headers
        )

    def __repr__(self) -> str:
        return f"AnthropicModel({self.model_id!r}, provider={self.provider!r}, url={self._endpoint.url!r})"


def _messages_url(base_url: str) -> str:
    """The endpoint; Anthropic's own tools give the address without the version, other tools with it."""
    has_version = urlsplit(base_url.strip()).path.rstrip("/").endswith("/v1")
    return join_url(base_url, "messages" if has_version else "v1/messages")
