from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import InvalidMessageError
from interlock.messages import MessageList, copy_message
from tests.messages.builders import assistant, at, call, done, ids, prompt, said, user


def history() -> MessageList:
    """a, b, c a second apart, and d a minute later; the first two are remembered."""
    message_list = MessageList()
    message_list.add([user("a", id="a", created_at=at(1)), assistant("b", id="b", created_at=at(2))], "memory")
    message_list.add([user("c", id="c", created_at=at(3)), user("d", id="d", created_at=at(60))], "input")
    return message_list


def sources(message_list: MessageList) -> list[str | None]:
    return [message_list.source_of(one) for one in message_list.get.all.db()]


def reconcile(message_list: MessageList, returned: list[Any], source: str = "input", stage: Any = None) -> MessageList:
    message_list.reconcile(returned, message_list.get.all.db() if stage is None else stage, source)
    return message_list


def test_returning_what_was_given_changes_nothing() -> None:
    """R3.22, FR-091"""
    message_list = history().add_system("S")
    before, sent = message_list.get.all.db(), prompt(message_list)
    reconcile(message_list, list(before))
    assert all(one is other for one, other in zip(message_list.get.all.db(), before, strict=True))
    assert prompt(message_list) == sent


def test_what_is_left_out_is_removed() -> None:
    """R3.22"""
    message_list = history()
    reconcile(message_list, message_list.get.all.db()[1:3])
    assert ids(message_list) == ["b", "c"]


def test_an_empty_list_removes_everything() -> None:
    """R2.10"""
    message_list = history().add_system("S")
    assert ids(reconcile(message_list, [])) == []
    assert prompt(message_list) == [{"role": "system", "content": "S"}]


def test_rewritten_copies_take_the_place_and_keep_the_source() -> None:
    """R3.22, R2.10"""
    message_list = history()
    copies = [copy_message(one) for one in message_list.get.all.db()]
    for one in copies:
        one.content.parts[0].text = one.content.parts[0].text.upper()  # type: ignore[attr-defined]
    reconcile(message_list, copies)
    assert [words for _, words in said(message_list)] == list("ABCD")
    assert sources(message_list) == ["memory", "memory", "input", "input"]
    assert message_list.get.all.db()[0] is copies[0]


def test_a_copy_among_equal_dates_stays_where_it_was() -> None:
    """R3.22, R3.14"""
    message_list = MessageList().add([user(name, id=name, created_at=at(1)) for name in "abc"], "input")
    a, b, c = message_list.get.all.db()
    reconcile(message_list, [a, copy_message(b), c])
    assert ids(message_list) == ["a", "b", "c"]


def test_dicts_are_messages_too() -> None:
    """R2.7"""
    message_list = history()
    returned: list[Any] = [one.to_dict() for one in message_list.get.all.db()]
    returned[1]["content"]["parts"][0]["text"] = "B"
    reconcile(message_list, returned)
    assert [words for _, words in said(message_list)] == ["a", "B", "c", "d"]
    assert sources(message_list) == ["memory", "memory", "input", "input"]


@pytest.mark.parametrize("default", ["input", "response"])
def test_a_new_message_takes_the_default_source(default: str) -> None:
    """R3.22"""
    message_list = history()
    new = user("new", id="new")
    reconcile(message_list, [*message_list.get.all.db(), new], default)
    assert message_list.source_of("new") == default


def test_returned_messages_are_not_merged() -> None:
    """R3.22"""
    message_list = MessageList().add(assistant("a", id="a"), "response")
    reconcile(message_list, [*message_list.get.all.db(), assistant("b")], "response")
    assert said(message_list) == [("assistant", "a"), ("assistant", "b")]


def test_the_last_of_a_repeated_id_wins() -> None:
    """R3.22"""
    message_list = history()
    a, *rest = message_list.get.all.db()
    reconcile(message_list, [a, user("first", id="x"), *rest, user("last", id="x")])
    assert said(message_list)[-1] == ("user", "last")
    assert ids(message_list).count("x") == 1


def test_messages_outside_the_stage_are_untouched() -> None:
    """R3.22"""
    message_list = history().add(assistant("r", id="r"), "response")
    reconcile(message_list, [], "response", stage=message_list.get.response.db())
    assert ids(message_list) == ["a", "b", "c", "d"]


def test_what_the_hook_added_itself_stays() -> None:
    """R3.22"""
    message_list = history()
    stage = message_list.get.all.db()
    message_list.add(user("own", id="own"), "input")
    reconcile(message_list, stage, stage=stage)
    assert ids(message_list) == ["a", "b", "c", "d", "own"]


def test_what_the_hook_removed_and_returned_has_its_old_source() -> None:
    """R3.22"""
    message_list = history()
    stage = message_list.get.all.db()
    message_list.remove_by_ids(["a"])
    reconcile(message_list, stage, stage=stage)
    assert (ids(message_list), message_list.source_of("a")) == (["a", "b", "c", "d"], "memory")


def test_what_the_hook_replaced_and_left_out_is_removed() -> None:
    """R3.22"""
    message_list = history()
    stage = message_list.get.all.db()
    message_list.add(user("A", id="a"), "input")
    reconcile(message_list, stage[1:], stage=stage)
    assert ids(message_list) == ["b", "c", "d"]


