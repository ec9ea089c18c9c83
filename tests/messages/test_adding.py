from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from uuid import UUID

import pytest

from interlock.errors import InvalidMessageError
from interlock.messages import Message, MessageList
from tests.messages.builders import assistant, at, ids, said, text, user


def test_add_returns_the_list_itself() -> None:
    """R3.1"""
    message_list = MessageList()
    assert message_list.add("hi", "input") is message_list


@pytest.mark.parametrize("nothing", [None, "", [], [[], None, ""]])
def test_nothing_adds_nothing(nothing: object) -> None:
    """R3.3"""
    assert said(MessageList().add(nothing, "input")) == []


def test_a_string_becomes_a_user_message() -> None:
    """R3.3, R3.5"""
    message_list = MessageList().add("hi", "input")
    (only,) = message_list.get.input.db()
    assert (only.role, only.content.parts, only.content.content) == ("user", [text("hi")], "hi")


def test_nested_lists_of_any_shape_are_read_in_order() -> None:
    """R3.3"""
    message_list = MessageList()
    message_list.add(
        [
            "a",
            [{"role": "assistant", "content": "b"}, [user("c")]],
            {"id": "u", "role": "user", "parts": [{"type": "text", "text": "d"}]},
        ],
        "input",
    )
    assert said(message_list) == [("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d")]


def test_user_is_another_name_for_input() -> None:
    """R3.2"""
    message_list = MessageList().add("hi", "user")
    assert [message_list.source_of(one) for one in message_list.get.all.db()] == ["input"]


@pytest.mark.parametrize("source", ["inputs", "", "assistant"])
def test_an_unknown_source_is_a_value_error(source: str) -> None:
    """R3.2"""
    with pytest.raises(ValueError, match="no message source"):
        MessageList().add("hi", source)


def test_source_system_takes_system_messages_only() -> None:
    """R3.2"""
    message_list = MessageList().add({"role": "system", "content": "S"}, "system")
    assert message_list.get_system_messages() == [{"role": "system", "content": "S"}]
    with pytest.raises(ValueError, match="source 'system' is for messages of role 'system'"):
        message_list.add("hi", "system")


@pytest.mark.parametrize(
    "broken", [{"role": "user"}, {"role": "user", "content": None}, {"role": "user", "content": {}}]
)
def test_a_message_without_content_and_parts_is_invalid(broken: dict[str, object]) -> None:
    """R3.3"""
    with pytest.raises(InvalidMessageError, match="neither content nor parts") as caught:
        MessageList().add(broken, "input")
    assert caught.value.code == "INVALID_MESSAGE_CONTENT"


def test_an_empty_string_is_content() -> None:
    """R3.3"""
    assert said(MessageList().add({"role": "user", "content": ""}, "input")) == [("user", "")]


@pytest.mark.parametrize("junk", [3, object(), b"x", {"content": "x"}, {"role": "developer", "content": "x"}])
def test_what_is_no_message_is_named_in_the_error(junk: object) -> None:
    """R3.3"""
    with pytest.raises(InvalidMessageError, match=r"no message|one of the roles"):
        MessageList().add(junk, "input")


def test_an_invalid_message_leaves_the_list_as_it_was() -> None:
    """R3.3"""
    message_list = MessageList()
    with pytest.raises(InvalidMessageError, match="neither content nor parts"):
        message_list.add(["a", {"role": "user"}], "input")
    assert said(message_list) == []


def test_a_system_message_goes_to_the_untagged_system_messages() -> None:
    """R3.4"""
    message_list = MessageList().add([{"role": "system", "content": "S"}, "hi"], "input")
    assert said(message_list) == [("user", "hi")]
    assert message_list.get_system_messages() == [{"role": "system", "content": "S"}]


def test_a_remembered_system_message_is_ignored() -> None:
    """R3.4"""
    message_list = MessageList().add({"role": "system", "content": "S"}, "memory")
    assert message_list.get_all_system_messages() == []


def test_a_system_message_that_is_not_text_is_invalid() -> None:
    """R3.4"""
    with pytest.raises(InvalidMessageError, match="must be text") as caught:
        MessageList().add({"role": "system", "content": [{"type": "image", "image": "x"}]}, "input")
    assert caught.value.code == "INVALID_SYSTEM_MESSAGE_FORMAT"


