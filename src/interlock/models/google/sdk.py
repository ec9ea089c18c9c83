"""Calls sent through a ``google.genai.Client``: its sign-in, proxies and retries, our reading of the reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import msgspec

from interlock.errors import APICallError, ConfigurationError
from interlock.models.http import EventReply, shown_headers
from interlock.models.http_errors import EVENT_STREAM, MAX_BODY_CHARS, media_type_of, refusal
from interlock.models.reply import ReplyHead
from interlock.models.secrets import secrets_hidden
from interlock.models.sse import ServerEvent

_OK = 200
_HTTP_PACKAGES = frozenset({"aiohttp", "httpx", "httpx2"})
"""What the SDK may send requests with, whichever is installed."""


class GenaiClient(Protocol):
    """What is needed of a ``google.genai.Client``.

    The SDK's public methods parse every event into objects, and refuse to hand out what came: "Accessing the raw HTTP
    response is not supported in streaming methods". So what they are made of is used here, which sends a body and
    yields the events of the reply as text: ``_build_request``, ``_async_request``, ``_aiter_response_stream``.
    """

    @property
    def vertexai(self) -> bool:
        """Whether the requests go to Vertex AI."""
        ...

    @property
    def _api_client(self) -> Any: ...


def require_genai(client: Any) -> GenaiClient:
    """``client``, if it can send a request for us.

    Raises:
        ConfigurationError: It is no ``google.genai.Client``, or one of a version that works differently.
    """
    sender = getattr(client, "_api_client", None)
    if not all(callable(getattr(sender, name, None)) for name in ("_build_request", "_async_request")):
        raise ConfigurationError(
            f"client is a {type(client).__name__}: give an httpx2.AsyncClient or a google.genai.Client (google-genai 3)"
        )
    return client  # type: ignore[no-any-return]  # has what the protocol asks for


@asynccontextmanager
async def genai_event_stream(
    client: GenaiClient, path: str, model: str, body: Mapping[str, Any], headers: Mapping[str, str]
) -> AsyncIterator[EventReply]:
    """Let ``client`` send ``body`` and read the events of the reply; leaving the context closes the connection.

    Args:
        client: Sends the request, as often as it is set up to try.
        path: Below the version of the API, such as ``models/gemini-3-flash:streamGenerateContent?alt=sse``.
        model: ``provider/model``, for errors.
        body: The request.
        headers: Sent beside the client's own.

    Raises:
        APICallError: No reply, a refusal, a reply that is no event stream, or a connection lost on the way.
    """
    sender, url = client._api_client, shown_url(path)
    request = sender._build_request("post", path, dict(body), {"headers": dict(headers)} if headers else None)
    hide = secrets_hidden(request.headers)
    try:
        reply = await sender._async_request(request, stream=True)
        shown = shown_headers(reply.headers, hide)
        async with aclosing(reply._aiter_response_stream()) as texts:
            if media_type_of(shown) != EVENT_STREAM:
                raise refusal(_OK, shown, hide(await _first_part(texts)), url, model=model)
            events = (ServerEvent("", text) async for text in texts)
            yield EventReply(ReplyHead(url, shown, hide), events, _nothing)
    except Exception as error:
        # Which errors the SDK has is known only where it is installed; those of other kinds pass.
        if type(error).__module__.partition(".")[0] == "google" and isinstance(getattr(error, "code", None), int):
            # The SDK's own error may quote the key, and would be shown with a traceback.
            raise _refusal(error, url, model, hide) from None
        failure = _lost_call(error, url)
        if failure is None:
            raise
        raise failure from error


def shown_url(path: str) -> str:
    """What errors call the address, which only the SDK knows."""
    return f"google.genai, {path.partition('?')[0]}"


async def _first_part(texts: AsyncIterator[str]) -> str:
    """As much of a body as an error keeps."""
    body = ""
    async for text in texts:
        body += text
        if len(body) >= MAX_BODY_CHARS:
            break
    return body[:MAX_BODY_CHARS]


def _refusal(error: Any, url: str, model: str, hide: Callable[[str], str]) -> APICallError:
    response = getattr(error, "response", None)
    # Some of the SDK's transports have the text of a reply; of others only what the SDK made of it is there.
    text = getattr(response, "text", None)
    body = text if isinstance(text, str) else msgspec.json.encode(error.details, enc_hook=str).decode()
    headers = shown_headers(getattr(response, "headers", None) or {}, hide)
    return refusal(error.code, headers, hide(body[:MAX_BODY_CHARS]), url, model=model, key_name="the SDK's client")


def _lost_call(error: Exception, url: str) -> APICallError | None:
    if type(error).__module__.partition(".")[0] not in _HTTP_PACKAGES and not isinstance(error, OSError):
        return None
    if "Timeout" in type(error).__name__:
        return APICallError(f"no answer from {url} in time", url=url, code="timeout")
    return APICallError(f"the call of {url} failed: {error}", url=url, code="connection_error")


def _nothing() -> str:
    """The SDK yields what comes behind the last event as if it were one."""
    return ""
