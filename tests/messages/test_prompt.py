from __future__ import annotations

from typing import Any

import pytest

from interlock.messages import Message, MessageList, Part
from interlock.messages.parts import (
    DataPart,
    ErrorPart,
    FilePart,
    ReasoningPart,
    SourceDocumentPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolApproval,
    UnknownPart,
    part_from_dict,
)
from interlock.messages.prompt import prompt_of
from tests.messages.builders import assistant, at, call, done, message, pairs, prompt, text, user


def content(*parts: Part | str) -> list[dict[str, Any]]:
    """What is sent of one assistant message."""
    return [part for one in prompt_of(assistant(*parts)) for part in one["content"]]


def test_a_conversation() -> None:
    """R4.9, R4.10"""
    message_list = MessageList().add_system("S")
    message_list.add(user("q", FilePart(mime_type="image/png", data="AAAA", filename="f.png")), "input")
    message_list.add(assistant("let me see", done(args={"x": 1}, result={"y": 2}), "it is 2"), "response")
    assert prompt(message_list) == [
        {"role": "system", "content": "S"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "q"},
                {"type": "file", "mediaType": "image/png", "data": "AAAA", "filename": "f.png"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me see"},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "t", "input": {"x": 1}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "t",
                    "output": {"type": "json", "value": {"y": 2}},
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "it is 2"}]},
    ]


def test_a_signal_is_sent_as_a_user_message() -> None:
    """R4.9"""
    assert prompt_of(message("signal", "wake up")) == [
        {"role": "user", "content": [{"type": "text", "text": "wake up"}]}
    ]


@pytest.mark.parametrize(
    ("part", "output"),
    [
        (done(result="r"), {"type": "text", "value": "r"}),
        (done(result=""), {"type": "text", "value": ""}),
        (done(result=0), {"type": "json", "value": 0}),
        (done(result=False), {"type": "json", "value": False}),
        (done(result=[1, {"a": None}]), {"type": "json", "value": [1, {"a": None}]}),
        (done(result=None), {"type": "json", "value": None}),
        (call(state="output-error", error_text="bad"), {"type": "error-text", "value": "bad"}),
        (
            call(state="output-denied", approval=ToolApproval(id="c1", approved=False, reason="no")),
            {"type": "text", "value": "no"},
        ),
        (call(state="output-denied"), {"type": "text", "value": "Tool call was not approved by the user"}),
        (
            done(provider_metadata={"mastra": {"modelOutput": {"type": "content", "value": [1]}}}),
            {"type": "content", "value": [1]},
        ),
        (done(provider_metadata={"mastra": {"modelOutput": None}}), {"type": "text", "value": "r"}),
    ],
)
def test_tool_outputs(part: Part, output: dict[str, Any]) -> None:
    """R4.11"""
    assert content(part)[1]["output"] == output


@pytest.mark.parametrize("state", ["partial-call", "call", "approval-requested", "approval-responded"])
def test_an_unanswered_call_is_left_out(state: str) -> None:
    """R4.12"""
    assert pairs(prompt_of(assistant("a", call("c1", state=state), done("c2")))) == [
        ("assistant", ["a", "c2"]),
        ("tool", ["c2"]),
    ]


def test_an_unanswered_call_of_the_provider_stays() -> None:
    """R4.12"""
    assert content(call("w", provider_executed=True))[0]["providerExecuted"] is True


def test_a_call_and_result_of_the_provider_stay_together() -> None:
    """R4.13"""
    sent = prompt_of(assistant(done("w", provider_executed=True), done("c1"), "b"))
    assert pairs(sent) == [("assistant", ["w", "w", "c1"]), ("tool", ["c1"]), ("assistant", ["b"])]
    assert [part["type"] for part in sent[0]["content"]] == ["tool-call", "tool-result", "tool-call"]


