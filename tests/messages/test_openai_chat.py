"""Messages as OpenAI's Chat Completions spell them: read faithfully, or refused (R3.3, R3.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.errors import InvalidMessageError
from interlock.messages import MessageList
from interlock.messages.parts import DataPart, FilePart, Part, StepStartPart, UnknownPart
from tests.messages.builders import call, done, text


def parts_of(*messages: Any) -> list[list[Part]]:
    return [message.content.parts for message in MessageList().add(list(messages), "input").get.all.db()]


def calling(*calls: Any, content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def function(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_an_answer_goes_into_the_call_that_it_names() -> None:
    """R3.5"""
    asked = calling(function("c1", "t", '{"x":1}'), function("c2", "u", ""), content="Let me see.")
    answers = [
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": [{"type": "text", "text": "se"}, {"type": "text", "text": "cond"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
    ]
    assert parts_of("hi", asked, *answers)[1] == [
        text("Let me see."),
        done(args={"x": 1}, result="first"),
        done("c2", "second", "u"),
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_calls_need_no_text_beside_them(content: Any) -> None:
    """R3.3"""
    assert parts_of(calling(function("c1", "t", {"x": 1}), content=content)) == [[call(args={"x": 1})]]


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    """R5.6"""
    assert parts_of(calling(function("c1", "t", '{"x":'))) == [[call(args='{"x":')]]


def test_an_answer_without_its_call_is_a_result_and_no_text() -> None:
    """R3.5"""
    answer = {"role": "tool", "tool_call_id": "c1", "name": "t", "content": "r"}
    ((part,),) = parts_of(answer)
    assert part.to_dict() == {
        "type": "tool-invocation",
        "toolInvocation": {"state": "result", "toolCallId": "c1", "toolName": "t", "args": None, "result": "r"},
    }


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            FilePart(mime_type="image/jpeg", data="https://x/y.png"),
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
            FilePart(
                mime_type="image/png",
                data="data:image/png;base64,AAAA",
                provider_metadata={"openai": {"imageDetail": "low"}},
            ),
        ),
        ({"type": "image_url", "image_url": "https://x/y"}, FilePart(mime_type="image/jpeg", data="https://x/y")),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            FilePart(mime_type="audio/mpeg", data="AAAA"),
        ),
        (
            {"type": "file", "file": {"file_data": "data:text/plain;base64,AAAA", "filename": "a.txt"}},
            FilePart(mime_type="text/plain", data="data:text/plain;base64,AAAA", filename="a.txt"),
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, FilePart(mime_type="application/pdf", data="file-1")),
        ({"type": "refusal", "refusal": "I would rather not."}, text("I would rather not.")),
    ],
)
def test_media_parts_become_files(part: dict[str, Any], expected: Part) -> None:
    """R3.5"""
    assert parts_of({"role": "user", "content": [{"type": "text", "text": "what is it?"}, part]}) == [
        [text("what is it?"), expected]
    ]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            {"role": "user", "content": ["ok", {"type": "txt", "text": "a"}]},
            "content part 1 cannot be read: nothing has the type 'txt'; the known",
        ),
        (
            {"role": "user", "content": [{"text": "a"}]},
            "content part 0 cannot be read: nothing has the type None",
        ),
        ({"role": "user", "content": [{"type": ["text"]}]}, "content part 0 cannot be read: unhashable type"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "content part 0 cannot be read: image_url has no url"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "part 0 cannot be read: file has no file_data"),
        ({"role": "tool", "content": "r"}, "tool message holds tool-result parts, or text beside the tool_call_id"),
        ({"role": "tool", "content": [{"type": "text", "text": "r"}]}, "tool message holds tool-result parts, or text"),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url"}]}, "content part 0 of a tool message"),
        ({"role": "assistant", "content": "x", "tool_call_id": "c"}, "'assistant' cannot have a tool_call_id"),
        ({"role": "user", "content": "x", "tool_calls": [{}]}, "'user' cannot have tool_calls"),
        (calling({"id": "c"}), r"tool_calls\[0\] is no {id, type: 'function'"),
        ({"role": "assistant", "content": None, "function_call": {"name": "t"}}, "function_call has no id"),
    ],
)
def test_what_cannot_be_read_is_refused_and_named(message: dict[str, Any], problem: str) -> None:
    """R3.3, R3.5"""
    with pytest.raises(InvalidMessageError, match=rf"messages\[1\]: .*{problem}") as caught:
        MessageList().add(["hi", message], "input")
    assert caught.value.code == "INVALID_MESSAGE_CONTENT"


def test_the_index_counts_what_a_store_has_given_too() -> None:
    """R3.3"""
    stored = MessageList().add("hi", "memory").get.all.db()
    with pytest.raises(InvalidMessageError, match=r"messages\[1\]: "):
        MessageList().add([*stored, {"role": "user", "content": [{"type": "txt"}]}], "input")


def test_parts_of_unknown_types_survive_in_the_stored_and_in_the_ui_form() -> None:
    """R4.3"""
    later = {"type": "later", "a": 1}
    for message in ({"role": "user", "content": {"parts": [later]}}, {"role": "user", "parts": [later]}):
        message_list = MessageList().add(message, "input")
        assert message_list.get.all.db()[0].content.parts == [UnknownPart(type="later", extra={"a": 1})]
        assert json.loads(json.dumps(message_list.get.all.ui()))[0]["parts"] == [later]


def test_stored_parts_may_stand_among_content_parts() -> None:
    """R3.3"""
    content = [{"type": "step-start"}, {"type": "data-note", "data": 1}, {"type": "text", "text": "a"}]
    assert parts_of({"role": "assistant", "content": content}) == [
        [StepStartPart(), DataPart(type="data-note", data=1), text("a")]
    ]
