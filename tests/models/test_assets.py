from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from interlock.errors import APICallError, ModelError
from interlock.models import allow_model_requests, download_assets
from interlock.models.assets import DOWNLOAD_ASSETS_FAILED
from tests.models.wire import Reply, loopback

pytestmark = pytest.mark.anyio

URL = "https://files.example/a.png"


def file(url: str, media_type: str = "image/png", **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": url, **fields}


def prompt_with(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": list(parts)}]


class Web:
    """A web of files, and what was fetched from it."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]) -> None:
        self.urls: list[str] = []
        self.pauses: list[float] = []
        self._answer = answer
        self.client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._reply))

    async def _reply(self, request: httpx2.Request) -> httpx2.Response:
        self.urls.append(str(request.url))
        reply = self._answer(request)
        return reply if isinstance(reply, httpx2.Response) else await reply

    async def put_into(self, prompt: list[dict[str, Any]]) -> Any:
        return await download_assets(prompt, client=self.client, sleep=self._sleep, random=lambda: 1.0)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def png(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "image/png; x=y"}, content=b"ABC")


async def test_a_file_that_the_model_cannot_load_is_put_in() -> None:
    """R4.16"""
    prompt = prompt_with({"type": "text", "text": "see"}, file(URL, filename="a.png"))
    assert await Web(png).put_into(prompt) == prompt_with(
        {"type": "text", "text": "see"}, file(base64.b64encode(b"ABC").decode(), filename="a.png")
    )
    assert prompt == prompt_with({"type": "text", "text": "see"}, file(URL, filename="a.png"))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": URL},
        file("QUJD"),
        file("data:image/png;base64,QUJD"),
        file("file-123", "application/pdf"),
    ],
)
async def test_a_prompt_without_addresses_is_returned_as_it_is(part: dict[str, Any]) -> None:
    """R4.16"""
    web = Web(png)
    prompt = prompt_with(part)
    assert await web.put_into(prompt) is prompt
    assert web.urls == []


@pytest.mark.parametrize(
    ("media_type", "supported", "stays"),
    [
        ("image/png", {"image/*": [r"^https://"]}, True),
        ("image/*", {"image/*": [r"^https://"]}, True),
        ("image/png", {"image/png": [r"^https://"]}, True),
        ("image/png", {"*": [r"^https://"]}, True),
        ("image/png", {"*/*": [r"^https://"]}, True),
        ("image/png", {"image/*": [r"^https://other"]}, False),
        ("application/pdf", {"image/*": [r"^https://"]}, False),
        ("image/png", {"image/jpeg": [r"^https://"]}, False),
    ],
)
async def test_an_address_that_the_model_loads_itself_stays(
    media_type: str, supported: dict[str, list[str]], stays: bool
) -> None:
    """R4.16"""
    web = Web(png)
    prompt = prompt_with(file(URL, media_type))
    sent = await download_assets(prompt, supported, client=web.client)
    assert (sent is prompt) is stays
    assert web.urls == ([] if stays else [URL])


@pytest.mark.parametrize(
    ("declared", "served", "used"),
    [
        ("image/webp", "image/png", "image/webp"),
        ("image/*", "image/png", "image/png"),
        ("", "image/png", "image/png"),
        ("", "", "image/png"),
    ],
)
async def test_the_media_type_is_the_declared_one_if_that_says_enough(declared: str, served: str, used: str) -> None:
    """R4.16"""
    web = Web(lambda _: httpx2.Response(200, headers={"content-type": served}, content=b"ABC"))
    sent = await web.put_into(prompt_with(file(URL, declared)))
    assert sent[1]["content"][0]["mediaType"] == used


async def test_one_file_named_twice_is_fetched_once() -> None:
    """R4.16"""
    web = Web(png)
    sent = await web.put_into([*prompt_with(file(URL)), *prompt_with(file(URL))])
    assert web.urls == [URL]
    assert [message["content"][0]["data"] for message in sent if message["role"] == "user"] == ["QUJD", "QUJD"]


async def test_ten_files_are_fetched_at_a_time() -> None:
    """R4.16"""
    running = 0
    most = 0

    async def slowly(request: httpx2.Request) -> httpx2.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return png(request)

    await Web(slowly).put_into(prompt_with(*(file(f"https://files.example/{n}.png") for n in range(25))))
    assert most == 10


async def test_a_passing_failure_is_repeated_three_times() -> None:
    """R4.16"""
    answers = [httpx2.Response(503), httpx2.Response(500), httpx2.Response(429, headers={"retry-after": "7"})]
    web = Web(lambda request: answers.pop(0) if answers else png(request))
    assert (await web.put_into(prompt_with(file(URL))))[1]["content"][0]["data"] == "QUJD"
    assert web.pauses == [0.5, 1.0, 7.0]


async def test_a_failure_that_stays_is_an_error_of_the_call() -> None:
    """R4.16, R7.14"""
    web = Web(lambda _: httpx2.Response(503))
    with pytest.raises(
        APICallError, match=r"^the file https://files\.example/a\.png .* could not be fetched: HTTP 503"
    ) as caught:
        await web.put_into(prompt_with(file(f"{URL}?token=abc")))
    assert caught.value.code == DOWNLOAD_ASSETS_FAILED
    assert caught.value.status_code == 503
    assert caught.value.url == URL
    assert not caught.value.is_retryable
    assert len(web.urls) == 4


async def test_a_file_that_is_not_there_is_not_asked_for_again() -> None:
    """R4.16"""
    web = Web(lambda _: httpx2.Response(404))
    with pytest.raises(APICallError, match="HTTP 404"):
        await web.put_into(prompt_with(file(URL)))
    assert len(web.urls) == 1


async def test_a_lost_connection_is_an_error_of_the_call() -> None:
    """R4.16, R7.14"""

    def refuse(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(APICallError, match="could not be fetched: refused") as caught:
        await Web(refuse).put_into(prompt_with(file(URL)))
    assert caught.value.code == DOWNLOAD_ASSETS_FAILED


async def test_one_failure_ends_the_other_downloads() -> None:
    """R4.16"""
    before = asyncio.all_tasks()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/0.png":
            return httpx2.Response(404)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    with pytest.raises(APICallError):
        await Web(answer).put_into(prompt_with(*(file(f"https://files.example/{n}.png") for n in range(5))))
    assert asyncio.all_tasks() == before


async def test_redirects_are_followed_a_few_times() -> None:
    """R4.16"""

    def further(request: httpx2.Request) -> httpx2.Response:
        step = int(request.url.path.strip("/") or 0)
        if step == 3:
            return png(request)
        return httpx2.Response(302, headers={"location": f"https://files.example/{step + 1}"})

    sent = await Web(further).put_into(prompt_with(file("https://files.example/0")))
    assert sent[1]["content"][0]["data"] == "QUJD"


async def test_endless_redirects_are_an_error() -> None:
    """R4.16"""
    web = Web(lambda _: httpx2.Response(302, headers={"location": URL}))
    with pytest.raises(APICallError, match="redirected more than 5 times"):
        await web.put_into(prompt_with(file(URL)))


async def test_a_file_that_is_too_large_is_an_error() -> None:
    """R4.16"""
    web = Web(lambda _: httpx2.Response(200, content=b"x" * (50 * 1024 * 1024 + 1)))
    with pytest.raises(APICallError, match="larger than") as caught:
        await web.put_into(prompt_with(file(URL)))
    assert caught.value.status_code == 413


async def test_an_address_that_is_none_is_an_error() -> None:
    """R4.16"""
    with pytest.raises(APICallError, match="could not be fetched") as caught:
        await Web(png).put_into(prompt_with(file("https://exa mple:x/")))
    assert caught.value.code == DOWNLOAD_ASSETS_FAILED


async def test_a_switched_off_network_is_not_used() -> None:
    with allow_model_requests(False), pytest.raises(ModelError, match=r"the download of https://files\.example/a\.png"):
        await download_assets(prompt_with(file(URL)))


async def test_without_a_client_the_shared_one_fetches() -> None:
    """R4.16"""
    reply = Reply([b"AB", b"C"], headers={"content-type": "image/png"})
    async with loopback(lambda _: reply) as server:
        sent = await download_assets(prompt_with(file(f"{server.url}/a.png")))
    assert sent[1]["content"][0]["data"] == "QUJD"


async def test_the_log_of_a_download_names_the_bare_address(caplog: pytest.LogCaptureFixture) -> None:
    """R4.16: a signed address is a credential."""
    caplog.set_level(logging.INFO)
    target = "https://store.example/a.png?signature=s3cret-too"

    def moved(request: httpx2.Request) -> httpx2.Response:
        is_first = request.url.host == "files.example"
        return httpx2.Response(302, headers={"location": target}) if is_first else png(request)

    web = Web(moved)
    await web.put_into(prompt_with(file(f"{URL}?signature=s3cret")))
    assert web.urls[-1] == target
    assert f"HTTP Request: GET {URL} " in caplog.text
    assert "s3cret" not in caplog.text
