"""Telling a tool's observers of arguments that are still being streamed (R10.17)."""

from __future__ import annotations

from interlock.agent.call import PreparedCall
from interlock.agent.calls import CallReader
from interlock.agent.run import Run
from interlock.chunks import Chunk, ToolCall, ToolInputDelta, ToolInputStart
from interlock.tools import InputDeltaEvent, InputStartEvent, notify


async def observe_input(run: Run, call: PreparedCall | None, calls: CallReader, chunk: Chunk) -> None:
    """Tell a tool's observers that its arguments begin to stream, or of the next piece (R10.17)."""
    if call is None or isinstance(chunk, ToolCall) or not isinstance(chunk, (ToolInputStart, ToolInputDelta)):
        return
    name = calls.name_of(chunk.payload.tool_call_id)
    tool = call.tools.get(name) if name is not None else None
    if tool is None or name is None:
        return
    signal = run.scope._signal
    if isinstance(chunk, ToolInputStart):
        start = InputStartEvent(tool_name=name, tool_call_id=chunk.payload.tool_call_id, abort_signal=signal)
        await notify(tool.on_input_start, start)
    else:
        delta = InputDeltaEvent(
            tool_name=name,
            tool_call_id=chunk.payload.tool_call_id,
            delta=chunk.payload.args_text_delta,
            abort_signal=signal,
        )
        await notify(tool.on_input_delta, delta)
