"""The hook table: for each hook its args class, how a result is applied, and what an exception does.

Every hook but the per-chunk one is run by the one dispatcher in ``pipeline.py``; a new hook is a new row here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.chunks import RUN_TYPES, Chunk, chunk_from_dict, flaw_of
from interlock.errors import ConfigurationError, InvalidMessageError
from interlock.messages import MessageList
from interlock.processors import args as a
from interlock.processors.bound import BoundProcessor
from interlock.processors.results import (
    CachedStepChunk,
    CachedStepResponse,
    InvalidResultError,
    ProcessAPIErrorResult,
    ProcessInputResult,
    ProcessInputStepResult,
    ProcessLLMRequestResult,
    is_tool_choice,
    read_result,
)
from interlock.processors.scope import RunScope
from interlock.processors.stages import ErrorStage, RequestStage, StepStage

_log = logging.getLogger("interlock")


class Hook(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    args: type[a.MessageHookArgs]
    apply: Callable[[Any, Any, Any], None]
    """``(args, stage, result)``: brings a result that is not ``None`` into the run; raises ``InvalidResultError``."""
    is_logged: bool = False
    """Whether an ordinary exception is logged and the chain goes on (R7.18), instead of failing the run."""
    ends_on_abort: bool = True
    """Whether a cancellation ends the chain; not where what the hooks leave is stored even so (R12.28)."""
    takes_list: bool = True
    """Whether a hook may return the message list, which changes nothing more."""
    stops: Callable[[Any], bool] | None = None
    """Whether the chain ends early, given the stage."""

    def args_of(self, scope: RunScope, bound: BoundProcessor, stage: Any) -> a.MessageHookArgs:
        """The args of one call, as the messages are now."""
        return self.args(scope, bound, stage, scope.data.message_list)


# -- applying results ---------------------------------------------------------------------------------------------


def _apply_input(args: a.ProcessInputArgs, stage: None, result: Any) -> None:
    if _is_list_result(args, result, "input"):
        return
    values = read_result(result, ProcessInputResult)
    if values is None:
        raise _unexpected(result, "a list of messages, the message list, {messages, system_messages} or None")
    if len(values) < 2:
        raise InvalidResultError("the object form needs both 'messages' and 'system_messages'")
    _reconcile(args, values["messages"], "input")
    _replace_system(args, values["system_messages"])


def _apply_input_step(args: a.ProcessInputStepArgs, stage: StepStage, result: Any) -> None:
    if _is_list_result(args, result, "input"):
        return
    values = read_result(result, ProcessInputStepResult)
    if values is None:
        raise _unexpected(result, "an object of step settings, a list of messages, the message list or None")
    if values.get("messages") is not None and values.get("message_list") is not None:
        raise InvalidResultError(
            "return either 'messages' or 'message_list', not both", "PROCESSOR_RETURNED_MESSAGES_AND_MESSAGE_LIST"
        )
    for name, value in values.items():
        _STEP_KEYS[name](args, stage, value)


def _set_messages(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    if value is not None:
        _reconcile(args, value, "input")


def _set_message_list(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    if not isinstance(value, MessageList):
        raise _unexpected(value, "the message list under 'message_list'")
    _check_own_list(args, value)


def _set_model(args: a.MessageHookArgs, stage: StepStage | ErrorStage, value: Any) -> None:
    if value is None:
        return
    try:
        stage.model = stage.resolve_model(value)
    except ConfigurationError as error:
        raise InvalidResultError(f"'model' cannot be used: {error}", "PROCESSOR_RETURNED_UNSUPPORTED_MODEL") from error


def _set_tools(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    try:
        stage.tools = stage.resolve_tools(value if value is not None else {})
    except (ConfigurationError, TypeError) as error:
        raise InvalidResultError(f"'tools' cannot be used: {error}") from error


def _set_settings(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
        raise _unexpected(value, "a mapping from names to values under 'model_settings'")
    settings = snake_settings(value or {})
    for kept in ("max_retries", "timeout"):
        if kept in stage.model_settings:
            settings.setdefault(kept, stage.model_settings[kept])
    stage.model_settings = settings


def _set_active_tools(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if value is not None and not (is_list and all(isinstance(name, str) for name in value)):
        raise _unexpected(value, "a list of tool names under 'active_tools'")
    stage.active_tools = None if value is None else list(value)


def _set_tool_choice(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    if value is not None and not is_tool_choice(value):
        raise _unexpected(value, "'auto', 'none', 'required' or {'type': 'tool', 'toolName': name} under 'tool_choice'")
    stage.tool_choice = value
    stage.choice_of = args._bound.processor.id


def _set_provider_options(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise _unexpected(value, "a mapping under 'provider_options'")
    stage.provider_options = None if value is None else dict(value)


def _set_structured_output(args: a.MessageHookArgs, stage: StepStage, value: Any) -> None:
    try:
        stage.structured_output = stage.resolve_object(value)
    except ConfigurationError as error:
        raise InvalidResultError(f"'structured_output' cannot be used: {error}") from error


_STEP_KEYS: dict[str, Callable[[Any, StepStage, Any], None]] = {
    "model": _set_model,
    "tool_choice": _set_tool_choice,
    "active_tools": _set_active_tools,
    "tools": _set_tools,
    "messages": _set_messages,
    "message_list": _set_message_list,
    "system_messages": lambda args, stage, value: _replace_system(args, value),
    "provider_options": _set_provider_options,
    "model_settings": _set_settings,
    "structured_output": _set_structured_output,
}


def _apply_request(args: a.ProcessLLMRequestArgs, stage: RequestStage, result: Any) -> None:
    values = read_result(result, ProcessLLMRequestResult)
    if values is None:
        raise _unexpected(result, "{prompt}, {response}, both or None")
    if "prompt" in values:
        prompt = values["prompt"]
        if not isinstance(prompt, (list, tuple)) or not all(isinstance(m, dict) and "role" in m for m in prompt):
            raise _unexpected(prompt, "a list of {role, content} messages under 'prompt'")
        stage.prompt = list(prompt)
    if values.get("response") is not None:
        response = _read_response(values["response"])
        chunks = [_read_cached(item) for item in response.chunks]
        if stage.response is None:
            stage.response, stage.replayed = response, chunks


def _read_response(given: Any) -> CachedStepResponse:
    """A reply to replay."""
    if isinstance(given, Mapping):
        try:
            given = CachedStepResponse.from_dict(dict(given))
        except TypeError as error:
            raise InvalidResultError("'response' needs a list of 'chunks'") from error
    if not isinstance(given, CachedStepResponse):
        raise _unexpected(given, "a CachedStepResponse or a mapping under 'response'")
    if not isinstance(given.chunks, (list, tuple)):
        raise _unexpected(given.chunks, "a list of {type, payload} under 'response.chunks'")
    return given


_OF_ONE_RUN = ("startedAt", "request", "messageId")
_NOT_REPLAYED = RUN_TYPES - {"step-start", "finish", "error"}
"""Chunk types that no reply has."""


def _read_cached(item: Any) -> Chunk:
    """A chunk of a cached reply, as a fresh object (R11.3)."""
    if isinstance(item, (Chunk, CachedStepChunk)):
        item = item.to_dict()
    if not isinstance(item, Mapping):
        raise _unexpected(item, "{type, payload} in 'response.chunks'")
    kind, payload = item.get("type"), item.get("payload")
    if kind == "step-start" and isinstance(payload, Mapping):
        # Neither the time nor the prompt of the run that filled the cache is this run's.
        payload = {key: value for key, value in payload.items() if key not in _OF_ONE_RUN}
    try:
        chunk = chunk_from_dict({"type": kind, "payload": payload, "from": "AGENT"})
    except ValueError as error:
        raise InvalidResultError(f"in 'response.chunks': {error}") from error
    flaw = "only a run itself sends it" if kind in _NOT_REPLAYED else flaw_of(chunk)
    if flaw is not None:
        raise InvalidResultError(f"'response.chunks' has a {kind!r} chunk that cannot be replayed: {flaw}")
    return chunk


def _ignore(args: a.MessageHookArgs, stage: Any, result: Any) -> None:
    _log.debug("%s ignores what a processor returned: the return value is reserved (R2.23)", args._hook)


def _apply_output(args: a.MessageHookArgs, stage: Any, result: Any) -> None:
    if isinstance(result, (list, tuple)) and not result:
        return  # R2.29: an empty list means "no change" here
    if not _is_list_result(args, result, "response"):
        raise _unexpected(result, "a list of messages, the message list or None")


def _apply_result(args: a.ProcessOutputResultArgs, stage: Any, result: Any) -> None:
    if not _is_list_result(args, result, "response"):
        raise _unexpected(result, "a list of messages, the message list or None")


def _apply_error(args: a.ProcessAPIErrorArgs, stage: ErrorStage, result: Any) -> None:
    values = read_result(result, ProcessAPIErrorResult)
    if values is None or not isinstance(values.get("retry", False), bool):
        raise _unexpected(result, "{retry: bool, model?, delay?} or None")
    if values.get("retry"):
        _set_model(args, stage, values.get("model"))
        stage.delay = float(values.get("delay") or 0.0)
        stage.retry = True


def _is_list_result(args: a.MessageHookArgs, result: Any, default_source: str) -> bool:
    if isinstance(result, MessageList):
        _check_own_list(args, result)
        return True
    if isinstance(result, (list, tuple)):
        _reconcile(args, result, default_source)
        return True
    return False


def _check_own_list(args: a.MessageHookArgs, returned: MessageList) -> None:
    if returned is not args._scope.data.message_list:
        raise InvalidResultError(
            "it is a MessageList other than the one passed in; change args.message_list, or return a list of messages",
            "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST",
        )


def _reconcile(args: a.MessageHookArgs, returned: Any, default_source: str) -> None:
    if not isinstance(returned, (list, tuple)):
        raise _unexpected(returned, "a list of messages under 'messages'")
    try:
        args._scope.data.message_list.reconcile(returned, args._stage_messages, default_source)
    except (InvalidMessageError, TypeError) as error:
        raise InvalidResultError(f"the list holds something that is no message: {error}") from error


def _replace_system(args: a.MessageHookArgs, value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise _unexpected(value, "a list under 'system_messages'")
    try:
        args._scope.data.message_list.replace_all_system_messages(list(value))
    except (InvalidMessageError, TypeError, ValueError) as error:
        raise InvalidResultError(f"'system_messages' holds something that is no system message: {error}") from error


def _unexpected(value: Any, wanted: str) -> InvalidResultError:
    return InvalidResultError(f"got {type(value).__name__}; allowed is {wanted}")


def snake_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Model settings with snake_case keys, whichever spelling they came in."""
    return {_snake(key): value for key, value in settings.items()}


