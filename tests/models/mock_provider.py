"""A provider on a mock transport: it gives the replies that it was given, and keeps what it was sent."""

from __future__ import annotations

import json
from typing import Any

import httpx2


class MockProvider:
    """One provider.

    Args:
        replies: One for each request; an exception is raised instead.
    """

    def __init__(self, *replies: httpx2.Response | Exception) -> None:
        self.requests: list[httpx2.Request] = []
        self.http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._reply))
        self._replies = list(replies)

    @property
    def body(self) -> Any:
        """The JSON of the last request."""
        return json.loads(self.requests[-1].content)

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply
