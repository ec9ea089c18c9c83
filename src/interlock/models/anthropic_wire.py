"""Anthropic's Messages protocol: what is sent (``to_anthropic``) beside what is read (``FromAnthropic``).

One file, so that a reader can compare the two directions; what a prompt becomes is in ``anthropic_prompt``, what the
blocks of an answer become in ``anthropic_blocks``. No input or output happens here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from interlock._json import camel
from interlock.chunks import (
    CONTENT_FILTER,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    UNKNOWN,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    ResponseMetadata,
    ResponseMetadataPayload,
    StepOutcome,
    StepOutput,
)
from interlock.errors import APICallError, ModelError, is_retryable_status
from interlock.models.anthropic_blocks import Blocks, Delta, OpenBlock
from interlock.models.anthropic_files import CitedDocument
from interlock.models.anthropic_options import NAMESPACE, snake_keys
from interlock.models.anthropic_prompt import limit_cache_markers, to_prompt
from interlock.models.anthropic_schema import to_output_schema
from interlock.models.base import ModelRequest, ToolChoice, ToolSpec
from interlock.models.http_errors import MAX_BODY_CHARS, error_in_stream
from interlock.usage import Usage

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

_HANDLED_SETTINGS = frozenset({"max_retries", "timeout", "headers", "max_output_tokens", "stop_sequences"})
"""Settings that are not the server's business, and those that are always sent."""

_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_OUTPUT_MODES = ("auto", "outputFormat", "jsonTool")
_TOOL_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_FINISH_REASONS = {
    "end_turn": STOP,
    "stop_sequence": STOP,
    "pause_turn": STOP,
    "tool_use": TOOL_CALLS,
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
    "refusal": CONTENT_FILTER,
}
_STATUS_CODES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status that an error would have had before the answer began."""


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
        warnings.append(_unsupported("stop_sequences", "a sequence of white space alone was left out"))
    for name, value in request.settings.items():
        if value is None or name in _HANDLED_SETTINGS:
            continue
        if name not in _SAMPLING:
            warnings.append(_unsupported(name, "Anthropic's API has no such setting"))
        elif api_version < API_VERSION:
            sent[name] = value
        else:
            warnings.append(_unsupported(name, f"Anthropic's API has no such setting since its version {API_VERSION}"))
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
        warnings.append(_unsupported("response_format", "Anthropic writes JSON to a schema only: give one"))
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
    warnings.append(_unsupported("response_format", details))
    said = msgspec.json.encode(schema).decode()
    wish = f"Answer with nothing but JSON that fits this JSON Schema:\n{said}"
    body["system"].append({"type": "text", "text": wish})
    return None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


class FromAnthropic:
    """Reads the events of one answer into chunks.

    Args:
        call: The request that it answers.
        headers: Reply headers.
        request: What was asked for.
        url: For errors.
        hide: Blacks out secrets in what an error quotes.
    """

    def __init__(
        self,
        call: AnthropicCall,
        headers: Mapping[str, str],
        request: ModelRequest,
        url: str,
        hide: Callable[[str], str],
    ) -> None:
        self.is_done = False
        """Whether the server said that nothing follows."""
        self._headers = headers
        self._url = url
        self._hide = hide
        self._has_raw = request.include_raw_chunks
        self._blocks = Blocks(request.prompt, call.documents, call.json_tool)
        self._open: dict[int, OpenBlock] = {}
        self._usage: dict[str, Any] = {}
        self._ending = Delta()

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes; events that are new to us make none.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if not data:
            return out
        try:
            event = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as problem:
            raise self._malformed(data, str(problem)) from problem
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        if event.error or event.type == "error" or kind == "error":
            raise self._error(data)
        match event.type:
            case "content_block_delta" | "content_block_stop":
                block = self._open.get(event.index)
                if block is None:
                    raise self._malformed(data, "it is about a block that has not begun")
                if event.type == "content_block_stop":
                    self._open.pop(event.index).close(out)
                elif event.delta is not None:
                    block.add(event.delta, out)
            case "content_block_start" if event.content_block is not None:
                self._open[event.index] = self._blocks.open(event.index, event.content_block, out)
            case "message_start":
                out.append(self._start(event.message or {}))
            case "message_delta":
                self._ending = event.delta or self._ending
                self._count(event.usage)
            case "message_stop":
                self.is_done = True
        return out

    def end(self) -> list[Chunk]:
        """The chunks that close the answer.

        Raises:
            APICallError: The stream ended before the answer did.
        """
        if self._ending.stop_reason is None and not self.is_done:
            raise APICallError(
                f"the answer of {self._url} ended in the middle",
                is_retryable=True,
                url=self._url,
                response_headers=self._headers,
                code="truncated_stream",
            )
        out: list[Chunk] = []
        for block in self._open.values():
            block.close(out)
        outcome = StepOutcome(reason=self._finish_reason(), raw_reason=self._ending.stop_reason)
        output = StepOutput(usage=_from_usage(self._usage))
        metadata = {NAMESPACE: self._closing_facts()}
        out.append(Finish(payload=FinishPayload(step_result=outcome, output=output, provider_metadata=metadata)))
        return out

    def _start(self, message: dict[str, Any]) -> ResponseMetadata:
        self._count(message.get("usage"))
        return ResponseMetadata(
            payload=ResponseMetadataPayload(
                id=message.get("id"), model_id=message.get("model"), headers=dict(self._headers)
            )
        )

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Take token counts, each of which replaces the earlier one."""
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _finish_reason(self) -> str:
        raw = self._ending.stop_reason
        if raw is None:
            return TOOL_CALLS if self._blocks.has_calls else UNKNOWN
        reason = _FINISH_REASONS.get(raw, OTHER)
        # The tool that stands for the answer is nobody else's call.
        return STOP if reason == TOOL_CALLS and not self._blocks.has_calls else reason

    def _closing_facts(self) -> dict[str, Any]:
        ending = self._ending
        facts = {
            "usage": self._usage,
            "cacheCreationInputTokens": self._usage.get("cache_creation_input_tokens"),
            "stopSequence": ending.stop_sequence,
            "stopDetails": ending.stop_details,
            "container": ending.container and {camel(key): value for key, value in ending.container.items()},
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _error(self, data: str) -> APICallError:
        error = error_in_stream(self._hide(data), self._headers, self._url)
        if error.status_code is None and error.code in _STATUS_CODES:
            error.status_code = _STATUS_CODES[error.code]
            error.is_retryable = is_retryable_status(error.status_code)
        return error

    def _malformed(self, data: str, problem: str) -> APICallError:
        return APICallError(
            f"{self._url} sent an event that cannot be read: {problem}",
            is_retryable=True,
            url=self._url,
            response_headers=self._headers,
            response_body=self._hide(data)[:MAX_BODY_CHARS],
            code="malformed_stream",
        )


def _from_usage(usage: dict[str, Any]) -> Usage:
    """The counts; tokens that were read from the cache or written to it are input too."""
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    fresh, output = usage.get("input_tokens"), usage.get("output_tokens")
    known = [count for count in (fresh, read, written) if count is not None]
    return Usage(
        input_tokens=sum(known) if known else None,
        output_tokens=output,
        total_tokens=sum(known) + output if known and output is not None else None,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("thinking_tokens"),
        cached_input_tokens=read,
    )


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _unsupported(setting: str, details: str) -> dict[str, Any]:
    return {"type": "unsupported-setting", "setting": camel(setting), "details": details}
