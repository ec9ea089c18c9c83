from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock.messages import Message, MessageList
from interlock.messages.parts import FilePart, ReasoningPart, StepStartPart, TextPart, ToolInvocationPart
from interlock.messages.prompt import prompt_of
from tests.messages.builders import assistant, at, call, done, text, user

Change = Callable[[MessageList], None]

IN_PLACE: list[Change] = []
OPERATIONS: list[Change] = []


def in_place(change: Change) -> Change:
    IN_PLACE.append(change)
    return change


def operation(change: Change) -> Change:
    OPERATIONS.append(change)
    return change


def conversation() -> MessageList:
    message_list = MessageList().add_system("S")
    message_list.add(
        [
            user("q1", FilePart(mime_type="image/png", data="AAAA"), id="u1", created_at=at(1)),
            assistant(
                ReasoningPart(reasoning="hm", details=[{"type": "text", "text": "hm", "signature": "s"}]),
                done("c1", args={"a": {"b": [1]}}, result={"n": 1}),
                StepStartPart(),
                "a1",
                id="a1",
                created_at=at(2),
            ),
            user("q2", id="u2", created_at=at(3)),
            assistant("a2", id="a2", created_at=at(4)),
            user("q3", id="u3", created_at=at(5)),
        ],
        "memory",
    )
    return message_list


def fresh(message_list: MessageList) -> list[Any]:
    """The prompt as it is without any cache."""
    converted = [sent for one in message_list.get.all.db() for sent in prompt_of(one)]
    return [*message_list.get_all_system_messages(), *converted]


def parts(message_list: MessageList, message_id: str) -> list[Any]:
    message = message_list.get_by_id(message_id)
    assert message is not None
    return message.content.parts


@in_place
def edit_text(message_list: MessageList) -> None:
    parts(message_list, "u1")[0].text = "edited"


@in_place
def edit_file(message_list: MessageList) -> None:
    parts(message_list, "u1")[1].data = "BBBB"


@in_place
def edit_nested_argument(message_list: MessageList) -> None:
    parts(message_list, "a1")[1].tool_invocation.args["a"]["b"].append(2)


@in_place
def edit_result_to_an_equal_value(message_list: MessageList) -> None:
    parts(message_list, "a1")[1].tool_invocation.result["n"] = True


@in_place
def edit_signature(message_list: MessageList) -> None:
    parts(message_list, "a1")[0].details[0]["signature"] = "t"


@in_place
def edit_second_step(message_list: MessageList) -> None:
    parts(message_list, "a1")[3].text = "edited"


@in_place
def append_to_a_step(message_list: MessageList) -> None:
    parts(message_list, "a1").append(TextPart(text="more"))


@in_place
def append_a_step(message_list: MessageList) -> None:
    parts(message_list, "a1").extend([StepStartPart(), done("c2")])


@in_place
def remove_the_border(message_list: MessageList) -> None:
    del parts(message_list, "a1")[2]


@in_place
def retype_the_border(message_list: MessageList) -> None:
    parts(message_list, "a1")[2].type = "weird"


@in_place
def retype_a_text(message_list: MessageList) -> None:
    parts(message_list, "u2")[0].type = "weird"


@in_place
def replace_the_parts(message_list: MessageList) -> None:
    message_list.get.all.db()[2].content.parts = [text("other")]


@in_place
def empty_the_parts(message_list: MessageList) -> None:
    content = message_list.get.all.db()[2].content
    content.parts, content.content = [], "legacy"


@in_place
def change_the_role(message_list: MessageList) -> None:
    message_list.get.all.db()[2].role = "assistant"


@in_place
def add_metadata(message_list: MessageList) -> None:
    message_list.get.all.db()[2].content.provider_metadata = {"p": {"x": 1}}


@in_place
def add_part_metadata(message_list: MessageList) -> None:
    parts(message_list, "u2")[0].provider_metadata = {"p": {"x": 1}}


@in_place
def change_a_date(message_list: MessageList) -> None:
    message_list.get.all.db()[0].created_at = datetime(2999, 1, 1, tzinfo=UTC)


@in_place
def put_in_what_cannot_be_compared(message_list: MessageList) -> None:
    parts(message_list, "a1")[1].tool_invocation.result = {"big": 2**80}


@pytest.mark.parametrize("prompts_before", [0, 1, 2, 3])
@pytest.mark.parametrize("edit", IN_PLACE, ids=lambda edit: edit.__name__)
def test_an_edit_in_place_is_in_the_next_prompt(edit: Change, prompts_before: int) -> None:
    """R2.2, R3.8"""
    message_list = conversation()
    for _ in range(prompts_before):
        message_list.get.all.db()
        message_list.prompt_for_model()
    edit(message_list)
    assert message_list.prompt_for_model() == fresh(message_list)
    edit(message_list)
    assert repr(message_list.prompt_for_model()) == repr(fresh(message_list))


