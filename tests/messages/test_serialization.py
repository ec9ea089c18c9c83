from __future__ import annotations

import json

import pytest

from interlock.messages import MessageList, copy_message
from tests.messages.builders import assistant, at, call, done, ids, said, text, user


def conversation() -> MessageList:
    message_list = MessageList(thread_id="t", resource_id="r").add_system("S").add_system("T", "tag")
    message_list.add([user("a", id="a", created_at=at(1)), assistant("b", id="b", created_at=at(1))], "memory")
    message_list.add(user("c", id="c", created_at=at(1), metadata={"k": [1]}), "input").add("ctx", "context")
    message_list.append_response([text("d"), done(args={"x": {"y": 1}}), call("c2")], message_id="r", model="m")
    message_list.set_feedback("no good")
    return message_list


def test_a_list_survives_the_way_through_json() -> None:
    """R3.26"""
    message_list = conversation()
    data = json.loads(json.dumps(message_list.serialize()))
    restored = MessageList.deserialize(data)
    assert restored.serialize() == message_list.serialize()
    assert restored.get.all.db() == message_list.get.all.db()
    assert [restored.source_of(one) for one in ids(restored)] == [message_list.source_of(one) for one in ids(restored)]
    assert restored.get.all.llm_prompt() == message_list.get.all.llm_prompt()


def test_a_restored_list_goes_on() -> None:
    """R3.26"""
    restored = MessageList.deserialize(conversation().serialize(), generate_message_id=lambda: "new")
    restored.update_tool_invocation(done("c2"))
    restored.add(user("next"), "input")
    last = restored.get.all.db()[-1]
    assert (last.id, last.thread_id, last.resource_id) == ("new", "t", "r")


def test_serialized_data_shares_nothing_with_the_list() -> None:
    """R3.26"""
    message_list = conversation()
    data = message_list.serialize()
    before = json.dumps(data)
    part = message_list.find_tool_invocation("c1")
    assert part is not None
    part.tool_invocation.args["x"]["y"] = 2
    message_list.add_system("U")
    assert json.dumps(data) == before


def test_an_unknown_source_in_stored_data_is_refused() -> None:
    """R3.2"""
    data = conversation().serialize()
    data["messages"][0]["source"] = "elsewhere"
    with pytest.raises(ValueError, match="no message source 'elsewhere'"):
        MessageList.deserialize(data)


def test_a_copy_of_a_message_shares_nothing_mutable() -> None:
    """R16.6"""
    one = assistant("a", done(args={"x": [1]}, provider_metadata={"p": {"z": 1}}), metadata={"k": [1]}, id="a")
    before = one.to_dict()
    twin = copy_message(one)
    assert twin == one
    twin.content.parts[1].tool_invocation.args["x"].append(2)  # type: ignore[attr-defined]
    twin.content.parts[1].provider_metadata["p"]["z"] = 2  # type: ignore[index]
    twin.content.metadata["k"].append(2)  # type: ignore[index]
    twin.content.parts.append(text("b"))
    assert one.to_dict() == before


def test_the_repr_tells_thread_and_counts() -> None:
    """A reader of a log sees what is in it."""
    assert repr(conversation()) == "MessageList(thread_id='t', input=1, response=1, memory=2, context=1)"
    assert repr(MessageList()) == "MessageList(thread_id=None)"
    assert said(MessageList()) == []
