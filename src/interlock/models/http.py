"""HTTP as the adapters use it: a pool of connections for an event loop, event streams, failures as ``APICallError``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from interlock.errors import APICallError
from interlock.models.api_key import ApiKey
from interlock.models.extras import require_package
from interlock.models.http_errors import EVENT_STREAM, MAX_BODY_CHARS, media_type_of, refusal
from interlock.models.network import require_address
from interlock.models.reply import ReplyHead
from interlock.models.secrets import bare_url, secrets_hidden
from interlock.models.sse import EventReader, EventTooLargeError, ServerEvent

require_package("httpx2", "openai", "HTTP")

import httpx2  # noqa: E402 - only now it is known to be there
from httpx2 import AsyncClient, InvalidURL, RequestError, Response, Timeout  # noqa: E402

__all__ = [
    "AsyncClient",
    "EventReply",
    "InvalidURL",
    "RequestError",
    "Response",
    "Timeout",
    "bare_urls_logged",
    "event_reply",
    "event_stream",
    "join_url",
    "shared_client",
    "shown_headers",
]

_MAX_EVENT_BYTES = 64 * 1024 * 1024
"""One event may hold a generated image."""

_logs_bare_urls = ContextVar("logs_bare_urls", default=False)

_LINGER_S = 0.2
"""Seconds for a server to end its reply after the last event."""


@dataclass(slots=True)
class EventReply:
    """The reply to a request for an event stream."""

    head: ReplyHead
    events: AsyncIterator[ServerEvent]
    rest: Callable[[], str]
    """What came behind the last event and is none itself, if it looks like JSON: some break off with a bare error."""

    async def drain(self) -> None:
        """Read on after the last event, so that the connection can be used again; nothing depends on what comes."""
        try:
            async with asyncio.timeout(_LINGER_S):
                async for _ in self.events:
                    pass
        except (TimeoutError, RequestError):
            return


def join_url(base_url: str, path: str) -> str:
    """``path`` under ``base_url``, whose query is kept.

    Raises:
        ConfigurationError: ``base_url`` is not an http(s) address.
    """
    parts = urlsplit(require_address(base_url))
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _Pool]] = WeakKeyDictionary()


class _Pool:
    """A client, and the async generator that closes it when its event loop shuts down."""

    def __init__(self, *, is_direct: bool) -> None:
        self.client = AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            # Requests of different users share this client, so it keeps no cookies.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            trust_env=not is_direct,
        )
        self._lifetime = self._until_loop_ends()

    async def _until_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            _pools.pop(asyncio.get_running_loop(), None)
            await self.client.aclose()

    async def start(self) -> None:
        # A started async generator is closed by ``loop.shutdown_asyncgens()``, hence at the end of ``asyncio.run``.
        await anext(self._lifetime)


async def shared_client(*, is_direct: bool) -> AsyncClient:
    """The client of the running event loop, closed when the loop shuts down.

    Args:
        is_direct: For addresses on this machine: proxy settings of the environment do not count.
    """
    pools = _pools.setdefault(asyncio.get_running_loop(), {})
    pool = pools.get(is_direct)
    if pool is None:
        pool = pools[is_direct] = _Pool(is_direct=is_direct)
        await pool.start()
    return pool.client


@contextmanager
def bare_urls_logged() -> Iterator[None]:
    """While it lasts, httpx2 logs the addresses that this task calls without what may be secret in them."""
    token = _logs_bare_urls.set(True)
    try:
        yield
    finally:
        _logs_bare_urls.reset(token)


def _with_bare_urls(record: logging.LogRecord) -> bool:
    if _logs_bare_urls.get() and isinstance(record.args, tuple):
        record.args = tuple(bare_url(str(arg)) if isinstance(arg, httpx2.URL) else arg for arg in record.args)
    return True


# A filter of a logger sees what is logged to it and nothing else; requests of other code pass as they are.
logging.getLogger("httpx2").addFilter(_with_bare_urls)


@asynccontextmanager
async def event_stream(
    client: AsyncClient, request: httpx2.Request, *, key: ApiKey | None = None, model: str = ""
) -> AsyncIterator[EventReply]:
    """Send ``request`` and read the events of its reply; leaving the context closes the connection.

    Args:
        client: Sends the request.
        request: See ``client.build_request``.
        key: Blacked out in errors, as are the credentials in the request's headers; a refused one is named.
        model: ``provider/model``, for errors.

    Raises:
        APICallError: No reply, a refusal, a reply that is no event stream, or a connection lost on the way.
    """
    with _as_call_errors(bare_url(str(request.url))):
        with bare_urls_logged():
            response = await client.send(request, stream=True)
        async with event_reply(response, key=key, model=model) as reply:
            yield reply


@asynccontextmanager
async def event_reply(response: Response, *, key: ApiKey | None = None, model: str = "") -> AsyncIterator[EventReply]:
    """Read the events of a reply that somebody else asked for; leaving the context closes the connection.

    Args:
        response: The reply, its body not yet read.
        key: As for ``event_stream``.
        model: As for ``event_stream``.

    Raises:
        APICallError: A refusal, a reply that is no event stream, or a connection lost on the way.
    """
    url = bare_url(str(response.request.url))
    with _as_call_errors(url):
        try:
            hide = secrets_hidden(response.request.headers, key, str(response.request.url))
            headers = shown_headers(response.headers, hide)
            if not response.is_success or media_type_of(headers) != EVENT_STREAM:
                body = hide(await _first_part(response))[:MAX_BODY_CHARS]
                key_name = key.name if key else None
                raise refusal(response.status_code, headers, body, url, model=model, key_name=key_name)
            reader = EventReader(_MAX_EVENT_BYTES)
            async with aclosing(_events(response, reader)) as events:
                yield EventReply(ReplyHead(url, headers, hide), events, reader.rest)
        finally:
            await response.aclose()


def shown_headers(headers: Mapping[str, str], hide: Callable[[str], str]) -> dict[str, str]:
    """The headers of a reply as they may be shown, with lower-case names."""
    return {name.lower(): hide(value) for name, value in headers.items() if name.lower() != "set-cookie"}


@contextmanager
def _as_call_errors(url: str) -> Iterator[None]:
    """What HTTP raises, as an ``APICallError``."""
    try:
        yield
    except httpx2.LocalProtocolError:
        # Its text quotes the header at fault, which may be the one with the key.
        raise APICallError("the request has a header that HTTP does not allow", is_retryable=False, url=url) from None
    except httpx2.TimeoutException as error:
        what = "connection to" if isinstance(error, (httpx2.ConnectTimeout, httpx2.PoolTimeout)) else "answer from"
        raise APICallError(f"no {what} {url} in time ({type(error).__name__})", url=url, code="timeout") from error
    except EventTooLargeError as error:
        raise APICallError(f"{url}: {error}", is_retryable=False, url=url, code="malformed_stream") from error
    except RequestError as error:
        reason = str(error) or type(error).__name__
        raise APICallError(f"the call of {url} failed: {reason}", url=url, code="connection_error") from error


async def _events(response: Response, reader: EventReader) -> AsyncGenerator[ServerEvent, None]:
    # Decoding takes a while even where there is nothing to decode.
    is_plain = "content-encoding" not in response.headers
    async with aclosing(response.aiter_raw() if is_plain else response.aiter_bytes()) as pieces:
        async for piece in pieces:
            for event in reader.feed(piece):
                yield event


async def _first_part(response: Response) -> str:
    """More of the body than an error keeps, so that no secret in what it keeps is cut in two.

    It is read as UTF-8, whatever charset the server claims: JSON has no other, and the rest is only quoted.
    """
    body = b""
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) >= 2 * MAX_BODY_CHARS:
                break
    except RequestError:
        # What counts is the status, which is known; the body only says more.
        pass
    return body.decode("utf-8", "replace")
