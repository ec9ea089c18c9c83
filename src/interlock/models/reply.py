"""A provider's reply: what is known of it beside its events, and who reads these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from interlock.chunks import Chunk, ResponseMetadata, ResponseMetadataPayload
from interlock.errors import APICallError
from interlock.models.http_errors import MAX_BODY_CHARS, error_in_stream


class ReplyHead(msgspec.Struct, frozen=True):
    """Where a reply came from, and how its failures are told."""

    url: str
    """Without secrets."""
    headers: Mapping[str, str] = {}
    """Lower-case keys."""
    hide: Callable[[str], str] = str
    """Blacks out the secrets of the request in what an error quotes."""

    def metadata(self, reply_id: str | None, model_id: str | None, made_at: datetime | None = None) -> ResponseMetadata:
        """The chunk that tells where the answer comes from."""
        payload = ResponseMetadataPayload(
            id=reply_id or None, model_id=model_id or None, timestamp=made_at, headers=dict(self.headers)
        )
        return ResponseMetadata(payload=payload)

    def failure(self, data: str) -> APICallError:
        """The error for an error event, whose data is given."""
        return error_in_stream(self.hide(data), self.headers, self.url)

    def unreadable(self, data: str, problem: object, *, kind: str = "", is_retryable: bool = True) -> APICallError:
        """The error for an event that is none of the protocol.

        Args:
            data: The event's data.
            problem: What is wrong with it.
            kind: What the server calls the event.
            is_retryable: Whether it may be a fault of the transport.
        """
        event = f"an event {kind!r}" if kind else "an event"
        return APICallError(
            self.hide(f"{self.url} sent {event} that cannot be read: {problem}"),
            is_retryable=is_retryable,
            url=self.url,
            response_headers=self.headers,
            response_body=self.hide(data)[:MAX_BODY_CHARS],
            code="malformed_stream",
        )

    def broken_off(self, rest: str = "") -> APICallError:
        """The error for a reply that ended without having said that it is complete.

        Args:
            rest: What came behind the last event and is none: some servers break off with a bare error.
        """
        if rest:
            return self.failure(rest)
        return APICallError(
            f"the answer of {self.url} ended in the middle",
            is_retryable=True,
            url=self.url,
            response_headers=self.headers,
            code="truncated_stream",
        )


class ReplyReader(Protocol):
    """Reads the events of one reply into chunks."""

    @property
    def is_done(self) -> bool:
        """Whether the server said that nothing follows."""
        ...

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes; events that the protocol does not know make none.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
            Exception: Anything else, if the event is not in the protocol's form; see ``reading``.
        """
        ...

    def end(self, rest: str = "") -> list[Chunk]:
        """The chunks that close the answer.

        Args:
            rest: As for ``ReplyHead.broken_off``.

        Raises:
            APICallError: The stream ended before the answer did.
        """
        ...


def moment(seconds: float | None) -> datetime | None:
    """When a reply was made; ``None`` if its server gives no time, or none in seconds."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None
