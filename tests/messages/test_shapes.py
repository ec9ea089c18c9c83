from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.messages import Message, MessageList, noted_output
from interlock.messages.parts import (
    DataPart,
    FilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    ToolApproval,
    UnknownPart,
)
from tests.messages.builders import assistant, at, call, done, text, user


def read(item: Any) -> Message:
    (only,) = MessageList().add(item, "input").get.all.db()
    return only


def parts_of(role: str, *content: Any) -> list[Any]:
    return read({"role": role, "content": list(content)}).content.parts


def test_all_text_content_sets_the_legacy_text() -> None:
    """R3.5"""
    one = read({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    assert one.content.content == "a\nb"
    assert read({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c"}]}).content.content is None


@pytest.mark.parametrize("key", ["args", "input"])
def test_a_tool_call_becomes_a_pending_part(key: str) -> None:
    """R3.5"""
    sent = {"type": "tool-call", "toolCallId": "c1", "toolName": "t", key: {"x": 1}, "providerOptions": {"p": {"y": 1}}}
    assert parts_of("assistant", sent) == [call(args={"x": 1}, provider_metadata={"p": {"y": 1}})]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ({"result": {"a": 1}}, done(result={"a": 1})),
        ({"result": None}, done(result=None)),
        ({"result": "bad", "isError": True}, call(state="output-error", error_text="bad", is_error=True)),
        ({"output": {"type": "text", "value": "r"}}, done()),
        ({"output": {"type": "json", "value": [1]}}, done(result=[1])),
        ({"output": {"type": "error-text", "value": "bad"}}, call(state="output-error", error_text="bad")),
        (
            {"output": {"type": "error-json", "value": {"e": 1}}},
            done(
                result={"e": 1},
                is_error=True,
                provider_metadata=noted_output({"type": "error-json", "value": {"e": 1}}, {"e": 1}),
            ),
        ),
        (
            {"output": {"type": "execution-denied", "reason": "no"}},
            call(state="output-denied", approval=ToolApproval(id="c1", approved=False, reason="no")),
        ),
        (
            {"output": {"type": "content", "value": [1]}},
            done(result=[1], provider_metadata=noted_output({"type": "content", "value": [1]}, [1])),
        ),
    ],
)
def test_tool_results_of_every_shape(outcome: dict[str, Any], expected: Any) -> None:
    """R3.5"""
    sent_call = {"type": "tool-call", "toolCallId": "c1", "toolName": "t", "args": {}}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "t", **outcome}
    message_list = MessageList().add([{"role": "assistant", "content": [sent_call]}], "input")
    message_list.add({"role": "tool", "content": [result]}, "input")
    assert message_list.get.all.db()[0].content.parts == [expected]
    assert parts_of("assistant", sent_call, result) == [expected]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"image": "AAAA"}, FilePart(mime_type="image/jpeg", data="AAAA")),
        ({"image": b"\x01"}, FilePart(mime_type="image/jpeg", data=base64.b64encode(b"\x01").decode())),
        ({"image": "AAAA", "mediaType": "image/png"}, FilePart(mime_type="image/png", data="AAAA")),
        ({"image": "AAAA", "mimeType": "image/png"}, FilePart(mime_type="image/png", data="AAAA")),
        (
            {"image": "data:image/gif;base64,AAAA"},
            FilePart(mime_type="image/gif", data="data:image/gif;base64,AAAA"),
        ),
        ({"image": "https://x/y"}, FilePart(mime_type="image/jpeg", data="https://x/y")),
    ],
)
def test_an_image_becomes_a_file(item: dict[str, Any], expected: FilePart) -> None:
    """R3.5"""
    assert parts_of("user", {"type": "image", **item}) == [expected]


def test_files_and_reasoning_of_core_messages() -> None:
    """R3.3"""
    assert parts_of(
        "assistant",
        {"type": "file", "data": b"\x01", "mediaType": "application/pdf", "filename": "f"},
        {"type": "reasoning", "text": "why", "signature": "s"},
        {"type": "redacted-reasoning", "data": "xx"},
        "plain",
    ) == [
        FilePart(mime_type="application/pdf", data="AQ==", filename="f"),
        ReasoningPart(reasoning="why", details=[{"type": "text", "text": "why", "signature": "s"}]),
        ReasoningPart(details=[{"type": "redacted", "data": "xx"}]),
        text("plain"),
    ]


