"""What tests of agents and processors need: a scripted model, and ways to read a stream."""

from __future__ import annotations

from interlock.testing.drain import drain, text_of, types_of
from interlock.testing.recording import HookCall, RecordingProcessor, cuts
from interlock.testing.scripted import ScriptedModel, ScriptExhaustedError
from interlock.testing.turns import Turn, delay, finish, reasoning, text, tool_call, tool_input, wait_for

__all__ = [
    "HookCall",
    "RecordingProcessor",
    "ScriptExhaustedError",
    "ScriptedModel",
    "Turn",
    "cuts",
    "delay",
    "drain",
    "finish",
    "reasoning",
    "text",
    "text_of",
    "tool_call",
    "tool_input",
    "types_of",
    "wait_for",
]
