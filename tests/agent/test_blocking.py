"""The doors for code that blocks: ``generate_sync`` and ``stream_sync``."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from interlock import AbortSignal, APICallError, TextDelta, tool
from interlock.testing import ScriptedModel, tool_call, types_of, wait_for
from tests.agent.kit import agent_of, echo


def test_generate_sync_returns_the_result() -> None:
    result = agent_of([["a ", tool_call("echo")], "b"], tools=[echo]).generate_sync("hi")
    assert (result.text, result.status, len(result.steps)) == ("a b", "success", 2)


def test_generate_sync_raises_the_error_of_the_run() -> None:
    error = APICallError("down", status_code=400)
    with pytest.raises(APICallError) as raised:
        agent_of([error]).generate_sync("hi")
    assert raised.value is error


@pytest.mark.anyio
async def test_generate_sync_works_where_a_loop_is_running() -> None:
    assert agent_of(["x"]).generate_sync("hi").text == "x"


def test_stream_sync_yields_the_chunks_and_then_the_result() -> None:
    with agent_of([["a", "b"]]).stream_sync("hi") as stream:
        chunks = list(stream)
        result = stream.result()
    assert types_of(chunks)[0] == "start"
    assert types_of(chunks)[-1] == "finish"
    assert result.text == "ab"


def test_stream_sync_yields_texts() -> None:
    with agent_of([["a", "b"]]).stream_sync("hi") as stream:
        assert list(stream.text_stream) == ["a", "b"]


def test_leaving_a_sync_stream_early_cancels_the_run_and_ends_its_thread() -> None:
    before = set(threading.enumerate())
    model = ScriptedModel([["a", "b"]])
    with agent_of(model).stream_sync("hi") as stream:
        for text in stream.text_stream:
            assert text == "a"
            break
    assert model.open_streams == 0
    assert set(threading.enumerate()) <= before


def test_a_sync_stream_that_was_left_and_forgotten_is_closed() -> None:
    """R12.17"""
    model = ScriptedModel([["a", wait_for(asyncio.Event())]])
    known = set(threading.enumerate())
    for chunk in agent_of(model).stream_sync("hi"):
        if isinstance(chunk, TextDelta):
            break
    for thread in set(threading.enumerate()) - known:
        thread.join(10)
        assert not thread.is_alive()
    assert (model.calls, model.open_streams) == (1, 0)


def test_no_thread_is_left_after_generate_sync() -> None:
    before = set(threading.enumerate())
    for turn in ("x", APICallError("down", status_code=400)):
        with contextlib.suppress(APICallError):
            agent_of([turn]).generate_sync("hi")
    assert set(threading.enumerate()) <= before


def test_an_unknown_option_is_refused_before_anything_runs() -> None:
    """R12.7"""
    model = ScriptedModel([])
    options: Any = {"nonsense": 1}
    with pytest.raises(TypeError, match="nonsense"):
        agent_of(model).generate_sync("hi", **options)
    assert model.calls == 0


class Elsewhere:
    """Sets a signal from a thread of its own, once the run waits."""

    def __init__(self) -> None:
        self.signal = AbortSignal()
        self.is_time = threading.Event()
        self._thread = threading.Thread(target=self._abort)

    def _abort(self) -> None:
        self.is_time.wait()
        self.signal.abort("enough")

    def __enter__(self) -> Elsewhere:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_time.set()
        self._thread.join()


def test_generate_sync_is_aborted_from_another_thread() -> None:
    """R12.28"""
    with Elsewhere() as elsewhere:
        model = ScriptedModel([["so far", elsewhere.is_time.set, wait_for(asyncio.Event()), "never"]])
        result = agent_of(model).generate_sync("hi", abort_signal=elsewhere.signal)
    assert (result.text, result.status, model.open_streams) == ("so far", "canceled", 0)


def test_generate_sync_is_aborted_while_a_tool_waits() -> None:
    """R12.28"""
    with Elsewhere() as elsewhere:

        @tool
        async def wait() -> None:
            """Wait for ever."""
            elsewhere.is_time.set()
            await asyncio.Event().wait()

        model = ScriptedModel([[tool_call("wait")], "never"])
        result = agent_of(model, tools=[wait]).generate_sync("hi", abort_signal=elsewhere.signal)
    assert (result.status, model.calls) == ("canceled", 1)


def test_stream_sync_is_aborted_from_another_thread() -> None:
    """R12.28"""
    with Elsewhere() as elsewhere:
        model = ScriptedModel([["so far", elsewhere.is_time.set, wait_for(asyncio.Event()), "never"]])
        with agent_of(model).stream_sync("hi", abort_signal=elsewhere.signal) as stream:
            assert types_of(list(stream))[-1] == "abort"
            assert stream.result().text == "so far"


def test_one_signal_aborts_runs_of_several_threads() -> None:
    """R12.28"""
    started, results = threading.Barrier(3), list[str]()
    signal = AbortSignal()

    def run() -> None:
        model = ScriptedModel([["a", started.wait, wait_for(asyncio.Event())]])
        results.append(agent_of(model).generate_sync("hi", abort_signal=signal).status)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    signal.abort()
    for thread in threads:
        thread.join()
    assert results == ["canceled", "canceled"]
