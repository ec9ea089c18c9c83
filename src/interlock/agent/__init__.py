"""The agent: configuration, the loop, and what a run gives back."""

from interlock.agent.agent import Agent
from interlock.agent.ending import FinishInfo
from interlock.agent.file_run_store import FileRunStore
from interlock.agent.loop import IterationContext
from interlock.agent.options import CallOptions, TracingOptions
from interlock.agent.ports import Memory, MemoryCall
from interlock.agent.prepare import DynamicArguments
from interlock.agent.result import AgentResult, Response
from interlock.agent.run_store import InMemoryRunStore, RunStore
from interlock.agent.state import RunState
from interlock.agent.stream import AgentStream
from interlock.agent.structured import StructuredOutputOptions

__all__ = [
    "Agent",
    "AgentResult",
    "AgentStream",
    "CallOptions",
    "DynamicArguments",
    "FileRunStore",
    "FinishInfo",
    "InMemoryRunStore",
    "IterationContext",
    "Memory",
    "MemoryCall",
    "Response",
    "RunState",
    "RunStore",
    "StructuredOutputOptions",
    "TracingOptions",
]
