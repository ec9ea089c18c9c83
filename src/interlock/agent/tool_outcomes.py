"""What became of a tool call: screened by the hooks, put into the message list (R10.2, R10.4–R10.13)."""

from __future__ import annotations

import inspect
from typing import Any

from interlock.agent.run import Interrupted, Run
from interlock.chunks import ToolErrorChunk, ToolErrorPayload, ToolResult
from interlock.messages import noted_output
from interlock.messages.parts import ToolInvocation, ToolInvocationPart
from interlock.processors import StepResult
from interlock.processors.hooks import TOOL_RESULT
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import ToolOutcome, ToolResultStage
from interlock.tools import Tool

FAILED = "Tool execution failed"


async def model_output(tool: Tool, result: Any) -> Any:
    """What the tool wants the model to see of the processed result; ``None`` for the result itself (R10.10)."""
    if tool.to_model_output is None:
        return None
    outcome = tool.to_model_output(result)
    return await outcome if inspect.isawaitable(outcome) else outcome


async def screen_result(
    run: Run, invocation: ToolInvocation, result: Any, provider_executed: bool | None, current: StepResult
) -> ToolOutcome | None:
    """Run the tool-result hooks; ``None`` if the call is not in the message list any more."""
    processors = run.pipeline.by_hook["process_tool_result"]
    if not processors:
        return ToolOutcome(result)
    message_list = run.state.message_list
    part = message_list.peek_tool_invocation(invocation.tool_call_id)
    if part is not None and not part.tool_invocation.is_pending:
        # What a hook of an earlier call, or a preliminary result, left there gives way to this result (R10.9).
        message_list.expose()
        part.tool_invocation.state = "call"
        part.tool_invocation.result = part.tool_invocation.error_text = None
    changes = message_list.changes
    revision = changes.revision
    stage = ToolResultStage(
        tool_name=invocation.tool_name,
        tool_call_id=invocation.tool_call_id,
        args=invocation.args,
        raw=result,
        provider_executed=provider_executed,
        current=current,
        message_list=message_list,
        result=result,
        read_at=revision if part is not None else -1,
    )
    await run_hook(TOOL_RESULT, processors, run.scope, stage)
    if run.scope.is_aborted:
        # The cancellation may have ended the chain before every hook saw the result.
        raise Interrupted
    if part is not None and changes.revision == revision and not changes.is_exposed:
        return ToolOutcome(result)
    return stage.outcome()


def record_result(
    run: Run, part: ToolInvocationPart, result: Any, output: Any = None, metadata: dict[str, Any] | None = None
) -> bool:
    """Put a result into the call's part, with the provider's metadata; whether the part was found (R10.7, R10.10)."""
    if output is not None:
        metadata = {**(metadata or {}), **noted_output(output, result)}
    return run.state.message_list.record_result(part, result, metadata)


def failed(part: ToolInvocationPart, error_text: str) -> ToolInvocationPart:
    """The call's part as a failed one (R4.5)."""
    invocation = part.tool_invocation
    return ToolInvocationPart(
        tool_invocation=ToolInvocation(
            state="output-error",
            tool_call_id=invocation.tool_call_id,
            tool_name=invocation.tool_name,
            args=invocation.args if not isinstance(invocation.args, str) else {},
            raw_input=invocation.args if isinstance(invocation.args, str) else None,
            error_text=error_text,
        ),
        provider_executed=part.provider_executed,
    )


def fail_invocation(part: ToolInvocationPart, error_text: str) -> None:
    """Mark a call that was never carried out, in place."""
    part.tool_invocation.state = "output-error"
    part.tool_invocation.error_text = error_text


async def handle_provider_outcome(
    run: Run, current: StepResult, chunk: ToolResult | ToolErrorChunk
) -> ToolResult | ToolErrorChunk | None:
    """Screen and record what a tool of the provider's own came back with (R10.12).

    Returns:
        The chunk to show, with the result as the hooks left it; ``None`` if a hook removed the call.
    """
    payload = chunk.payload
    known = run.state.message_list.find_tool_invocation(payload.tool_call_id)
    part = known or ToolInvocationPart(
        tool_invocation=ToolInvocation(
            tool_call_id=payload.tool_call_id, tool_name=payload.tool_name, args=payload.args or {}
        ),
        provider_executed=True,
    )
    invocation = part.tool_invocation
    payload.tool_name = payload.tool_name or invocation.tool_name
    if payload.args is not None:
        # The provider repeats the arguments as they were before stream hooks changed them.
        payload.args = invocation.args
    if known is None:
        run.state.message_list.append_response([part], message_id=run.state.message_id)
    if isinstance(payload, ToolErrorPayload):
        run.state.message_list.update_tool_invocation(failed(part, _message_of(payload.error)))
        return chunk
    screened = await screen_result(run, invocation, payload.result, True, current)
    if screened is None:
        return None
    if screened.error_text is not None:
        run.state.message_list.update_tool_invocation(failed(part, screened.error_text))
        error = ToolErrorPayload(
            tool_call_id=payload.tool_call_id,
            tool_name=payload.tool_name,
            args=invocation.args,
            error=screened.error_text,
        )
        return ToolErrorChunk(payload=error, run_id=chunk.run_id)
    payload.result = screened.result
    record_result(run, part, payload.result, metadata=payload.provider_metadata)
    return chunk


def _message_of(error: Any) -> str:
    if isinstance(error, dict):
        error = error.get("message", error)
    return str(error) or FAILED
