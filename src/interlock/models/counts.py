"""Token counts as servers send them."""

from __future__ import annotations

import math
from typing import Any


def token_count(value: Any) -> int | None:
    """``value`` as a count; ``None`` if it is none: an answer is no worse because its tokens were counted oddly."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return round(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else None
