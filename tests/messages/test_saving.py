from __future__ import annotations

import pytest

from interlock.messages import Message, Part, saved_form, saved_forms
from interlock.messages.parts import DataPart, StepStartPart
from tests.messages.builders import assistant, call, done, text, user

WORKING_MEMORY_CALL = done("w", name="updateWorkingMemory")


def test_a_message_that_needs_no_change_is_not_copied() -> None:
    """R13.12"""
    one = assistant("a", done(), DataPart(type="data-x"), id="a")
    assert saved_form(one) is one


@pytest.mark.parametrize("part", [call(state="partial-call"), WORKING_MEMORY_CALL], ids=["partial", "working-memory"])
def test_parts_that_are_never_saved(part: Part) -> None:
    """R13.12"""
    one = assistant("a", part, id="a")
    saved = saved_form(one)
    assert saved is not None
    assert (saved.id, saved.content.parts) == ("a", [text("a")])
    assert len(one.content.parts) == 2
    assert saved_form(assistant(StepStartPart(), part)) is None


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("a<working_memory>secret</working_memory>b", "ab"),
        ("a<working_memory>x</working_memory>b<working_memory>y\nz</working_memory>", "ab"),
        ("a<working_memory>cut off", "a"),
    ],
)
def test_working_memory_is_cut_from_text(words: str, kept: str) -> None:
    """R13.12"""
    one = assistant(words)
    one.content.content = words
    saved = saved_form(one)
    assert saved is not None
    assert (saved.content.parts, saved.content.content) == ([text(kept)], kept)
    assert one.content.parts == [text(words)]


def test_a_message_of_which_nothing_is_left_is_not_saved() -> None:
    """R13.12"""
    only_memory = assistant("<working_memory>x</working_memory>", id="m")
    assert saved_forms([user("q", id="q"), only_memory, assistant(id="empty")]) == [user("q", id="q")]


def test_a_legacy_message_without_parts_is_saved() -> None:
    """R4.20"""
    legacy = Message.from_dict({"id": "a", "role": "user", "content": {"content": "old"}})
    assert saved_form(legacy) is legacy


def test_blank_text_of_an_assistant_is_not_saved() -> None:
    """FR-099"""
    saved = saved_form(assistant("", "Hi", "   "))
    assert saved is not None
    assert saved.content.parts == [text("Hi")]


def test_blank_text_that_carries_provider_data_is_saved() -> None:
    """R4.6"""
    one = assistant(text("", provider_metadata={"openai": {"itemId": "msg_1"}}))
    assert saved_form(one) is one


def test_a_blank_question_is_saved() -> None:
    """R13.9"""
    one = user(" ")
    assert saved_form(one) is one


def test_broken_characters_are_replaced_before_storage() -> None:
    """FR-080"""
    saved = saved_form(assistant("a\ud83d", done(args={"x": "\udc00"}, result=["\ud83c\udf89"])))
    assert saved is not None
    assert saved.content.parts == [text("a\ufffd"), done(args={"x": "\ufffd"}, result=["🎉"])]
