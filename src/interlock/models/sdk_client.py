"""Calls sent through an official SDK's client: its sign-in, proxies and retries, our reading of the reply."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from interlock.errors import APICallError, ConfigurationError
from interlock.models.http import EventReply, Response, bare_url, event_reply, secrets_hidden
from interlock.models.http_errors import MAX_BODY_CHARS, refusal


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
    client: SdkClient, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str], model: str = ""
) -> AsyncIterator[EventReply]:
    """Let ``client`` send ``body`` and read the events of the reply; leaving the context closes the connection.

    Args:
        client: Sends the request, as often as it is set up to try.
        path: Below the client's address, such as ``/responses``.
        body: The request.
        headers: Sent beside the client's own.
        model: ``provider/model``, for errors.

    Raises:
        APICallError: As ``event_stream`` raises it.
    """
    options = {"headers": dict(headers)}
    try:
        # An SDK hands out the bare reply, unread, when that is the type it is asked for.
        response = await client.post(path, cast_to=Response, body=body, options=options, stream=True)
    except Exception as error:
        # Which errors an SDK has is known only where it is installed; those of other kinds pass.
        failure = _as_call_error(error, bare_url(f"{str(client.base_url).rstrip('/')}{path}"), model)
        if failure is None:
            raise
        raise failure from error
    async with event_reply(response, model=model) as reply:
        yield reply


def _as_call_error(error: Exception, url: str, model: str) -> APICallError | None:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    response = getattr(error, "response", None)
    if response is not None:
        hide = secrets_hidden(response.request.headers)
        headers = {name: value for name, value in response.headers.items() if name != "set-cookie"}
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        body = hide(response.text[:MAX_BODY_CHARS])
        return refusal(
            response.status_code, headers, body, url, media_type=media_type, model=model, key_name="the SDK's client"
        )
    if "APITimeoutError" in kinds:
        return APICallError(f"no answer from {url} in time", url=url, code="timeout")
    if "APIConnectionError" in kinds:
        reason = str(error.__cause__ or error) or type(error).__name__
        return APICallError(f"the call of {url} failed: {reason}", url=url, code="connection_error")
    return None
