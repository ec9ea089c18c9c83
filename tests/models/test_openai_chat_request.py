from __future__ import annotations

import base64
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from interlock.chunks import GenericChunk
from interlock.errors import ModelError
from interlock.models import ModelRequest, ToolSpec
from interlock.models.openai.chat_request import to_openai_chat
from interlock.models.openai.dialects import COMPATIBLE, DEEPSEEK, MISTRAL, OPENAI, SELF_HOSTED, Dialect
from tests.models.sdk_check import validated
from tests.models.wire import HELLO, MockServer, event_reply

USER = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def sent(
    prompt: Any = USER, *, model_id: str = "gpt-4.1", dialect: Dialect = OPENAI, **fields: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body and the warnings; the SDK's own types must know every field of what OpenAI gets."""
    warnings: list[dict[str, Any]] = []
    body = to_openai_chat(ModelRequest(prompt=prompt, **fields), model_id, "openai", dialect, warnings)
    if dialect is OPENAI:
        assert validated(CompletionCreateParamsStreaming, body) == body
    return body, warnings


def messages(prompt: Any, dialect: Dialect = OPENAI) -> Any:
    return sent(prompt, dialect=dialect)[0]["messages"]


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def file(media_type: str, data: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": data, **fields}


def test_the_smallest_request_streams_and_asks_for_usage() -> None:
    assert sent() == (
        {
            "model": "gpt-4.1",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        [],
    )


def test_system_and_user_text_are_sent_as_strings() -> None:
    """R4.9"""
    prompt = [{"role": "system", "content": "Be kind."}, *USER]
    assert messages(prompt) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]


def test_several_user_parts_are_sent_as_a_list() -> None:
    """R4.9"""
    parts = user({"type": "text", "text": "what is"}, {"type": "text", "text": "this?"})
    assert messages(parts)[0]["content"] == [{"type": "text", "text": "what is"}, {"type": "text", "text": "this?"}]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (file("image/png", "QUJD"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}),
        (
            file("image/png", "data:image/png;base64,QUJD"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        ),
        (file("image/*", "QUJD"), {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}),
        (
            file("image/png", "https://x.example/a.png"),
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        ),
        (
            file("image/png", "QUJD", providerOptions={"openai": {"imageDetail": "low"}}),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
        ),
        (file("audio/wav", "QUJD"), {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}),
        (file("audio/mpeg", "QUJD"), {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}),
        (
            file("application/pdf", "QUJD", filename="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
        ),
        (file("application/pdf", "file-123"), {"type": "file", "file": {"file_id": "file-123"}}),
    ],
)
def test_files_of_a_user_are_sent_in_the_providers_form(part: dict[str, Any], expected: dict[str, Any]) -> None:
    """R4.16"""
    assert messages(user({"type": "text", "text": "see"}, part))[0]["content"][1] == expected


def test_a_text_file_is_sent_as_text() -> None:
    """R4.16"""
    data = base64.b64encode("naïve".encode()).decode()
    assert messages(user(file("text/plain", data)))[0]["content"] == "naïve"


@pytest.mark.parametrize(
    ("part", "match"),
    [
        (file("video/mp4", "QUJD"), "takes no file of type 'video/mp4'"),
        (file("application/pdf", "https://x.example/a.pdf"), "cannot load a file of type 'application/pdf'"),
        (file("text/plain", "QUJDR"), "the data of a file of type 'text/plain' is no base64"),
        ({"type": "hologram"}, "a part of type 'hologram'"),
    ],
)
def test_a_part_that_cannot_be_carried_is_an_error(part: dict[str, Any], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        messages(user(part))


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(ModelError, match="role 'narrator'"):
        messages([{"role": "narrator", "content": []}])


def test_calls_and_results_are_sent_with_their_ids() -> None:
    """R4.10"""
    prompt = [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"city": "Zürich"}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": {"type": "text", "value": "4°"}}
            ],
        },
    ]
    assert messages(prompt) == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city":"Zürich"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "4°"},
    ]


