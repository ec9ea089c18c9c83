"""The `memory` option of a call, resolved with the request context (R13.1, R14.4)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agent.ports import MemoryCall, resolve_memory
from interlock.context import MEMORY_KEY, RESOURCE_KEY, THREAD_KEY, RequestContext
from interlock.errors import ConfigurationError


def resolve(option: Any, **reserved: Any) -> tuple[MemoryCall | None, RequestContext]:
    context = RequestContext(reserved)
    return resolve_memory(option, context), context


def test_a_thread_is_given_by_id_or_described() -> None:
    """R13.1"""
    plain, _ = resolve({"thread": "t1", "resource": "u1", "options": {"last_messages": 3}})
    assert plain is not None
    assert (plain.thread_id, plain.resource_id, plain.options) == ("t1", "u1", {"last_messages": 3})
    described, _ = resolve({"thread": {"id": "t1", "title": "Trip", "metadata": {"k": 1}}})
    assert described is not None
    assert (described.thread_id, described.title, described.metadata) == ("t1", "Trip", {"k": 1})
    assert described.resource_id is None


@pytest.mark.parametrize("option", [None, {}, {"resource": "u1"}, {"thread": None}])
def test_a_run_without_a_thread_has_no_memory(option: Any) -> None:
    """R13.1"""
    assert resolve(option)[0] is None


def test_reserved_keys_of_the_context_override_the_option() -> None:
    """R14.4"""
    call, context = resolve(
        {"thread": {"id": "t1", "title": "Trip"}, "resource": "u1"}, **{THREAD_KEY: "t2", RESOURCE_KEY: "u2"}
    )
    assert call is not None
    assert (call.thread_id, call.title, call.resource_id) == ("t2", None, "u2")
    assert (context.thread_id, context.resource_id) == ("t2", "u2")


def test_a_context_alone_can_name_the_thread() -> None:
    """R14.4"""
    call, _ = resolve(None, **{THREAD_KEY: "t2", RESOURCE_KEY: "u2"})
    assert call is not None
    assert (call.thread_id, call.resource_id) == ("t2", "u2")


def test_the_effective_memory_is_published_in_the_context() -> None:
    """R14.4, R14.5"""
    _, context = resolve({"thread": {"id": "t1", "title": "Trip"}, "resource": "u1", "options": {"read_only": True}})
    assert context.get(MEMORY_KEY) == {
        "thread": {"id": "t1", "title": "Trip"},
        "resourceId": "u1",
        "memoryConfig": {"read_only": True},
    }
    assert (context.thread_id, context.resource_id) == ("t1", "u1")


def test_a_resource_without_a_thread_is_published_too() -> None:
    """R14.5"""
    _, context = resolve({"resource": "u1"})
    assert (context.thread_id, context.resource_id) == (None, "u1")


def test_the_thread_of_an_earlier_run_does_not_leak_through_a_shared_context() -> None:
    """R14.3"""
    context = RequestContext()
    resolve_memory({"thread": "t1", "resource": "u1"}, context)
    assert resolve_memory(None, context) is None
    assert (context.thread_id, context.resource_id) == (None, None)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"threads": "t1"}, "thread, resource and options, but not threads"),
        ({"thread": ""}, "memory.thread must be a non-empty string, got ''"),
        ({"thread": 3}, "memory.thread must be a non-empty string, got 3"),
        ({"thread": {"title": "x"}}, "memory.thread needs an 'id'"),
        ({"thread": "t", "resource": 3}, "memory.resource must be a non-empty string, got 3"),
    ],
)
def test_an_option_of_another_shape_is_refused(option: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve(option)


def test_a_reserved_key_must_hold_an_id() -> None:
    """R14.4"""
    with pytest.raises(ConfigurationError, match="request context key 'mastra__threadId' must be a non-empty string"):
        resolve(None, **{THREAD_KEY: 3})
