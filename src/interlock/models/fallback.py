"""One entry of a list of models that are tried in order (R12.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from interlock.models.base import GenerateModel, LanguageModel, ModelSettings


@dataclass(frozen=True, slots=True)
class ModelFallback:
    """A model with its own options; the next entry is tried when it fails for good (R7.13, R7.17).

    Raises:
        ValueError: ``max_retries`` is not a number of retries.
    """

    model: LanguageModel | GenerateModel | str
    """A model, or a router id such as ``"openai/gpt-5"``."""
    max_retries: int | None = field(default=None, kw_only=True)
    """Retries inside the model client; ``None`` leaves the number to the agent and the call."""
    model_settings: ModelSettings | None = field(default=None, kw_only=True, repr=False)
    """Laid over the settings of the step."""
    provider_options: dict[str, Any] | None = field(default=None, kw_only=True, repr=False)
    """Laid over the provider options of the step."""
    headers: dict[str, str] | None = field(default=None, kw_only=True, repr=False)
    """Added to the request headers. Like settings and options they may hold credentials, so no ``repr`` shows them."""
    enabled: bool = field(default=True, kw_only=True)
    """``False`` skips the entry."""

    def __post_init__(self) -> None:
        retries = self.max_retries
        if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
            raise ValueError(f"ModelFallback.max_retries must be 0 or a positive integer, not {retries!r}")
