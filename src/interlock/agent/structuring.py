"""The last output processor of a typed answer: it settles the object after everybody else's edits (R12.32, R12.33)."""

from __future__ import annotations

from interlock.agent.state import RunState
from interlock.agent.structured import (
    ParsedObject,
    StructuredOutputOptions,
    is_native,
    parse_object,
    response_format,
    schema_text,
)
from interlock.chunks import ErrorChunk, ObjectResult, TextDelta
from interlock.messages import Message
from interlock.models import LanguageModel, ModelRequest, to_language_model
from interlock.models.retry import close_stream
from interlock.processors import ProcessOutputResultArgs
from interlock.tools import to_serializable


class StructuringProcessor:
    """Runs behind the user's output processors and before memory, so that what they redact is in no object either.

    Without a model of its own it reads the object again where the text was changed after its step; with one it has the
    finished answer turned into the object.
    """

    id = "structured-output"

    def __init__(self, options: StructuredOutputOptions) -> None:
        self._options = options
        self._model: LanguageModel | None = None if options.model is None else to_language_model(options.model)

    async def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """Settle the object, and keep it with the message that holds the answer.

        Raises:
            StructuredOutputError: there is none, and the strategy is ``strict``.
        """
        state: RunState = args._scope.data  # type: ignore[assignment]  # a run's data is its state
        if args.result.finish_reason in ("error", "aborted") or not args.result.steps:
            return
        messages = args.message_list.get.response.db()
        text = _last_text(messages)
        if self._model is not None:
            parsed = await self._structure(self._model, args.message_list.response_text())
            await self._emit(args, parsed)
        elif text != args.result.steps[-1].text:
            parsed = parse_object(self._options, text)
        else:
            parsed = ParsedObject(state.object)
        state.object = parsed.value
        answers = [message for message in messages if message.role == "assistant"]
        if answers and parsed.value is not None:
            content = answers[-1].content
            content.metadata = {**(content.metadata or {}), "structuredOutput": to_serializable(parsed.value)}

    async def _structure(self, model: LanguageModel, answer: str) -> ParsedObject:
        options = self._options
        native = is_native(options, model)
        told = (options.instructions or "Turn the text into JSON.") if native else schema_text(options)
        request = ModelRequest(
            prompt=[
                {"role": "system", "content": told},
                {"role": "user", "content": [{"type": "text", "text": answer}]},
            ],
            response_format=response_format(options) if native else None,
            provider_options=options.provider_options,
        )
        pieces: list[str] = []
        stream = model.stream(request)
        try:
            async for chunk in stream:
                if isinstance(chunk, TextDelta):
                    pieces.append(chunk.payload.text)
                elif isinstance(chunk, ErrorChunk):
                    error = chunk.payload.error
                    raise error if isinstance(error, Exception) else RuntimeError(str(error))
        finally:
            await close_stream(stream)
        return parse_object(options, "".join(pieces))

    async def _emit(self, args: ProcessOutputResultArgs, parsed: ParsedObject) -> None:
        await args._scope.emit(object_result(parsed), 0)


def object_result(parsed: ParsedObject) -> ObjectResult:
    """The chunk that tells the final object."""
    return ObjectResult(
        object=to_serializable(parsed.value), metadata={"fallback": True} if parsed.is_fallback else None
    )


def _last_text(messages: list[Message]) -> str:
    """The text of the last step, as it stands in the message list."""
    if not messages:
        return ""
    pieces: list[str] = []
    for part in reversed(messages[-1].content.parts):
        if part.type in ("step-start", "tool-invocation"):
            break
        if part.type == "text":
            pieces.append(str(getattr(part, "text", "")))
    return "".join(reversed(pieces))