def test_thread_and_resource_are_filled_from_the_list() -> None:
    """R3.5"""
    message_list = MessageList(thread_id="t", resource_id="r")
    message_list.add([user("a"), user("b", thread_id="own", resource_id="mine", id="x", created_at=at(1))], "input")
    assert {(one.thread_id, one.resource_id) for one in message_list.get.all.db()} == {("t", "r"), ("own", "mine")}


def test_a_batch_of_finished_messages_is_filled_too() -> None:
    """R3.5"""
    message_list = MessageList(thread_id="t")
    message_list.add([user("a", id="a", created_at=at(1)), user("b", id="b", created_at=at(2))], "memory")
    assert [one.thread_id for one in message_list.get.all.db()] == ["t", "t"]


def test_format_becomes_2() -> None:
    """R3.5"""
    stored = {"id": "a", "role": "user", "content": {"format": 3, "parts": [{"type": "text", "text": "x"}]}}
    (only,) = MessageList().add(stored, "memory").get.all.db()
    assert only.content.format == 2


def test_ids_are_kept_generated_or_random() -> None:
    """R3.12"""
    numbers = count(1)
    message_list = MessageList(generate_message_id=lambda: f"g{next(numbers)}")
    message_list.add([user("a", id="mine"), user("b"), user("c", id="")], "input")
    assert ids(message_list) == ["mine", "g1", "g2"]
    (only,) = ids(MessageList().add("x", "input"))
    assert UUID(only).version == 4


def test_undated_messages_keep_their_order_and_rise() -> None:
    """R3.13"""
    message_list = MessageList().add([str(number) for number in range(50)], "input")
    dates = [one.created_at for one in message_list.get.all.db()]
    assert [words for _, words in said(message_list)] == [str(number) for number in range(50)]
    assert len(set(dates)) == 50


def test_an_undated_message_comes_after_one_from_the_future() -> None:
    """R3.13"""
    future = datetime(2999, 1, 1, tzinfo=UTC)
    message_list = MessageList().add(user("later", created_at=future), "input").add(assistant("now"), "input")
    assert said(message_list) == [("user", "later"), ("assistant", "now")]


def test_older_history_stands_before_the_input_though_added_later() -> None:
    """R3.14"""
    message_list = MessageList().add("new", "input")
    message_list.add([user("old", id="a", created_at=at(1)), assistant("answer", id="b", created_at=at(2))], "memory")
    assert [words for _, words in said(message_list)] == ["old", "answer", "new"]


def test_a_batch_that_does_not_fit_in_one_piece_is_interleaved() -> None:
    """R3.14"""
    message_list = MessageList().add(user("2", id="b", created_at=at(2)), "input")
    message_list.add([user("1", id="a", created_at=at(1)), user("3", id="c", created_at=at(3))], "memory")
    message_list.add([user("5", id="e", created_at=at(5)), user("4", id="d", created_at=at(4))], "memory")
    assert ids(message_list) == ["a", "b", "c", "d", "e"]


def test_ties_stay_in_order_of_insertion() -> None:
    """R3.14"""
    message_list = MessageList()
    for name in "abc":
        message_list.add(user(name, id=name, created_at=at(1)), "input")
    message_list.add([user(name, id=name, created_at=at(1)) for name in "de"], "memory")
    assert ids(message_list) == list("abcde")


def test_dates_of_parts_do_not_matter_for_the_order() -> None:
    """R3.14"""
    message_list = MessageList()
    message_list.add(user(text("b", created_at=1), id="b", created_at=at(2)), "input")
    message_list.add(user(text("a", created_at=9_999_999_999_999), id="a", created_at=at(1)), "input")
    assert ids(message_list) == ["a", "b"]


def test_a_date_without_time_zone_is_taken_as_utc() -> None:
    """R0.2"""
    message_list = MessageList().add(user("a", created_at=datetime(2026, 1, 1)), "input")
    assert message_list.get.all.db()[0].created_at == at(0)


