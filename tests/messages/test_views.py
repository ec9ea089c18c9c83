from __future__ import annotations

from typing import Any

import pytest

from interlock.messages import MessageList
from interlock.messages.parts import (
    DataPart,
    ErrorPart,
    FilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    ToolApproval,
    UnknownPart,
)
from tests.messages.builders import assistant, at, call, done, ids, said, text, user


def conversation() -> MessageList:
    message_list = MessageList(thread_id="th")
    message_list.add(user("q", id="u1", created_at=at(0)), "input")
    message_list.add(assistant("x", done(args={"a": 1}), id="a1", created_at=at(1)), "response")
    return message_list


def test_the_ui_shape() -> None:
    """R3.9"""
    assert conversation().get.response.ui() == [
        {
            "id": "a1",
            "role": "assistant",
            "metadata": {"createdAt": "2026-01-01T00:00:01.000Z", "threadId": "th"},
            "parts": [
                {"type": "text", "text": "x"},
                {"type": "tool-t", "toolCallId": "c1", "state": "output-available", "input": {"a": 1}, "output": "r"},
            ],
        }
    ]


def test_the_core_shape() -> None:
    """R3.9"""
    assert conversation().get.response.core() == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "t", "args": {"a": 1}},
            ],
        },
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": "r"}]},
    ]


def test_the_model_shape() -> None:
    """R3.9"""
    assert conversation().get.response.model() == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "t", "input": {"a": 1}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "t",
                    "output": {"type": "text", "value": "r"},
                }
            ],
        },
    ]


def test_prompt_is_system_and_model_messages_without_open_calls() -> None:
    """R3.6, R4.12"""
    message_list = conversation().add_system("S")
    message_list.add(user("more"), "input").add(assistant("hm", call("c2")), "response")
    sent = message_list.get.all.prompt()
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool", "user", "assistant"]
    assert sent[-1]["content"] == [{"type": "text", "text": "hm"}]
    assert message_list.get.all.model()[-1]["content"][-1]["toolCallId"] == "c2"


def test_every_call_builds_a_new_list_of_live_messages() -> None:
    """R3.7"""
    message_list = conversation()
    first, second = message_list.get.all.db(), message_list.get.all.db()
    assert first is not second
    assert first[0] is second[0]
    first.clear()
    assert len(message_list) == 2


@pytest.mark.parametrize("form", ["ui", "core", "model", "prompt", "llm_prompt"])
def test_converted_forms_are_copies(form: str) -> None:
    """R3.7"""
    message_list = conversation().add_system("S")
    view = getattr(message_list.get.all, form)
    before = view()
    _scramble(view())
    assert view() == before
    assert message_list.get.all.db()[1].content.parts == [text("x"), done(args={"a": 1})]


def _scramble(value: Any) -> None:
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, (dict, list)):
            _scramble(item)
    if isinstance(value, dict):
        value["extra"] = "scrambled"
    value.clear()


def test_a_view_does_not_grow_but_shows_edits() -> None:
    """R3.8"""
    message_list = MessageList().add("a", "input")
    view = message_list.get.all.db()
    message_list.add("b", "input")
    message_list.get.all.db()[0].content.parts[0].text = "A"  # type: ignore[attr-defined]
    assert [one.content.parts for one in view] == [[text("A")]]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("partial-call", "input-streaming"),
        ("call", "input-available"),
        ("result", "output-available"),
        ("output-error", "output-error"),
        ("output-denied", "output-denied"),
        ("approval-requested", "approval-requested"),
        ("approval-responded", "approval-responded"),
    ],
)
def test_tool_states_in_the_ui(state: str, shown: str) -> None:
    """R3.10"""
    approval = ToolApproval(id="c1", approved=False, reason="no")
    part = call(state=state, result=1, error_text="bad", approval=approval)
    (message,) = MessageList().add(assistant(part), "response").get.all.ui()
    (tool,) = message["parts"]
    assert tool["state"] == shown
    assert tool["approval"] == {"id": "c1", "approved": False, "reason": "no"}
    assert ("output" in tool, "errorText" in tool) == (state == "result", state == "output-error")