def test_a_system_message_moves_to_the_system_messages() -> None:
    """R2.9"""
    message_list = history()
    stage = message_list.get.all.db()
    system = {"id": "a", "role": "system", "content": {"format": 2, "parts": [{"type": "text", "text": "S"}]}}
    reconcile(message_list, [system, *stage[1:]])
    assert message_list.get_system_messages() == [{"role": "system", "content": "S"}]
    assert ids(message_list) == ["b", "c", "d"]


def test_a_message_turned_into_a_system_message_in_place_moves_too() -> None:
    """R2.9"""
    message_list = history()
    stage = message_list.get.all.db()
    stage[0].role = "system"
    reconcile(message_list, stage)
    assert message_list.get_system_messages() == [{"role": "system", "content": "a"}]
    assert ids(message_list) == ["b", "c", "d"]


@pytest.mark.parametrize("junk", ["text", 3, None, {"role": "user"}, {"content": "x"}])
def test_an_element_that_is_no_message_changes_nothing(junk: Any) -> None:
    """R2.6"""
    message_list = history()
    with pytest.raises(InvalidMessageError, match="message"):
        reconcile(message_list, [junk])
    assert ids(message_list) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("place", range(5))
def test_an_undated_message_stands_where_the_list_put_it(place: int) -> None:
    """R3.23"""
    message_list = history()
    returned = message_list.get.all.db()
    returned.insert(place, user("new", id="new"))
    reconcile(message_list, returned)
    assert ids(message_list).index("new") == place
    assert _is_sorted(message_list)


@pytest.mark.parametrize("place", range(4))
def test_undated_messages_find_their_place_among_equal_dates(place: int) -> None:
    """R3.23"""
    message_list = MessageList().add([user(name, id=name, created_at=at(1)) for name in "abc"], "input")
    returned = message_list.get.all.db()
    returned[place:place] = [user("x", id="x"), user("y", id="y")]
    reconcile(message_list, returned)
    assert ids(message_list)[place : place + 2] == ["x", "y"]
    assert _is_sorted(message_list)


def test_several_undated_messages_before_the_first() -> None:
    """R3.23"""
    message_list = history()
    reconcile(message_list, [user("x", id="x"), user("y", id="y"), *message_list.get.all.db()])
    assert ids(message_list)[:3] == ["x", "y", "a"]
    assert message_list.get.all.db()[0].created_at == at(0.998)


def test_only_undated_messages_keep_their_order() -> None:
    """R3.23"""
    message_list = history()
    reconcile(message_list, [user("x", id="x"), user("y", id="y")])
    assert ids(message_list) == ["x", "y"]


def test_undated_rewrites_keep_place_and_date() -> None:
    """R3.23"""
    message_list = history()
    reconcile(message_list, [user(name.upper(), id=name) for name in "abcd"])
    assert ids(message_list) == ["a", "b", "c", "d"]
    assert [one.created_at for one in message_list.get.all.db()] == [at(1), at(2), at(3), at(60)]


def test_an_undated_rewrite_moves_where_the_list_put_it() -> None:
    """R3.23"""
    message_list = history()
    a, b, c, _ = message_list.get.all.db()
    reconcile(message_list, [user("D", id="d"), a, b, c])
    assert ids(message_list) == ["d", "a", "b", "c"]


def test_dated_messages_keep_their_dates_whatever_their_order() -> None:
    """R3.23"""
    message_list = history()
    reconcile(message_list, message_list.get.all.db()[::-1])
    assert ids(message_list) == ["a", "b", "c", "d"]


def test_changed_dates_reorder() -> None:
    """R3.23"""
    message_list = history()
    returned = message_list.get.all.db()
    returned[0].created_at = at(99)
    reconcile(message_list, returned)
    assert ids(message_list) == ["b", "c", "d", "a"]


def test_an_id_edited_in_place_is_found_again() -> None:
    """R3.22"""
    message_list = history()
    returned = message_list.get.all.db()
    returned[0].id = "z"
    reconcile(message_list, returned)
    assert message_list.source_of("z") == "memory"
    assert message_list.remove_by_ids(["z"]) == [returned[0]]


def test_tool_messages_resolve_their_calls() -> None:
    """R3.5, R3.22"""
    message_list = MessageList().add(assistant(call(), id="a"), "response")
    result = {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": "r"}]}
    reconcile(message_list, [*message_list.get.all.db(), result], "response")
    assert message_list.get.all.db()[0].content.parts == [done()]


def test_new_messages_are_known_by_identity_whatever_a_hook_did() -> None:
    """FR-088"""
    message_list = MessageList()
    stored = [user("a", id="h1"), assistant("b", id="h2"), user("c", id="h3"), assistant("d", id="h4")]
    message_list.add(stored, "memory").add(user("new", id="n1"), "input")
    *_, new = message_list.get.all.db()
    reconcile(message_list, [{"role": "system", "content": "summary"}, new])
    message_list.append_response([assistant("answer").content.parts[0]], message_id="r")
    assert [words for one, words in said(message_list)] == ["new", "answer"]
    assert sources(message_list) == ["input", "response"]


def _is_sorted(message_list: MessageList) -> bool:
    dates = [one.created_at for one in message_list.get.all.db()]
    return dates == sorted(dates)  # type: ignore[type-var]
