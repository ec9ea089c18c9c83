"""Calls sent through an official SDK's client: its sign-in, proxies and retries, our reading of the reply."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from interlock.errors import APICallError, ConfigurationError
from interlock.models.http import (
    AsyncClient,
    EventReply,
    Response,
    event_reply,
    shown_headers,
)
from interlock.models.http_errors import MAX_BODY_CHARS, refusal
from interlock.models.secrets import bare_url, secrets_hidden


class SdkClient(Protocol):
    """What the asynchronous clients of OpenAI's and Anthropic's SDKs have for endpoints without a method of their own.

    ``AsyncOpenAI``, ``AsyncAzureOpenAI``, ``AsyncAnthropic`` and their kin fit.
    """

    @property
    def base_url(self) -> Any:
        """The address under which paths are looked up."""
        ...

    @property
    def post(self) -> Any:
        """Sends a request: ``post(path, cast_to=…, body=…, options=…, stream=…)``."""
        ...


def told_apart(client: AsyncClient | Any | None, *own_of_sdk: Any) -> tuple[AsyncClient | None, Any | None]:
    """A given client as one that sends requests as they are, or as an SDK's.

    Args:
        client: As the caller gave it.
        own_of_sdk: What an SDK's client has of its own, and so must not be given beside one.

    Raises:
        ConfigurationError: It is an SDK's client, and something of that is given.
    """
    if client is None or isinstance(client, AsyncClient):
        return client, None
    if any(given is not None for given in own_of_sdk):
        raise ConfigurationError("the SDK's client has a key and an address of its own: give them to it")
    return None, client


def require_async(client: SdkClient) -> None:
    """Refuse what cannot send a request for us.

    Raises:
        ConfigurationError: ``client`` is no asynchronous client of an SDK.
    """
    if not inspect.iscoroutinefunction(getattr(client, "post", None)):
        kind = type(client).__name__
        raise ConfigurationError(
            f"client is of type {kind}: give an httpx2.AsyncClient or an SDK's asynchronous client, such as AsyncOpenAI"
        )


@asynccontextmanager
async def sdk_event_stream(
    client: SdkClient, path: str, model: str, body: Mapping[str, Any], headers: Mapping[str, str]
) -> AsyncIterator[EventReply]:
    """Let ``client`` send ``body`` and read the events of the reply; leaving the context closes the connection.

    Args:
        client: Sends the request, as often as it is set up to try.
        path: Below the client's address, such as ``/responses``.
        model: ``provider/model``, for errors.
        body: The request.
        headers: Sent beside the client's own.

    Raises:
        APICallError: As ``event_stream`` raises it.
    """
    options = {"headers": dict(headers)}
    try:
        # An SDK hands out the bare reply, unread, when that is the type it is asked for.
        response = await client.post(path, cast_to=Response, body=body, options=options, stream=True)
    except Exception as error:
        # Which errors an SDK has is known only where it is installed; those of other kinds pass.
        refused = getattr(error, "response", None)
        if refused is not None:
            # The SDK's own error may quote the key, and would be shown with a traceback.
            raise _refusal(refused, model) from None
        failure = _lost_call(error, bare_url(f"{str(client.base_url).rstrip('/')}{path}"))
        if failure is None:
            raise
        raise failure from error
    async with event_reply(response, model=model) as reply:
        yield reply


def _refusal(response: Any, model: str) -> APICallError:
    hide = secrets_hidden(response.request.headers, url=str(response.request.url))
    return refusal(
        response.status_code,
        shown_headers(response.headers, hide),
        hide(response.content.decode("utf-8", "replace"))[:MAX_BODY_CHARS],
        bare_url(str(response.request.url)),
        model=model,
        key_name="the SDK's client",
    )


def _lost_call(error: Exception, url: str) -> APICallError | None:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in kinds:
        return APICallError(f"no answer from {url} in time", url=url, code="timeout")
    if "APIConnectionError" in kinds:
        reason = str(error.__cause__ or error) or type(error).__name__
        return APICallError(f"the call of {url} failed: {reason}", url=url, code="connection_error")
    return None
