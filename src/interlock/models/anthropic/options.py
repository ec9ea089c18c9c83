"""What a prompt or a call says to Anthropic's models alone, under ``anthropic`` in its provider options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.models.prompt_parts import options_of

NAMESPACE = "anthropic"
"""Of provider options and metadata, also where another server speaks this protocol."""

_CAPITAL = re.compile(r"[A-Z]")
_VERBATIM = frozenset({"schema", "input_schema", "input_examples", "properties"})
"""Fields whose values have keys of the user's own."""


def own_options(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a prompt message or of a part of one, with the API's spelling of the keys."""
    options: dict[str, Any] = snake_keys(options_of(holder, NAMESPACE))
    return options


def snake_keys(value: Any) -> Any:
    """``value`` with every key in it in snake_case, as the API spells them, but for JSON Schemas."""
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            name = _CAPITAL.sub(lambda letter: f"_{letter.group().lower()}", key)
            out[name] = item if name in _VERBATIM else snake_keys(item)
        return out
    if isinstance(value, list):
        return [snake_keys(item) for item in value]
    return value
