"""The tools of one step: run at once, handled in the order of the calls (R10.1–R10.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from interlock.agent.run import Interrupted, Run
from interlock.agent.suspension import Resumption
from interlock.agent.tool_outcomes import FAILED, failed, model_output, record_result, screen_result
from interlock.agent.tool_writer import RunToolWriter
from interlock.chunks import (
    Chunk,
    ToolCallApproval,
    ToolCallApprovalPayload,
    ToolCallSuspended,
    ToolCallSuspendedPayload,
    ToolErrorChunk,
    ToolErrorPayload,
    ToolOutputDenied,
    ToolOutputDeniedPayload,
    ToolResult,
    ToolResultPayload,
)
from interlock.messages.parts import ToolApproval, ToolInvocation, ToolInvocationPart
from interlock.processors import StepResult
from interlock.tools import (
    InputAvailableEvent,
    OutputEvent,
    Tool,
    ToolContext,
    ToolSuspended,
    needs_approval,
    notify,
    to_serializable,
)

_log = logging.getLogger("interlock")

DEFAULT_CONCURRENCY = 10


class Execution(msgspec.Struct, eq=False):
    """One local call and what became of it."""

    part: ToolInvocationPart
    invocation: ToolInvocation
    tool: Tool | None = None
    arguments: Any = None
    """Validated arguments."""
    result: Any = None
    """What the call returned, JSON-ready."""
    error: str | None = None
    """Why the call failed, as the model is told."""
    suspension: ToolSuspended | None = None
    resume_data: Any = None
    denial: ToolApproval | None = None
    """The answer of whoever declined the call."""
    is_resolved: bool = False
    """Whether there is a result or an error."""

    def fail(self, message: str) -> None:
        """The call failed; an empty message gets the default one (R10.13)."""
        self.error = message or FAILED
        self.is_resolved = True


class ToolPhase(msgspec.Struct, eq=False):
    """Executes the local calls of one reply and handles their outcomes."""

    _run: Run
    _tools: dict[str, Tool]
    """The tools that this step offers."""
    _step: StepResult
    """The step that made the calls; gets the results."""
    _executions: list[Execution]
    """The calls, in order."""
    _invalid: dict[str, str]
    """Call id → why its arguments could not be read."""
    _refused: dict[str, Any]
    """Call id → the result that an output-step hook put in place of the execution (R19.7)."""
    _resumption: Resumption | None = None
    """What somebody decided about the one call, when the step was suspended."""
    resolved: int = 0
    """Calls that have a result, an error or a denial now; any of them lets the loop go on (R1.12)."""
    is_waiting_for_client: bool = False
    """Whether a call is the client's to execute; the run ends with it open (R12.40)."""
    waiting: dict[str, Chunk] = {}
    """Call id → the chunk that tells that the call waits for somebody (R12.36)."""

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Execute, then handle the outcomes one by one; yields what the client sees.

        Raises:
            TripWire: a processor aborted.
            ProcessorError: a hook failed.
            Interrupted: the run was cancelled.
        """
        runnable = [execution for execution in self._executions if await self._prepare(execution)]
        if self._run.scope.is_aborted:
            raise Interrupted  # while somebody was asked for approval: no tool starts any more (R12.28)
        if runnable:
            async for chunk in self._execute_all(runnable):
                yield chunk
        for chunk in self._run.scope.take():
            yield chunk
        if self._run.scope.is_aborted:
            raise Interrupted
        for execution in self._executions:
            await self._finish(execution)
            for chunk in self._run.scope.take():
                yield chunk
            self._stop_if_aborted(execution)

    @property
    def is_single(self) -> bool:
        """Whether ``run_single`` does: one call, beside which nothing can happen."""
        executions = self._executions
        if len(executions) != 1:
            return False
        tool = self._tools.get(executions[0].invocation.tool_name)
        return tool is None or (not tool.takes_context and not self._run.scope.tasks)

    async def run_single(self) -> None:
        """``chunks`` without a generator; what the client sees goes into the outbox."""
        execution, scope = self._executions[0], self._run.scope
        if await self._prepare(execution) and not scope.is_aborted:
            await self._execute(execution)
        if scope.is_aborted:
            raise Interrupted
        await self._finish(execution)
        if scope.is_aborted:
            self._stop_if_aborted(execution)

    def _stop_if_aborted(self, execution: Execution) -> None:
        """A cancellation ends the handling of outcomes; what waits for somebody is kept all the same."""
        if execution.is_resolved and self._run.scope.is_aborted:
            raise Interrupted

    # -- before -------------------------------------------------------------------------------------------------

    async def _prepare(self, execution: Execution) -> bool:
        """Look the tool up and check the call; whether it is to be executed now."""
        invocation = execution.invocation
        name, call_id = invocation.tool_name, invocation.tool_call_id
        if self._refused and call_id in self._refused:
            execution.fail(str(self._refused[call_id]))
            return False
        if self._invalid and call_id in self._invalid and isinstance(invocation.args, str):
            execution.fail(self._invalid[call_id])
            return False
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            execution.fail(f"There is no tool {name!r}. Available tools: {known}")
            return False
        execution.tool = tool
        if tool.is_client_side:
            self.is_waiting_for_client = True
            return False
        try:
            execution.arguments = tool.validate(invocation.args)
        except Exception as error:
            # Schemas may run user code; whatever it raises is the model's to know.
            execution.fail(str(error))
            return False
        scope = self._run.scope
        if self._resumption is not None:
            return self._resume(execution, tool, self._resumption)
        if tool.on_input_available is not None:
            event = InputAvailableEvent(
                tool_name=name, tool_call_id=call_id, args=invocation.args, abort_signal=scope._signal
            )
            await notify(tool.on_input_available, event)
        asked_for = self._run.require_tool_approval
        if (asked_for or tool.require_approval) and await needs_approval(
            tool, name, invocation.args, scope.request_context, asked_for
        ):
            self.waiting[call_id] = self._approval(execution)
            return False
        return True

    def _resume(self, execution: Execution, tool: Tool, resumption: Resumption) -> bool:
        """Apply what somebody decided about the call; whether it is to be executed now (R12.38, R12.39)."""
        invocation = execution.invocation
        if resumption.is_approved is None:
            execution.resume_data = tool.validate_resume(resumption.data)
            return True
        approval = ToolApproval(id=invocation.tool_call_id, approved=resumption.is_approved, reason=resumption.reason)
        invocation.approval = approval
        execution.denial = None if resumption.is_approved else approval
        return resumption.is_approved

    def _limit(self, runnable: list[Execution]) -> int:
        given = self._run.tool_call_concurrency
        if given is not None:
            return given
        may_pause = self._run.require_tool_approval or any(
            one.tool is not None and one.tool.may_pause for one in runnable
        )
        return 1 if may_pause else DEFAULT_CONCURRENCY

    # -- execution ----------------------------------------------------------------------------------------------

    async def _execute_all(self, runnable: list[Execution]) -> AsyncGenerator[Chunk, None]:
        """Run the calls as tasks, at most so many at once, handing on what they write as soon as it is there."""
        scope = self._run.scope
        limit = self._limit(runnable)
        waiting, running = list(reversed(runnable)), set[asyncio.Task[None]]()
        scope.wake = wake = asyncio.Event()
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    task = asyncio.get_running_loop().create_task(self._execute(waiting.pop()))
                    task.add_done_callback(lambda _: wake.set())
                    running.add(task)
                await wake.wait()
                wake.clear()
                await scope.check()
                if scope.interruption is not None or scope.is_aborted:
                    raise Interrupted
                for chunk in scope.take():
                    yield chunk
                for task in [task for task in running if task.done()]:
                    running.remove(task)
                    # Exceptions of the tool are outcomes; what comes this way is for nobody here to catch (R17.8).
                    task.result()
        finally:
            scope.wake = None
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _execute(self, execution: Execution) -> None:
        tool, invocation, scope = execution.tool, execution.invocation, self._run.scope
        assert tool is not None
        try:
            raw = await tool.run(execution.arguments, self._context(execution) if tool.takes_context else None)
            if tool.on_output is not None:
                event = OutputEvent(
                    tool_name=invocation.tool_name,
                    tool_call_id=invocation.tool_call_id,
                    output=raw,
                    abort_signal=scope._signal,
                )
                await notify(tool.on_output, event)
            execution.result = to_serializable(raw)
            execution.is_resolved = True
        except ToolSuspended as suspension:
            execution.suspension = suspension
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            execution.fail("The tool was cancelled")  # something that it waited for was, not the call
        except Exception as error:
            # A tool is user code: its failure is an answer to the model (R10.13).
            _log.debug("tool %r failed", invocation.tool_name, exc_info=True)
            execution.fail(str(error))

    def _context(self, execution: Execution) -> ToolContext:
        run, invocation = self._run, execution.invocation
        return ToolContext(
            tool_call_id=invocation.tool_call_id,
            run_id=run.state.run_id,
            agent=run.agent,
            request_context=run.scope.request_context,
            abort_signal=run.scope.signal,
            writer=RunToolWriter(run.scope, invocation.tool_call_id, invocation.tool_name),
            resume_data=execution.resume_data,
            get_messages=run.state.message_list.get.all.db,
        )

    # -- outcomes -----------------------------------------------------------------------------------------------

    async def _finish(self, execution: Execution) -> None:
        """Hooks, record, chunk (R10.2); what the client sees goes into the outbox."""
        if not execution.is_resolved:
            await self._hold(execution)
            return
        if execution.error is not None:
            await self._record_failure(execution, execution.error)
            return
        invocation = execution.invocation
        run, tool, result = self._run, execution.tool, execution.result
        if run.pipeline.by_hook["process_tool_result"]:
            screened = await screen_result(run, invocation, result, None, self._step)
            if screened is None:
                return
            if screened.error_text is not None:
                await self._record_failure(execution, screened.error_text)
                return
            result = screened.result
        told = None if tool is None or tool.to_model_output is None else await model_output(tool, result)
        record_result(run, execution.part, result, told)
        self.resolved += 1
        chunk = ToolResult(
            payload=ToolResultPayload(
                tool_call_id=invocation.tool_call_id,
                tool_name=invocation.tool_name,
                args=invocation.args,
                result=result,
            )
        )
        self._step.tool_results.append(chunk)
        if run.is_read or run.callbacks:
            await self._emit(chunk)
        else:
            chunk.run_id = run.state.run_id

    async def _hold(self, execution: Execution) -> None:
        """Handle a call that was not executed, or that waits for somebody."""
        if execution.denial is not None:
            await self._deny(execution, execution.denial)
        elif execution.suspension is not None:
            self.waiting[execution.invocation.tool_call_id] = self._suspended(execution)

    async def _record_failure(self, execution: Execution, error_text: str) -> None:
        invocation = execution.invocation
        self._run.state.message_list.update_tool_invocation(failed(execution.part, error_text))
        self.resolved += 1
        payload = ToolErrorPayload(
            tool_call_id=invocation.tool_call_id, tool_name=invocation.tool_name, args=invocation.args, error=error_text
        )
        shown = await self._emit(ToolErrorChunk(payload=payload))
        told = next((chunk.payload.error for chunk in shown if isinstance(chunk, ToolErrorChunk)), error_text)
        if told != error_text:
            # No other hook sees the message of a failure: what a stream hook took out of it goes no other way either.
            self._run.state.message_list.update_tool_invocation(failed(execution.part, str(told)))

    async def _deny(self, execution: Execution, denial: ToolApproval) -> None:
        """Record a declined call; ``process_tool_result`` does not run for it (R12.38)."""
        invocation = execution.invocation
        updated = ToolInvocation(
            state="output-denied",
            tool_call_id=invocation.tool_call_id,
            tool_name=invocation.tool_name,
            args=invocation.args,
            approval=denial,
        )
        self._run.state.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=updated))
        self.resolved += 1
        payload = ToolOutputDeniedPayload(
            tool_call_id=invocation.tool_call_id,
            tool_name=invocation.tool_name,
            args=invocation.args,
            approval=denial.to_dict(),
        )
        await self._emit(ToolOutputDenied(payload=payload))

    async def _emit(self, chunk: Chunk) -> list[Chunk]:
        """Show a chunk to the stream hooks and the client; what the hooks left of it."""
        run = self._run
        passed = await run.process(chunk)
        run.scope.outbox += passed
        if "on_chunk" in run.callbacks:
            for one in passed:
                if one.type == "tool-result":
                    await run.tell("on_chunk", one)
        return passed

    def _approval(self, execution: Execution) -> Chunk:
        invocation = execution.invocation
        return ToolCallApproval(
            run_id=self._run.state.run_id,
            payload=ToolCallApprovalPayload(
                tool_call_id=invocation.tool_call_id,
                tool_name=invocation.tool_name,
                args=invocation.args,
                resume_schema='{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}',
            ),
        )

    def _suspended(self, execution: Execution) -> Chunk:
        invocation, suspension = execution.invocation, execution.suspension
        assert suspension is not None
        return ToolCallSuspended(
            run_id=self._run.state.run_id,
            payload=ToolCallSuspendedPayload(
                tool_call_id=invocation.tool_call_id,
                tool_name=invocation.tool_name,
                args=invocation.args,
                suspend_payload=to_serializable(suspension.payload),
            ),
        )
