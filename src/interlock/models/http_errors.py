"""A provider's refusal, in whatever form it comes, as an ``APICallError``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from interlock.errors import APICallError, is_retryable_status
from interlock.models.context_overflow import speaks_of_overflow

EVENT_STREAM = "text/event-stream"
MAX_BODY_CHARS = 10_000

_TRANSIENT_CODES = ("overload", "rate_limit", "server_error", "internal", "unavailable", "timeout", "api_error")
"""Pieces of the codes that providers give to failures which pass."""

_HOPELESS_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes of a 429 that will be one again after any wait."""


def refusal(
    status_code: int,
    headers: Mapping[str, str],
    body: str,
    url: str,
    *,
    model: str = "",
    key_name: str | None = None,
) -> APICallError:
    """The error for a reply that is not the answer which was asked for; its message ends with what to do about it.

    Args:
        status_code: HTTP status; a 2xx stands for a reply in a form that was not asked for.
        headers: Reply headers, lower-case keys.
        body: Reply body, without secrets.
        url: Where the request went, without secrets.
        model: ``provider/model`` that was called.
        key_name: Where the key came from; ``None`` if none was sent.
    """
    media_type = media_type_of(headers)
    details = _read_details(body)
    is_success = 200 <= status_code < 300
    if is_success and not details.is_error:
        message = f"{url} answered with {media_type or 'no content type'} instead of an event stream: check base_url"
        return APICallError(
            message,
            status_code=status_code,
            is_retryable=False,
            url=url,
            response_headers=headers,
            response_body=body,
        )
    message = details.message or f"HTTP {status_code} from {url}{_what_came(status_code, media_type, body)}"
    advice = _advice(status_code, details, body, model=model, key_name=key_name)
    if is_success:
        is_retryable = _is_transient(details)
    else:
        is_retryable = is_retryable_status(status_code) and details.code not in _HOPELESS_CODES
        should_retry = headers.get("x-should-retry")
        if should_retry in ("true", "false"):
            is_retryable = should_retry == "true"
    return APICallError(
        f"{message} ({advice})" if advice else message,
        status_code=status_code,
        is_retryable=is_retryable,
        url=url,
        response_headers=headers,
        response_body=body,
        code=details.code,
        retry_after_s=_first_known(retry_after_s(headers), details.retry_after_s),
    )


def error_in_stream(body: str, headers: Mapping[str, str], url: str) -> APICallError:
    """The error for an error event inside a reply that began well.

    Args:
        body: The event's data, without secrets: JSON as in a refusal, or plain text.
        headers: Reply headers.
        url: Where the request went, without secrets.
    """
    details = _read_details(body)
    message = details.message or f"{url} broke off its answer with an error: {body[:200]}"
    advice = _advice(details.status_code, details, body)
    return APICallError(
        f"{message} ({advice})" if advice else message,
        status_code=details.status_code,
        is_retryable=_is_transient(details),
        url=url,
        response_headers=headers,
        response_body=body[:MAX_BODY_CHARS],
        code=details.code,
        retry_after_s=_first_known(retry_after_s(headers), details.retry_after_s),
    )


def media_type_of(headers: Mapping[str, str]) -> str:
    """What kind of body a reply has; empty if it does not say."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait, from ``retry-after-ms`` or ``retry-after`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = _waitable(float(value) * unit)
        except ValueError:
            continue
        if seconds is not None:
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - time.time())


class _Details(msgspec.Struct):
    """What a provider's error body says."""

    message: str | None = None
    code: str | None = None
    status_code: int | None = None
    is_error: bool = False
    retry_after_s: float | None = None


def _read_details(body: str) -> _Details:
    """What ``body`` says; nothing if it is no JSON, or such that no error of a provider's looks like."""
    try:
        return _details(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError):
        return _Details()


def _details(data: Any) -> _Details:
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return _Details()
    inner = data.get("error")
    if isinstance(inner, str):
        return _Details(message=inner, code=_text(data.get("code") or data.get("type")), is_error=True)
    source = inner if isinstance(inner, dict) else data
    message = source.get("message") or source.get("detail")
    code = source.get("code")
    # An event that is called "error" says no more about itself than that.
    kind = None if source.get("type") == "error" else source.get("type") or source.get("status")
    return _Details(
        message=message if isinstance(message, str) else _text(message),
        code=_text(kind if code is None or isinstance(code, int) else code) or _text(code),
        status_code=code if isinstance(code, int) and 400 <= code < 600 else None,
        is_error=bool(inner) or source.get("object") == "error" or source.get("type") == "error",
        retry_after_s=_retry_delay_s(source.get("details")),
    )


def _retry_delay_s(details: Any) -> float | None:
    """Seconds from the ``google.rpc.RetryInfo`` of an error, which Google sends instead of a header."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            try:
                return _waitable(float(delay.removesuffix("s")))
            except ValueError:
                return None
    return None


def _waitable(seconds: float) -> float | None:
    return seconds if 0 <= seconds < float("inf") else None


def _is_transient(details: _Details) -> bool:
    """Whether an error without an HTTP status may pass; one that says nothing about itself may."""
    if details.status_code is not None:
        return is_retryable_status(details.status_code)
    code = (details.code or "").lower()
    return not code or any(piece in code for piece in _TRANSIENT_CODES)


def _first_known(first: float | None, second: float | None) -> float | None:
    return second if first is None else first


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return msgspec.json.encode(value).decode()


def _what_came(status_code: int, media_type: str, body: str) -> str:
    """What a reply without a message of its own looks like."""
    if 300 <= status_code < 400:
        return ": it points to another address, which is not followed; check base_url"
    if media_type == "text/html":
        return ": a web page came back" + ("" if status_code == 404 else "; check base_url")
    return f": {body[:200]}" if body else ""


def _advice(
    status_code: int | None, details: _Details, body: str, *, model: str = "", key_name: str | None = None
) -> str:
    """What the caller can do about the error; empty if waiting is all there is, or the message says it."""
    match status_code:
        case 400 if key_name and "API_KEY_INVALID" in body:
            return f"check the key in {key_name}"
        case 401:
            return f"check the key in {key_name}" if key_name else "no API key was sent: give api_key"
        case 403 if key_name:
            return f"check what the key in {key_name} may do"
        case 404:
            said = f"{details.code} {details.message}".lower()
            if "model" in said:
                return f"check that {model!r} is the name of a model there" if model else ""
            return "check base_url" if "url" in said or not details.is_error else ""
        case 429:
            return "check plan and billing of the account" if details.code in _HOPELESS_CODES else ""
    if speaks_of_overflow(f"{details.code} {details.message} {body}"):
        return "the prompt does not fit into the model: leave out old messages or long tool results"
    return "send fewer or smaller files" if status_code == 413 else ""
