"""From a stored run and what was decided about it to a run that goes on (R12.36–R12.39)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.agent.options import merge_options
from interlock.agent.prepare import (
    Configured,
    DynamicArguments,
    memory_of,
    observer_of,
    pipeline_of,
    read_settings,
    to_request_context,
)
from interlock.agent.run import Run
from interlock.agent.run_store import claim
from interlock.agent.state import RunState
from interlock.agent.state_json import is_json
from interlock.agent.suspension import Resumption
from interlock.errors import RunStateError
from interlock.processors.scope import RunScope


async def resume_run(agent: Configured, run_id: str, resumption: Resumption | None, given: Mapping[str, Any]) -> Run:
    """Take a stored run out of the agent's store, ready to go on; ``process_input`` does not run again (R12.37).

    Args:
        agent: The agent that goes on with it.
        run_id: The run.
        resumption: What was decided about a call that waits; ``None`` for a run that was paused between two steps.
        given: Options of the call.

    Raises:
        RunNotFoundError: no run of that id is stored.
        RunStateError: it cannot be continued as asked; it stays stored.
    """
    state = RunState.from_dict(await agent.run_store.load(run_id), agent.id)
    _check_moment(state, run_id, resumption)
    _check_given(state, given)
    options = merge_options({**agent.default_options, **state.options}, given)
    context = to_request_context(options.get("request_context"))
    for key, value in state.request_context.items():
        if not context.has(key):
            context.set(key, value)
    dynamic = DynamicArguments(request_context=context)
    memory, call = await memory_of(agent, options, context, dynamic)
    pipeline = await pipeline_of(agent, options, memory, call, dynamic)
    scope = RunScope(state, agent, context, options.get("abort_signal"), observer_of(agent, options))
    scope.budget = state.budget
    try:
        run = Run(agent, state, scope, pipeline)
        await read_settings(run, agent, options, dynamic)
        if resumption is not None:
            _check_tool(run, resumption)
        await claim(agent.run_store, state)
    except BaseException:
        scope.end()
        raise
    state.processor_states = agent.kept_states.pop(state.suspension_id or "", state.processor_states)
    run.is_resumed = True
    run.resumption = resumption
    return run


def _check_moment(state: RunState, run_id: str, resumption: Resumption | None) -> None:
    """Check that the run stands where the caller takes it to stand, and find the call that is meant."""
    if state.run_id != run_id:
        raise RunStateError(f"what is stored for run {run_id!r} is malformed: it holds run {state.run_id!r}")
    if state.suspended is None and resumption is not None:
        raise RunStateError(
            f"run {state.run_id!r} waits for nobody: it was paused between two steps; continue_stream goes on with it"
        )
    if state.suspended is not None and resumption is None:
        waiting = ", ".join(state.suspended.waiting)
        raise RunStateError(f"run {state.run_id!r} waits for somebody: approve, decline or resume tool call {waiting}")
    if state.suspended is not None and resumption is not None:
        state.suspended.check(resumption)


def _check_given(state: RunState, given: Mapping[str, Any]) -> None:
    """A run must not go on without what it was started with; ``None`` is an answer, but none for processors (R12.8)."""
    missing = [
        name
        for name in state.required_options
        if name not in given or (name.endswith("_processors") and given[name] is None)
    ]
    if missing:
        raise RunStateError(
            f"run {state.run_id!r} was started with {' and '.join(missing)} of its own: give them again"
        )


def _check_tool(run: Run, resumption: Resumption) -> None:
    """Check the tool, new arguments and resume data while the run still waits in its store."""
    part = run.state.message_list.find_tool_invocation(resumption.tool_call_id or "")
    if part is None or resumption.is_approved is False:
        return
    name = part.tool_invocation.tool_name
    tool = run.tools.get(name)
    if tool is None or tool.is_client_side:
        raise RunStateError(
            f"agent {run.state.agent_id!r} has no tool {name!r} that could carry out call {resumption.tool_call_id!r}: "
            "give it back to the agent, or to this call with toolsets"
        )
    if not is_json(resumption.args):
        raise RunStateError(f"the arguments for tool call {resumption.tool_call_id!r} must be JSON data")
    try:
        if resumption.args is not None:
            tool.validate(resumption.args)
        if resumption.is_approved is None:
            tool.validate_resume(resumption.data)
    except Exception as error:
        # Schemas may run user code; whatever it raises, the run has not gone on.
        raise RunStateError(str(error)) from error
