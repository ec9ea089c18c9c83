"""What is sent to Anthropic's Messages API; what it answers is read in ``reply``.

What a prompt becomes is in a module of its own: ``prompt``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.anthropic.files import CitedDocument
from interlock.models.anthropic.options import NAMESPACE, snake_keys
from interlock.models.anthropic.prompt import limit_cache_markers, to_prompt
from interlock.models.anthropic.schema import to_output_schema
from interlock.models.base import ModelRequest, ToolChoice, ToolSpec
from interlock.models.call_settings import server_settings, unsupported
from interlock.models.prompt_parts import json_text

API_VERSION = "2026-10-21"
"""The version of the API that is spoken; it is the first without sampling settings."""

DEFAULT_MAX_TOKENS = 32_000
"""The API wants a limit; every model since Claude 4 takes this one."""

JSON_TOOL = "json_response"
"""A tool whose input is the answer, for models that have no output format."""

_OLD_MAX_TOKENS = 4096
_BEFORE_CLAUDE_4 = re.compile(r"claude-(?:instant|[123]\b)")
_BEFORE_OUTPUT_FORMATS = re.compile(
    r"claude-(?:instant|[123]\b|4-(?:opus|sonnet)|(?:opus|sonnet)-4(?:-[01]\b|[-@]20\d{6}))"
)

_SENT_APART = frozenset({"max_output_tokens", "stop_sequences"})
"""Settings that need a look at others, or at their values."""

_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_OUTPUT_MODES = ("auto", "outputFormat", "jsonTool")
_TOOL_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicCall(msgspec.Struct):
    """A request, and what its answer must be read with."""

    body: dict[str, Any]
    betas: list[str]
    """For the header ``anthropic-beta``."""
    documents: list[CitedDocument]
    json_tool: str | None
    """Name of the tool that stands for the answer, if there is one."""


def to_anthropic(
    request: ModelRequest, model_id: str, api_version: str, warnings: list[dict[str, Any]]
) -> AnthropicCall:
    """The request; what the API does not offer is left out and named in ``warnings``.

    Raises:
        ModelError: The prompt holds something that the API cannot carry.
    """
    options = snake_keys((request.provider_options or {}).get(NAMESPACE) or {})
    betas = [*_names(options.pop("anthropic_beta", None)), *_names(options.pop("betas", None))]
    prompt = to_prompt(request.prompt, sends_reasoning=options.pop("send_reasoning", True))
    warnings += prompt.warnings
    body: dict[str, Any] = {"model": model_id, "max_tokens": _to_max_tokens(request, options, model_id)}
    body |= _to_settings(request, api_version, warnings)
    body |= {"system": prompt.system, "messages": prompt.messages}
    is_eager = options.pop("tool_streaming", None)
    body["tools"] = [*(_to_tool(tool, is_eager) for tool in request.tools), *options.pop("tools", ())]
    choice = _to_tool_choice(request.tool_choice, is_serial=options.pop("disable_parallel_tool_use", None))
    if body["tools"] and choice is not None:
        body["tool_choice"] = choice
    body["output_config"] = options.pop("output_config", None) or {}
    if "effort" in options:
        body["output_config"]["effort"] = options.pop("effort")
    mode = options.pop("structured_output_mode", "auto")
    json_tool = None
    if request.response_format is not None:
        json_tool = _to_response_format(body, request.response_format, mode, warnings)
    body |= options
    blocks = [*body["tools"], *prompt.system, *(block for message in prompt.messages for block in message["content"])]
    limit_cache_markers(blocks, warnings, others=1 if body.get("cache_control") else 0)
    for name in ("system", "tools", "output_config"):
        if not body[name]:
            del body[name]
    return AnthropicCall({**body, "stream": True}, betas, prompt.documents, json_tool)


def _to_max_tokens(request: ModelRequest, options: dict[str, Any], model_id: str) -> int:
    """The limit, which counts the thinking as well; one that a thinking budget would use up is the answer's alone."""
    wanted = request.settings.get("max_output_tokens")
    if wanted is None:
        wanted = _OLD_MAX_TOKENS if _BEFORE_CLAUDE_4.search(model_id) else DEFAULT_MAX_TOKENS
    budget = int((options.get("thinking") or {}).get("budget_tokens") or 0)
    return wanted if wanted > budget else wanted + budget


def _to_settings(request: ModelRequest, api_version: str, warnings: list[dict[str, Any]]) -> dict[str, Any]:
    sent: dict[str, Any] = {}
    given = request.settings.get("stop_sequences") or []
    sequences = [sequence for sequence in given if sequence.strip()]
    if sequences:
        sent["stop_sequences"] = sequences
    if len(sequences) < len(given):
        warnings.append(unsupported("stop_sequences", "a sequence of white space alone was left out"))
    for name, value in server_settings(request):
        if name in _SENT_APART:
            continue
        if name not in _SAMPLING:
            warnings.append(unsupported(name, "Anthropic's API has no such setting"))
        elif api_version < API_VERSION:
            sent[name] = value
        else:
            warnings.append(unsupported(name, f"Anthropic's API has no such setting since its version {API_VERSION}"))
    return sent


def _to_tool(tool: ToolSpec, is_eager: Any) -> dict[str, Any]:
    sent: dict[str, Any] = {"name": tool.name, "input_schema": {"type": "object", **tool.input_schema}}
    if tool.description:
        sent["description"] = tool.description
    if is_eager is not None:
        sent["eager_input_streaming"] = is_eager
    return sent


def _to_tool_choice(choice: ToolChoice | None, *, is_serial: Any) -> dict[str, Any] | None:
    if choice is None and not is_serial:
        return None
    if isinstance(choice, dict):
        sent = {"type": "tool", "name": choice["toolName"]}
    else:
        sent = {"type": _TOOL_CHOICES[choice or "auto"]}
    return {**sent, "disable_parallel_tool_use": True} if is_serial and choice != "none" else sent


def _to_response_format(
    body: dict[str, Any], wanted: dict[str, Any], mode: str, warnings: list[dict[str, Any]]
) -> str | None:
    """Ask for JSON in the output format, through a tool whose name is returned, or in words.

    The output format is for models since Claude 4.5; some of these refuse a forced tool, which older ones get.
    """
    schema = wanted.get("schema")
    if mode not in _OUTPUT_MODES:
        raise ModelError(f"structuredOutputMode is {' or '.join(map(repr, _OUTPUT_MODES))}, not {mode!r}")
    if schema is None:
        warnings.append(unsupported("response_format", "Anthropic writes JSON to a schema only: give one"))
        return None
    has_formats = mode == "outputFormat" or (mode == "auto" and not _BEFORE_OUTPUT_FORMATS.search(body["model"]))
    fitted = to_output_schema(schema) if has_formats else None
    if fitted is not None:
        body["output_config"]["format"] = {"type": "json_schema", "schema": fitted}
        return None
    if not has_formats and schema.get("type") == "object":
        named = {"type": "any"} if body["tools"] else {"type": "tool", "name": JSON_TOOL}
        body["tool_choice"] = {**named, "disable_parallel_tool_use": True}
        description = wanted.get("description") or "Gives the final answer to the user."
        body["tools"].append({"name": JSON_TOOL, "description": description, "input_schema": schema})
        return JSON_TOOL
    details = "the API cannot enforce this schema; the model was asked to keep to it"
    warnings.append(unsupported("response_format", details))
    wish = f"Answer with nothing but JSON that fits this JSON Schema:\n{json_text(schema)}"
    body["system"].append({"type": "text", "text": wish})
    return None


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())
