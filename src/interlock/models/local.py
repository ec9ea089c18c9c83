"""``local/smollm2``: a small real model inside the process, with no key and no network.

It is there so that everything runs, not to show how good an agent can be: it cannot choose a tool. Where
``tool_choice`` names one, its arguments are forced by the tool's schema; otherwise the tools are left out, with a
warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from interlock._ids import new_id
from interlock.chunks import (
    STOP,
    TOOL_CALLS,
    Chunk,
    Finish,
    GenericChunk,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolCallPayload,
    ToolInputDelta,
    ToolInputDeltaPayload,
    ToolInputEnd,
    ToolInputEndPayload,
    ToolInputStart,
    ToolInputStartPayload,
)
from interlock.errors import ConfigurationError, ModelError
from interlock.models.base import ModelRequest, ModelSettings, Prompt, ToolSpec
from interlock.models.local_server import require_local_runtime, shared_server
from interlock.models.local_weights import SMOLLM2, Weights
from interlock.models.network import require_model_requests
from interlock.models.streamed_calls import parsed_args

LOCAL_MODELS: dict[str, Weights] = {"smollm2": SMOLLM2}

_SETTINGS: ModelSettings = {"temperature": 0.0, "max_output_tokens": 512}
_OPTIONS = {"repeat_penalty": 1.1}
"""Steady answers, without the loops that small models fall into."""

_ARGS_SETTINGS: ModelSettings = {"temperature": 0.0, "max_output_tokens": 256}


class LocalModel:
    """An embedded model. All objects of a process share one loaded copy; it is loaded by the first call.

    Args:
        model_id: ``"smollm2"``.

    Raises:
        ConfigurationError: No such local model, or its weights or its runtime are not installed.
    """

    provider = "local"

    def __init__(self, model_id: str = "smollm2") -> None:
        weights = LOCAL_MODELS.get(model_id)
        if weights is None:
            raise ConfigurationError(f"no local model is called {model_id!r}; there is: {', '.join(LOCAL_MODELS)}")
        require_local_runtime()
        self.model_id = model_id
        self._weights = weights.path()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model (runtime-spec section 5).

        Raises:
            APICallError: The model's server refused the request: it takes text only, about 8,000 tokens of it.
            ModelError: ``tool_choice`` names a tool that the request has not.
        """
        require_model_requests(f"local/{self.model_id}")
        tool = _named_tool(request)
        inner = _args_request(request, tool) if tool else _text_request(request)
        async with aclosing(self._serve(inner)) as chunks:
            if tool:
                async for chunk in _as_call(chunks, tool):
                    yield chunk
                return
            warning = _tools_warning(request, self.model_id)
            async for chunk in chunks:
                if warning and isinstance(chunk, GenericChunk) and chunk.type == "stream-start":
                    chunk.payload["warnings"].append(warning)
                yield chunk

    async def _serve(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        from interlock.models.dialects import SELF_HOSTED
        from interlock.models.openai_chat import OpenAIChatModel

        server = await asyncio.to_thread(shared_server, self._weights, self.model_id)
        model = OpenAIChatModel(
            self.model_id, api_key=server.key, base_url=server.base_url, provider=self.provider, dialect=SELF_HOSTED
        )
        async with aclosing(model.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    def __repr__(self) -> str:
        return f"LocalModel({self.model_id!r})"


def _named_tool(request: ModelRequest) -> ToolSpec | None:
    choice = request.tool_choice
    if not isinstance(choice, dict):
        return None
    for tool in request.tools:
        if tool.name == choice["toolName"]:
            return tool
    raise ModelError(f"tool_choice names {choice['toolName']!r}, which is not among the tools of the request")


def _tools_warning(request: ModelRequest, model_id: str) -> dict[str, Any] | None:
    if not request.tools or request.tool_choice == "none":
        return None
    names = ", ".join(tool.name for tool in request.tools)
    message = f"local/{model_id} cannot choose a tool, so these were left out: {names}; let tool_choice name one"
    return {"type": "other", "message": message}


def _text_request(request: ModelRequest) -> ModelRequest:
    options = request.provider_options or {}
    return msgspec.structs.replace(
        request,
        prompt=_without_tools(request.prompt),
        tools=[],
        tool_choice=None,
        settings={**_SETTINGS, **request.settings},
        provider_options={**options, "local": {**_OPTIONS, **options.get("local", {})}},
    )


def _without_tools(prompt: Prompt) -> Prompt:
    """The prompt with calls and results told in words, since the model's chat template knows no tools."""
    plain: Prompt = []
    for message in prompt:
        role, content = message["role"], message["content"]
        if role == "assistant":
            sentences = [part["text"] for part in content if part["type"] == "text"]
            sentences += [f"Let me ask {part['toolName']}." for part in content if part["type"] == "tool-call"]
            plain.append(_text_message(role, " ".join(sentences)))
        elif role == "tool":
            results = [f"{part['toolName']} says: {_shown(part['output'])}" for part in content]
            plain.append(_text_message("user", "\n".join([*results, "What does that mean for me?"])))
        else:
            plain.append(message)
    return plain


def _text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _shown(output: dict[str, Any]) -> str:
    value = output.get("value")
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_ARGS_EXAMPLES = (
    ("Please book table 12 for Anna Smith.", "guest, table", '{"guest": "Anna Smith", "table": "12"}'),
    ("How far is Paris from Rome?", "start, end", '{"start": "Paris", "end": "Rome"}'),
)


def _args_request(request: ModelRequest, tool: ToolSpec) -> ModelRequest:
    """Ask for the tool's arguments alone: examples first, and a grammar made of its schema."""
    prompt: Prompt = [
        {"role": "system", "content": "Copy the asked values from the text, exactly as they are written."}
    ]
    names = ", ".join(tool.input_schema.get("properties") or {})
    asked = [*_ARGS_EXAMPLES, (_last_user_text(request.prompt), names, "")]
    for text, values, answer in asked:
        prompt.append(_text_message("user", f"Text: {text}\nValues: {values}"))
        if answer:
            prompt.append(_text_message("assistant", answer))
    return msgspec.structs.replace(
        request,
        prompt=prompt,
        tools=[],
        tool_choice=None,
        settings={**request.settings, **_ARGS_SETTINGS},
        response_format={"type": "json", "name": tool.name, "schema": tool.input_schema},
    )


def _last_user_text(prompt: Prompt) -> str:
    for message in reversed(prompt):
        if message["role"] == "user":
            return "\n".join(part["text"] for part in message["content"] if part["type"] == "text")
    return ""


async def _as_call(chunks: AsyncIterator[Chunk], tool: ToolSpec) -> AsyncIterator[Chunk]:
    """The model's JSON text as a streamed call of ``tool``."""
    call_id = f"call_{new_id()}"
    pieces: list[str] = []
    async for chunk in chunks:
        match chunk:
            case TextStart():
                yield ToolInputStart(payload=ToolInputStartPayload(tool_call_id=call_id, tool_name=tool.name))
            case TextDelta():
                pieces.append(chunk.payload.text)
                yield ToolInputDelta(
                    payload=ToolInputDeltaPayload(
                        tool_call_id=call_id, tool_name=tool.name, args_text_delta=chunk.payload.text
                    )
                )
            case TextEnd():
                yield ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=call_id))
                args = parsed_args("".join(pieces))
                yield ToolCall(payload=ToolCallPayload(tool_call_id=call_id, tool_name=tool.name, args=args))
            case Finish() if chunk.payload.step_result.reason == STOP and pieces:
                chunk.payload.step_result.reason = TOOL_CALLS
                yield chunk
            case _:
                yield chunk