def test_a_null_result_is_an_output() -> None:
    """R3.10, R10.5"""
    (message,) = MessageList().add(assistant(done(result=None)), "response").get.all.ui()
    assert message["parts"][0]["output"] is None


def test_data_parts_appear_in_the_ui_only() -> None:
    """R3.10, R9.11"""
    message_list = MessageList().add(assistant("x", DataPart(type="data-x", data=1, id="i")), "response")
    assert message_list.get.all.ui()[0]["parts"][1] == {"type": "data-x", "data": 1, "id": "i"}
    for form in (message_list.get.all.core(), message_list.get.all.model(), message_list.get.all.llm_prompt()):
        assert form == [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]


def test_every_other_part_has_a_ui_form() -> None:
    """R3.9, R4.3"""
    message_list = MessageList().add(
        assistant(
            ReasoningPart(reasoning="why", provider_metadata={"p": {"s": 1}}),
            FilePart(mime_type="image/png", data="AAAA", filename="f"),
            FilePart(mime_type="image/png", data="https://x/y.png"),
            SourcePart(source={"sourceType": "url", "id": "s", "url": "https://x", "title": "X"}),
            SourceDocumentPart(source_id="d", media_type="text/plain", title="D"),
            StepStartPart(model="m"),
            ErrorPart(error={"name": "E", "message": "m"}),
            UnknownPart(type="weird", extra={"a": 1}),
        ),
        "response",
    )
    assert message_list.get.all.ui()[0]["parts"] == [
        {"type": "reasoning", "text": "why", "providerMetadata": {"p": {"s": 1}}},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "f"},
        {"type": "file", "mediaType": "image/png", "url": "https://x/y.png"},
        {"type": "source-url", "sourceId": "s", "url": "https://x", "title": "X"},
        {"type": "source-document", "sourceId": "d", "mediaType": "text/plain", "title": "D"},
        {"type": "step-start", "model": "m"},
        {"type": "error", "error": {"name": "E", "message": "m"}},
        {"type": "weird", "a": 1},
    ]


def test_message_metadata_is_in_the_ui_metadata() -> None:
    """R12.24"""
    message_list = MessageList().add(assistant("x", metadata={"score": 1}, created_at=at(0)), "response")
    assert message_list.get.all.ui()[0]["metadata"] == {"createdAt": "2026-01-01T00:00:00.000Z", "score": 1}


@pytest.mark.parametrize("form", ["core", "model"])
def test_steps_never_look_like_parallel_calls(form: str) -> None:
    """R3.11"""
    parts = [text("a"), done("c1"), done("c2"), StepStartPart(), done("c3"), text("b"), done("c4")]
    messages = getattr(MessageList().add(assistant(*parts), "response").get.all, form)()
    assert [(one["role"], [part.get("toolCallId") or part["text"] for part in one["content"]]) for one in messages] == [
        ("assistant", ["a", "c1", "c2"]),
        ("tool", ["c1", "c2"]),
        ("assistant", ["c3"]),
        ("tool", ["c3"]),
        ("assistant", ["b", "c4"]),
        ("tool", ["c4"]),
    ]


def test_failures_and_denials_in_core_shape() -> None:
    """R3.9"""
    denied = call("c2", state="output-denied", approval=ToolApproval(id="c2", approved=False, reason="no"))
    message_list = MessageList().add(assistant(call(state="output-error", error_text="bad"), denied), "response")
    results = message_list.get.all.core()[1]["content"]
    assert [(one["result"], one.get("isError")) for one in results] == [("bad", True), ("no", None)]


def test_reasoning_and_files_in_core_and_model_shape() -> None:
    """R3.9"""
    details = [{"type": "text", "text": "why", "signature": "sig"}, {"type": "redacted", "data": "xx"}]
    parts = [ReasoningPart(reasoning="why", details=details), FilePart(mime_type="image/png", data="AAAA")]
    message_list = MessageList().add(assistant(*parts), "response")
    assert message_list.get.all.core()[0]["content"] == [
        {"type": "reasoning", "text": "why", "signature": "sig"},
        {"type": "redacted-reasoning", "data": "xx"},
        {"type": "file", "mimeType": "image/png", "data": "AAAA"},
    ]
    assert message_list.get.all.model()[0]["content"][-1] == {"type": "file", "mediaType": "image/png", "data": "AAAA"}