def test_provider_options_of_a_message_are_kept() -> None:
    """R4.18"""
    one = read({"role": "user", "content": "x", "providerOptions": {"p": {"cache": True}}})
    assert one.content.provider_metadata == {"p": {"cache": True}}


def test_unknown_fields_of_a_message_are_kept() -> None:
    """R0.1"""
    assert read({"role": "user", "content": "x", "later": 1}).to_dict()["later"] == 1


def test_every_part_of_a_ui_message() -> None:
    """R3.3, R3.10"""
    ui = {
        "id": "a1",
        "role": "assistant",
        "metadata": {"createdAt": "2026-01-01T00:00:01.000Z", "threadId": "th", "score": 1},
        "parts": [
            {"type": "text", "text": "x", "state": "done", "providerMetadata": {"p": {"a": 1}}},
            {"type": "reasoning", "text": "why"},
            {"type": "tool-t", "toolCallId": "c1", "state": "output-available", "input": {"q": 1}, "output": "r"},
            {"type": "dynamic-tool", "toolName": "d", "toolCallId": "c2", "state": "input-streaming", "input": None},
            {"type": "tool-t", "toolCallId": "c3", "state": "output-error", "input": {}, "errorText": "bad"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "source-url", "sourceId": "s", "url": "u", "title": "T"},
            {"type": "source-document", "sourceId": "d", "mediaType": "text/plain", "title": "D"},
            {"type": "step-start"},
            {"type": "data-x", "data": {"y": 1}, "id": "i"},
        ],
    }
    one = read(ui)
    assert (one.id, one.created_at, one.thread_id, one.content.metadata) == ("a1", at(1), "th", {"score": 1})
    unread = call("c2", "d", state="partial-call")
    unread.tool_invocation.args = None
    assert one.content.parts == [
        text("x", provider_metadata={"p": {"a": 1}}),
        ReasoningPart(reasoning="why", details=[{"type": "text", "text": "why"}]),
        done(args={"q": 1}),
        unread,
        call("c3", state="output-error", error_text="bad"),
        FilePart(mime_type="image/png", data="data:image/png;base64,AAAA"),
        SourcePart(source={"sourceType": "url", "id": "s", "url": "u", "title": "T"}),
        SourceDocumentPart(source_id="d", media_type="text/plain", title="D"),
        StepStartPart(),
        DataPart(type="data-x", data={"y": 1}, id="i"),
    ]


@pytest.mark.parametrize(
    "state",
    ["partial-call", "call", "approval-requested", "approval-responded", "result", "output-error", "output-denied"],
)
def test_tool_states_survive_the_way_through_a_client(state: str) -> None:
    """R3.10"""
    outcome: dict[str, Any] = {"result": {"result": 1}, "output-error": {"error_text": "bad"}}.get(state, {})
    approval = ToolApproval(id="c1", approved=False, reason="no")
    part = call(args={"x": 1}, state=state, approval=approval, title="T", provider_executed=True, **outcome)
    (ui,) = MessageList().add(assistant(part), "input").get.all.ui()
    assert read(ui).content.parts == [part]


def test_a_tool_named_call_is_not_mistaken_for_a_core_part() -> None:
    """R3.10"""
    (ui,) = MessageList().add(assistant(done(name="call")), "input").get.all.ui()
    assert read(ui).content.parts == [done(name="call")]


def test_the_oldest_ui_shape_with_calls_beside_the_text() -> None:
    """R3.3"""
    tool = {"state": "result", "toolCallId": "c1", "toolName": "t", "args": {}, "result": "r"}
    one = read({"role": "assistant", "content": "x", "toolInvocations": [tool]})
    assert one.content.parts == [text("x"), done()]
    assert one.content.tool_invocations == [tool]


