"""Files that a prompt names by address and the model cannot load itself: fetched before the call (R4.16)."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import APICallError
from interlock.models.base import Prompt
from interlock.models.http_errors import retry_after_s
from interlock.models.network import is_loopback, require_model_requests
from interlock.models.retry import Sleep, delay_before_retry
from interlock.models.secrets import bare_url

if TYPE_CHECKING:
    from interlock.models.http import AsyncClient

DOWNLOAD_ASSETS_FAILED = "DOWNLOAD_ASSETS_FAILED"
PARALLEL_DOWNLOADS = 10
MAX_RETRIES = 3
MAX_REDIRECTS = 5
MAX_ASSET_BYTES = 50 * 1024 * 1024
_TIMEOUT_S = 30.0

_UNSPECIFIC = ("", "application/octet-stream")


async def download_assets(
    prompt: Prompt,
    supported_urls: Mapping[str, Sequence[str]] | None = None,
    *,
    client: AsyncClient | None = None,
    sleep: Sleep = asyncio.sleep,
    random: Callable[[], float] = random.random,
) -> Prompt:
    """``prompt`` with the files that the model cannot load itself put in as base64.

    The given prompt is not changed; it is returned as it is when there is nothing to fetch.

    Args:
        prompt: A provider prompt.
        supported_urls: What the model loads itself: media type, ``image/*`` or ``*`` → regular expressions.
        client: Fetches instead of the shared client.
        sleep: Waits between retries.
        random: A number from 0 up to 1, for the length of the waits.

    Raises:
        APICallError: A file could not be fetched; ``code`` is ``DOWNLOAD_ASSETS_FAILED``.
        ConfigurationError: The package that HTTP needs is not installed.
    """
    supported = supported_urls or {}
    wanted = {part["data"] for part in _remote_files(prompt) if not _is_supported(part, supported)}
    if not wanted:
        return prompt
    slots = asyncio.Semaphore(PARALLEL_DOWNLOADS)

    async def fetch(url: str) -> tuple[str, _Asset]:
        async with slots:
            return url, await _with_retries(url, client, sleep, random)

    tasks = [asyncio.create_task(fetch(url)) for url in sorted(wanted)]
    try:
        assets = dict(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [_with_files(message, assets, supported) for message in prompt]


class _Asset(NamedTuple):
    media_type: str
    base64: str


def _remote_files(prompt: Prompt) -> Iterator[dict[str, Any]]:
    for message in prompt:
        content = message["content"]
        # A system message is a string.
        if isinstance(content, list):
            yield from (part for part in content if _is_remote_file(part))


def _is_remote_file(part: dict[str, Any]) -> bool:
    return part["type"] == "file" and str(part["data"]).startswith(("http://", "https://"))


def _is_supported(part: dict[str, Any], supported: Mapping[str, Sequence[str]]) -> bool:
    media_type = part.get("mediaType") or ""
    for pattern, addresses in supported.items():
        kind = pattern.removesuffix("*").removesuffix("*/")
        fits = media_type == pattern or (pattern.endswith("*") and media_type.startswith(kind))
        if fits and any(re.search(address, part["data"]) for address in addresses):
            return True
    return False


def _with_files(
    message: dict[str, Any], assets: Mapping[str, _Asset], supported: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    content = message["content"]
    if not isinstance(content, list) or not any(_is_remote_file(part) for part in content):
        return message
    return {**message, "content": [_with_file(part, assets, supported) for part in content]}


def _with_file(
    part: dict[str, Any], assets: Mapping[str, _Asset], supported: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    if not _is_remote_file(part) or _is_supported(part, supported):
        return part
    asset = assets[part["data"]]
    declared = part.get("mediaType") or ""
    is_known = declared not in _UNSPECIFIC and not declared.endswith("*")
    return {**part, "data": asset.base64, "mediaType": declared if is_known else asset.media_type}


async def _with_retries(url: str, client: AsyncClient | None, sleep: Sleep, random: Callable[[], float]) -> _Asset:
    for retry in range(MAX_RETRIES + 1):
        try:
            return await _fetch(url, client)
        except APICallError as error:
            delay = delay_before_retry(error, retry, random) if error.is_retryable and retry < MAX_RETRIES else None
            if delay is None:
                error.is_retryable = False
                raise
        await sleep(delay)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _fetch(url: str, given_client: AsyncClient | None) -> _Asset:
    from interlock.models.http import InvalidURL, RequestError, bare_urls_logged, shared_client

    shown = bare_url(url)
    if given_client is None and not is_loopback(url):
        require_model_requests(f"the download of {shown}")
    client = given_client or await shared_client(is_direct=is_loopback(url))
    try:
        request = client.build_request("GET", url, timeout=_TIMEOUT_S)
        for _ in range(MAX_REDIRECTS + 1):
            with bare_urls_logged():
                response = await client.send(request, stream=True)
            try:
                if response.next_request is not None:
                    request = response.next_request
                    continue
                if not response.is_success:
                    raise _failure(shown, f"HTTP {response.status_code}", response.status_code, response.headers)
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > MAX_ASSET_BYTES:
                        raise _failure(shown, f"it is larger than {MAX_ASSET_BYTES} bytes", 413)
                declared = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                guessed = declared or mimetypes.guess_type(shown)[0] or "application/octet-stream"
                return _Asset(guessed, base64.b64encode(data).decode("ascii"))
            finally:
                await response.aclose()
    except InvalidURL as error:
        raise _failure(shown, f"it is no address: {error}", 400) from error
    except RequestError as error:
        raise _failure(shown, str(error) or type(error).__name__) from error
    raise _failure(shown, f"it was redirected more than {MAX_REDIRECTS} times", 400)


def _failure(
    url: str, reason: str, status_code: int | None = None, headers: Mapping[str, str] | None = None
) -> APICallError:
    return APICallError(
        f"the file {url} of the prompt could not be fetched: {reason}",
        status_code=status_code,
        url=url,
        response_headers=headers,
        code=DOWNLOAD_ASSETS_FAILED,
        retry_after_s=retry_after_s(headers or {}),
    )