def test_remove_by_ids_returns_what_was_there_in_order() -> None:
    """R3.21"""
    message_list = MessageList().add([user(name, id=name) for name in "abc"], "input").add(user("d", id="d"), "memory")
    assert [one.id for one in message_list.remove_by_ids(["d", "x", "a"])] == ["a", "d"]
    assert ids(message_list) == ["b", "c"]
    assert message_list.get.remembered.db() == []


def test_clearing_one_source() -> None:
    """R3.21"""
    message_list = MessageList().add("a", "input").add(user("b"), "response").add(user("c", created_at=at(0)), "memory")
    assert [one.role for one in message_list.clear.response.db()] == ["user"]
    assert len(message_list.clear.input.db()) == 1
    assert said(message_list) == [("user", "c")]
    assert len(message_list.clear.all.db()) == 1
    assert said(message_list) == []


def test_replace_keeps_source_place_and_id() -> None:
    """R3.21"""
    message_list = MessageList().add([user(name, id=name, created_at=at(1)) for name in "abc"], "memory")
    assert message_list.replace("b", assistant("B", created_at=at(9)))
    assert message_list.replace("c", {"role": "user", "content": "C"})
    assert said(message_list) == [("user", "a"), ("assistant", "B"), ("user", "C")]
    assert (ids(message_list), message_list.source_of("b")) == (["a", "b", "c"], "memory")
    assert message_list.replace("x", user("y")) is False


def test_sources_can_be_asked_for() -> None:
    """R3.26, R19.8"""
    message_list = MessageList().add(user("a", id="a"), "input").add(user("b", id="b"), "memory")
    message_list.add(user("c", id="c"), "response").add(user("d", id="d"), "context")
    a, b = message_list.get.input.db()[0], message_list.get.remembered.db()[0]
    assert [message_list.is_new_message(one) for one in (a, b, "c", "d", "x")] == [True, False, True, False, False]
    assert message_list.source_of(user("copy", id="d")) == "context"
    source_of = message_list.make_source_checker()
    message_list.clear.all.db()
    assert [source_of(one) for one in (a, "b", "x")] == ["input", "memory", None]


def test_response_text_is_all_text_of_the_response() -> None:
    """R12.20"""
    message_list = MessageList().add("q", "input").add(assistant("a", done(), "b"), "response")
    assert message_list.response_text() == "ab"


@pytest.mark.parametrize(("form", "key"), [("core", "args"), ("model", "input")])
def test_a_call_of_the_provider_keeps_its_result_beside_it(form: str, key: str) -> None:
    """R4.13"""
    message_list = MessageList().add(assistant(done(provider_executed=True)), "response")
    ((sent, result),) = [one["content"] for one in getattr(message_list.get.all, form)()]
    assert (sent["providerExecuted"], sent[key], result["type"]) == (True, {}, "tool-result")


@pytest.mark.parametrize("form", ["ui", "core", "model"])
def test_a_legacy_message_without_parts_is_its_text(form: str) -> None:
    """R4.20"""
    legacy = {"id": "a", "role": "user", "content": {"content": "old"}, "resourceId": "r"}
    (sent,) = getattr(MessageList().add(legacy, "memory").get.all, form)()
    assert sent.get("parts", sent.get("content")) == [{"type": "text", "text": "old"}]
    assert form != "ui" or sent["metadata"]["resourceId"] == "r"


def test_reasoning_without_details_in_core_shape() -> None:
    """R3.9"""
    message_list = MessageList().add(assistant(ReasoningPart(reasoning="why")), "response")
    assert message_list.get.all.core()[0]["content"] == [{"type": "reasoning", "text": "why"}]


def test_a_source_keeps_its_provider_metadata_in_the_ui() -> None:
    """R3.9"""
    source = {"sourceType": "url", "id": "s", "url": "u", "providerMetadata": {"p": {"x": 1}}}
    message_list = MessageList().add(assistant(SourcePart(source=source)), "response")
    assert message_list.get.all.ui()[0]["parts"][0]["providerMetadata"] == {"p": {"x": 1}}