@operation
def add_at_the_end(message_list: MessageList) -> None:
    message_list.add("new", "input")


@operation
def add_in_the_middle(message_list: MessageList) -> None:
    message_list.add(user("between", created_at=at(2.5)), "memory")


@operation
def add_a_batch_in_front(message_list: MessageList) -> None:
    message_list.add([user("x", id="x", created_at=at(0.1)), assistant("y", id="y", created_at=at(0.2))], "memory")


@operation
def remove(message_list: MessageList) -> None:
    message_list.remove_by_ids(["a1"])


@operation
def remove_some_and_add(message_list: MessageList) -> None:
    message_list.remove_by_ids(["u1", "u3"])
    message_list.add("new", "input")


@operation
def replace(message_list: MessageList) -> None:
    message_list.replace("u2", user("other"))


@operation
def merge(message_list: MessageList) -> None:
    message_list.remove_by_ids(["u3"])
    message_list.add(assistant("more"), "response")


@operation
def respond(message_list: MessageList) -> None:
    message_list.append_response([text("r"), call("c9")], message_id="r", model="m")
    message_list.update_tool_invocation(done("c9"))


@operation
def respond_and_take_back(message_list: MessageList) -> None:
    snapshot = message_list.response_snapshot()
    message_list.append_response([text("r"), done("c9")], message_id="r", model="m")
    message_list.prompt_for_model()
    message_list.restore_response(snapshot)


@operation
def update_an_old_call(message_list: MessageList) -> None:
    message_list.update_tool_invocation(done("c1", result="changed"))


@operation
def reconcile(message_list: MessageList) -> None:
    stage = message_list.get.all.db()
    message_list.reconcile([user("first"), *stage[1:]], stage, "input")


@operation
def clear(message_list: MessageList) -> None:
    message_list.clear.all.db()


@pytest.mark.parametrize("is_exposed", [False, True], ids=["kept-inside", "handed-out"])
@pytest.mark.parametrize("change", OPERATIONS, ids=lambda change: change.__name__)
def test_an_operation_is_in_the_next_prompt(change: Change, is_exposed: bool) -> None:
    """R1.7"""
    message_list = conversation()
    for _ in range(3):
        if is_exposed:
            message_list.get.all.db()
        message_list.prompt_for_model()
    for _ in range(2):
        change(message_list)
        sent = message_list.prompt_for_model()
        assert sent == fresh(message_list)


@pytest.mark.parametrize("change", [*IN_PLACE, *OPERATIONS], ids=lambda change: change.__name__)
def test_a_prompt_that_was_sent_never_changes(change: Change) -> None:
    """R3.7"""
    message_list = conversation()
    sent = message_list.prompt_for_model()
    before = repr(sent)
    change(message_list)
    message_list.prompt_for_model()
    assert repr(sent) == before


def test_what_is_unchanged_is_not_converted_again() -> None:
    """Cost: a step converts what is new, whether or not messages were handed out."""
    message_list = conversation()
    for _ in range(2):
        first = message_list.prompt_for_model()
        message_list.append_response([text("more")], message_id="r", model="m")
        second = message_list.prompt_for_model()
        assert [id(one) for one in first[1:-1]] == [id(one) for one in second[1 : len(first) - 1]]
        message_list.get.all.db()
        message_list.prompt_for_model()


def test_a_caller_s_own_objects_are_seen_too() -> None:
    """R3.7, R3.8"""
    own = Message.from_dict({"id": "a", "role": "user", "content": "x"})
    message_list = MessageList().add(own, "input")
    for _ in range(3):
        message_list.get.all.db()
        message_list.prompt_for_model()
    own.content.parts = [text("y")]
    assert message_list.prompt_for_model()[0]["content"] == [{"type": "text", "text": "y"}]


def test_an_edit_of_a_found_call_is_seen() -> None:
    """R3.8"""
    message_list = MessageList().add(assistant(done(result="raw")), "response")
    message_list.prompt_for_model()
    part = message_list.find_tool_invocation("c1")
    assert isinstance(part, ToolInvocationPart)
    for result in ("one", "two", "three"):
        part.tool_invocation.result = result
        assert message_list.prompt_for_model()[1]["content"][0]["output"]["value"] == result


def test_whether_a_file_was_sent_is_known_without_a_search() -> None:
    """R4.16: only then may there be something to fetch."""
    message_list = MessageList().add(["a", "b"], "input")
    message_list.prompt_for_model()
    assert not message_list.has_sent_files
    message_list.add(user("look", FilePart(data="https://example.com/a.png", mime_type="image/png")), "input")
    message_list.prompt_for_model()
    assert message_list.has_sent_files
