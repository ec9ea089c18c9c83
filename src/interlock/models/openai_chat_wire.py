"""The Chat Completions protocol: what is sent (``to_openai_chat``) beside what is read (``FromOpenAIChat``).

One file, so that a reader can compare the two directions. No input or output happens here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from interlock.chunks import (
    CONTENT_FILTER,
    ERROR,
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
    Source,
    SourcePayload,
    StepOutcome,
    StepOutput,
)
from interlock.errors import APICallError, ModelError
from interlock.models.base import ModelRequest, Prompt, ToolChoice
from interlock.models.dialects import Dialect
from interlock.models.http_errors import MAX_BODY_CHARS, error_in_stream
from interlock.models.openai_protocol import (
    CLIENT_SETTINGS,
    SAMPLING,
    bare_data,
    data_uri,
    earlier_call_ids,
    is_address,
    is_reasoning,
    moment,
    options_of,
    output_parts,
    own_options,
    text_of_file,
    to_arguments,
    unsupported,
)
from interlock.models.spans import Spans
from interlock.models.streamed_calls import CallIds, StreamedCalls
from interlock.models.strict_schema import response_schema
from interlock.usage import Usage

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "stop_sequences": "stop",
}
_OPTION_NAMES = {"textVerbosity": "verbosity"}
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_FINISH_REASONS = {
    "stop": STOP,
    "eos": STOP,
    "length": LENGTH,
    "max_tokens": LENGTH,
    "model_length": LENGTH,
    "content_filter": CONTENT_FILTER,
    "tool_calls": TOOL_CALLS,
    "function_call": TOOL_CALLS,
    "error": ERROR,
}
"""Raw reasons of OpenAI and of servers that have others: Mistral, Together (R5.5)."""


def to_openai_chat(
    request: ModelRequest, model_id: str, provider: str, dialect: Dialect, warnings: list[dict[str, Any]]
) -> dict[str, Any]:
    """The request body; what the server does not offer is left out and named in ``warnings``."""
    options = own_options(request, provider, _OPTION_NAMES)
    is_strict = options.pop("strict_json_schema", None)
    body: dict[str, Any] = {
        "model": model_id,
        "messages": list(_to_messages(request.prompt, provider, dialect, warnings)),
        "stream": True,
    }
    if dialect.has_stream_options:
        body["stream_options"] = {"include_usage": True}
    _to_settings(body, request, options.get("reasoning_effort"), dialect, warnings)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
        if request.tool_choice is not None:
            body["tool_choice"] = _to_tool_choice(request.tool_choice, dialect)
    if request.response_format is not None:
        body["response_format"] = _to_response_format(request.response_format, is_strict, dialect, warnings)
    return {**body, **options, "stream": True}


def _to_settings(
    body: dict[str, Any], request: ModelRequest, effort: Any, dialect: Dialect, warnings: list[dict[str, Any]]
) -> None:
    model_id = body["model"]
    reasons = is_reasoning(model_id, dialect.fixed_sampling, effort)
    fields = {**_SETTINGS, "seed": dialect.seed, "max_output_tokens": dialect.max_tokens}
    if dialect.has_top_k:
        fields["top_k"] = "top_k"
    for name, value in request.settings.items():
        if value is None or name in CLIENT_SETTINGS:
            continue
        if name not in fields:
            warnings.append(unsupported(name, "the server has no such setting"))
        elif reasons and name in SAMPLING:
            warnings.append(unsupported(name, f"{model_id} is a reasoning model and chooses it itself"))
        else:
            body[fields[name]] = value


def _to_tool_choice(choice: ToolChoice, dialect: Dialect) -> Any:
    if isinstance(choice, str):
        return dialect.required if choice == "required" else choice
    return {"type": "function", "function": {"name": choice["toolName"]}}


def _to_response_format(
    wanted: dict[str, Any], is_strict: bool | None, dialect: Dialect, warnings: list[dict[str, Any]]
) -> dict[str, Any]:
    schema = wanted.get("schema")
    if schema is not None and not dialect.has_json_schema:
        warnings.append(unsupported("responseFormat", "the server takes no schema; it is asked for some JSON object"))
        schema = None
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": response_schema(wanted, is_strict)}


def _to_messages(
    prompt: Prompt, provider: str, dialect: Dialect, warnings: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for message in prompt:
        content = message["content"]
        match message["role"]:
            case "system":
                yield {"role": "system", "content": content}
            case "user":
                parts = [part for part in (_to_user_part(part, provider) for part in content) if part is not None]
                if len(parts) == 1 and parts[0]["type"] == "text":
                    yield {"role": "user", "content": parts[0]["text"]}
                elif parts:
                    yield {"role": "user", "content": parts}
            case "assistant":
                spoken = _to_assistant_message(content, dialect, warnings)
                if len(spoken) > 1:
                    yield spoken
            case "tool":
                yield from _to_tool_messages(content, provider)
            case role:
                raise ModelError(f"a prompt message has the role {role!r}; it is system, user, assistant or tool")


def _to_user_part(part: dict[str, Any], provider: str) -> dict[str, Any] | None:
    if part["type"] == "text":
        # Several servers refuse a block of text that says nothing.
        return {"type": "text", "text": part["text"]} if part["text"].strip() else None
    if part["type"] != "file":
        raise ModelError(f"a user message has a part of type {part['type']!r}, which Chat Completions cannot carry")
    media_type, data = part["mediaType"], bare_data(part)
    if data.startswith("file-"):
        return {"type": "file", "file": {"file_id": data}}
    if media_type.startswith("image/"):
        address = data if is_address(data) else data_uri(media_type.replace("*", "jpeg"), data)
        detail = options_of(part, provider).get("imageDetail")
        return {"type": "image_url", "image_url": {"url": address, **({"detail": detail} if detail else {})}}
    if is_address(data):
        raise ModelError(
            f"Chat Completions cannot load a file of type {media_type!r} from an address: download it first"
        )
    if media_type in _AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[media_type]}}
    if media_type == "application/pdf":
        name = part.get("filename") or "file.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data_uri(media_type, data)}}
    if media_type.startswith("text/"):
        return {"type": "text", "text": text_of_file(part)}
    raise ModelError(f"Chat Completions takes no file of type {media_type!r}: it takes images, wav, mp3, PDF and text")


def _to_assistant_message(
    content: list[dict[str, Any]], dialect: Dialect, warnings: list[dict[str, Any]]
) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in content:
        match part["type"]:
            case "text":
                texts.append(part["text"])
            case "reasoning":
                thoughts.append(part["text"])
            case "tool-call" if not part.get("providerExecuted"):
                function = {"name": part["toolName"], "arguments": to_arguments(part["input"])}
                calls.append({"id": part["toolCallId"], "type": "function", "function": function})
            case kind:
                message = f"an assistant message had a part of type {kind!r}, which Chat Completions cannot carry"
                warnings.append({"type": "other", "message": message})
    text = "".join(texts)
    spoken: dict[str, Any] = {"role": "assistant"}
    if text.strip():
        spoken["content"] = text
    if calls:
        spoken.setdefault("content", None)
        spoken["tool_calls"] = calls
    if dialect.reasoning is not None and len(spoken) > 1 and thoughts:
        spoken[dialect.reasoning] = "".join(thoughts)
    return spoken


def _to_tool_messages(results: list[dict[str, Any]], provider: str) -> Iterator[dict[str, Any]]:
    """The results of a step's calls. A tool's message holds text only, so that files follow in one of the user's."""
    files: list[dict[str, Any]] = []
    count = 0
    for result in results:
        texts: list[str] = []
        for part in output_parts(result["output"]):
            sent = None if part["type"] == "text" else _to_user_part(part, provider)
            if sent is None:
                texts.append(part["text"])
                continue
            count += 1
            texts.append(f"(file {count} is in the next message)")
            files += [{"type": "text", "text": f"File {count}, from the tool {result['toolName']}:"}, sent]
        yield {"role": "tool", "tool_call_id": result["toolCallId"], "content": "\n".join(texts)}
    if files:
        yield {"role": "user", "content": files}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None
    annotations: list[dict[str, Any]] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int = 0
    logprobs: dict[str, Any] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    created: float | None = None
    error: Any = None
    object: str | None = None


