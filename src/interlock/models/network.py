"""The switch that keeps tests off the network."""

from __future__ import annotations

from types import TracebackType
from urllib.parse import urlsplit

from interlock.errors import ConfigurationError, ModelError
from interlock.models.secrets import bare_url

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_allowed = True


class _Restore:
    """What ``allow_model_requests`` returns: leaving it as a context puts the switch back."""

    def __init__(self, previous: bool) -> None:
        self._previous = previous

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set(self._previous)


def _set(allowed: bool) -> bool:
    global _allowed
    previous, _allowed = _allowed, allowed
    return previous


def allow_model_requests(allowed: bool) -> _Restore:
    """Allow or forbid calls of real models, for the whole process.

    A plain call sets the switch; ``with allow_model_requests(False):`` sets it for the block. While it is off, a real
    model raises ``ModelError`` instead of calling its provider or loading its weights. Scripted models, a model whose
    HTTP client the caller made, and servers on the loopback address go on working.
    """
    return _Restore(_set(allowed))


def require_model_requests(what: str) -> None:
    """Raise if calls of real models are switched off.

    Args:
        what: The call, for the message: a model's ``provider/model``, or a download.

    Raises:
        ModelError: They are.
    """
    if not _allowed:
        raise ModelError(
            f"{what} was asked for while calls of real models are switched off: use ScriptedModel, "
            "or allow it with allow_model_requests(True)"
        )


def require_address(url: str, name: str = "base_url", example: str = "https://api.openai.com/v1") -> str:
    """``url`` without the white space that files and shells tend to add.

    Args:
        url: The address.
        name: Where it came from, for the error.
        example: What it may look like, for the error.

    Raises:
        ConfigurationError: It is no http(s) address.
    """
    url = url.strip()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{name} {bare_url(url)!r} is not an address: give one such as {example!r}")
    return url


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine, so that a call of it is no network traffic."""
    return urlsplit(url).hostname in _LOOPBACK
