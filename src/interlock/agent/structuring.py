"""The last output processor of a typed answer: it settles the object after everybody else's edits (R12.32, R12.33)."""

from __future__ import annotations

import asyncio
from typing import Any

from interlock.agent.deadlines import TOTAL_TIMEOUT
from interlock.agent.run import ModelFailure, count_retry
from interlock.agent.state import RunState
from interlock.agent.structured import (
    ParsedObject,
    StructuredOutputOptions,
    is_native,
    parse_object,
    response_format,
    schema_text,
    without_object,
)
from interlock.chunks import ABORTED, ERROR, ErrorChunk, Finish, ObjectResult, TextDelta
from interlock.errors import StructuredOutputError
from interlock.messages import Message
from interlock.models import ModelRequest
from interlock.models.retry import close_stream, stream_with_retries
from interlock.processors import ProcessOutputResultArgs
from interlock.processors.scope import RunScope


class StructuringProcessor:
    """Runs behind the user's output processors and before memory, so that what they redact is in no object either.

    Without a model of its own it reads the object again where the text was changed after its step; with one it has the
    finished answer turned into the object.
    """

    id = "structured-output"

    async def process_output_result(self, args: ProcessOutputResultArgs) -> None:
        """Settle the object, and keep it with the message that holds the answer.

        Raises:
            StructuredOutputError: there is none, and the strategy is ``strict``.
        """
        scope = args._scope
        state: RunState = scope.data  # type: ignore[assignment]  # a run's data is its state
        asked = state.asked
        if asked is None or state.finish_reason in (ERROR, ABORTED):
            return
        messages = args.message_list.get.response.db()
        text = _last_text(messages)
        if asked.model is not None:
            parsed = await _Structuring(asked, scope, state).object_of(args.message_list.response_text())
            if parsed is None:
                return
        elif text != args.result.steps[-1].text:
            parsed = _read_again(asked, text)
        else:
            parsed = state.parsed or ParsedObject(None)
        state.parsed = parsed
        if asked.model is not None:
            await scope.emit(object_result(parsed), 0)
        answers = [message for message in messages if message.role == "assistant"]
        if answers and parsed.value is not None:
            content = answers[-1].content
            content.metadata = {**(content.metadata or {}), "structuredOutput": parsed.json}


STRUCTURING = StructuringProcessor()


def object_result(parsed: ParsedObject) -> ObjectResult:
    """The chunk that tells the final object."""
    return ObjectResult(object=parsed.json, metadata={"fallback": True} if parsed.is_fallback else None)


def _read_again(asked: StructuredOutputOptions, text: str) -> ParsedObject:
    try:
        return parse_object(asked, text)
    except StructuredOutputError as error:
        return without_object(asked, error)


class _Structuring:
    """The calls of a model of its own that turn an answer into the object."""

    def __init__(self, asked: StructuredOutputOptions, scope: RunScope, state: RunState) -> None:
        self._asked = asked
        self._scope = scope
        self._state = state

    async def object_of(self, answer: str) -> ParsedObject | None:
        """The object; ``None`` if the run was cancelled meanwhile, which ends it (R12.28).

        A reply that does not fit is sent back with what is wrong, as long as the run has retries left (R7.4).

        Raises:
            Exception: the model failed, or its last reply does not fit, and the strategy is ``strict``.
            TimeoutError: the run took too long (R17.9).
        """
        asked, state = self._asked, self._state
        native = is_native(asked, asked.model)
        told = (asked.instructions or "Turn the text into JSON.") if native else schema_text(asked)
        prompt: list[dict[str, Any]] = [{"role": "system", "content": told}, _said("user", answer)]
        while True:
            request = ModelRequest(
                prompt=prompt,
                response_format=response_format(asked) if native else None,
                provider_options=asked.provider_options,
                abort_signal=self._scope._signal,
            )
            try:
                text = await self._call(request)
            except ModelFailure as failure:
                return without_object(asked, failure.error)
            if text is None:
                return None
            try:
                return parse_object(asked, text)
            except StructuredOutputError as error:
                if self._scope.is_aborted or not state.has_retry_left:
                    return without_object(asked, error)
                count_retry(self._scope)
                prompt = [*prompt, _said("assistant", text), _said("user", str(error))]

    async def _call(self, request: ModelRequest) -> str | None:
        """What the model says, ``None`` if the run was cancelled before it was done."""
        scope = self._scope
        call = asyncio.get_running_loop().create_task(self._text(request))
        try:
            while not (call.done() or scope.is_aborted or scope.interruption == TOTAL_TIMEOUT):
                scope.wake = asyncio.Event()
                waking = asyncio.get_running_loop().create_task(scope.wake.wait())
                try:
                    await asyncio.wait((call, waking), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    scope.wake = None
                    waking.cancel()
        finally:
            is_done = call.done()
            if not is_done:
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        if is_done:
            return call.result()
        if scope.interruption == TOTAL_TIMEOUT:
            raise TimeoutError("the run took longer than its time limit while its answer was turned into an object")
        self._state.finish_reason = ABORTED
        return None

    async def _text(self, request: ModelRequest) -> str:
        pieces: list[str] = []
        model, retries = self._asked.model, getattr(self._scope.agent, "max_retries", None) or 0
        try:
            stream = stream_with_retries(model, request, max_retries=retries)
            try:
                async for chunk in stream:
                    if isinstance(chunk, TextDelta):
                        pieces.append(chunk.payload.text)
                    elif isinstance(chunk, ErrorChunk):
                        error = chunk.payload.error
                        raise error if isinstance(error, Exception) else RuntimeError(str(error))
                    elif isinstance(chunk, Finish) and chunk.payload.output and chunk.payload.output.usage:
                        self._state.usage.add(chunk.payload.output.usage)
            finally:
                await close_stream(stream)
        except Exception as error:
            raise ModelFailure(error) from error
        return "".join(pieces)


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


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