@pytest.mark.parametrize(
    "part",
    [
        DataPart(type="data-x", data=1),
        SourcePart(source={"sourceType": "url", "id": "s", "url": "u"}),
        SourceDocumentPart(source_id="d", media_type="m", title="t"),
        ErrorPart(error={"name": "E", "message": "m"}),
        StepStartPart(),
        UnknownPart(type="weird", extra={"text": "x"}),
        text(""),
        text("  \n"),
        ReasoningPart(),
        ReasoningPart(details=[]),
        ReasoningPart(provider_metadata={"mastra": {"x": 1}}),
        FilePart(mime_type="image/png"),
        TextPart(text="x", type="weird"),
    ],
    ids=lambda part: f"{type(part).__name__}-{part.type}",
)
def test_what_is_always_left_out(part: Part) -> None:
    """R4.14"""
    assert prompt_of(assistant(part)) == []
    assert content("a", part) == [{"type": "text", "text": "a"}]


def test_a_blank_question_is_sent_but_an_empty_one_is_not() -> None:
    """R4.14"""
    assert prompt_of(user(" "))[0]["content"] == [{"type": "text", "text": " "}]
    assert prompt_of(user("")) == []


def test_reasoning_goes_back_with_its_signature() -> None:
    """R4.15"""
    part = ReasoningPart(reasoning="why", provider_metadata={"anthropic": {"signature": "s"}, "mastra": {"x": 1}})
    assert content(part) == [{"type": "reasoning", "text": "why", "providerOptions": {"anthropic": {"signature": "s"}}}]


def test_reasoning_without_text_goes_back_for_its_provider_data() -> None:
    """R4.14, R4.15"""
    part = ReasoningPart(provider_metadata={"openai": {"itemId": "rs_1"}})
    assert content(part) == [{"type": "reasoning", "text": "", "providerOptions": {"openai": {"itemId": "rs_1"}}}]


def test_signatures_and_redacted_data_of_the_details_are_kept() -> None:
    """R4.15"""
    details = [{"type": "text", "text": "why", "signature": "s"}, {"type": "redacted", "data": "xx"}]
    assert content(ReasoningPart(reasoning="why", details=details)) == [
        {"type": "reasoning", "text": "why", "providerOptions": {"anthropic": {"signature": "s"}}},
        {"type": "reasoning", "text": "", "providerOptions": {"anthropic": {"redactedData": "xx"}}},
    ]
    signed = ReasoningPart(reasoning="why", details=details[:1], provider_metadata={"bedrock": {"k": 1}})
    assert content(signed)[0]["providerOptions"] == {"bedrock": {"k": 1, "signature": "s"}}


@pytest.mark.parametrize(
    "part",
    [
        ReasoningPart(reasoning="why", type="thinking"),
        part_from_dict({"type": "thinking", "thinking": "why"}),
        TextPart(text="why", type="thinking"),
        ReasoningPart(details=[{"type": "text", "text": "why"}]),
    ],
)
def test_thinking_is_reasoning(part: Part) -> None:
    """R4.3"""
    assert content(part) == [{"type": "reasoning", "text": "why"}]


def test_a_part_whose_type_no_longer_fits_does_not_fail() -> None:
    """R4.3"""
    parts: list[Part] = [text("a"), ReasoningPart(reasoning="b"), FilePart(data="c"), done(), UnknownPart(type="x")]
    types = ["text", "reasoning", "thinking", "file", "tool-invocation", "step-start", "data-x", "source", "weird", ""]
    for part in parts:
        for kind in types:
            part.type = kind
            prompt_of(assistant(part))
            prompt_of(user(part))


@pytest.mark.parametrize(
    ("data", "media_type", "sent"),
    [
        ("AAAA", "image/png", ("image/png", "AAAA")),
        ("data:image/gif;base64,AAAA", "", ("image/gif", "AAAA")),
        ("data:image/gif;base64,AAAA", "image/png", ("image/png", "AAAA")),
        ("data:text/plain,a%20b", "", ("text/plain", "YSBi")),
        ("data:;base64,AAAA", "", ("application/octet-stream", "AAAA")),
        ("https://x/y.png", "image/png", ("image/png", "https://x/y.png")),
        ("file-abc123", "application/pdf", ("application/pdf", "file-abc123")),
    ],
)
def test_files(data: str, media_type: str, sent: tuple[str, str]) -> None:
    """R4.16"""
    (part,) = prompt_of(user(FilePart(mime_type=media_type, data=data)))[0]["content"]
    assert (part["mediaType"], part["data"]) == sent