_decoder = msgspec.json.Decoder(_Event, strict=False)


class FromOpenAIChat:
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
        """Whether the server said that nothing follows."""
        self._headers = headers
        self._provider = provider
        self._url = url
        self._hide = hide
        self._has_raw = request.include_raw_chunks
        self._spans = Spans()
        self._calls = StreamedCalls(CallIds(earlier_call_ids(request.prompt)))
        self._has_metadata = False
        self._reason: str | None = None
        self._is_refused = False
        self._usage = _Usage()
        self._logprobs: list[Any] = []
        self._sources = 0

    def read(self, kind: str, data: str) -> list[Chunk]:
        """The chunks that one event makes.

        Raises:
            APICallError: The event is an error, or is none that this protocol has.
        """
        out: list[Chunk] = []
        if data == "[DONE]":
            self.is_done = True
            return out
        if not data:
            return out
        try:
            event = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError) as problem:
            raise self._failure(data, f"{self._url} sent an event that cannot be read: {problem}") from problem
        if self._has_raw:
            out.append(GenericChunk(type="raw", payload=msgspec.json.decode(data)))
        if event.error or event.object == "error" or kind == "error":
            raise self._failure(data)
        if event.usage:
            self._usage = event.usage
        try:
            for choice in event.choices or ():
                # Only one answer was asked for.
                if choice.index == 0:
                    if not self._has_metadata:
                        self._has_metadata = True
                        out.append(self._metadata(event))
                    self._read_choice(choice, out)
        except (AttributeError, KeyError, TypeError) as problem:
            # Blocks and annotations have no types here: a server may put anything into them.
            raise self._failure(data, f"{self._url} sent an event that cannot be read: {problem!r}") from problem
        return out

    def end(self) -> list[Chunk]:
        """The chunks that close the reply.

        Raises:
            APICallError: The stream ended before the answer did.
        """
        if self._reason is None and not self.is_done:
            raise APICallError(
                f"the answer of {self._url} ended in the middle",
                is_retryable=True,
                url=self._url,
                response_headers=self._headers,
                code="truncated_stream",
            )
        out: list[Chunk] = []
        self._spans.close(out)
        self._calls.finish(out)
        reason = self._finish_reason()
        outcome = StepOutcome(reason=reason, raw_reason=self._reason, logprobs=self._logprobs or None)
        out.append(
            Finish(payload=FinishPayload(step_result=outcome, output=StepOutput(usage=_from_usage(self._usage))))
        )
        return out

    def _read_choice(self, choice: _Choice, out: list[Chunk]) -> None:
        delta = choice.delta
        if delta is not None:
            if isinstance(delta.content, list):
                self._read_blocks(delta.content, out)
            elif delta.content:
                self._spans.text(out, delta.content)
            thought = delta.reasoning_content or delta.reasoning
            if thought and isinstance(thought, str):
                self._spans.reasoning(out, thought)
            if delta.refusal:
                self._is_refused = True
                self._spans.text(out, delta.refusal, {self._provider: {"refusal": True}}, kind="refusal")
            if delta.tool_calls:
                self._spans.close(out)
                for call in delta.tool_calls:
                    self._read_call(call, out)
            for annotation in delta.annotations or ():
                self._read_annotation(annotation, out)
        if choice.logprobs and choice.logprobs.get("content"):
            self._logprobs.extend(choice.logprobs["content"])
        if choice.finish_reason is not None:
            self._reason = choice.finish_reason

    def _read_blocks(self, blocks: list[dict[str, Any]], out: list[Chunk]) -> None:
        """Content as a list of blocks, which is how Mistral's reasoning models send it."""
        for block in blocks:
            if block.get("type") == "text":
                self._spans.text(out, block["text"])
            elif block.get("type") == "thinking":
                for thought in block.get("thinking") or ():
                    self._spans.reasoning(out, thought.get("text") or "")

    def _read_call(self, call: _CallDelta, out: list[Chunk]) -> None:
        function = call.function or _Function()
        args = function.arguments
        args_text = msgspec.json.encode(args).decode() if isinstance(args, dict) else args
        self._calls.piece(out, index=call.index, provider_id=call.id, name=function.name, args_text=args_text)

    def _read_annotation(self, annotation: dict[str, Any], out: list[Chunk]) -> None:
        citation = annotation.get("url_citation")
        if isinstance(citation, dict) and citation.get("url"):
            self._sources += 1
            source = SourcePayload(id=f"source-{self._sources}", url=citation["url"], title=citation.get("title"))
            out.append(Source(payload=source))

    def _metadata(self, event: _Event) -> ResponseMetadata:
        return ResponseMetadata(
            payload=ResponseMetadataPayload(
                id=event.id or None,
                model_id=event.model or None,
                timestamp=moment(event.created),
                headers=dict(self._headers),
            )
        )

    def _finish_reason(self) -> str:
        if self._is_refused:
            return CONTENT_FILTER
        if self._reason is None:
            return TOOL_CALLS if self._calls else UNKNOWN
        return _FINISH_REASONS.get(self._reason, OTHER)

    def _failure(self, data: str, message: str | None = None) -> APICallError:
        data = self._hide(data)
        if message is None:
            return error_in_stream(data, self._headers, self._url)
        return APICallError(
            message,
            is_retryable=True,
            url=self._url,
            response_headers=self._headers,
            response_body=data[:MAX_BODY_CHARS],
            code="malformed_stream",
        )


def _from_usage(usage: _Usage) -> Usage:
    cached = (usage.prompt_tokens_details or _PromptDetails()).cached_tokens
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        reasoning_tokens=(usage.completion_tokens_details or _CompletionDetails()).reasoning_tokens,
        cached_input_tokens=usage.prompt_cache_hit_tokens if cached is None else cached,
    )
