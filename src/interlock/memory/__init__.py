"""Memory: threads that are loaded before a run and saved after it."""

from interlock.memory.history import MessageHistory
from interlock.memory.memory import Memory
from interlock.memory.stores import InMemoryStore
from interlock.memory.threads import MemoryStore, Thread

__all__ = ["InMemoryStore", "Memory", "MemoryStore", "MessageHistory", "Thread"]
