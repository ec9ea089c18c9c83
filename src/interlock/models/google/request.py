"""What is sent to Gemini's ``streamGenerateContent``; what it answers is read in ``reply``.

What a prompt becomes is in a module of its own: ``prompt``.
"""

from __future__ import annotations

import re
from typing import Any

from interlock._json import camel
from interlock.models.base import ModelRequest, ToolChoice, ToolSpec
from interlock.models.call_settings import server_settings, unsupported
from interlock.models.google.prompt import GooglePrompt
from interlock.models.google.schema import is_endless, to_gemini_schema
from interlock.models.prompt_parts import json_text

_SETTINGS = {
    "temperature": "temperature",
    "max_output_tokens": "maxOutputTokens",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "stop_sequences": "stopSequences",
    "seed": "seed",
}
_BODY_OPTIONS = ("safetySettings", "cachedContent", "labels", "serviceTier", "store")
"""Provider options with a place of their own in the body; the rest are part of ``generationConfig``."""

_CALLING_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_VERSION = re.compile(r"gemini-(\d+)")


def to_google(request: ModelRequest, model_id: str, provider: str, warnings: list[dict[str, Any]]) -> dict[str, Any]:
    """The request body; what the API does not offer is left out and named in ``warnings``."""
    given = (request.provider_options or {}).get(provider) or {}
    options = {camel(name): value for name, value in given.items()}
    is_before_3 = _is_before_3(model_id)
    prompt = GooglePrompt(request.prompt, provider, is_before_3=is_before_3, warnings=warnings)
    body: dict[str, Any] = {"contents": prompt.contents}
    _to_tools(body, request, options, is_before_3, warnings)
    config = _to_settings(request, warnings)
    if request.response_format is not None:
        told = _to_response_format(config, request.response_format, bool(request.tools) and is_before_3, warnings)
        if told:
            prompt.system.append(told)
    if prompt.system:
        _put_system(body, prompt.system, model_id)
    for name in _BODY_OPTIONS:
        if name in options:
            body[name] = options.pop(name)
    config |= options
    if config:
        body["generationConfig"] = config
    return body


def _is_before_3(model_id: str) -> bool:
    """Whether the model lacks what came with Gemini 3; a name without a number is the newest Gemini's."""
    version = _VERSION.search(model_id)
    return int(version[1]) < 3 if version else "gemini-" not in model_id


def _put_system(body: dict[str, Any], system: list[str], model_id: str) -> None:
    parts = [{"text": text} for text in system]
    if model_id.startswith("gemma-3"):
        # These models refuse a system instruction.
        body["contents"][0]["parts"][:0] = parts
    else:
        body["systemInstruction"] = {"parts": parts}


def _to_tools(
    body: dict[str, Any],
    request: ModelRequest,
    options: dict[str, Any],
    is_before_3: bool,
    warnings: list[dict[str, Any]],
) -> None:
    """Functions, Google's own tools, and how they may be called."""
    own = [{camel(tool): {}} if isinstance(tool, str) else tool for tool in options.pop("tools", ())]
    config: dict[str, Any] = dict(options.pop("toolConfig", {}))
    tools = [*own]
    if request.tools:
        tools.append({"functionDeclarations": [_to_function(tool) for tool in request.tools]})
        calling = {**_to_calling(request.tool_choice), **config.pop("functionCallingConfig", {})}
        if calling.pop("streamFunctionCallArguments", None):
            warnings.append(unsupported("streamFunctionCallArguments", "arguments are read in one piece"))
        if calling:
            config["functionCallingConfig"] = calling
        if own and not is_before_3:
            # Without it the API refuses the two kinds of tools together.
            config.setdefault("includeServerSideToolInvocations", True)
    if tools:
        body["tools"] = tools
    if config:
        body["toolConfig"] = config


def _to_function(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    # A function without parameters has no schema.
    if tool.input_schema.get("properties") or tool.input_schema.keys() - {"type", "properties", "additionalProperties"}:
        function["parametersJsonSchema"] = to_gemini_schema(tool.input_schema)
    return function


def _to_calling(choice: ToolChoice | None) -> dict[str, Any]:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"mode": _CALLING_MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice["toolName"]]}


def _to_settings(request: ModelRequest, warnings: list[dict[str, Any]]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, value in server_settings(request):
        if name in _SETTINGS:
            config[_SETTINGS[name]] = value
        else:
            warnings.append(unsupported(name, "the server has no such setting"))
    return config


def _to_response_format(
    config: dict[str, Any], wanted: dict[str, Any], is_taken: bool, warnings: list[dict[str, Any]]
) -> str | None:
    """Ask for JSON; returns what has to be said in words, because the API cannot be asked for it.

    Args:
        config: The generation config.
        wanted: A request's response format.
        is_taken: Whether the model can be given either functions or a format, and has functions.
        warnings: Takes what had to be said in words.
    """
    schema = wanted.get("schema")
    if not is_taken:
        config["responseMimeType"] = "application/json"
        if schema is None:
            return None
        fitted = to_gemini_schema(schema)
        if not is_endless(fitted):
            config["responseJsonSchema"] = fitted
            return None
        reason = "the schema refers to itself through what it requires"
    else:
        reason = "before Gemini 3 a model takes tools or a format"
    warnings.append(unsupported("responseFormat", f"{reason}; the model is asked for the JSON in words"))
    told = "Answer with JSON only, without any text around it"
    return f"{told}." if schema is None else f"{told}, that fits this JSON Schema:\n{json_text(schema)}"
