"""interlock: control around LLM agents, at every stage of a run."""

from interlock.agent import Agent, AgentResult, AgentStream, CallOptions
from interlock.chunks import Chunk, DataChunk, TextDelta, ToolCall, ToolResult, Tripwire
from interlock.context import AbortSignal, RequestContext
from interlock.errors import (
    APICallError,
    ConfigurationError,
    InterlockError,
    ProcessorError,
    ToolError,
    TripWire,
)
from interlock.messages import Message, MessageList, get_text
from interlock.models import ModelFallback
from interlock.processors import Processor, StepResult, TripwireInfo
from interlock.tools import Tool, ToolContext, tool

__all__ = [
    "APICallError",
    "AbortSignal",
    "Agent",
    "AgentResult",
    "AgentStream",
    "CallOptions",
    "Chunk",
    "ConfigurationError",
    "DataChunk",
    "InterlockError",
    "Message",
    "MessageList",
    "ModelFallback",
    "Processor",
    "ProcessorError",
    "RequestContext",
    "StepResult",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "TripWire",
    "Tripwire",
    "TripwireInfo",
    "get_text",
    "tool",
]
