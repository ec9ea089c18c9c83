"""The Responses protocol: what is sent (``to_openai_responses``) beside what is read (``FromOpenAIResponses``).

No input or output happens here. The items of both are in modules of their own: those of a prompt in
``openai_responses_input``, those of a reply in ``openai_responses_outputs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from interlock.chunks import (
    CONTENT_FILTER,
    LENGTH,
    OTHER,
    STOP,
    TOOL_CALLS,
    Chunk,
    Finish,
    FinishPayload,
    GenericChunk,
    ResponseMetadata,
    ResponseMetadataPayload,
    StepOutcome,
    StepOutput,
)
from interlock.errors import APICallError
from interlock.models.base import ModelRequest, ToolChoice, ToolSpec
from interlock.models.http_errors import MAX_BODY_CHARS, error_in_stream
from interlock.models.openai_protocol import (
    CLIENT_SETTINGS,
    REASONING_MODELS,
    SAMPLING,
    earlier_call_ids,
    is_reasoning,
    moment,
    own_options,
    unsupported,
)
from interlock.models.openai_responses_input import ResponsesInput
from interlock.models.openai_responses_outputs import (
    OUTPUTS,
    CallOutput,
    MessageOutput,
    OtherOutput,
    Output,
    ReasoningOutput,
    ReplyBooks,
)
from interlock.models.openai_server_tools import INCLUDED
from interlock.models.streamed_calls import CallIds
from interlock.models.strict_schema import response_schema
from interlock.usage import Usage

_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_output_tokens"}
_OPTION_NAMES = {"textVerbosity": "verbosity"}
_LENGTH_REASONS = frozenset({"max_output_tokens", "max_tokens"})


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
    for name, value in request.settings.items():
        if value is None or name in CLIENT_SETTINGS:
            continue
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


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0
    delta: Any = None
    item: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    logprobs: list[Any] | None = None
    response: _Response | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event, strict=False)


class FromOpenAIResponses:
    """Reads the events of one reply into chunks.

    Args:
        headers: Reply headers.
        request: What was asked for.
        provider: Namespace of provider metadata.
        url: For errors.
        hide: Blacks out secrets in what an error quotes.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        request: ModelRequest,
        provider: str,
        url: str,
        hide: Callable[[str], str],
    ) -> None:
        self.is_done = False
        """Whether the response is over."""
        self._headers = headers
        self._provider = provider
        self._url = url
        self._hide = hide
        self._has_raw = request.include_raw_chunks
        self._books = ReplyBooks(provider=provider, ids=CallIds(earlier_call_ids(request.prompt)))
        self._outputs: dict[int, Output] = {}
        self._response = _Response()
        self._has_metadata = False
        self._logprobs: list[Any] = []

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes; events that it does not know make none.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if not data or data == "[DONE]":
            return out
        try:
            event = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as problem:
            raise self._malformed(data, problem) from problem
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        read = _READERS.get(event.type)
        if read is not None:
            try:
                read(self, event, out)
            except (AttributeError, KeyError, TypeError) as problem:
                # Items have no types here: a server may put anything into them.
                raise self._malformed(data, repr(problem)) from problem
        elif event.type == "error" or kind == "error" or event.error:
            raise error_in_stream(self._hide(data), self._headers, self._url)
        elif not event.type:
            raise self._malformed(data, "it is no event of the Responses API", is_retryable=False)
        return out

    def end(self) -> list[Chunk]:
        """The chunks that close the reply.

        Raises:
            APICallError: The stream ended before the response did.
        """
        if not self.is_done:
            raise APICallError(
                f"the answer of {self._url} ended in the middle",
                is_retryable=True,
                url=self._url,
                response_headers=self._headers,
                code="truncated_stream",
            )
        out: list[Chunk] = []
        for output in self._outputs.values():
            output.close(out)
        reason, raw_reason = self._finish_reason()
        outcome = StepOutcome(reason=reason, raw_reason=raw_reason, logprobs=self._logprobs or None)
        facts = {"responseId": self._response.id, "serviceTier": self._response.service_tier}
        own = {name: value for name, value in facts.items() if value is not None}
        payload = FinishPayload(
            step_result=outcome,
            output=StepOutput(usage=_from_usage(self._response.usage or _Usage())),
            provider_metadata={self._provider: own} if own else None,
        )
        out.append(Finish(payload=payload))
        return out

    def _read_created(self, event: _Event, out: list[Chunk]) -> None:
        response = event.response
        if response is None or self._has_metadata:
            return
        self._has_metadata = True
        payload = ResponseMetadataPayload(
            id=response.id or None,
            model_id=response.model or None,
            timestamp=moment(response.created_at),
            headers=dict(self._headers),
        )
        out.append(ResponseMetadata(payload=payload))

    def _read_added(self, event: _Event, out: list[Chunk]) -> None:
        self._begin(event.output_index, event.item or {}, out)

    def _read_item_done(self, event: _Event, out: list[Chunk]) -> None:
        item = event.item or {}
        output = self._outputs.get(event.output_index) or self._begin(event.output_index, item, out)
        output.finish(item, out)

    def _read_text(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if output is None:
            # Some servers announce no items.
            output = self._begin(event.output_index, {"type": "message"}, out)
        if isinstance(output, MessageOutput):
            is_refusal = event.type == "response.refusal.delta"
            output.text(event.content_index, _piece(event), out, is_refusal=is_refusal)
        if event.logprobs:
            self._logprobs += event.logprobs

    def _read_annotation(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if event.annotation and isinstance(output, MessageOutput):
            output.annotate(event.annotation, out)

    def _read_summary(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, ReasoningOutput):
            output.text(event.summary_index, _piece(event), out)

    def _read_reasoning(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, ReasoningOutput):
            output.text(event.content_index, _piece(event), out, is_summary=False)

    def _read_arguments(self, event: _Event, out: list[Chunk]) -> None:
        output = self._outputs.get(event.output_index)
        if isinstance(output, CallOutput):
            output.arguments(_piece(event), out)

    def _read_end(self, event: _Event, out: list[Chunk]) -> None:
        self._read_created(event, out)
        self._response = event.response or _Response()
        self.is_done = True

    def _read_failed(self, event: _Event, out: list[Chunk]) -> None:
        error = event.response.error if event.response is not None else None
        status = event.type.removeprefix("response.")
        body = {"error": error or {"message": f"the response was {status}", "code": f"response_{status}"}}
        raise error_in_stream(self._hide(msgspec.json.encode(body).decode()), self._headers, self._url)

    def _begin(self, index: int, item: dict[str, Any], out: list[Chunk]) -> Output:
        output = self._outputs[index] = OUTPUTS.get(str(item.get("type")), OtherOutput)(item, self._books)
        output.begin(item, out)
        return output

    def _finish_reason(self) -> tuple[str, str | None]:
        raw = (self._response.incomplete_details or _Incomplete()).reason
        if self._books.is_refused or raw == "content_filter":
            return CONTENT_FILTER, raw or "refusal"
        if raw in _LENGTH_REASONS:
            return LENGTH, raw
        if raw is not None or self._response.status == "incomplete":
            return OTHER, raw or "incomplete"
        return (TOOL_CALLS if self._books.has_calls else STOP), self._response.status

    def _malformed(self, data: str, problem: object, *, is_retryable: bool = True) -> APICallError:
        return APICallError(
            f"{self._url} sent an event that cannot be read: {problem}",
            is_retryable=is_retryable,
            url=self._url,
            response_headers=self._headers,
            response_body=self._hide(data)[:MAX_BODY_CHARS],
            code="malformed_stream",
        )


_READERS: dict[str, Callable[[FromOpenAIResponses, _Event, list[Chunk]], None]] = {
    "response.created": FromOpenAIResponses._read_created,
    "response.output_item.added": FromOpenAIResponses._read_added,
    "response.output_item.done": FromOpenAIResponses._read_item_done,
    "response.output_text.delta": FromOpenAIResponses._read_text,
    "response.refusal.delta": FromOpenAIResponses._read_text,
    "response.output_text.annotation.added": FromOpenAIResponses._read_annotation,
    "response.reasoning_summary_text.delta": FromOpenAIResponses._read_summary,
    "response.reasoning_text.delta": FromOpenAIResponses._read_reasoning,
    "response.function_call_arguments.delta": FromOpenAIResponses._read_arguments,
    "response.mcp_call_arguments.delta": FromOpenAIResponses._read_arguments,
    "response.completed": FromOpenAIResponses._read_end,
    "response.incomplete": FromOpenAIResponses._read_end,
    "response.failed": FromOpenAIResponses._read_failed,
    "response.cancelled": FromOpenAIResponses._read_failed,
}
"""What each event says; the others repeat what these say, or tell of progress."""


def _piece(event: _Event) -> str:
    """The delta of an event that has text; other events have others."""
    if not isinstance(event.delta, str):
        raise TypeError(f"the delta of {event.type} is no text")
    return event.delta


def _from_usage(usage: _Usage) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=(usage.output_tokens_details or _OutputDetails()).reasoning_tokens,
        cached_input_tokens=(usage.input_tokens_details or _InputDetails()).cached_tokens,
    )
