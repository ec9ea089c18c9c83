"""What is sent to a Chat Completions server; what it answers is read in ``chat_reply``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interlock.errors import ModelError
from interlock.models.base import ModelRequest, Prompt, ToolChoice
from interlock.models.call_settings import server_settings, unsupported
from interlock.models.openai.dialects import Dialect
from interlock.models.openai.protocol import SAMPLING, is_reasoning, own_options, to_arguments, with_cache_marker
from interlock.models.openai.reasoning_details import OPTION
from interlock.models.openai.strict_schema import response_schema
from interlock.models.prompt_parts import (
    bare_data,
    base64_of,
    data_uri,
    image_type,
    is_address,
    is_text,
    options_of,
    output_parts,
    text_of_file,
)

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "stop_sequences": "stop",
}
_OPTION_NAMES = {"textVerbosity": "verbosity"}
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


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
    for name, value in server_settings(request):
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
                part = with_cache_marker({"type": "text", "text": content}, options_of(message, provider))
                yield {"role": "system", "content": _plain([part])}
            case "user":
                parts = [part for part in (_to_user_part(part, provider) for part in content) if part is not None]
                if parts:
                    with_cache_marker(parts[-1], options_of(message, provider))
                    yield {"role": "user", "content": _plain(parts)}
            case "assistant":
                spoken = _to_assistant_message(content, provider, dialect, warnings)
                if len(spoken) > 1:
                    yield spoken
            case "tool":
                yield from _to_tool_messages(content, provider)
            case role:
                raise ModelError(f"a prompt message has the role {role!r}; it is system, user, assistant or tool")


def _plain(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Content in the form that every server takes, if nothing but a text is in it."""
    only = parts[0] if len(parts) == 1 else {}
    return only["text"] if only.keys() == {"type", "text"} else parts


def _to_user_part(part: dict[str, Any], provider: str) -> dict[str, Any] | None:
    options = options_of(part, provider)
    if part["type"] == "text":
        # Several servers refuse a block of text that says nothing.
        return with_cache_marker({"type": "text", "text": part["text"]}, options) if part["text"].strip() else None
    if part["type"] != "file":
        raise ModelError(f"a user message has a part of type {part['type']!r}, which Chat Completions cannot carry")
    return with_cache_marker(_to_file(part, options), options)


def _to_file(part: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    media_type, data = part["mediaType"], bare_data(part)
    if data.startswith("file-"):
        return {"type": "file", "file": {"file_id": data}}
    if media_type.startswith("image/"):
        address = data if is_address(data) else data_uri(image_type(media_type, data), base64_of(part))
        detail = options.get("imageDetail")
        return {"type": "image_url", "image_url": {"url": address, **({"detail": detail} if detail else {})}}
    if is_address(data):
        raise ModelError(
            f"Chat Completions cannot load a file of type {media_type!r} from an address: download it first"
        )
    if media_type in _AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": base64_of(part), "format": _AUDIO_FORMATS[media_type]}}
    if media_type == "application/pdf":
        name = part.get("filename") or "file.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data_uri(media_type, base64_of(part))}}
    if is_text(media_type):
        return {"type": "text", "text": text_of_file(part)}
    raise ModelError(f"Chat Completions takes no file of type {media_type!r}: it takes images, wav, mp3, PDF and text")


def _to_assistant_message(
    content: list[dict[str, Any]], provider: str, dialect: Dialect, warnings: list[dict[str, Any]]
) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    details: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for part in content:
        match part["type"]:
            case "text":
                texts.append(part["text"])
            case "reasoning":
                thoughts.append(part["text"])
                details += options_of(part, provider).get(OPTION) or ()
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
    if len(spoken) > 1 and details:
        spoken["reasoning_details"] = details
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
