"""The settings of a call: which of them a server is told, and the warning for those it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interlock._json import camel
from interlock.models.base import ModelRequest

_OF_THE_CLIENT = frozenset({"max_retries", "timeout", "headers"})
"""Settings that are not the server's business."""


def server_settings(request: ModelRequest) -> Iterator[tuple[str, Any]]:
    """Name and value of each setting that was made for the server."""
    for name, value in request.settings.items():
        if value is not None and name not in _OF_THE_CLIENT:
            yield name, value


def unsupported(setting: str, details: str) -> dict[str, Any]:
    """The warning that a setting was left out."""
    return {"type": "unsupported-setting", "setting": camel(setting), "details": details}
