"""Calls sent through a ``google.genai.Client``: its sign-in, proxies and retries, our reading of the reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from interlock.errors import APICallError, ConfigurationError
from interlock.models.http_errors import MAX_BODY_CHARS, refusal
from interlock.models.sse import ServerEvent

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


class SentReply(NamedTuple):
    """A reply as the SDK hands it out."""

    headers: dict[str, str]
    events: AsyncIterator[ServerEvent]


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
    client: GenaiClient, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str], model: str
) -> AsyncIterator[SentReply]:
    """Let ``client`` send ``body`` and read the events of the reply; leaving the context closes the connection.

    Args:
        client: Sends the request, as often as it is set up to try.
        path: Below the version of the API, such as ``models/gemini-3-flash:streamGenerateContent?alt=sse``.
        body: The request.
        headers: Sent beside the client's own.
        model: ``provider/model``, for errors.

    Raises:
        APICallError: No reply, a refusal, or a connection lost on the way.
    """
    sender = client._api_client
    try:
        request = sender._build_request("post", path, dict(body), {"headers": dict(headers)} if headers else None)
        reply = await sender._async_request(request, stream=True)
        async with aclosing(reply._aiter_response_stream()) as texts:
            yield SentReply(_lower(reply.headers), (ServerEvent("", text) async for text in texts))
    except Exception as error:
        # Which errors the SDK has is known only where it is installed; those of other kinds pass.
        failure = _as_call_error(error, f"google.genai, {path.partition('?')[0]}", model)
        if failure is None:
            raise
        raise failure from error


def _as_call_error(error: Exception, url: str, model: str) -> APICallError | None:
    package = type(error).__module__.partition(".")[0]
    details, status = getattr(error, "details", None), getattr(error, "code", None)
    if package == "google" and isinstance(status, int):
        headers = _lower(getattr(getattr(error, "response", None), "headers", None) or {})
        body = msgspec.json.encode(details, enc_hook=str).decode()[:MAX_BODY_CHARS]
        return refusal(status, headers, body, url, model=model, key_name="the SDK's client")
    if package in _HTTP_PACKAGES or isinstance(error, OSError):
        is_timeout = "Timeout" in type(error).__name__
        what = f"no answer from {url} in time" if is_timeout else f"the call of {url} failed: {error}"
        return APICallError(what, url=url, code="timeout" if is_timeout else "connection_error")
    return None


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() != "set-cookie"}
