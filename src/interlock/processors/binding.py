"""From the entries of a processor array to bound hooks: checks, state keys, positions (R1.16, R8.2, R16.10)."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.errors import ConfigurationError
from interlock.processors.base import ALL_HOOKS, FLUSH_HOOK, HOOKS_OF, Processor
from interlock.processors.bound import BoundProcessor, WorkflowStep, implements
from interlock.processors.stream import HOOK as STREAM_HOOK
from interlock.processors.stream import Place, ProcessorPlace

Warn = Callable[[str], None]


class Binding(NamedTuple):
    """What one entry of an array contributes to the pipeline."""

    hooks: dict[str, BoundProcessor]
    place: Place | None
    """Its place in the stream chain; ``None`` without one."""


class Composite(Processor, ABC):
    """A processor made of others; the pipeline lets it bind them, so that they count as members of the array."""

    @abstractmethod
    def check_place(self, array: str) -> None:
        """Raise ``ConfigurationError`` if it cannot stand in the array of this name."""

    @abstractmethod
    def bind(self, binder: Binder, index: int) -> Binding:
        """Bind itself and, with ``binder.bind``, the processors that it is made of."""


class Binder:
    """Binds the processors of one array, in order.

    Args:
        kind: ``input``, ``output`` or ``error``.
        warn: Called with each warning about the configuration.
    """

    def __init__(self, kind: str, warn: Warn) -> None:
        self.kind = kind
        self.warn = warn
        self._array = f"{kind}_processors"
        self._hooks = HOOKS_OF[kind]
        self._instances: dict[str, list[Any]] = {}
        self._bound: list[BoundProcessor] = []
        self._links = 0
        """Links that the places bound so far will have."""

    def bind_entry(self, processor: Any, index: int) -> Binding:
        """Bind the entry of the array at position ``index``.

        Raises:
            ConfigurationError: it cannot be a processor, or not in this array (R1.16, R16.1).
        """
        if isinstance(processor, Composite):
            processor.check_place(self._array)
            binding = processor.bind(self, index)
        else:
            check_processor(processor, self._array)
            binding = self.bind(processor, index)
        if not binding.hooks and binding.place is None:
            self.warn(f"processor {processor.id!r} has no hook of {self._array} and does nothing there (R1.16)")
        return binding

    def bind(self, processor: Any, index: int, step: WorkflowStep | None = None, *, has_link: bool = True) -> Binding:
        """Bind one processor that is not made of others.

        Args:
            processor: The processor, already checked.
            index: Its position in the array, or in its workflow.
            step: The workflow step that it stands for.
            has_link: Whether its stream hooks get a link of their own in the chain of the pipeline.
        """
        key = self._state_key(processor)
        hooks = {
            hook: BoundProcessor(processor, hook, index, key, step=step)
            for hook in self._hooks
            if implements(processor, hook)
        }
        with contextlib.suppress(AttributeError, TypeError):
            processor.processor_index = index
        place = None
        if STREAM_HOOK in hooks or FLUSH_HOOK in hooks:
            place = ProcessorPlace(hooks.get(STREAM_HOOK), hooks.get(FLUSH_HOOK))
            if has_link:
                self.count_link()
        for bound in hooks.values():
            self.locate(bound)
        return Binding(hooks, place)

    def count_link(self) -> None:
        """One more link in the chain of the pipeline."""
        self._links += 1

    def locate(self, bound: BoundProcessor) -> None:
        """Put a bound hook behind the links counted so far."""
        bound.downstream = self._links
        self._bound.append(bound)

    def finish(self) -> None:
        """Tell every bound hook how long the chain is."""
        for bound in self._bound:
            bound.end = self._links

    def _state_key(self, processor: Any) -> str:
        """The processor's id, or ``id#2`` … for further instances of that id in the array (R8.2)."""
        identifier: str = processor.id
        known = self._instances.setdefault(identifier, [])
        place = next((i for i, other in enumerate(known) if other is processor), None)
        if place is None:
            place = len(known)
            known.append(processor)
            if place:
                self.warn(f"{self._array} holds several processors with id {identifier!r}; each gets its own state")
        return identifier if place == 0 else f"{identifier}#{place + 1}"


def check_processor(processor: Any, owner: str) -> None:
    """Raise if what ``owner``, an array or a workflow, holds cannot be a processor.

    Raises:
        ConfigurationError: no non-empty string ``id``, or no hook at all (R1.16).
    """
    identifier = getattr(processor, "id", None)
    if isinstance(processor, type):
        raise ConfigurationError(
            f"{owner} holds the class {processor.__name__}; put an instance there: {processor.__name__}()"
        )
    if not isinstance(identifier, str) or not identifier:
        raise ConfigurationError(
            f"{owner} holds {processor!r}, which has no id; give it a non-empty string attribute 'id'"
        )
    if not any(implements(processor, hook) for hook in ALL_HOOKS):
        raise ConfigurationError(
            f"processor {identifier!r} in {owner} has no hook; implement one of {', '.join(ALL_HOOKS)}"
        )
