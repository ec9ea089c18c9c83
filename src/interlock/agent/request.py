"""First half of an attempt: from the step's settings to a request for the model (R1.4, R1.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock._json import Record, copy_json
from interlock.agent.run import ModelFailure, Run
from interlock.agent.structured import (
    StructuredOutputOptions,
    asking_prompt,
    is_native,
    response_format,
    structured_output,
)
from interlock.chunks import Chunk
from interlock.errors import ProcessorReturnError
from interlock.models import ModelFallback, ModelRequest, to_language_model
from interlock.models.assets import download_assets
from interlock.models.base import LanguageModel
from interlock.processors.hooks import INPUT_STEP, LLM_REQUEST
from interlock.processors.pipeline import run_hook
from interlock.processors.results import CachedStepResponse
from interlock.processors.stages import RequestStage, StepStage
from interlock.tools import Tool, as_tools


class SentRequest(Record, kw_only=True):
    """``request`` of a ``step-start``: the prompt that was sent, as a copy that is made when somebody looks (R11.1)."""

    prompt: list[dict[str, Any]]
    copied: list[dict[str, Any]] | None = None

    @property
    def body(self) -> list[dict[str, Any]]:
        """The prompt; an edit of it reaches nobody else."""
        if self.copied is None:
            self.copied = copy_json(self.prompt)
        return self.copied

    def to_dict(self) -> dict[str, Any]:
        """``{"body": prompt}``."""
        return {"body": copy_json(self.body)}


class PreparedCall(msgspec.Struct, eq=False):
    """What one provider call needs, or the reply that replaces it."""

    entry: ModelFallback
    model: LanguageModel
    asked: StructuredOutputOptions | None = None
    """How the answer is to be typed."""
    tools: dict[str, Tool] = {}
    """The tools that may be executed in this step."""
    prompt: list[dict[str, Any]] = []
    request: ModelRequest | None = None
    response: CachedStepResponse | None = None
    replayed: list[Chunk] = []
    """The chunks of ``response``."""


async def prepare_call(run: Run) -> PreparedCall:
    """Run the input-step hooks, make the prompt and run the request hooks.

    Raises:
        TripWire: a hook aborted.
        ProcessorError: a hook failed.
        ModelFailure: a file of the prompt could not be fetched (R4.16).
    """
    stage = _step_stage(run)
    if run.input_step_hooks:
        await run_hook(INPUT_STEP, run.input_step_hooks, run.scope, stage)
    asked = None if stage.structured_output is None else structured_output(stage.structured_output)
    tools = stage.tools if stage.active_tools is None else _usable_tools(stage.tools, stage.active_tools)
    call = PreparedCall(run.models[run.model_index], stage.model, asked, tools)
    if run.scope.is_aborted:
        return call
    message_list = run.state.message_list
    call.prompt = message_list.prompt_for_model()
    if message_list.has_sent_files:
        call.prompt = await _with_files(call.prompt, stage.model)
    if asked is not None and asked.model is None:
        call.prompt = asking_prompt(call.prompt, asked, stage.model)
    if run.pipeline.by_hook["process_llm_request"]:
        await _ask_request_hooks(run, call)
    call.request = _request(run, stage, call)
    return call


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


def _request(run: Run, stage: StepStage, call: PreparedCall) -> ModelRequest:
    choice = stage.tool_choice
    if isinstance(choice, dict) and choice.get("toolName") not in call.tools:
        known = ", ".join(sorted(call.tools)) or "none"
        wrong = f"tool_choice names the tool {choice.get('toolName')!r}; this step has: {known}"
        if stage.choice_of is None:
            raise ValueError(wrong)
        raise ProcessorReturnError(
            f"processor {stage.choice_of!r} returned something that cannot be used: {wrong}",
            code="PROCESSOR_RETURNED_INVALID_RESULT",
            processor_id=stage.choice_of,
            hook=INPUT_STEP.name,
        )
    is_refusing = choice == "none"
    offered = {} if is_refusing else call.tools
    if is_refusing:
        call.tools = {}
    settings = stage.model_settings
    return ModelRequest(
        prompt=call.prompt,
        tools=run.specs_of(offered),
        tool_choice=choice if offered or is_refusing else None,
        settings=settings,  # type: ignore[arg-type]  # unknown settings reach the adapter, which warns about them
        provider_options=stage.provider_options,
        response_format=None if call.asked is None else _format(call.asked, call.model),
        headers=_headers(settings.get("headers"), call.entry.headers) if settings or call.entry.headers else None,
        include_raw_chunks=run.include_raw_chunks,
        abort_signal=run.scope._signal,
    )


def _format(asked: StructuredOutputOptions, model: LanguageModel) -> dict[str, Any] | None:
    """The response format, where the main model is to write the typed answer in its JSON mode (R12.32)."""
    return response_format(asked) if asked.model is None and is_native(asked, model) else None


def _headers(of_settings: dict[str, str] | None, of_entry: dict[str, str] | None) -> dict[str, str] | None:
    if not of_settings and not of_entry:
        return None
    return {**(of_settings or {}), **(of_entry or {})}
