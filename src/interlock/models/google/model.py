"""Gemini models, at Google's own API or at Vertex AI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.chunks import Chunk
from interlock.models.api_key import ApiKey
from interlock.models.base import ModelRequest
from interlock.models.endpoint import Endpoint, WireCall
from interlock.models.google.prompt import SUPPORTED_URLS
from interlock.models.google.reply import FromGoogle
from interlock.models.google.request import to_google
from interlock.models.google.sdk import GenaiClient, genai_event_stream, require_genai, shown_url
from interlock.models.http import AsyncClient, join_url
from interlock.models.sdk_client import told_apart

GOOGLE_URL = "https://generativelanguage.googleapis.com/v1beta"
_METHOD = "streamGenerateContent"
_QUERY = "alt=sse"


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

    supported_urls: Mapping[str, Sequence[str]] = SUPPORTED_URLS

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
        http, given = told_apart(client, api_key, base_url)
        sdk = None if given is None else require_genai(given)
        path = f"{_resource(model_id, sdk is not None and sdk.vertexai)}:{_METHOD}"
        name = f"{provider}/{model_id}"
        self._endpoint = Endpoint(
            _with_query(join_url(base_url or GOOGLE_URL, path), _QUERY) if sdk is None else shown_url(path),
            name,
            key_header="x-goog-api-key",
            api_key=api_key,
            headers=headers,
            client=http,
            sdk=None if sdk is None else partial(genai_event_stream, sdk, f"{path}?{_QUERY}", name),
            connect_timeout_s=connect_timeout_s,
            read_timeout_s=read_timeout_s,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, the answer broke off, or the model made a call that cannot be read.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        return self._endpoint.stream(request, self._call)

    def _call(self, request: ModelRequest) -> WireCall:
        warnings: list[dict[str, Any]] = []
        return WireCall(
            body=to_google(request, self.model_id, self.provider, warnings),
            read=partial(FromGoogle, request=request, provider=self.provider),
            warnings=warnings,
        )

    def __repr__(self) -> str:
        return f"GoogleModel({self.model_id!r}, provider={self.provider!r}, url={self._endpoint.url!r})"


def _resource(model_id: str, is_vertex: bool) -> str:
    if "/" in model_id:
        return model_id
    return f"publishers/google/models/{model_id}" if is_vertex else f"models/{model_id}"


def _with_query(url: str, query: str) -> str:
    return f"{url}&{query}" if "?" in url else f"{url}?{query}"