def test_a_message_of_calls_alone_has_null_content() -> None:
    """R4.14, FR-099"""
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}}
    assert messages([{"role": "assistant", "content": [{"type": "text", "text": " "}, call]}])[0]["content"] is None


@pytest.mark.parametrize(
    ("given", "arguments"),
    [('{"a":1}', '{"a":1}'), ('{"a":', '{"unparsed":"{\\"a\\":"}'), (None, "{}"), ([1], '{"unparsed":[1]}')],
)
def test_arguments_are_always_sent_as_json(given: Any, arguments: str) -> None:
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": given}
    sent_call = messages([{"role": "assistant", "content": [call]}])[0]["tool_calls"][0]
    assert sent_call["function"]["arguments"] == arguments


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ({"type": "text", "value": "ok"}, "ok"),
        ({"type": "error-text", "value": "no"}, "no"),
        ({"type": "json", "value": {"a": [1]}}, '{"a":[1]}'),
        ({"type": "json", "value": None}, "null"),
        ({"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"type": "content", "value": [{"type": "media", "data": "QUJD"}]}, '{"type":"media","data":"QUJD"}'),
    ],
)
def test_tool_outputs_are_sent_as_text(output: dict[str, Any], content: str) -> None:
    """R4.11"""
    part = {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": output}
    assert messages([{"role": "tool", "content": [part]}])[0]["content"] == content


def test_files_of_tools_follow_their_results() -> None:
    """R4.11; a tool's message holds text only"""
    picture = {"type": "media", "mediaType": "image/png", "data": "QUJD"}
    values = [[{"type": "text", "text": "a map"}, picture], [picture]]
    results = [
        {
            "type": "tool-result",
            "toolCallId": f"c{n}",
            "toolName": "draw",
            "output": {"type": "content", "value": value},
        }
        for n, value in enumerate(values, 1)
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert messages([{"role": "tool", "content": results}]) == [
        {"role": "tool", "tool_call_id": "c1", "content": "a map\n(file 1 is in the next message)"},
        {"role": "tool", "tool_call_id": "c2", "content": "(file 2 is in the next message)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "File 1, from the tool draw:"},
                image,
                {"type": "text", "text": "File 2, from the tool draw:"},
                image,
            ],
        },
    ]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_blank_text_is_not_sent(text: str) -> None:
    """R4.14, FR-099"""
    blank = {"type": "text", "text": text}
    assert messages([*user(blank), {"role": "assistant", "content": [blank]}, *USER]) == [
        {"role": "user", "content": "hi"}
    ]


def test_blanks_between_words_of_an_assistant_stay() -> None:
    parts = [{"type": "text", "text": piece} for piece in ("a", " ", "b")]
    assert messages([{"role": "assistant", "content": parts}])[0]["content"] == "a b"


REASONED = [
    {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "ok"}]},
]


def test_reasoning_is_sent_back_only_to_servers_that_want_it() -> None:
    """R4.15"""
    assert messages(REASONED) == [{"role": "assistant", "content": "ok"}]
    assert messages(REASONED, DEEPSEEK) == [{"role": "assistant", "content": "ok", "reasoning_content": "hm"}]