def test_a_question_without_date_follows_history_of_a_clock_that_is_ahead() -> None:
    """R3.13, R3.14"""
    message_list = MessageList().add("new", "input")
    (new,) = message_list.get.input.db()
    assert new.created_at is not None
    message_list.add(assistant("old", id="a", created_at=new.created_at), "memory")
    assert said(message_list) == [("assistant", "old"), ("user", "new")]


def test_equal_content_under_a_known_id_changes_nothing() -> None:
    """R3.15"""
    first = user("a", id="m", created_at=at(1))
    message_list = MessageList().add(first, "memory")
    message_list.add({"id": "m", "role": "user", "content": "a"}, "input")
    assert message_list.get.all.db() == [first]
    assert message_list.source_of("m") == "memory"


def test_other_content_under_a_known_id_replaces_at_its_place() -> None:
    """R3.15"""
    message_list = MessageList().add([user("a", id="a"), user("b", id="b"), user("c", id="c")], "memory")
    message_list.add(user("B", id="b"), "input")
    assert [words for _, words in said(message_list)] == ["a", "B", "c"]
    assert message_list.source_of("b") == "input"


def test_a_replacement_with_another_date_moves() -> None:
    """R3.14, R3.15"""
    message_list = MessageList().add([user(name, id=name, created_at=at(ord(name))) for name in "abc"], "memory")
    message_list.add(user("A", id="a", created_at=at(500)), "input")
    assert ids(message_list) == ["b", "c", "a"]


@pytest.mark.parametrize("live_source", ["input", "response", "context"])
def test_memory_never_replaces_a_live_message(live_source: str) -> None:
    """R3.15"""
    message_list = MessageList().add(user("live", id="m"), live_source)
    message_list.add(user("stored", id="m", created_at=at(1)), "memory")
    assert said(message_list) == [("user", "live")]
    assert message_list.source_of("m") == live_source


def test_a_remembered_message_is_not_added_twice() -> None:
    """R3.16"""
    message_list = MessageList()
    for _ in range(2):
        message_list.add([user("a", id="a", created_at=at(1)), user("b", id="b", created_at=at(2))], "memory")
    assert ids(message_list) == ["a", "b"]


def test_every_message_belongs_to_one_source() -> None:
    """R3.2"""
    message_list = MessageList()
    for source in ("input", "response", "memory", "context"):
        message_list.add(user(source), source)
    views = [message_list.get.input, message_list.get.response, message_list.get.remembered]
    assert [[one.content.parts[0].text for one in view.db()] for view in views] == [["input"], ["response"], ["memory"]]  # type: ignore[attr-defined]
    assert len(message_list.get.all.db()) == 4


def test_context_is_in_all_only() -> None:
    """R3.6"""
    message_list = MessageList().add("c", "context")
    assert said(message_list) == [("user", "c")]
    for view in (message_list.get.input, message_list.get.response, message_list.get.remembered):
        assert view.db() == []


def test_added_message_objects_are_kept_live() -> None:
    """R3.7"""
    one = Message.from_dict({"id": "a", "role": "user", "content": "x"})
    assert MessageList().add(one, "input").get.all.db()[0] is one


@pytest.mark.parametrize(
    "said_since",
    [["hi"], ["hi", {"role": "user", "content": "there"}], [user("hi")], [user("hi", id="h0", created_at=at(0))]],
    ids=["text", "several", "undated", "known-id"],
)
@pytest.mark.parametrize("source", ["input", "memory"])
def test_a_history_with_something_new_behind_it_is_added_as_one_by_one(said_since: list[object], source: str) -> None:
    """R3.3, R3.13"""

    def history() -> list[Message]:
        return [(user if n % 2 == 0 else assistant)(f"m{n}", id=f"h{n}", created_at=at(n)) for n in range(4)]

    at_once = MessageList().add([*history(), *said_since], source)
    one_by_one = MessageList()
    for one in [*history(), *said_since]:
        one_by_one.add([[one]], source)
    assert said(at_once) == said(one_by_one)


def test_an_invalid_message_behind_a_history_leaves_the_list_as_it_was() -> None:
    """R3.3"""
    message_list = MessageList()
    with pytest.raises(InvalidMessageError, match="neither content nor parts"):
        message_list.add([user("a", id="a", created_at=at(0)), {"role": "user"}], "input")
    assert said(message_list) == []
