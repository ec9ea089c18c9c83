"""OpenAI's models behind its Responses API, and those of servers that offer it too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.chunks import Chunk
from interlock.models.api_key import ApiKey
from interlock.models.base import ModelRequest
from interlock.models.endpoint import WireCall
from interlock.models.http import AsyncClient
from interlock.models.openai.azure import Azure
from interlock.models.openai.endpoint import openai_endpoint
from interlock.models.openai.responses_reply import FromOpenAIResponses
from interlock.models.openai.responses_request import to_openai_responses
from interlock.models.sdk_client import SdkClient


class OpenAIModel:
    """A model behind a Responses endpoint, as ``"openai/…"`` names it.

    The server's own tools are asked for with ``provider_options``: ``{"openai": {"tools": [{"type": "web_search"}]}}``;
    their calls and results come as those of tools that the provider executes. ``store``, ``reasoningEffort`` and
    whatever else the API takes go the same way; with ``previousResponseId``, the prompt must hold only what that
    response does not.

    Args:
        model_id: The model's name at the server; at Azure, the deployment's.
        api_key: Sent as a bearer token, to Azure as ``api-key``; ``None`` sends none.
        base_url: The address before ``/responses``; ``None`` for OpenAI's own.
        azure: The Azure resource, instead of ``base_url``.
        provider: Short name; also the namespace of ``provider_options`` and provider metadata. ``None`` for ``azure``
            or ``openai``.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client, and stays the caller's to close: an
            ``httpx2.AsyncClient``, or an SDK's client such as ``AsyncOpenAI``, whose address, key and retries count.
        connect_timeout_s: How long a connection may take.
        read_timeout_s: The longest silence before and between events. ``model_settings.timeout`` bounds the whole call.

    Raises:
        ConfigurationError: The address is none, the key cannot be a key, or the client is none or conflicts with them.
    """

    supported_urls: Mapping[str, Sequence[str]] = {"image/*": [r"^https?://"], "application/pdf": [r"^https?://"]}

    def __init__(
        self,
        model_id: str,
        *,
        api_key: str | ApiKey | None = None,
        base_url: str | None = None,
        azure: Azure | None = None,
        provider: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: AsyncClient | SdkClient | None = None,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 600.0,
    ) -> None:
        self.model_id = model_id
        self.provider = provider or ("openai" if azure is None else "azure")
        self._endpoint = openai_endpoint(
            "responses",
            f"{self.provider}/{model_id}",
            api_key=api_key,
            base_url=base_url,
            azure=azure,
            headers=headers,
            client=client,
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
        return WireCall(
            body=to_openai_responses(request, self.model_id, self.provider, warnings),
            read=partial(FromOpenAIResponses, request=request, provider=self.provider),
            warnings=warnings,
        )

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model_id!r}, provider={self.provider!r}, url={self._endpoint.url!r})"
