"""Random identifiers (R3.12)."""

from __future__ import annotations

import os

_VERSION_4 = 0x4000_8000_0000_0000_0000
_CLEAR = ~0xF000_C000_0000_0000_0000

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
        noise = os.urandom(16 * _BATCH)
        _ready.extend(_uuid4(noise[start : start + 16]) for start in range(0, len(noise), 16))
        return _ready.pop()


def _uuid4(noise: bytes) -> str:
    text = f"{int.from_bytes(noise) & _CLEAR | _VERSION_4:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