@pytest.mark.parametrize("name", ["", "a b", "naïve", "x.y", "t\n"])
def test_tool_names_that_no_provider_accepts(name: str) -> None:
    """R4.17"""
    assert {part["toolName"] for part in content(done(name=name))} == {"unknown_tool"}


def test_tool_names_that_are_accepted() -> None:
    """R4.17"""
    assert content(done(name="get_Weather-2"))[0]["toolName"] == "get_Weather-2"


def test_provider_metadata_becomes_options_without_bookkeeping() -> None:
    """R4.18"""
    metadata = {"p": {"k": 1}, "mastra": {"createdAt": 5}, "interlock": {"x": 1}}
    sent = prompt_of(user(text("a", provider_metadata=metadata), provider_metadata=metadata))
    assert sent == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "a", "providerOptions": {"p": {"k": 1}}}],
            "providerOptions": {"p": {"k": 1}},
        }
    ]
    parts = content(done(provider_metadata=metadata))
    assert [part["providerOptions"] for part in parts] == [{"p": {"k": 1}}, {"p": {"k": 1}}]
    assert "providerOptions" not in content(text("a", provider_metadata={"mastra": {}}))[0]


def test_a_prompt_may_begin_with_an_assistant_message() -> None:
    """R4.19"""
    assert [one["role"] for one in prompt(MessageList().add(assistant("a"), "input"))] == ["assistant"]


def test_a_legacy_message_without_parts_is_its_text() -> None:
    """R4.20"""
    legacy = Message.from_dict({"id": "a", "role": "assistant", "content": {"content": "old"}})
    assert prompt_of(legacy) == [{"role": "assistant", "content": [{"type": "text", "text": "old"}]}]


def test_steps_are_cut_apart() -> None:
    """R3.11, R4.14"""
    sent = prompt_of(assistant("a", done("c1"), "", done("c2"), StepStartPart(), done("c3"), "b"))
    assert pairs(sent) == [
        ("assistant", ["a", "c1", "c2"]),
        ("tool", ["c1", "c2"]),
        ("assistant", ["c3"]),
        ("tool", ["c3"]),
        ("assistant", ["b"]),
    ]


def test_missing_arguments_are_an_empty_object() -> None:
    """R4.10"""
    part = done()
    part.tool_invocation.args = None
    assert content(part)[0]["input"] == {}


def test_lone_surrogates_never_reach_a_prompt() -> None:
    """FR-080"""
    parts = [text("x\ud83d"), done(args={"a\ud83d": "\ud83d"}, result=["\ud83c\udf89", "bad \ud83d…"]), text("\udc00")]
    sent = str(prompt_of(assistant(*parts)) + prompt_of(user("\ud83d")))
    sent.encode()
    assert "🎉" in sent


def test_nothing_in_a_prompt_is_shared_with_the_message() -> None:
    """R3.7"""
    part = done(args={"x": [1]}, result={"y": [1]}, provider_metadata={"p": {"z": [1]}})
    sent = prompt_of(assistant(part))
    before = repr(sent)
    part.tool_invocation.args["x"].append(2)
    part.tool_invocation.result["y"].append(2)
    part.provider_metadata["p"]["z"].append(2)  # type: ignore[index]
    assert repr(sent) == before


def test_dates_and_records_in_results_are_sent_as_json() -> None:
    """R4.11"""
    result = {"when": at(0), "approval": ToolApproval(id="a", approved=True)}
    assert content(done(result=result))[1]["output"]["value"] == {
        "when": "2026-01-01T00:00:00.000Z",
        "approval": {"id": "a", "approved": True},
    }


def test_a_message_turned_into_a_system_message_is_sent_as_one() -> None:
    """R3.4, R4.9"""
    assert prompt_of(message("system", "S")) == [{"role": "system", "content": "S"}]
