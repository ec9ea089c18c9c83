"""Forks of a message list, and what becomes of them (runtime specification, R16.6)."""

from __future__ import annotations

from interlock.messages import MessageList
from tests.messages.builders import assistant, at, call, done, said, text, user


def conversation() -> MessageList:
    """History, a question, and an answer with a call; a system message of each kind."""
    made = MessageList(thread_id="t")
    made.add(user("old", id="m1", created_at=at(0)), "memory")
    made.add(user("new", id="m2", created_at=at(1)), "input")
    made.add(assistant("hm", call(), id="m3", created_at=at(2)), "response")
    return made.add_system("S").add_system("T", "tag")


def test_a_fork_shares_nothing_that_can_change() -> None:
    """R16.6"""
    live = conversation()
    before = live.serialize()
    fork = live.fork()
    assert fork.serialize() == before
    for message in fork.get.all.db():
        message.content.parts.append(text("!"))
    fork.remove_by_ids(["m1"])
    fork.add_system("more", "tag")
    fork.clear_system_messages()
    assert live.serialize() == before


def test_a_list_becomes_what_its_fork_became() -> None:
    """R16.6"""
    live = conversation()
    fork = live.fork()
    fork.remove_by_ids(["m1"])
    fork.get_by_id("m2").content.parts[0].text = "changed"  # type: ignore[union-attr, attr-defined]
    fork.add(user("context", id="m0", created_at=at(0.5)), "context")
    fork.update_tool_invocation(done())
    fork.add_system("more", "tag")
    fork.replace_all_system_messages(["S2"])
    expected = fork.serialize()
    live.adopt(fork)
    assert live.serialize() == expected
    assert said(live) == [("user", "context"), ("user", "changed"), ("assistant", "hm")]
    assert [live.source_of(message) for message in live.get.all.db()] == ["context", "input", "response"]


def test_a_message_of_another_source_than_before_takes_it_along() -> None:
    """R3.20, R16.6"""
    live = MessageList()
    live.add(assistant(call(), id="m1"), "memory")
    fork = live.fork()
    fork.update_tool_invocation(done(result="late"))
    live.adopt(fork)
    assert live.source_of("m1") == "response"


def test_what_a_fork_left_alone_stays_the_same_object() -> None:
    """R16.6"""
    live = conversation()
    untouched = live.get_by_id("m2")
    changed = live.get_by_id("m3")
    assert changed is not None
    words = changed.content.parts[0]
    fork = live.fork()
    fork.update_tool_invocation(done())
    live.adopt(fork)
    assert live.get_by_id("m2") is untouched
    adopted = live.get_by_id("m3")
    assert adopted is not None
    assert adopted is not changed
    assert adopted.content.parts[0] is words


def test_a_rejected_attempt_takes_back_what_it_adopted() -> None:
    """R7.9, R16.6"""
    live = MessageList()
    live.add(assistant("hm", call(), id="m1"), "memory")
    before = live.get.all.ui()
    live.response_snapshot()
    fork = live.fork()
    fork.update_tool_invocation(done())
    fork.add(assistant("bad", id="m2"), "response", merge=False)
    live.adopt(fork)
    live.restore_response()
    assert live.get.all.ui() == before
    assert live.source_of("m1") == "memory"
