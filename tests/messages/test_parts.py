from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from interlock.messages import Message, MessageContent, get_text, part_from_dict
from interlock.messages.parts import FilePart, ReasoningPart, ToolInvocation, UnknownPart
from tests.messages.builders import assistant, call, done, message, text

STORED = {
    "id": "m1",
    "role": "assistant",
    "createdAt": "2026-01-02T03:04:05.678Z",
    "threadId": "t",
    "resourceId": "r",
    "type": "text",
    "later": {"a": 1},
    "content": {
        "format": 2,
        "parts": [
            {"type": "text", "text": "a", "createdAt": 5, "providerMetadata": {"p": {"x": 1}}, "state": "done"},
            {"type": "reasoning", "reasoning": "b", "details": [{"type": "redacted", "data": "x"}]},
            {
                "type": "tool-invocation",
                "toolInvocation": {
                    "state": "output-denied",
                    "toolCallId": "c",
                    "toolName": "t",
                    "args": {"x": 1},
                    "step": 0,
                    "approval": {"id": "c", "approved": False, "reason": "no", "by": "me"},
                    "later": 1,
                },
                "providerExecuted": True,
            },
            {"type": "file", "mimeType": "image/png", "data": "AAAA", "filename": "f"},
            {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "u"}},
            {"type": "source-document", "sourceId": "d", "mediaType": "text/plain", "title": "T"},
            {"type": "step-start", "model": "m"},
            {"type": "data-x", "data": None, "id": "i"},
            {"type": "error", "error": {"name": "E", "message": "m"}},
            {"type": "from-the-future", "a": [1, {"b": None}]},
        ],
        "content": "a",
        "toolInvocations": [{"state": "call"}],
        "reasoning": "b",
        "experimental_attachments": [{"url": "u"}],
        "annotations": [1],
        "metadata": {"k": {"v": 1}},
        "providerMetadata": {"p": {}},
        "later": True,
    },
}


def test_a_stored_message_is_written_back_unchanged() -> None:
    """R4.1, R4.2, R4.3, R0.1"""
    assert Message.from_dict(STORED).to_dict() == STORED


def test_a_string_content_is_one_text_part() -> None:
    """R4.1"""
    short = Message.from_dict({"id": "a", "role": "user", "content": "hi"})
    assert short.content == MessageContent(parts=[text("hi")], content="hi")


def test_content_is_never_a_string() -> None:
    """R4.1"""
    with pytest.raises(TypeError, match="must be a MessageContent, not str"):
        Message(role="user", content="hi")  # type: ignore[arg-type]


def test_other_content_of_a_stored_message_is_refused() -> None:
    """R4.1"""
    with pytest.raises(TypeError, match="dict or a string"):
        Message.from_dict({"id": "a", "role": "user", "content": []})


def test_times_may_be_epoch_milliseconds() -> None:
    """R0.2"""
    content = {"parts": []}
    assert Message.from_dict({"role": "user", "createdAt": 0, "content": content}).to_dict()["createdAt"] == (
        "1970-01-01T00:00:00.000Z"
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "tool-invocation"},
        {"type": "tool-invocation", "toolInvocation": "x"},
        {"type": "source"},
        {"type": "error"},
        {"text": "no type"},
    ],
)
def test_a_part_without_the_shape_of_its_type_is_kept(broken: dict[str, Any]) -> None:
    """R4.3"""
    part = part_from_dict(broken)
    assert part.__class__ is UnknownPart
    assert part.to_dict() == {"type": "", **broken}


def test_a_type_can_be_changed_in_place() -> None:
    """R4.3"""
    part = ReasoningPart(reasoning="x")
    part.type = "thinking"
    assert part_from_dict(part.to_dict()) == part


def test_a_null_result_is_written() -> None:
    """R10.5"""
    assert done(result=None).to_dict()["toolInvocation"]["result"] is None
    assert "result" not in call().to_dict()["toolInvocation"]


@pytest.mark.parametrize("state", ["partial-call", "call", "approval-requested", "approval-responded"])
def test_pending_states(state: str) -> None:
    """R4.4"""
    assert ToolInvocation(state=state).is_pending


@pytest.mark.parametrize("state", ["result", "output-error", "output-denied"])
def test_resolved_states(state: str) -> None:
    """R4.4"""
    assert not ToolInvocation(state=state).is_pending


@pytest.mark.parametrize(
    ("parts", "legacy", "expected"),
    [
        ([text("a"), FilePart(), text("b")], "zzz", "ab"),
        ([], "old", "old"),
        ([text("")], "old", "old"),
        ([call()], None, ""),
        ([None, text("a"), text(None)], None, "a"),  # type: ignore[arg-type]
    ],
)
def test_get_text(parts: list[Any], legacy: str | None, expected: str) -> None:
    """R4.8"""
    one = assistant()
    one.content.parts, one.content.content = parts, legacy
    assert get_text(one) == expected


def test_get_text_never_raises_for_what_is_missing() -> None:
    """R4.8"""
    broken = message("user")
    broken.content.parts = None  # type: ignore[assignment]
    assert get_text(broken) == ""
    assert get_text(SimpleNamespace(content=None)) == ""  # type: ignore[arg-type]
