"""Retries inside the model client: invisible to processors, only before the first output (R7.13)."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from interlock.chunks import Chunk, ErrorChunk
from interlock.context import AbortSignal
from interlock.errors import ModelError
from interlock.models.base import GenerateModel, LanguageModel, ModelRequest

Sleep = Callable[[float], Awaitable[object]]

BASE_DELAY_S = 0.5
MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 60.0
"""A provider that asks for a longer pause is not asked again; the error says how long it wants."""

_PREAMBLE = frozenset({"stream-start", "response-metadata", "raw"})
"""Chunks that say nothing yet: held back until the first one that does, so that a failure between can be repeated."""


def stream_with_retries(
    model: LanguageModel,
    request: ModelRequest,
    *,
    max_retries: int,
    sleep: Sleep = asyncio.sleep,
    random: Callable[[], float] = random.random,
) -> AsyncIterator[Chunk]:
    """The stream of ``model``, begun again after a failure that may pass (R7.13).

    A call is repeated while no content was yielded and the error is retryable. The pauses grow exponentially with full
    jitter; ``retry_after_s`` of the error replaces them. A set ``request.abort_signal`` ends the pause and the retries.

    Args:
        model: The model to call.
        request: Sent unchanged each time.
        max_retries: Repeats at most; ``0`` hands out the model's own stream.
        sleep: Waits that many seconds.
        random: A number from 0 up to 1.

    Raises:
        Exception: The last failure, as the model raised it.
    """
    if max_retries <= 0:
        return open_stream(model, request)
    return _retrying(model, request, max_retries, sleep, random)


def open_stream(model: LanguageModel, request: ModelRequest) -> AsyncIterator[Chunk]:
    """The stream of ``model``.

    Raises:
        ModelError: what the model returned is no async iterator.
    """
    stream = model.stream(request)
    if hasattr(stream, "__anext__"):
        return stream
    if inspect.iscoroutine(stream):
        stream.close()
    raise ModelError(
        f"stream() of {name_of(model)} must return an async iterator of chunks, not {type(stream).__name__}: "
        "write it as an async generator, with 'yield'"
    )


def name_of(model: LanguageModel | GenerateModel) -> str:
    """How messages to people name a model."""
    return f"model '{model.provider}/{model.model_id}'"


def is_retryable(error: object) -> bool:
    """Whether the call that ended with ``error`` may succeed when repeated."""
    return getattr(error, "is_retryable", None) is True or isinstance(error, (ConnectionError, TimeoutError))


def delay_before_retry(error: object, retry: int, random: Callable[[], float] = random.random) -> float | None:
    """Seconds to wait before repeat number ``retry`` (from 0); ``None`` if the provider asks for too long a pause."""
    wanted: float | None = getattr(error, "retry_after_s", None)
    if wanted is None:
        return random() * min(MAX_DELAY_S, BASE_DELAY_S * 2.0**retry)
    return wanted if wanted <= MAX_RETRY_AFTER_S else None


async def close_stream(stream: AsyncIterator[Chunk]) -> None:
    """Close a model's stream, if it is of a kind that can be closed."""
    if isinstance(stream, AsyncGenerator):
        await stream.aclose()
    elif (aclose := getattr(stream, "aclose", None)) is not None:
        await aclose()


async def _retrying(
    model: LanguageModel,
    request: ModelRequest,
    max_retries: int,
    sleep: Sleep,
    random: Callable[[], float],
) -> AsyncGenerator[Chunk, None]:
    signal = request.abort_signal
    for retry in range(max_retries + 1):
        stream = open_stream(model, request)
        try:
            opening = await _open(stream)
            failure = opening.failure
            delay = None
            if failure is not None and retry < max_retries and is_retryable(failure) and not _is_aborted(signal):
                delay = delay_before_retry(failure, retry, random)
            if failure is None or delay is None:
                for chunk in opening.chunks:
                    yield chunk
                if failure is not None and opening.was_raised:
                    raise failure
                async for chunk in stream:
                    yield chunk
                return
        finally:
            await close_stream(stream)
        await _pause(delay, signal, sleep)
        if _is_aborted(signal):
            raise failure


class _Opening(NamedTuple):
    """What a stream gave up to its first content, and how it failed before that."""

    chunks: list[Chunk]
    failure: Exception | None
    was_raised: bool


async def _open(stream: AsyncIterator[Chunk]) -> _Opening:
    chunks: list[Chunk] = []
    try:
        async for chunk in stream:
            chunks.append(chunk)
            if isinstance(chunk, ErrorChunk) and isinstance(chunk.payload.error, Exception):
                return _Opening(chunks, chunk.payload.error, was_raised=False)
            if chunk.type not in _PREAMBLE:
                break
    except Exception as error:
        # Any failure of a provider, ours or an SDK's, is judged by ``is_retryable``.
        return _Opening(chunks, error, was_raised=True)
    return _Opening(chunks, None, was_raised=False)


def _is_aborted(signal: AbortSignal | None) -> bool:
    return signal is not None and signal.aborted


async def _pause(seconds: float, signal: AbortSignal | None, sleep: Sleep) -> None:
    if signal is None:
        await sleep(seconds)
        return
    sleeping = asyncio.ensure_future(sleep(seconds))

    def wake() -> None:
        sleeping.cancel()

    signal.add_callback(wake)
    try:
        await asyncio.wait({sleeping})
    finally:
        signal.remove_callback(wake)
        sleeping.cancel()
