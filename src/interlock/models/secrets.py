"""What must never be shown of a request: its credentials, wherever they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from interlock.models.api_key import ApiKey

_MIN_SECRET_CHARS = 6
"""Blacking out a stand-in for a key, such as ``k``, would leave no message readable."""

_SHOWN_HEADERS = re.compile(
    r"accept.*|connection|content-.*|host|user-agent|.*-(version|beta)|.*request-id|traceparent|x-stainless-.*"
    r"|openai-(organization|project)|x-goog-(api-client|user-project)|origin|(http-)?referer|x-title"
)
"""Headers that hold no secret. Any other may: gateways have credentials in headers of their own."""

_SHOWN_QUERY = frozenset({"alt", "api-version", "version"})


def bare_url(url: str) -> str:
    """``url`` without user, password, query and fragment, fit to be shown."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def secrets_hidden(
    request_headers: Mapping[str, str], key: ApiKey | None = None, url: str = ""
) -> Callable[[str], str]:
    """A function that blacks out the credentials of a request in a text; servers quote them in errors.

    Args:
        request_headers: As they were sent.
        key: One more secret.
        url: Where the request went: its password and the values in its query are secrets too.
    """
    sent = {*_in_headers(request_headers), *_in_url(url)}
    if key is not None:
        sent.add(key.reveal())
    # In an address, such as that of a redirect, some letters are spelled otherwise.
    sent |= {quote(secret, safe="") for secret in sent}
    # The longest first: one may be a part of another.
    secrets = sorted((secret for secret in sent if len(secret) >= _MIN_SECRET_CHARS), key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "***")
        return text

    return hide


def _in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        name = name.lower()
        if name == "cookie":
            yield from (cookie.partition("=")[2].strip() for cookie in value.split(";"))
        elif not _SHOWN_HEADERS.fullmatch(name):
            scheme, _, credential = value.partition(" ")
            yield credential if credential and scheme.isalpha() and " " not in credential else value


def _in_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    # A token may stand in the place of the user.
    credential = parts.password or parts.username
    if credential:
        yield from (credential, unquote(credential))
    yield from (value for name, value in parse_qsl(parts.query) if name.lower() not in _SHOWN_QUERY)
