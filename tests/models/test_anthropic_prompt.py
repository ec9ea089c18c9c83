from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.errors import ModelError
from interlock.models import ModelRequest
from interlock.models.anthropic.prompt import to_prompt
from interlock.models.anthropic.request import API_VERSION, to_anthropic

USER = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
MARK = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}


def messages(*prompt: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return to_prompt(list(prompt), **options).messages


def warnings(*prompt: dict[str, Any], **options: Any) -> list[str]:
    return [warning["message"] for warning in to_prompt(list(prompt), **options).warnings]


def user(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts), **fields}


def assistant(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts), **fields}


def tool(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "content": list(parts)}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def file(media_type: str, data: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": data, **fields}


def call(call_id: str = "toolu_1", name: str = "f", args: Any = None, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": args or {}, **fields}


def result(call_id: str = "toolu_1", name: str = "f", kind: str = "text", value: Any = "ok") -> dict[str, Any]:
    output = {"type": kind, "value": value}
    return {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output}


def said(*parts: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The blocks of an assistant message after a question."""
    return messages(USER, assistant(*parts), **options)[1]["content"]  # type: ignore[no-any-return]


def asked(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return messages(user(*parts))[0]["content"]  # type: ignore[no-any-return]


def test_system_messages_stand_beside_the_conversation() -> None:
    """R4.9"""
    prompt = to_prompt([{"role": "system", "content": "Be kind."}, {"role": "system", "content": " "}, USER])
    assert prompt.system == [text("Be kind.")]
    assert prompt.messages == [USER]
    assert prompt.warnings == []


def test_a_later_system_message_is_sent_before_the_conversation() -> None:
    prompt = to_prompt([USER, {"role": "system", "content": "Be brief."}])
    assert prompt.system == [text("Be brief.")]
    assert [warning["type"] for warning in prompt.warnings] == ["other"]


def test_messages_of_one_role_in_a_row_become_one() -> None:
    prompt = messages(USER, user(text("there")), assistant(text("a")), assistant(text("b")))
    assert prompt == [
        {"role": "user", "content": [text("hi"), text("there")]},
        {"role": "assistant", "content": [text("a"), text("b")]},
    ]


def test_results_and_the_next_question_are_one_user_message() -> None:
    prompt = messages(USER, assistant(call()), tool(result()), user(text("and?")))
    assert [block["type"] for block in prompt[2]["content"]] == ["tool_result", "text"]


def test_calls_and_results_are_sent_with_their_ids() -> None:
    """R4.10"""
    prompt = messages(
        USER,
        assistant(text("Let me see."), call("a", args={"city": "Zürich"}), call("b", args='{"n": 1}')),
        tool(result("a", value="4°"), result("b", kind="json", value={"ö": [1]})),
    )
    assert prompt[1]["content"] == [
        text("Let me see."),
        {"type": "tool_use", "id": "a", "name": "f", "input": {"city": "Zürich"}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {"n": 1}},
    ]
    assert prompt[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "4°"},
        {"type": "tool_result", "tool_use_id": "b", "content": '{"ö":[1]}'},
    ]


@pytest.mark.parametrize("args", ["no json", "[1]", ["x"]])
def test_arguments_that_are_no_object_are_wrapped(args: Any) -> None:
    assert list(said(call(args=args))[0]["input"]) == ["unparsed"]


def test_ids_of_other_providers_are_made_fit() -> None:
    prompt = messages(USER, assistant(call("functions.f:0|x")), tool(result("functions.f:0|x")))
    assert prompt[1]["content"][0]["id"] == "functions_f_0_x"
    assert prompt[2]["content"][0]["tool_use_id"] == "functions_f_0_x"


@pytest.mark.parametrize(
    ("kind", "value", "sent"), [("error-text", "boom", "boom"), ("error-json", {"a": 1}, '{"a":1}')]
)
def test_a_failed_call_is_sent_as_an_error(kind: str, value: Any, sent: str) -> None:
    """R4.11"""
    block = messages(USER, assistant(call()), tool(result(kind=kind, value=value)))[2]["content"][0]
    assert block == {"type": "tool_result", "tool_use_id": "toolu_1", "content": sent, "is_error": True}


def test_a_failure_always_says_something() -> None:
    block = messages(USER, assistant(call()), tool(result(kind="error-text", value="")))[2]["content"][0]
    assert block["content"] == "Tool execution failed"


def test_a_tools_output_may_have_text_and_files() -> None:
    """R4.11"""
    items = [
        {"type": "text", "text": "see"},
        {"type": "text", "text": " "},
        {"type": "media", "mediaType": "image/png", "data": "iVBORw0KGgo="},
        {"type": "image-url", "url": "https://x.example/a.png"},
        {"type": "file-url", "url": "https://x.example/a.pdf"},
        {"type": "hologram"},
    ]
    block = messages(USER, assistant(call()), tool(result(kind="content", value=items)))[2]["content"][0]
    assert block["content"] == [
        text("see"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}},
        text('{"type":"hologram"}'),
    ]


PNG, WEBP = "iVBORw0KGgoAAA==", "UklGRAAA"


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (file("image/png", PNG), {"type": "base64", "media_type": "image/png", "data": PNG}),
        (file("image/jpg", "/9j/"), {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}),
        (file("image/*", WEBP), {"type": "base64", "media_type": "image/webp", "data": WEBP}),
        (file("image/*", "AAAA"), {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}),
        (file("image/png", f"data:image/png;base64,{PNG}"), {"type": "base64", "media_type": "image/png", "data": PNG}),
        (file("image/png", "https://x.example/a.png"), {"type": "url", "url": "https://x.example/a.png"}),
        (file("image/png", "file_011C"), {"type": "file", "file_id": "file_011C"}),
    ],
)
def test_images_are_sent_in_the_apis_form(part: dict[str, Any], source: dict[str, Any]) -> None:
    """R4.16"""
    assert asked(part) == [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    ("part", "source"),
    [
        (file("application/pdf", "JVBE"), {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}),
        (file("application/pdf", "https://x.example/a.pdf"), {"type": "url", "url": "https://x.example/a.pdf"}),
        (file("application/pdf", "file_011C"), {"type": "file", "file_id": "file_011C"}),
        (file("application/octet-stream", "file_011C"), {"type": "file", "file_id": "file_011C"}),
        (
            file("text/csv", base64.b64encode("ä;1".encode()).decode()),
            {"type": "text", "media_type": "text/plain", "data": "ä;1"},
        ),
        (file("application/json", "e30="), {"type": "text", "media_type": "text/plain", "data": "{}"}),
    ],
)
def test_documents_are_sent_in_the_apis_form(part: dict[str, Any], source: dict[str, Any]) -> None:
    """R4.16"""
    assert asked(part) == [{"type": "document", "source": source}]


def test_a_document_has_a_title_and_may_be_cited() -> None:
    options = {"anthropic": {"context": "from the archive", "citations": {"enabled": True}}}
    [block] = asked(file("application/pdf", "JVBE", filename="a.pdf", providerOptions=options))
    assert (block["title"], block["context"], block["citations"]) == ("a.pdf", "from the archive", {"enabled": True})
    [block] = asked(
        file("application/pdf", "JVBE", filename="a.pdf", providerOptions={"anthropic": {"title": "Paper"}})
    )
    assert block["title"] == "Paper"


def test_a_file_for_executed_code_is_an_upload() -> None:
    options = {"anthropic": {"containerUpload": True}}
    assert asked(file("text/csv", "file_1", providerOptions=options)) == [
        {"type": "container_upload", "file_id": "file_1"}
    ]


@pytest.mark.parametrize(
    ("part", "match"),
    [
        (file("image/tiff", "AAAA"), "no image of type 'image/tiff': convert it to JPEG, PNG, GIF or WebP"),
        (file("video/mp4", "AAAA"), "no file of type 'video/mp4': it takes images, PDF and text"),
        (file("text/plain", "https://x.example/a.txt"), "cannot load a file of type 'text/plain'"),
        (file("text/plain", "not base64!"), "is no base64"),
        ({"type": "hologram"}, "a part of type 'hologram'"),
    ],
)
def test_a_part_that_cannot_be_carried_is_an_error(part: dict[str, Any], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        asked(part)


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(ModelError, match="role 'narrator'"):
        messages({"role": "narrator", "content": []})


def test_blank_text_is_not_sent() -> None:
    """FR-099"""
    assert messages(user(text(" ")), user(text("hi")), assistant(text("\n"))) == [USER]


def test_signed_and_redacted_thinking_is_given_back() -> None:
    """R4.15"""
    signed = {"type": "reasoning", "text": "hm", "providerOptions": {"anthropic": {"signature": "s=="}}}
    redacted = {"type": "reasoning", "text": "", "providerOptions": {"anthropic": {"redactedData": "r=="}}}
    assert said(signed, redacted, call()) == [
        {"type": "thinking", "thinking": "hm", "signature": "s=="},
        {"type": "redacted_thinking", "data": "r=="},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]
    assert [block["type"] for block in said(signed, redacted, call(), sends_reasoning=False)] == ["tool_use"]


def test_thinking_of_another_provider_is_left_out() -> None:
    """R4.15"""
    foreign = {"type": "reasoning", "text": "hm", "providerOptions": {"openai": {"itemId": "rs_1"}}}
    assert said(foreign, text("Hi")) == [text("Hi")]
    assert warnings(USER, assistant(foreign, text("Hi"))) == ["reasoning without Anthropic's signature was left out"]


SEARCH = {"call_id": "srvtoolu_1", "name": "web_search"}
PAGES = [{"type": "web_search_result", "title": "T", "url": "https://x.example", "encrypted_content": "e"}]


def test_a_search_of_the_apis_own_is_given_back_with_its_result() -> None:
    """R4.13"""
    blocks = said(
        call(**SEARCH, args={"query": "q"}, providerExecuted=True), result(**SEARCH, kind="json", value=PAGES)
    )
    assert blocks == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": PAGES},
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("code_execution", "code_execution_tool_result"),
        ("bash_code_execution", "bash_code_execution_tool_result"),
        ("tool_search_tool_bm25", "tool_search_tool_result"),
    ],
)
def test_each_tool_of_the_apis_own_has_its_kind_of_result(name: str, kind: str) -> None:
    value = {"type": "whatever_result"}
    blocks = said(call("srvtoolu_1", name, providerExecuted=True), result("srvtoolu_1", name, "json", value))
    assert blocks[1] == {"type": kind, "tool_use_id": "srvtoolu_1", "content": value}


def test_a_result_that_a_hook_changed_is_sent_as_a_failure() -> None:
    """R10.8"""
    parts = (call(**SEARCH, providerExecuted=True), result(**SEARCH, value="[removed]"))
    assert said(*parts)[1]["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    assert warnings(USER, assistant(*parts)) == [
        "the result of 'web_search' was replaced by a failure: it is not as the API sent it"
    ]


def test_a_call_of_a_remote_mcp_server_is_given_back() -> None:
    options = {"anthropic": {"serverName": "demo"}}
    value = {"content": [text("hey")], "is_error": False}
    blocks = said(
        call("mcptoolu_1", "echo", {"a": 1}, providerExecuted=True, providerOptions=options),
        result("mcptoolu_1", "echo", "json", value),
    )
    assert blocks == [
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "demo", "input": {"a": 1}},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": [text("hey")]},
    ]


def test_a_changed_result_of_a_remote_mcp_server_is_sent_as_a_failure() -> None:
    """R10.8"""
    parts = (call("mcptoolu_1", "echo", providerExecuted=True), result("mcptoolu_1", "echo", value="gone"))
    assert said(*parts)[1] == {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": True,
        "content": "gone",
    }


def test_a_call_that_another_provider_executed_is_left_out() -> None:
    parts = (call("ws_1", "web_search", providerExecuted=True), result("ws_1", "web_search", "json", {}), text("Hi"))
    assert said(*parts) == [text("Hi")]
    assert len(warnings(USER, assistant(*parts))) == 2


def test_an_open_call_goes_back_until_the_user_speaks_again() -> None:
    """R4.12"""
    open_call = assistant(text("Let me look."), call(**SEARCH, providerExecuted=True))
    assert [block["type"] for block in messages(USER, open_call)[1]["content"]] == ["text", "server_tool_use"]
    assert [block["type"] for block in messages(USER, open_call, USER)[1]["content"]] == ["text"]


def test_a_call_from_code_goes_back_with_its_caller() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    [block] = said(call(providerOptions={"anthropic": {"caller": caller}}))
    assert block["caller"] == caller


def test_citations_of_pages_go_back_with_their_text() -> None:
    citations = [{"type": "web_search_result_location", "url": "https://x.example", "encrypted_index": "i"}]
    [block] = said(text("It is.", providerOptions={"anthropic": {"citations": citations}}))
    assert block["citations"] == citations


def test_files_that_the_model_made_are_sent_by_id_only() -> None:
    assert said(file("text/csv", "file_1"), file("image/png", "AAAA")) == [
        {"type": "container_upload", "file_id": "file_1"}
    ]


def test_a_conversation_that_the_assistant_began_gets_a_user_message_before_it() -> None:
    """R4.19"""
    assert messages(assistant(text("Hello")), USER)[0] == {"role": "user", "content": [text(".")]}
    assert len(warnings(assistant(text("Hello")), USER)) == 1


def test_the_beginning_of_an_answer_does_not_end_with_white_space() -> None:
    assert messages(USER, assistant(text("The answer is: \n")))[-1]["content"] == [text("The answer is:")]
    assert messages(USER, assistant(text("a ")), USER)[1]["content"] == [text("a ")]


def test_cache_markers_stand_where_the_options_are() -> None:
    """R4.18"""
    prompt = to_prompt(
        [
            {"role": "system", "content": "Be kind.", "providerOptions": MARK},
            user(text("a", providerOptions=MARK), text("b")),
            assistant(text("c"), call(), providerOptions=MARK),
            {**tool(result()), "providerOptions": {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}},
        ]
    )
    marker = {"type": "ephemeral"}
    assert prompt.system[0]["cache_control"] == marker
    marked = [[block.get("cache_control") for block in message["content"]] for message in prompt.messages]
    assert marked == [[marker, None], [None, marker], [{**marker, "ttl": "1h"}]]


def test_thinking_bears_no_cache_marker() -> None:
    thinking = {"type": "reasoning", "text": "hm", "providerOptions": {"anthropic": {"signature": "s"}}}
    assert "cache_control" not in said(thinking)[0]
    prompt = to_prompt([USER, assistant(text("x"), thinking, providerOptions=MARK)])
    assert ["cache_control" in block for block in prompt.messages[1]["content"]] == [True, False]
    marked = {**thinking, "providerOptions": {"anthropic": {"signature": "s", **MARK["anthropic"]}}}
    assert warnings(USER, assistant(marked)) == [
        "a cache marker on thinking was left out: Anthropic caches it with what follows"
    ]


def test_of_too_many_cache_markers_the_last_are_kept() -> None:
    parts = [text(str(n), providerOptions=MARK) for n in range(4)]
    prompt = [{"role": "system", "content": "s", "providerOptions": MARK}, user(*parts)]
    told: list[dict[str, Any]] = []
    body = to_anthropic(ModelRequest(prompt=prompt), "claude-sonnet-5-5", API_VERSION, told).body
    blocks = [*body["system"], *body["messages"][0]["content"]]
    assert ["cache_control" in block for block in blocks] == [False, True, True, True, True]
    assert len(told) == 1


def test_a_marker_of_the_whole_request_counts_too() -> None:
    prompt = [user(*(text(str(n), providerOptions=MARK) for n in range(4)))]
    options = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    body = to_anthropic(ModelRequest(prompt=prompt, provider_options=options), "m", API_VERSION, []).body
    assert ["cache_control" in block for block in body["messages"][0]["content"]] == [False, True, True, True]


def test_the_prompt_itself_is_not_changed() -> None:
    prompt = [USER, assistant(text("x ", providerOptions=MARK), call(args={"a": 1})), tool(result())]
    before = repr(prompt)
    to_prompt(prompt)
    assert repr(prompt) == before
