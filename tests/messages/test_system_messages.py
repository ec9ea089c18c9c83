from __future__ import annotations

import pytest

from interlock.errors import InvalidMessageError
from interlock.messages import FEEDBACK_TAG, MessageList
from tests.messages.builders import message, prompt, text


def contents(messages: list[dict[str, str]]) -> list[str]:
    return [one["content"] for one in messages]


def test_buckets_drop_what_they_have_already() -> None:
    """R3.28, R3.29"""
    message_list = MessageList().add({"role": "system", "content": "S"}, "input")
    message_list.add_system("S").add_system("S", "tag").add_system(["A", "B"], "tag")
    assert contents(message_list.get_system_messages()) == ["S"]
    assert contents(message_list.get_system_messages("tag")) == ["S", "A", "B"]
    assert contents(message_list.get_all_system_messages()) == ["S", "S", "A", "B"]


def test_buckets_come_in_order_of_creation() -> None:
    """R3.29, R3.30"""
    message_list = MessageList().add_system("b1", "b").add_system("a1", "a").add_system("b2", "b").add_system("u")
    assert contents(message_list.get_all_system_messages()) == ["u", "b1", "b2", "a1"]


def test_the_prompt_starts_with_each_as_its_own_message() -> None:
    """R3.30"""
    message_list = MessageList().add("hi", "input").add_system("T", "tag").add_system("U")
    assert prompt(message_list) == [
        {"role": "system", "content": "U"},
        {"role": "system", "content": "T"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]


def test_another_role_is_refused() -> None:
    """R3.28"""
    with pytest.raises(InvalidMessageError, match="its role is 'user'"):
        MessageList().add_system({"role": "user", "content": "x"})
    with pytest.raises(InvalidMessageError, match="it is a int"):
        MessageList().add_system(3)


def test_text_parts_are_joined_with_newlines_and_the_legacy_text_comes_first() -> None:
    """R2.9"""
    stored = message("system", "a", "b")
    message_list = MessageList().add_system(stored)
    stored.content.content = "legacy"
    message_list.add_system(stored).add_system({"role": "system", "content": [{"type": "text", "text": "c"}]})
    assert contents(message_list.get_system_messages()) == ["a\nb", "legacy", "c"]


def test_getters_return_copies() -> None:
    """R3.29"""
    message_list = MessageList().add_system({"role": "system", "content": "S", "providerOptions": {"p": {"x": 1}}})
    (copy,) = message_list.get_system_messages()
    copy["content"] = "changed"
    copy["providerOptions"]["p"]["x"] = 2
    assert message_list.get_all_system_messages() == [
        {"role": "system", "content": "S", "providerOptions": {"p": {"x": 1}}}
    ]


def test_clearing_one_bucket_leaves_the_others() -> None:
    """R3.29"""
    message_list = MessageList().add_system("u").add_system("a", "a").add_system("b", "b")
    message_list.clear_system_messages("a")
    assert contents(message_list.get_all_system_messages()) == ["u", "b"]
    message_list.clear_system_messages()
    assert contents(message_list.get_all_system_messages()) == ["b"]


def test_replacing_touches_the_untagged_only_and_keeps_duplicates() -> None:
    """R3.29"""
    message_list = MessageList().add_system("old").add_system("t", "tag")
    message_list.replace_all_system_messages(
        ["n", {"role": "system", "content": "n"}, {"role": "user", "content": "x"}, message("system", text("m"))]
    )
    assert contents(message_list.get_all_system_messages()) == ["n", "n", "m", "t"]


def test_clearing_messages_keeps_system_messages() -> None:
    """R3.21"""
    message_list = MessageList().add("hi", "input").add_system("S")
    message_list.clear.all.db()
    assert contents(message_list.get_all_system_messages()) == ["S"]


def test_feedback_is_one_message_after_all_others() -> None:
    """R7.8"""
    message_list = MessageList()
    message_list.set_feedback("too short")
    message_list.add_system("t", "tag").add_system("u")
    message_list.set_feedback("no good")
    *others, feedback = contents(message_list.get_all_system_messages())
    assert others == ["u", "t"]
    assert feedback.startswith("[Processor Feedback]")
    assert "no good" in feedback
    assert contents(message_list.get_system_messages(FEEDBACK_TAG)) == [feedback]
    assert prompt(message_list)[-1]["content"] == feedback


def test_feedback_is_gone_once_cleared() -> None:
    """R7.8"""
    message_list = MessageList().add_system("u")
    message_list.set_feedback("no good")
    message_list.clear_feedback()
    assert contents(message_list.get_all_system_messages()) == ["u"]


def test_resetting_the_untagged_messages_keeps_feedback() -> None:
    """R2.19, R7.8"""
    message_list = MessageList()
    message_list.set_feedback("no good")
    message_list.replace_all_system_messages(["base"])
    assert len(message_list.get_all_system_messages()) == 2


def test_a_stored_system_message_is_read() -> None:
    """R2.9, R3.28"""
    content = {"format": 2, "parts": [{"type": "text", "text": "S"}], "providerMetadata": {"p": {"x": 1}}}
    message_list = MessageList().add_system({"id": "s", "role": "system", "content": content})
    assert message_list.get_system_messages() == [
        {"role": "system", "content": "S", "providerOptions": {"p": {"x": 1}}}
    ]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_nothing_adds_no_system_message(nothing: object) -> None:
    """R3.28"""
    assert MessageList().add_system(nothing).get_all_system_messages() == []


def test_the_tag_of_feedback_holds_one_message() -> None:
    """R7.8"""
    message_list = MessageList().add_system("one", FEEDBACK_TAG).add_system("two", FEEDBACK_TAG).add_system("t", "tag")
    assert contents(message_list.get_all_system_messages()) == ["t", "two"]
