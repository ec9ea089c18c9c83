"""One call of a model, ready to be made (R1.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock._json import Record, copy_json
from interlock.agent.structured import StructuredOutputOptions
from interlock.chunks import Chunk
from interlock.models import ModelFallback, ModelRequest
from interlock.models.base import LanguageModel
from interlock.processors.results import CachedStepResponse
from interlock.processors.stages import StepStage
from interlock.tools import Tool


class SentRequest(Record, kw_only=True):
    """``request`` of a ``step-start``: the prompt that was sent, as a copy that is made when somebody looks (R11.1)."""

    prompt: list[dict[str, Any]]
    copied: list[dict[str, Any]] | None = None

    @property
    def body(self) -> list[dict[str, Any]]:
        """The prompt; an edit of it reaches nobody else."""
        if self.copied is None:
            self.copied = copy_json(self.prompt)
        return self.copied

    def to_dict(self) -> dict[str, Any]:
        """``{"body": prompt}``."""
        return {"body": copy_json(self.body)}


class PreparedCall(msgspec.Struct, eq=False):
    """What one provider call needs, or the reply that replaces it."""

    entry: ModelFallback
    model: LanguageModel
    asked: StructuredOutputOptions | None = None
    """How the answer is to be typed."""
    tools: dict[str, Tool] = {}
    """The tools that may be executed in this step."""
    max_retries: int = 0
    """Repeats inside the model client (R7.13)."""
    prompt: list[dict[str, Any]] = []
    request: ModelRequest | None = None
    response: CachedStepResponse | None = None
    replayed: list[Chunk] = []
    """The chunks of ``response``."""


class UsualCall(msgspec.Struct, eq=False):
    """What the steps have in common that use the same model, where nobody gave settings."""

    model_index: int
    override: Any
    max_retries: int | None
    stage: StepStage
    """The settings with which a step begins."""
    call: PreparedCall | None = None
    """The call that they come to, without prompt and tools."""

    def is_for(self, model_index: int, override: Any, max_retries: int | None) -> bool:
        """Whether it still holds for a step with this model."""
        return self.model_index == model_index and self.override is override and self.max_retries == max_retries