def test_attachments_of_the_oldest_ui_shape_become_files() -> None:
    """R3.3"""
    attachment = {"name": "f", "contentType": "image/png", "url": "https://x"}
    one = read({"role": "user", "content": "x", "experimental_attachments": [attachment]})
    assert one.content.parts == [text("x"), FilePart(mime_type="image/png", data="https://x", filename="f")]


def test_a_chat_client_s_answer_to_a_client_tool() -> None:
    """R3.5, R12.40"""
    tool = {"state": "call", "step": 0, "toolCallId": "call_1", "toolName": "colour", "args": {"color": "blue"}}
    message_list = MessageList().add(
        [
            {
                "id": "id-1",
                "createdAt": "2026-01-01T00:00:00.000Z",
                "role": "assistant",
                "content": "",
                "parts": [{"type": "step-start"}, {"type": "tool-invocation", "toolInvocation": tool}],
                "toolInvocations": [tool],
                "revisionId": "id-2",
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "call_1",
                        "toolName": "colour",
                        "input": {"color": "blue"},
                        "result": {"applied": True},
                    }
                ],
            },
        ],
        "input",
    )
    (only,) = message_list.get.all.db()
    assert only.content.parts == [
        StepStartPart(),
        done("call_1", {"applied": True}, "colour", {"color": "blue"}, step=0),
    ]
    assert (only.content.tool_invocations or [{}])[0]["state"] == "result"


def test_stored_dicts_are_read() -> None:
    """R3.3"""
    stored = user("x", id="a", created_at=at(1), metadata={"k": 1}).to_dict()
    assert read(stored).to_dict() == stored


def test_lone_surrogates_of_callers_are_replaced() -> None:
    """FR-080"""
    assert read("a\ud83d").content.content == "a\ufffd"
    assert read({"role": "user", "content": "a\ud83d"}).content.parts == [text("a\ufffd")]
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": "bad \ud83d…"}
    (part,) = read({"role": "tool", "content": [result]}).content.parts
    assert part.tool_invocation.result == "bad \ufffd…"  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [[3], [None], [["x"]]])
def test_content_that_cannot_be_read_names_the_message(content: list[Any]) -> None:
    """R3.3"""
    with pytest.raises(ValueError, match="message 'm7' cannot be read"):
        MessageList().add({"id": "m7", "role": "user", "content": content}, "input")


def test_a_date_that_is_none_names_the_message() -> None:
    """R3.3"""
    with pytest.raises(ValueError, match="message 'm7' cannot be read"):
        MessageList().add({"id": "m7", "role": "user", "content": "x", "createdAt": "soon"}, "input")


@pytest.mark.parametrize("form", ["core", "model"])
def test_core_and_model_forms_can_be_added_again(form: str) -> None:
    """R3.3, R3.9"""
    message_list = MessageList().add(["q"], "input")
    message_list.add(assistant("x", done("c1", args={"a": 1}), done("c2", result={"b": 2}), "y"), "input")
    converted = getattr(message_list.get.all, form)()
    again = MessageList().add(converted, "input")
    assert getattr(again.get.all, form)() == converted
    assert len(again) == 2


def test_part_objects_may_stand_in_dicts() -> None:
    """R3.3"""
    for key in ("content", "parts"):
        assert read({"role": "user", key: [text("x")]}).content.parts == [text("x")]
    assert read({"role": "user", "content": {"parts": [text("x")]}}).content.parts == [text("x")]


def test_what_older_clients_send_of_a_part_is_kept() -> None:
    """R3.3"""
    reasoning = {"type": "reasoning", "reasoning": "why", "details": []}
    assert parts_of("assistant", {"type": "text", "text": "x", "createdAt": 5}, reasoning) == [
        text("x", created_at=5),
        ReasoningPart(reasoning="why", details=[]),
    ]
    assert read({"role": "user", "parts": [{"a": 1}]}).content.parts == [UnknownPart(type="", extra={"a": 1})]


def test_a_ui_part_that_is_no_dict_names_the_message() -> None:
    """R3.3"""
    with pytest.raises(ValueError, match="message 'm7' cannot be read: a message part is a dict"):
        MessageList().add({"id": "m7", "role": "user", "parts": [3]}, "input")
