"""What is sent to a Responses server; what it answers is read in ``responses_reply``.

The items of a prompt are in a module of their own: ``responses_input``.
"""

from __future__ import annotations

from typing import Any

from interlock.models.base import ModelRequest, ToolChoice, ToolSpec
from interlock.models.call_settings import server_settings, unsupported
from interlock.models.openai.protocol import REASONING_MODELS, SAMPLING, is_reasoning, own_options
from interlock.models.openai.responses_input import ResponsesInput
from interlock.models.openai.server_tools import INCLUDED
from interlock.models.openai.strict_schema import response_schema

_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_output_tokens"}
_OPTION_NAMES = {"textVerbosity": "verbosity"}


def to_openai_responses(
    request: ModelRequest, model_id: str, provider: str, warnings: list[dict[str, Any]]
) -> dict[str, Any]:
    """The request body; what the API does not offer is left out and named in ``warnings``.

    ``provider_options`` go into the body under their names in snake_case. ``reasoningEffort``, ``reasoningSummary``,
    ``textVerbosity``, ``strictJsonSchema`` and ``logprobs`` (``True``, or how many alternatives) go where the API has
    them; ``tools`` and ``include`` are added to what the call has anyway.
    """
    options = own_options(request, provider, _OPTION_NAMES)
    is_strict = options.pop("strict_json_schema", None)
    reasoning = _taken(options, reasoning_effort="effort", reasoning_summary="summary")
    reasoning = {**(options.pop("reasoning", None) or {}), **reasoning}
    text = {**(options.pop("text", None) or {}), **_taken(options, verbosity="verbosity")}
    reasons = is_reasoning(model_id, REASONING_MODELS, reasoning.get("effort"))
    items = ResponsesInput(provider, warnings, is_stored=options.get("store") is not False).items(request.prompt)
    body: dict[str, Any] = {"model": model_id, "input": list(items), "stream": True}
    _to_settings(body, request, reasons, warnings)
    tools = [*map(_to_tool, request.tools), *(options.pop("tools", None) or ())]
    if tools:
        body["tools"] = tools
        if request.tool_choice is not None:
            body["tool_choice"] = _to_tool_choice(request.tool_choice)
    if request.response_format is not None:
        text["format"] = _to_format(request.response_format, is_strict)
    if reasoning:
        body["reasoning"] = reasoning
    if text:
        body["text"] = text
    include = _to_include(body, options, tools, reasons=reasons)
    if include:
        body["include"] = include
    return {**body, **options, "stream": True}


def _to_settings(body: dict[str, Any], request: ModelRequest, reasons: bool, warnings: list[dict[str, Any]]) -> None:
    for name, value in server_settings(request):
        if name not in _SETTINGS:
            warnings.append(unsupported(name, "the Responses API has no such setting"))
        elif reasons and name in SAMPLING:
            warnings.append(unsupported(name, f"{body['model']} is a reasoning model and chooses it itself"))
        else:
            body[_SETTINGS[name]] = value


def _to_tool(tool: ToolSpec) -> dict[str, Any]:
    # Without the word the API would take the schema for a strict one.
    described = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema, "strict": False}
    return {"type": "function", **described}


def _to_tool_choice(choice: ToolChoice) -> Any:
    return choice if isinstance(choice, str) else {"type": "function", "name": choice["toolName"]}


def _to_format(wanted: dict[str, Any], is_strict: bool | None) -> dict[str, Any]:
    if wanted.get("schema") is None:
        return {"type": "json_object"}
    return {"type": "json_schema", **response_schema(wanted, is_strict)}


def _to_include(
    body: dict[str, Any], options: dict[str, Any], tools: list[dict[str, Any]], *, reasons: bool
) -> list[str]:
    """What the API leaves out unless asked: its tools' results, and reasoning in a form that can be given back."""
    wanted: list[str] = list(options.pop("include", None) or ())
    logprobs = options.pop("logprobs", None)
    if logprobs:
        body["top_logprobs"] = 20 if logprobs is True else logprobs
        wanted.append("message.output_text.logprobs")
    wanted += [INCLUDED[tool["type"]] for tool in tools if tool.get("type") in INCLUDED]
    if reasons:
        wanted.append("reasoning.encrypted_content")
    return list(dict.fromkeys(wanted))


def _taken(options: dict[str, Any], **names: str) -> dict[str, Any]:
    """The options of these names, taken out and renamed."""
    return {name: options.pop(given) for given, name in names.items() if given in options}
