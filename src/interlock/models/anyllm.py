"""The long tail: every provider that ``any-llm-sdk`` knows, through its one public function."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from interlock.chunks import Chunk, GenericChunk
from interlock.errors import APICallError, ConfigurationError
from interlock.models.api_key import ApiKey
from interlock.models.base import ModelRequest
from interlock.models.http_errors import retry_after_s
from interlock.models.network import require_model_requests
from interlock.models.openai.chat_reply import FromOpenAIChat
from interlock.models.openai.chat_request import to_openai_chat
from interlock.models.openai.dialects import COMPATIBLE
from interlock.models.reading import read_end, read_event
from interlock.models.reply import ReplyHead

Complete = Callable[..., Awaitable[AsyncIterator[Any]]]
"""``any_llm.acompletion``: takes a Chat Completions request as keywords, answers with its chunks."""

_PASSING = frozenset({"ProviderError", "UpstreamProviderError", "GatewayTimeoutError", "RateLimitError"})
"""The SDK's names for failures that may pass, where it knows no status."""


class AnyLLMModel:
    """A model of any provider that ``any-llm-sdk`` knows.

    It does what Chat Completions can: text, reasoning, tools, images, structured output. What a provider says beside
    that, such as signatures of its reasoning, is lost; providers with an adapter of their own here are better served by
    that. ``provider_options["anyllm"]`` are further keywords of ``any_llm.acompletion``.

    Args:
        model_id: ``"provider:model"`` in the SDK's names.
        api_key: Given to the SDK; ``None`` leaves it to the provider's environment variable.
        api_base: The provider's address, if not its own.
        headers: Sent with every call, by providers whose package can.
        complete: Called instead of ``any_llm.acompletion``.

    Raises:
        ConfigurationError: ``model_id`` names no provider, or the SDK is not installed.
    """

    provider = "anyllm"

    def __init__(
        self,
        model_id: str,
        *,
        api_key: str | ApiKey | None = None,
        api_base: str | None = None,
        headers: Mapping[str, str] | None = None,
        complete: Complete | None = None,
    ) -> None:
        provider, _, name = model_id.partition(":")
        if not provider or not name:
            raise ConfigurationError(f"{model_id!r} names no model: write 'provider:model', such as 'cohere:command-a'")
        if complete is None and find_spec("any_llm") is None:
            raise ConfigurationError("this model needs the package any-llm-sdk: pip install 'interlock[anyllm]'")
        self.model_id = model_id
        self._key = ApiKey(api_key) if isinstance(api_key, str) else api_key
        self._api_base = api_base
        self._headers = dict(headers or {})
        self._complete = complete

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The call failed, or the answer broke off.
            ModelError: The prompt holds something that this protocol cannot carry.
        """
        warnings: list[dict[str, Any]] = []
        body = to_openai_chat(request, self.model_id, self.provider, COMPATIBLE, warnings)
        hide = self._key.hidden_in if self._key else str
        where = f"any-llm, {self.model_id}"
        complete = self._complete or self._sdk_function()
        with _as_call_errors(where, hide):
            replies = await complete(**self._to_keywords(body, request))
            yield GenericChunk(type="stream-start", payload={"warnings": warnings, "request": {"body": body}})
            head = ReplyHead(where, {}, hide)
            reader = FromOpenAIChat(head, request, self.provider)
            async with aclosing(_each(replies)) as each:
                async for reply in each:
                    for chunk in read_event(reader, head, "", reply.model_dump_json(exclude_none=True)):
                        yield chunk
            for chunk in read_end(reader, head):
                yield chunk

    def _sdk_function(self) -> Complete:
        require_model_requests(f"{self.provider}/{self.model_id}")
        complete: Complete = import_module("any_llm").acompletion
        return complete

    def _to_keywords(self, body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
        given = {"api_key": self._key.reveal() if self._key else None, "api_base": self._api_base}
        headers = {**self._headers, **(request.settings.get("headers") or {}), **(request.headers or {})}
        return {
            # Errors of one kind, whichever provider's package raised them.
            "client_args": {"unified_exceptions": True, **body.pop("client_args", {})},
            **{name: value for name, value in given.items() if value is not None},
            **({"extra_headers": headers} if headers else {}),
            **body,
        }

    def __repr__(self) -> str:
        return f"AnyLLMModel({self.model_id!r})"


async def _each(replies: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """The chunks of an answer, which is closed when the reader leaves."""
    try:
        async for reply in replies:
            yield reply
    finally:
        closed = getattr(replies, "aclose", getattr(replies, "close", None))
        if closed is not None and inspect.isawaitable(closing := closed()):
            await closing


@contextmanager
def _as_call_errors(where: str, hide: Callable[[str], str]) -> Iterator[None]:
    """What the SDK raises, as an ``APICallError``; anything else passes."""
    try:
        yield
    except Exception as error:
        # The SDK is known only where it is installed.
        names = [kind.__name__ for kind in type(error).__mro__]
        if "AnyLLMError" not in names:
            raise
        status = getattr(error, "status_code", None)
        raise APICallError(
            hide(str(error)),
            status_code=status,
            is_retryable=not _PASSING.isdisjoint(names) if status is None else None,
            url=where,
            code=getattr(error, "code", None) or names[0],
            retry_after_s=retry_after_s({"retry-after": str(getattr(error, "retry_after", None) or "")}),
        ) from error
