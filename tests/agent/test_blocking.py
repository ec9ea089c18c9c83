"""The doors for code that blocks: ``generate_sync`` and ``stream_sync``."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from interlock import APICallError
from interlock.testing import ScriptedModel, tool_call, types_of
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
