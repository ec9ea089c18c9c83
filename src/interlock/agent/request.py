"""First half of an attempt: from the step's settings to a request for the model (R1.4, R1.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.agent.call import PreparedCall, UsualCall
from interlock.agent.run import Interrupted, ModelFailure, Run
from interlock.agent.structured import (
    StructuredOutputOptions,
    asking_prompt,
    is_native,
    response_format,
    structured_output,
)
from interlock.errors import ProcessorReturnError
from interlock.models import ModelRequest, to_language_model
from interlock.models.assets import download_assets
from interlock.models.base import LanguageModel
from interlock.processors.hooks import INPUT_STEP, LLM_REQUEST
from interlock.processors.pipeline import run_hook
from interlock.processors.stages import RequestStage, StepStage
from interlock.tools import Tool, as_tools


async def prepare_call(run: Run) -> PreparedCall:
    """Run the input-step hooks, make the prompt and run the request hooks.

    Raises:
        TripWire: a hook aborted.
        ProcessorError: a hook failed.
        ModelFailure: a file of the prompt could not be fetched (R4.16).
        Interrupted: the run was cancelled.
    """
    usual = _usual(run)
    stage = _step_stage(run) if usual is None else usual.stage
    if run.input_step_hooks:
        stage = msgspec.structs.replace(stage, message_id=run.state.message_id)
        await run_hook(INPUT_STEP, run.input_step_hooks, run.scope, stage)
        if run.scope.is_aborted:
            raise Interrupted
    if usual is None or (stage is not usual.stage and not stage.has_settings_of(usual.stage)):
        call = _settled(run, stage)
    else:
        call = usual.call = usual.call or _settled(run, stage)
    call = _with_own_request(run, call)
    request = call.request
    assert request is not None
    message_list = run.state.message_list
    prompt = message_list.prompt_for_model()
    if message_list.has_sent_files:
        prompt = await _with_files(prompt, call.model)
    asked = call.asked
    if asked is not None and asked.model is None:
        prompt = asking_prompt(prompt, asked, call.model)
    call.prompt = prompt
    if run.pipeline.by_hook["process_llm_request"]:
        await _ask_request_hooks(run, call)
    request.prompt = call.prompt
    request.abort_signal = run.scope._signal
    return call


def _usual(run: Run) -> UsualCall | None:
    """What a step begins with, worked out once a run, or once an agent.

    ``None`` where there are settings: whoever gave them may change them from step to step, such as an error processor
    that refreshes a token in the headers.
    """
    entry = run.models[run.model_index]
    if (
        run.model_settings
        or run.provider_options is not None
        or run.structured_output is not None
        or entry.model_settings is not None
        or entry.provider_options is not None
        or entry.headers is not None
    ):
        return None
    usual = run.usual_call
    if usual is None or not usual.is_for(run.model_index, run.model_override, run.max_retries):
        usual = UsualCall(run.model_index, run.model_override, run.max_retries, _step_stage(run))
        run.usual_call = usual
        if run.is_as_configured and not run.model_index and run.model_override is None:
            run.agent.usual_call = usual
    return usual


def _with_own_request(run: Run, call: PreparedCall) -> PreparedCall:
    """The call with a request that nobody else has; only the messages of its prompt are shared, for reading."""
    request = call.request
    assert request is not None
    options = request.provider_options
    own = msgspec.structs.replace(
        request,
        settings=request.settings.copy(),
        tools=run.specs_of(call.tools).copy(),
        provider_options=options if options is None else options.copy(),
    )
    return msgspec.structs.replace(call, request=own)


def _step_stage(run: Run) -> StepStage:
    entry = run.models[run.model_index]
    settings = run.model_settings
    if entry.model_settings:
        settings = {**settings, **entry.model_settings}
    options = run.provider_options
    if entry.provider_options:
        options = {**(options or {}), **entry.provider_options}
    return StepStage(
        model=entry.model if run.model_override is None else run.model_override,
        tools=run.tools,
        tool_choice=run.tool_choice,
        active_tools=run.active_tools,
        provider_options=options,
        model_settings=settings,
        structured_output=run.structured_output,
        message_id=run.state.message_id,
        resolve_model=to_language_model,
        resolve_tools=as_tools,
        resolve_object=structured_output,
    )


def _usable_tools(tools: dict[str, Tool], active: list[str]) -> dict[str, Tool]:
    """The tools that this step offers; a name in ``active_tools`` that is no tool is ignored (R2.18)."""
    return {name: tools[name] for name in active if name in tools}


async def _with_files(prompt: list[dict[str, Any]], model: LanguageModel) -> list[dict[str, Any]]:
    try:
        return await download_assets(prompt, getattr(model, "supported_urls", None))
    except Exception as error:
        raise ModelFailure(error) from error


async def _ask_request_hooks(run: Run, call: PreparedCall) -> None:
    stage = RequestStage(call.prompt, call.model)
    await run_hook(LLM_REQUEST, run.pipeline.by_hook["process_llm_request"], run.scope, stage)
    call.prompt, call.response, call.replayed = stage.prompt, stage.response, stage.replayed


def _settled(run: Run, stage: StepStage) -> PreparedCall:
    """The call that the step's settings come to."""
    entry, settings = run.models[run.model_index], stage.model_settings
    asked = None if stage.structured_output is None else structured_output(stage.structured_output)
    tools = stage.tools if stage.active_tools is None else _usable_tools(stage.tools, stage.active_tools)
    choice = stage.tool_choice
    if isinstance(choice, dict):
        _check_choice(stage, choice, tools)
    if choice == "none":
        tools = {}
    retries = entry.max_retries if entry.max_retries is not None else run.max_retries
    request = ModelRequest(
        prompt=[],
        tool_choice=choice if tools or choice == "none" else None,
        settings=settings,  # type: ignore[arg-type]  # unknown settings reach the adapter, which warns about them
        provider_options=stage.provider_options,
        response_format=None if asked is None else _format(asked, stage.model),
        headers=_headers(settings.get("headers"), entry.headers) if settings or entry.headers else None,
        include_raw_chunks=run.include_raw_chunks,
    )
    return PreparedCall(
        entry,
        stage.model,
        asked,
        tools,
        max_retries=settings.get("max_retries", 0) if retries is None else retries,
        request=request,
    )


def _check_choice(stage: StepStage, choice: dict[str, Any], tools: dict[str, Tool]) -> None:
    """Refuse a ``tool_choice`` of a tool that the step has not (R2.18)."""
    if choice.get("toolName") in tools:
        return
    known = ", ".join(sorted(tools)) or "none"
    wrong = f"tool_choice names the tool {choice.get('toolName')!r}; this step has: {known}"
    if stage.choice_of is None:
        raise ValueError(wrong)
    raise ProcessorReturnError(
        f"processor {stage.choice_of!r} returned something that cannot be used: {wrong}",
        code="PROCESSOR_RETURNED_INVALID_RESULT",
        processor_id=stage.choice_of,
        hook=INPUT_STEP.name,
    )


def _format(asked: StructuredOutputOptions, model: LanguageModel) -> dict[str, Any] | None:
    """The response format, where the main model is to write the typed answer in its JSON mode (R12.32)."""
    return response_format(asked) if asked.model is None and is_native(asked, model) else None


def _headers(of_settings: dict[str, str] | None, of_entry: dict[str, str] | None) -> dict[str, str] | None:
    if not of_settings and not of_entry:
        return None
    return {**(of_settings or {}), **(of_entry or {})}
