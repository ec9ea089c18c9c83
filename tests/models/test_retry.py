from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.chunks import Chunk, ErrorChunk, ErrorPayload, GenericChunk
from interlock.context import AbortSignal
from interlock.errors import APICallError
from interlock.models import ModelRequest, stream_with_retries
from interlock.testing import ScriptedModel, drain, text_of, types_of

pytestmark = pytest.mark.anyio

START = GenericChunk(type="stream-start", payload={"warnings": []})


def overloaded(**fields: Any) -> APICallError:
    return APICallError("overloaded", status_code=503, **fields)


class Pauses:
    """A clock that does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def retrying(
    model: ScriptedModel, max_retries: int, pauses: Pauses | None = None, signal: AbortSignal | None = None
) -> AsyncIterator[Chunk]:
    request = ModelRequest(prompt=[], abort_signal=signal)
    return stream_with_retries(
        model, request, max_retries=max_retries, sleep=Pauses() if pauses is None else pauses, random=lambda: 1.0
    )


async def test_a_failure_that_may_pass_is_repeated() -> None:
    """R7.13"""
    model = ScriptedModel([overloaded(), overloaded(), "hi"])
    assert text_of(await drain(retrying(model, 2))) == "hi"
    assert model.calls == 3
    assert model.open_streams == 0


async def test_the_last_failure_surfaces_unchanged() -> None:
    """R7.13"""
    errors = [overloaded(), overloaded()]
    with pytest.raises(APICallError) as caught:
        await drain(retrying(ScriptedModel(errors), 1))
    assert caught.value is errors[1]


@pytest.mark.parametrize(
    "error", [APICallError("bad", status_code=400), RuntimeError("bug"), APICallError("x", is_retryable=False)]
)
async def test_other_failures_are_not_repeated(error: Exception) -> None:
    """R7.13"""
    model = ScriptedModel([error, "hi"])
    with pytest.raises(type(error)):
        await drain(retrying(model, 5))
    assert model.calls == 1


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError()])
async def test_network_failures_of_any_client_are_repeated(error: Exception) -> None:
    """R7.13"""
    assert text_of(await drain(retrying(ScriptedModel([error, "hi"]), 1))) == "hi"


async def test_nothing_is_repeated_once_content_was_yielded() -> None:
    """R7.13"""
    model = ScriptedModel([["Par", overloaded()], "hi"])
    stream = retrying(model, 5)
    assert types_of([await anext(stream), await anext(stream)]) == ["text-start", "text-delta"]
    with pytest.raises(APICallError):
        await anext(stream)
    assert model.calls == 1


async def test_a_failure_after_the_preamble_is_repeated_without_showing_it_twice() -> None:
    """R7.13"""
    model = ScriptedModel([[START, overloaded()], [START, "hi"]])
    assert types_of(await drain(retrying(model, 1))) == [
        "stream-start",
        "text-start",
        "text-delta",
        "text-end",
        "finish",
    ]


async def test_an_error_chunk_before_any_content_is_repeated_too() -> None:
    """R7.13"""
    model = ScriptedModel([ErrorChunk(payload=ErrorPayload(error=overloaded())), "hi"])
    assert text_of(await drain(retrying(model, 1))) == "hi"


async def test_the_last_error_chunk_is_passed_on() -> None:
    """R7.13"""
    model = ScriptedModel([ErrorChunk(payload=ErrorPayload(error=overloaded()))] * 2)
    assert types_of(await drain(retrying(model, 1))) == ["error"]


async def test_without_retries_the_models_own_stream_is_handed_out() -> None:
    model = ScriptedModel(["hi"])
    request = ModelRequest(prompt=[])
    assert type(stream_with_retries(model, request, max_retries=0)) is type(model.stream(request))


async def test_pauses_grow_up_to_a_limit() -> None:
    """R7.13"""
    pauses = Pauses()
    with pytest.raises(APICallError):
        await drain(retrying(ScriptedModel([overloaded()] * 9), 8, pauses))
    assert pauses.seconds == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_pauses_have_full_jitter() -> None:
    """R7.13"""
    pauses = Pauses()
    numbers = iter([0.0, 0.5])
    model = ScriptedModel([overloaded(), overloaded(), "hi"])
    request = ModelRequest(prompt=[])
    await drain(stream_with_retries(model, request, max_retries=2, sleep=pauses, random=lambda: next(numbers)))
    assert pauses.seconds == [0.0, 0.5]


async def test_the_pause_that_the_provider_asks_for_is_kept() -> None:
    """R7.13"""
    pauses = Pauses()
    await drain(retrying(ScriptedModel([overloaded(retry_after_s=7.0), "hi"]), 1, pauses))
    assert pauses.seconds == [7.0]


async def test_a_provider_that_asks_for_too_long_a_pause_is_not_asked_again() -> None:
    """R7.13"""
    model = ScriptedModel([overloaded(retry_after_s=3600.0), "hi"])
    with pytest.raises(APICallError) as caught:
        await drain(retrying(model, 1))
    assert caught.value.retry_after_s == 3600.0
    assert model.calls == 1


async def test_a_set_signal_ends_the_pause_and_the_retries() -> None:
    """R12.30"""
    signal = AbortSignal()
    asleep = asyncio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    model = ScriptedModel([overloaded(), "hi"])
    request = ModelRequest(prompt=[], abort_signal=signal)
    task = asyncio.create_task(drain(stream_with_retries(model, request, max_retries=3, sleep=sleep)))
    await asleep.wait()
    signal.abort()
    with pytest.raises(APICallError):
        await task
    assert model.calls == 1


async def test_a_signal_that_was_set_before_grants_no_retry() -> None:
    """R12.30"""
    signal = AbortSignal()
    signal.abort()
    model = ScriptedModel([overloaded(), "hi"])
    with pytest.raises(APICallError):
        await drain(retrying(model, 3, signal=signal))
    assert model.calls == 1


async def test_a_signal_that_stays_unset_changes_nothing() -> None:
    model = ScriptedModel([overloaded(), "hi"])
    assert text_of(await drain(retrying(model, 1, signal=AbortSignal()))) == "hi"


async def test_cancelling_a_pause_leaves_no_task_behind() -> None:
    """R12.29"""
    asleep = asyncio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    request = ModelRequest(prompt=[], abort_signal=AbortSignal())
    before = asyncio.all_tasks()
    model = ScriptedModel([overloaded()])
    task = asyncio.create_task(drain(stream_with_retries(model, request, max_retries=3, sleep=sleep)))
    await asleep.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_closing_the_stream_closes_the_models_stream() -> None:
    """R12.28"""
    model = ScriptedModel([["a", "b"]])
    stream = retrying(model, 1)
    await anext(stream)
    assert model.open_streams == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert model.open_streams == 0
