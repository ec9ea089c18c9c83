"""Turns of a provider server's script: what they can hold beside what a scripted model's can, and what they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.chunks import Chunk
from interlock.testing.turns import Pause


class ReceivedRequest:
    """A request that a client sent."""

    def __init__(self, path: str, headers: dict[str, str], body: Any) -> None:
        self.path = path
        self.headers = headers
        """Lower-case names; among them the key."""
        self.body = body
        """The JSON that was sent."""

    def __repr__(self) -> str:
        return f"ReceivedRequest({self.path!r}, body={self.body!r})"


class RawReply(msgspec.Struct, kw_only=True):
    """A turn that is no answer of a provider, such as the web page of a wrong address."""

    body: str
    status: int = 200
    media_type: str = "text/html"
    headers: Mapping[str, str] = {}


ServerTurn = (
    str
    | BaseException
    | Chunk
    | Mapping[str, Any]
    | Pause
    | Sequence[Any]
    | RawReply
    | Callable[[ReceivedRequest], Any]
)
"""What the server says to one request; see ``ProviderServer``."""


class HangUpError(ConnectionResetError):
    """The connection breaks off."""


class EndEarlyError(EOFError):
    """The reply ends properly, but in the middle of the answer."""


def hang_up() -> HangUpError:
    """At this place of a turn the server drops the connection; as a whole turn, without any reply."""
    return HangUpError("the provider server hung up")


def end_early() -> EndEarlyError:
    """At this place of a turn the reply ends as if it were complete."""
    return EndEarlyError("the provider server ended its reply early")