def _snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


# -- the table ----------------------------------------------------------------------------------------------------

INPUT = Hook("process_input", a.ProcessInputArgs, _apply_input, ends_on_abort=False)
INPUT_STEP = Hook("process_input_step", a.ProcessInputStepArgs, _apply_input_step)
LLM_REQUEST = Hook("process_llm_request", a.ProcessLLMRequestArgs, _apply_request, takes_list=False)
LLM_RESPONSE = Hook("process_llm_response", a.ProcessLLMResponseArgs, _ignore, takes_list=False)
OUTPUT_STEP = Hook("process_output_step", a.ProcessOutputStepArgs, _apply_output)
TOOL_RESULT = Hook("process_tool_result", a.ProcessToolResultArgs, _apply_output)
OUTPUT_RESULT = Hook("process_output_result", a.ProcessOutputResultArgs, _apply_result, ends_on_abort=False)
API_ERROR = Hook(
    "process_api_error",
    a.ProcessAPIErrorArgs,
    _apply_error,
    is_logged=True,
    takes_list=False,
    stops=lambda stage: bool(stage.retry),
)

RETRY_HOOKS = frozenset(
    {
        "process_input_step",
        "process_llm_request",
        "process_output_stream",
        "process_llm_response",
        "process_output_step",
        "process_tool_result",
    }
)
"""Hooks whose ``abort(retry=True)`` can be granted (R7.7)."""
