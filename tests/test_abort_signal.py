"""The abort signal by itself: who may set it, and where its listeners are called (runtime specification, 12.5)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from interlock import AbortSignal

pytestmark = pytest.mark.anyio


async def test_a_listener_is_called_in_the_loop_in_which_it_was_added() -> None:
    """R12.28"""
    signal, heard, called_in = AbortSignal(), asyncio.Event(), list[threading.Thread]()

    def listen() -> None:
        called_in.append(threading.current_thread())
        heard.set()

    signal.add_callback(listen)
    await asyncio.to_thread(signal.abort, "enough")
    await heard.wait()
    assert (signal.aborted, signal.reason) == (True, "enough")
    assert called_in == [threading.current_thread()]


async def test_a_listener_of_the_same_loop_is_called_at_once() -> None:
    """R12.28"""
    signal, heard = AbortSignal(), list[int]()
    signal.add_callback(lambda: heard.append(1))
    signal.abort()
    assert heard == [1]


async def test_a_waiter_is_woken_from_another_thread() -> None:
    """R12.28"""
    signal = AbortSignal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    thread = threading.Thread(target=signal.abort)
    thread.start()
    await waiting
    thread.join()


async def test_a_waiter_of_a_set_signal_does_not_wait() -> None:
    """R12.28"""
    signal = AbortSignal()
    signal.abort()
    await signal.wait()


async def test_only_the_first_of_many_aborts_counts() -> None:
    """R12.28"""
    signal, heard = AbortSignal(), list[int]()
    signal.add_callback(lambda: heard.append(1))
    await asyncio.gather(*(asyncio.to_thread(signal.abort, n) for n in range(8)))
    await asyncio.sleep(0)
    assert heard == [1]


def test_a_listener_whose_loop_is_closed_is_left_out() -> None:
    """R12.28"""
    signal, heard = AbortSignal(), list[str]()

    async def listen() -> None:
        signal.add_callback(lambda: heard.append("closed"))

    asyncio.run(listen())
    signal.add_callback(lambda: heard.append("plain"))
    signal.abort()
    assert heard == ["plain"]


async def test_a_listener_that_fails_does_not_keep_others_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    """R12.28"""
    signal, heard = AbortSignal(), list[int]()
    signal.add_callback(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    signal.add_callback(lambda: heard.append(1))
    signal.abort()
    assert heard == [1]
    assert "a listener of an abort signal failed" in caplog.text


async def test_a_listener_that_was_removed_hears_nothing() -> None:
    signal, heard = AbortSignal(), list[int]()

    def listen() -> None:
        heard.append(1)

    signal.add_callback(listen)
    signal.remove_callback(listen)
    signal.remove_callback(listen)
    signal.abort()
    assert heard == []
