"""Tools for a model that knows none: one call at a time, forced by a grammar.

A small model cannot choose a tool. Where ``tool_choice`` names one, the model is asked for its arguments alone, as JSON
that fits the tool's schema; otherwise the tools are left out, with a warning. Calls and results of earlier steps are
told in words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
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
from interlock.errors import ModelError
from interlock.models.base import LanguageModel, ModelRequest, ModelSettings, Prompt, ToolSpec
from interlock.models.retry import close_stream
from interlock.models.streamed_calls import parsed_args

_ARGS_SETTINGS: ModelSettings = {"temperature": 0.0, "max_output_tokens": 256}

_ARGS_EXAMPLES = (
    ("Please book table 12 for Anna Smith.", "guest, table", '{"guest": "Anna Smith", "table": "12"}'),
    ("How far is Paris from Rome?", "start, end", '{"start": "Paris", "end": "Rome"}'),
)


class ToollessModel:
    """``model`` with the little that can be done for tools.

    Args:
        model: Follows ``response_format`` with a schema, and knows no tools.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.provider = model.provider
        self.model_id = model.model_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model.

        Raises:
            ModelError: ``tool_choice`` names a tool that the request has not.
        """
        tool = _named_tool(request)
        warning = None if tool else self._warning(request)
        stream = self._model.stream(_args_request(request, tool) if tool else _text_request(request))
        try:
            async for chunk in _as_call(stream, tool) if tool else stream:
                if warning and isinstance(chunk, GenericChunk) and chunk.type == "stream-start":
                    chunk.payload["warnings"].append(warning)
                yield chunk
        finally:
            await close_stream(stream)

    def _warning(self, request: ModelRequest) -> dict[str, Any] | None:
        if not request.tools or request.tool_choice == "none":
            return None
        names = ", ".join(tool.name for tool in request.tools)
        model = f"{self.provider}/{self.model_id}"
        message = f"{model} cannot choose a tool, so these were left out: {names}; let tool_choice name one"
        return {"type": "other", "message": message}


def _named_tool(request: ModelRequest) -> ToolSpec | None:
    choice = request.tool_choice
    if not isinstance(choice, dict):
        return None
    for tool in request.tools:
        if tool.name == choice["toolName"]:
            return tool
    raise ModelError(f"tool_choice names {choice['toolName']!r}, which is not among the tools of the request")


def _text_request(request: ModelRequest) -> ModelRequest:
    return msgspec.structs.replace(request, prompt=_in_words(request.prompt), tools=[], tool_choice=None)


def _in_words(prompt: Prompt) -> Prompt:
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


def _args_request(request: ModelRequest, tool: ToolSpec) -> ModelRequest:
    """Ask for the tool's arguments alone: examples first, and a grammar made of its schema."""
    prompt: Prompt = [
        {"role": "system", "content": "Copy the asked values from the text, exactly as they are written."}
    ]
    names = ", ".join(tool.input_schema.get("properties") or {})
    for text, values, answer in [*_ARGS_EXAMPLES, (_last_user_text(request.prompt), names, None)]:
        prompt.append(_text_message("user", f"Text: {text}\nValues: {values}"))
        if answer is not None:
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
                piece = chunk.payload.text
                pieces.append(piece)
                payload = ToolInputDeltaPayload(tool_call_id=call_id, tool_name=tool.name, args_text_delta=piece)
                yield ToolInputDelta(payload=payload)
            case TextEnd():
                yield ToolInputEnd(payload=ToolInputEndPayload(tool_call_id=call_id))
                args = parsed_args("".join(pieces))
                yield ToolCall(payload=ToolCallPayload(tool_call_id=call_id, tool_name=tool.name, args=args))
            case Finish() if chunk.payload.step_result.reason == STOP and pieces:
                chunk.payload.step_result.reason = TOOL_CALLS
                yield chunk
            case _:
                yield chunk
