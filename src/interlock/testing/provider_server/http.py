"""As much of HTTP/1.1 as a provider's client needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

MAX_BODY_BYTES = 256 * 1024 * 1024


class HttpRequest(msgspec.Struct):
    """A request as it came."""

    method: str
    path: str
    """With the query."""
    headers: dict[str, str]
    """Lower-case names."""
    content: bytes


async def read_request(reader: asyncio.StreamReader, begun: bytes = b"") -> HttpRequest | None:
    """The next request of a connection; ``None`` if the client has left.

    Args:
        reader: The connection.
        begun: What was read of the request already.

    Raises:
        ValueError: It is no request that this server reads.
    """
    try:
        head = (begun + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise ValueError("the headers are too long") from error
    line, *fields = head.rstrip("\r\n").split("\r\n")
    method, path, _ = line.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    length = int(headers.get("content-length") or 0)
    if length > MAX_BODY_BYTES or "transfer-encoding" in headers:
        raise ValueError("the body has no length, or too much of it")
    try:
        content = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return HttpRequest(method, path, headers, content)


async def write_reply(
    writer: asyncio.StreamWriter, status: int, body: bytes, media_type: str, headers: Mapping[str, str]
) -> None:
    """A whole reply."""
    own = {"content-type": media_type, "content-length": str(len(body)), **headers}
    writer.write(_head(status, own) + body)
    await writer.drain()


class StreamedReply:
    """A reply whose body is written as it comes.

    Args:
        writer: The connection.
        packet_size: Send the body in packets of so many bytes, wherever they cut it; ``None`` for one each time.
        media_type: What the body is.
    """

    def __init__(
        self, writer: asyncio.StreamWriter, packet_size: int | None, media_type: str = "text/event-stream"
    ) -> None:
        self._writer = writer
        self._packet_size = packet_size
        self._media_type = media_type
        self._is_begun = False

    @property
    def is_begun(self) -> bool:
        """Whether the status and the headers are sent; they are with the first piece, or with the end."""
        return self._is_begun

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if not data:
            return
        self._begin()
        size = self._packet_size or len(data)
        for start in range(0, len(data), size):
            packet = data[start : start + size]
            self._writer.write(b"%x\r\n%s\r\n" % (len(packet), packet))
            await self._writer.drain()
            # The client reads while the server writes on.
            await asyncio.sleep(0)

    async def end(self) -> None:
        """The body is complete."""
        self._begin()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._writer.write(_head(200, {"content-type": self._media_type, "transfer-encoding": "chunked"}))


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
