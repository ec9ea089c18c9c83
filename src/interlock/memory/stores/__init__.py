"""Storage engines of memory."""

from interlock.memory.stores.in_memory import InMemoryStore

__all__ = ["InMemoryStore"]
