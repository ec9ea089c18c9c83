"""Models behind OpenAI Chat Completions endpoints, which most other servers offer too."""

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
from interlock.models.openai.chat_reply import FromOpenAIChat
from interlock.models.openai.chat_request import to_openai_chat
from interlock.models.openai.dialects import OPENAI, Dialect
from interlock.models.openai.endpoint import openai_endpoint
from interlock.models.sdk_client import SdkClient


class OpenAIChatModel:
    """A model behind a Chat Completions endpoint.

    Args:
        model_id: The model's name at the server; at Azure, the deployment's.
        api_key: Sent as a bearer token, to Azure as ``api-key``; ``None`` sends none.
        base_url: The address before ``/chat/completions``; ``None`` for OpenAI's own.
        azure: The Azure resource, instead of ``base_url``.
        provider: Short name; also the namespace of ``provider_options`` and provider metadata. ``None`` for ``azure``
            or ``openai``.
        dialect: How the server differs from the others.
        headers: Sent with every call.
        client: Sends the requests instead of the shared client, and stays the caller's to close: an
            ``httpx2.AsyncClient``, or an SDK's client such as ``AsyncOpenAI``, whose address, key and retries count.
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
        azure: Azure | None = None,
        provider: str | None = None,
        dialect: Dialect = OPENAI,
        headers: Mapping[str, str] | None = None,
        client: AsyncClient | SdkClient | None = None,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 600.0,
    ) -> None:
        self.model_id = model_id
        self.provider = provider or ("openai" if azure is None else "azure")
        self.supported_urls: Mapping[str, Sequence[str]] = (
            {"image/*": [r"^https?://"]} if dialect.fetches_images else {}
        )
        self._dialect = dialect
        self._endpoint = openai_endpoint(
            "chat/completions",
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
            body=to_openai_chat(request, self.model_id, self.provider, self._dialect, warnings),
            read=partial(FromOpenAIChat, request=request, provider=self.provider),
            warnings=warnings,
        )

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model_id!r}, provider={self.provider!r}, url={self._endpoint.url!r})"
