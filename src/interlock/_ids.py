"""Random identifiers (R3.12)."""

from __future__ import annotations

import os

_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))

_BATCH = 64
_ready: list[str] = []
if hasattr(os, "register_at_fork"):
    # A forked process must not hand out the ids of its parent.
    os.register_at_fork(after_in_child=_ready.clear)


def new_id() -> str:
    """A random UUID4 string, from the operating system's randomness, which is read for many ids at once."""
    try:
        return _ready.pop()
    except IndexError:
        noise = os.urandom(16 * _BATCH).hex()
        _ready.extend([_uuid4(noise[start : start + 32]) for start in range(0, len(noise), 32)])
        return _ready.pop()


def _uuid4(noise: str) -> str:
    return f"{noise[:8]}-{noise[8:12]}-4{noise[13:16]}-{_VARIANT[noise[16]]}{noise[17:20]}-{noise[20:]}"
