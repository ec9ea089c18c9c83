"""Token counts of one provider call, a step or a run (R12.22)."""

from __future__ import annotations

from typing import Self

from interlock._json import Record


class Usage(Record, kw_only=True):
    """Token counts; ``None`` means that no call reported the figure."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None

    @property
    def total(self) -> int | None:
        """``total_tokens``, or input + output where the provider gave no total."""
        if self.total_tokens is not None or (self.input_tokens is None and self.output_tokens is None):
            return self.total_tokens
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def add(self, other: Usage) -> Self:
        """Add the counts of ``other`` to this object and return it."""
        self.total_tokens = _sum(self.total, other.total)
        self.input_tokens = _sum(self.input_tokens, other.input_tokens)
        self.output_tokens = _sum(self.output_tokens, other.output_tokens)
        self.reasoning_tokens = _sum(self.reasoning_tokens, other.reasoning_tokens)
        self.cached_input_tokens = _sum(self.cached_input_tokens, other.cached_input_tokens)
        return self


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
