"""What both of OpenAI's protocols have in common."""

from __future__ import annotations

from typing import Any

from interlock.models.base import ModelRequest
from interlock.models.prompt_parts import call_args, json_text
from interlock.models.streamed_calls import parsed_args

SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})
"""Settings that reasoning models choose themselves."""

REASONING_MODELS = ("o1", "o3", "o4", "gpt-5", "gpt-6", "codex-")
"""Beginnings of the names of OpenAI's reasoning models; those with ``-chat`` in their names do not reason."""


def is_reasoning(model_id: str, beginnings: tuple[str, ...], effort: Any) -> bool:
    """Whether the model reasons in this call, and so refuses sampling settings."""
    return model_id.startswith(beginnings) and "-chat" not in model_id and effort != "none"


def own_options(request: ModelRequest, provider: str, renamed: dict[str, str]) -> dict[str, Any]:
    """The call's ``provider_options`` for ``provider``, by the names that they have on the wire."""
    given = (request.provider_options or {}).get(provider) or {}
    return {renamed.get(name) or _snake(name): value for name, value in given.items()}


def to_arguments(args: Any) -> str:
    """A call's arguments as the text of a JSON object."""
    if isinstance(args, str) and isinstance(parsed_args(args), dict):
        return args
    return json_text(call_args(args))


def with_cache_marker(content: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A part of a request, marked as the end of a prefix that is to be cached if its options say so.

    ``promptCacheBreakpoint`` is OpenAI's marker, ``cacheControl`` that of servers which pass requests on to Anthropic.
    """
    breakpoint_ = options.get("promptCacheBreakpoint")
    if breakpoint_:
        content["prompt_cache_breakpoint"] = {"mode": "explicit"} if breakpoint_ is True else breakpoint_
    if options.get("cacheControl"):
        content["cache_control"] = options["cacheControl"]
    return content


def _snake(name: str) -> str:
    """``reasoningEffort`` → ``reasoning_effort``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
