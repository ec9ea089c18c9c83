"""One hook of one processor, looked up once and ready to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class BoundProcessor:
    """A processor's method for one hook, with what the dispatcher needs to know about it."""

    __slots__ = ("call", "downstream", "end", "hook", "index", "is_async", "processor", "state_key")

    def __init__(self, processor: Any, hook: str, index: int, state_key: str) -> None:
        self.processor = processor
        self.hook = hook
        self.call: Callable[[Any], Any] = getattr(processor, hook)
        self.is_async = inspect.iscoroutinefunction(self.call)
        self.index = index
        """Position in the effective list of its array (R16.10)."""
        self.state_key = state_key
        """Id under which the state is kept; not the processor's id when two instances share one (R8.2)."""
        self.downstream = 0
        """Position in the stream chain after this processor; 0 for one that is not in it."""
        self.end = 0
        """Length of the stream chain."""

    def call_flush(self, args: Any, reason: str) -> Any:
        """Call ``flush_output_stream``, the one hook with a second argument (R19.2)."""
        flush: Any = self.call
        return flush(args, reason)

    def __repr__(self) -> str:
        return f"BoundProcessor({self.processor.id!r}, {self.hook!r})"


def implements(processor: Any, hook: str) -> bool:
    """Whether the processor has this hook; one set to ``None`` does not count (R0.3)."""
    return callable(getattr(processor, hook, None))