def test_reasoning_alone_is_not_a_message() -> None:
    """R4.14"""
    assert messages([{"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}]}], DEEPSEEK) == []


def test_what_an_assistant_message_cannot_carry_is_left_out_with_a_warning() -> None:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "search", "input": {}, "providerExecuted": True}
    body, warnings = sent([{"role": "assistant", "content": [call, {"type": "text", "text": "ok"}]}])
    assert body["messages"] == [{"role": "assistant", "content": "ok"}]
    assert [warning["type"] for warning in warnings] == ["other"]
    assert "'tool-call'" in warnings[0]["message"]


def test_tools_are_described_by_name_and_schema() -> None:
    """R12.4"""
    tool = ToolSpec(name="f", description="Does f.", input_schema={"type": "object", "properties": {}})
    body, _ = sent(tools=[tool])
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "Does f.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


@pytest.mark.parametrize(
    ("choice", "dialect", "wire"),
    [
        ("auto", OPENAI, "auto"),
        ("none", OPENAI, "none"),
        ("required", OPENAI, "required"),
        ("required", MISTRAL, "any"),
        ({"type": "tool", "toolName": "f"}, OPENAI, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_the_tool_choice_is_translated(choice: Any, dialect: Dialect, wire: Any) -> None:
    """R12.11"""
    assert sent(tools=[ToolSpec(name="f")], tool_choice=choice, dialect=dialect)[0]["tool_choice"] == wire


def test_a_tool_choice_without_tools_is_not_sent() -> None:
    """R12.11"""
    assert "tool_choice" not in sent(tool_choice="none")[0]


def test_settings_are_translated() -> None:
    settings: Any = {
        "temperature": 0.0,
        "top_p": 0.5,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop_sequences": ["x"],
        "seed": 7,
        "max_output_tokens": 100,
    }
    body, warnings = sent(settings=settings)
    assert warnings == []
    assert {key: body[key] for key in body if key not in ("model", "messages", "stream", "stream_options")} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop": ["x"],
        "seed": 7,
        "max_completion_tokens": 100,
    }


def test_a_dialect_renames_and_leaves_out() -> None:
    body, _ = sent(settings={"seed": 7, "max_output_tokens": 9}, dialect=MISTRAL)
    assert body["random_seed"] == 7
    assert body["max_tokens"] == 9
    assert "stream_options" not in body
    assert sent(settings={"top_k": 3}, dialect=SELF_HOSTED)[0]["top_k"] == 3


@pytest.mark.parametrize(("name", "shown"), [("top_k", "topK"), ("mirostat", "mirostat")])
def test_a_setting_that_the_server_has_not_becomes_a_warning(name: str, shown: str) -> None:
    body, warnings = sent(settings={name: 3})
    assert name not in body
    assert warnings == [{"type": "unsupported-setting", "setting": shown, "details": "the server has no such setting"}]


def test_settings_of_the_client_are_not_sent() -> None:
    settings = {"max_retries": 2, "timeout": {"step_ms": 1.0}, "headers": {"x": "1"}, "temperature": None}
    body, warnings = sent(settings=settings)
    assert not {"max_retries", "timeout", "headers", "temperature"} & set(body)
    assert warnings == []


@pytest.mark.parametrize(
    ("model_id", "options", "is_sent"),
    [
        ("gpt-5-mini", {}, False),
        ("o3", {}, False),
        ("gpt-5-mini", {"reasoningEffort": "none"}, True),
        ("gpt-5-chat-latest", {}, True),
        ("gpt-4.1", {}, True),
    ],
)
def test_reasoning_models_get_no_sampling_settings(model_id: str, options: dict[str, Any], is_sent: bool) -> None:
    body, warnings = sent(model_id=model_id, settings={"temperature": 0.5}, provider_options={"openai": options})
    assert ("temperature" in body) is is_sent
    assert [warning["setting"] for warning in warnings] == ([] if is_sent else ["temperature"])


def test_provider_options_go_into_the_body_under_the_servers_names() -> None:
    options = {"reasoningEffort": "low", "parallel_tool_calls": False, "textVerbosity": "low", "logitBias": {"1": 2}}
    body, _ = sent(provider_options={"openai": options, "anthropic": {"other": 1}})
    assert body["reasoning_effort"] == "low"
    assert body["parallel_tool_calls"] is False
    assert body["verbosity"] == "low"
    assert body["logit_bias"] == {"1": 2}
    assert "other" not in body


def test_provider_options_cannot_turn_streaming_off() -> None:
    assert sent(provider_options={"openai": {"stream": False}})[0]["stream"] is True


@pytest.mark.parametrize(
    ("schema", "options", "is_strict"),
    [
        (CLOSED, {}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}, False),
        (CLOSED, {"strictJsonSchema": False}, False),
    ],
)
def test_a_schema_is_sent_strict_when_it_fits(schema: Any, options: dict[str, Any], is_strict: bool) -> None:
    """R12.32"""
    body, _ = sent(
        response_format={"type": "json", "schema": schema, "description": "An answer."},
        provider_options={"openai": options},
    )
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "response", "schema": schema, "strict": is_strict, "description": "An answer."},
    }


def test_json_without_a_schema_asks_for_an_object() -> None:
    """R12.32"""
    assert sent(response_format={"type": "json"})[0]["response_format"] == {"type": "json_object"}


def test_a_server_without_schemas_is_asked_for_an_object_with_a_warning() -> None:
    """R12.32"""
    body, warnings = sent(response_format={"type": "json", "schema": CLOSED}, dialect=DEEPSEEK)
    assert body["response_format"] == {"type": "json_object"}
    assert warnings[0]["setting"] == "responseFormat"


def test_the_given_prompt_is_not_changed() -> None:
    prompt = [{"role": "user", "content": [{"type": "text", "text": "hi"}, file("image/png", "QUJD")]}]
    sent(prompt, dialect=COMPATIBLE)
    assert prompt == [{"role": "user", "content": [{"type": "text", "text": "hi"}, file("image/png", "QUJD")]}]


@pytest.mark.anyio
async def test_the_first_chunk_tells_what_was_sent_and_what_was_not() -> None:
    server = MockServer(event_reply(HELLO))
    request = ModelRequest(prompt=USER, settings={"top_k": 3})
    first = await anext(server.model.stream(request))
    assert isinstance(first, GenericChunk)
    assert first.type == "stream-start"
    assert first.payload["request"]["body"] == server.body
    assert [warning["setting"] for warning in first.payload["warnings"]] == ["topK"]


@pytest.mark.anyio
async def test_headers_of_model_settings_and_request_are_merged_in_that_order() -> None:
    server = MockServer(event_reply(HELLO), headers={"X-A": "model", "X-B": "model", "X-C": "model"})
    request = ModelRequest(
        prompt=USER, settings={"headers": {"x-b": "settings", "x-c": "settings"}}, headers={"x-c": "request"}
    )
    await anext(server.model.stream(request))
    headers = server.requests[0].headers
    assert (headers["x-a"], headers["x-b"], headers["x-c"]) == ("model", "settings", "request")
    assert headers["authorization"] == "Bearer sk-secret"
    assert server.requests[0].url.path == "/v1/chat/completions"
    assert server.requests[0].url.query == b"version=2"


def test_the_end_of_a_cached_prefix_may_be_marked() -> None:
    """On a part, on a message as a whole, on a system message"""
    marker = {"providerOptions": {"openai": {"promptCacheBreakpoint": True}}}
    text = {"type": "text", "text": "long"}
    sent = messages(
        [
            {"role": "system", "content": "rules", **marker},
            {"role": "user", "content": [{**text, **marker}]},
            {"role": "user", "content": [text, text], **marker},
        ]
    )
    end = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert [one["content"] for one in sent] == [
        [{"type": "text", "text": "rules", **end}],
        [{**text, **end}],
        [text, {**text, **end}],
    ]


def test_a_server_in_front_of_another_provider_takes_its_marker() -> None:
    text = {"type": "text", "text": "long"}
    part = {**text, "providerOptions": {"openai": {"cacheControl": {"type": "ephemeral"}}}}
    (sent,) = messages([{"role": "user", "content": [part]}], COMPATIBLE)
    assert sent["content"] == [{**text, "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize("media_type", ["text/csv", "application/json", "application/xml"])
def test_a_file_that_is_text_is_sent_as_text(media_type: str) -> None:
    """R4.16"""
    data = base64.b64encode(b"a,b").decode()
    (sent,) = messages([{"role": "user", "content": [file(media_type, data)]}])
    assert sent["content"] == "a,b"
