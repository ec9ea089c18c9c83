"""How servers that speak Chat Completions differ from one another."""

from __future__ import annotations

import msgspec

from interlock.models.openai.protocol import REASONING_MODELS


class Dialect(msgspec.Struct, kw_only=True, frozen=True):
    """What a server calls things, and what it does not know; the defaults fit most compatible servers."""

    max_tokens: str = "max_tokens"
    """Field of the output limit."""
    seed: str = "seed"
    """Field of the seed."""
    required: str = "required"
    """The tool choice that asks for some call."""
    reasoning: str | None = None
    """Field in which an assistant message gives its reasoning back to the server."""
    has_stream_options: bool = True
    """Whether the usage of a stream has to be asked for, and may be."""
    has_json_schema: bool = True
    """Whether ``response_format`` takes a schema."""
    has_top_k: bool = False
    """Whether ``top_k`` is a setting."""
    fetches_images: bool = True
    """Whether the server loads an image from its URL."""
    fixed_sampling: tuple[str, ...] = ()
    """Beginnings of the names of reasoning models, which refuse sampling settings."""


COMPATIBLE = Dialect()
OPENAI = Dialect(max_tokens="max_completion_tokens", fixed_sampling=REASONING_MODELS)
MISTRAL = Dialect(seed="random_seed", required="any", has_stream_options=False)
THINKING = Dialect(reasoning="reasoning_content")
DEEPSEEK = Dialect(reasoning="reasoning_content", has_json_schema=False, fetches_images=False)
OPENROUTER = Dialect(has_top_k=True)
SELF_HOSTED = Dialect(has_top_k=True, fetches_images=False)
