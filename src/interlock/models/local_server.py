"""The embedded model's own process-wide server: loaded once, when first needed, stopped at exit."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from importlib import util
from pathlib import Path
from typing import Any

from interlock.errors import ConfigurationError

THREADS_VARIABLE = "INTERLOCK_LOCAL_THREADS"
CONTEXT_TOKENS = 8_192


class LocalServer:
    """A loaded model that speaks Chat Completions on a port of the loopback address.

    Args:
        weights: A GGUF file.
        name: The model's name in replies.
    """

    def __init__(self, weights: Path, name: str) -> None:
        import xllamacpp  # type: ignore[import-untyped]  # has no type hints

        # Other programs on this machine can reach the port, but do not know the key.
        self.key = secrets.token_urlsafe(32)
        options = xllamacpp.CommonParams()
        options.model.path = str(weights)
        options.model_alias = {name}
        options.n_ctx = CONTEXT_TOKENS
        options.n_parallel = 1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = thread_count()
        options.use_jinja = True
        options.verbosity = -1
        options.ui = False
        options.endpoint_slots = False
        options.port = 0
        options.hostnames = ["127.0.0.1"]
        options.api_keys = [self.key]
        self._server: Any = xllamacpp.Server(options)
        self.base_url = f"{self._server.listening_address}/v1"

    def stop(self) -> None:
        """Free the model and the port."""
        self._server = None


def require_local_runtime() -> None:
    """Check that the packages of the ``local`` extra are there.

    Raises:
        ConfigurationError: One is missing.
    """
    if any(util.find_spec(package) is None for package in ("xllamacpp", "httpx2")):
        raise ConfigurationError("the local model needs the extra 'local': pip install 'interlock[local]'")


def thread_count() -> int:
    """Threads that the model uses: half of the cores, or what ``INTERLOCK_LOCAL_THREADS`` says.

    More threads than idle cores make it many times slower, as they wait for each other.

    Raises:
        ConfigurationError: The variable is not a positive number.
    """
    wanted = os.environ.get(THREADS_VARIABLE)
    if not wanted:
        return max(1, (os.cpu_count() or 1) // 2)
    if not wanted.isdecimal() or int(wanted) == 0:
        raise ConfigurationError(f"{THREADS_VARIABLE} must be a positive number, not {wanted!r}")
    return int(wanted)


_servers: dict[Path, LocalServer] = {}
_lock = threading.Lock()


def shared_server(weights: Path, name: str) -> LocalServer:
    """The process's server for ``weights``, loaded by the first caller; blocks for about a second then.

    Raises:
        ConfigurationError: See ``thread_count``.
    """
    with _lock:
        server = _servers.get(weights)
        if server is None:
            server = _servers[weights] = LocalServer(weights, name)
        return server


@atexit.register
def _stop_servers() -> None:
    # The runtime's threads must be gone before the interpreter is.
    with _lock:
        for server in _servers.values():
            server.stop()
        _servers.clear()
