"""``local/smollm2``: a small real model inside the process, with no key and no network.

It is there so that everything runs, not to show how good an agent can be. What it can do with tools is in ``toolless``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from interlock.chunks import Chunk
from interlock.errors import ConfigurationError
from interlock.models.base import ModelRequest, ModelSettings
from interlock.models.local_server import require_local_runtime, shared_server
from interlock.models.local_weights import SMOLLM2, Weights
from interlock.models.network import require_model_requests
from interlock.models.openai.dialects import SELF_HOSTED
from interlock.models.toolless import ToollessModel

LOCAL_MODELS: dict[str, Weights] = {"smollm2": SMOLLM2}

_SETTINGS: ModelSettings = {"temperature": 0.0, "max_output_tokens": 512}
_PROSE_OPTIONS = {"repeat_penalty": 1.1}
"""Against the loops that small models fall into; where words are to be copied it does harm."""


class LocalModel:
    """An embedded model. All objects of a process share one loaded copy, and answer one call after the other.

    The first call loads it, which holds up the whole process for about a second.

    Its server takes text only, about 8,000 tokens of it.

    Args:
        model_id: ``"smollm2"``.

    Raises:
        ConfigurationError: No such local model, or its weights or its runtime are not installed.
    """

    provider = "local"

    def __init__(self, model_id: str = "smollm2") -> None:
        weights = LOCAL_MODELS.get(model_id)
        if weights is None:
            raise ConfigurationError(f"no local model is called {model_id!r}; there is: {', '.join(LOCAL_MODELS)}")
        require_local_runtime()
        self.model_id = model_id
        self._weights = weights.path()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The model's server refused the request.
            ModelError: ``tool_choice`` names a tool that the request has not.
            ConfigurationError: ``INTERLOCK_LOCAL_THREADS`` is no number.
        """
        from interlock.models.openai.chat import OpenAIChatModel

        require_model_requests(f"local/{self.model_id}")
        server = await asyncio.to_thread(shared_server, self._weights, self.model_id)
        chat = OpenAIChatModel(
            self.model_id,
            api_key=server.key,
            base_url=server.base_url,
            provider=self.provider,
            dialect=SELF_HOSTED,
            # The server ends a connection after its reply, often just when the next call would use it again.
            headers={"connection": "close"},
        )
        async with aclosing(ToollessModel(chat).stream(_with_defaults(request))) as chunks:
            async for chunk in chunks:
                yield chunk

    def __repr__(self) -> str:
        return f"LocalModel({self.model_id!r})"


def _with_defaults(request: ModelRequest) -> ModelRequest:
    is_prose = request.response_format is None and not isinstance(request.tool_choice, dict)
    options = request.provider_options or {}
    return msgspec.structs.replace(
        request,
        settings={**_SETTINGS, **request.settings},
        provider_options={**options, "local": {**(_PROSE_OPTIONS if is_prose else {}), **options.get("local", {})}},
    )
