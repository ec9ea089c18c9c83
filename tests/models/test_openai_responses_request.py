from __future__ import annotations

import base64
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from interlock.errors import ModelError
from interlock.messages import MessageList
from interlock.models import ModelRequest, ToolSpec
from interlock.models.openai.responses_request import to_openai_responses
from tests.models.sdk_check import validated

USER = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
IMAGE = {"type": "input_image", "detail": "auto"}
WEATHER = ToolSpec(name="get_weather", description="Tells the weather.", input_schema=CLOSED)


def sent(
    prompt: Any = USER, *, model_id: str = "gpt-4.1", provider: str = "openai", **fields: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body and the warnings; the SDK's own types must know every field of it."""
    warnings: list[dict[str, Any]] = []
    body = to_openai_responses(ModelRequest(prompt=prompt, **fields), model_id, provider, warnings)
    assert validated(ResponseCreateParamsStreaming, body) == body
    return body, warnings


def items(prompt: Any, **fields: Any) -> Any:
    return sent(prompt, **fields)[0]["input"]


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def file(media_type: str, data: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": data, **fields}


def assistant(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [*USER, {"role": "assistant", "content": list(parts)}]


def own(**facts: Any) -> dict[str, Any]:
    return {"providerOptions": {"openai": facts}}


def test_the_smallest_request_streams() -> None:
    assert sent() == (
        {
            "model": "gpt-4.1",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "stream": True,
        },
        [],
    )


def test_system_messages_stay_where_they_are() -> None:
    """R4.9"""
    prompt = [{"role": "system", "content": "Be kind."}, *USER, {"role": "system", "content": "Be brief."}]
    assert [item["content"] for item in items(prompt) if item["role"] == "system"] == ["Be kind.", "Be brief."]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            file("image/png", "QUJD"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"},
        ),
        (
            file("image/png", "data:image/png;base64,QUJD"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"},
        ),
        (
            file("image/*", "QUJD"),
            {"type": "input_image", "detail": "auto", "image_url": "data:image/jpeg;base64,QUJD"},
        ),
        (
            file("image/png", "https://x.example/a.png", **own(imageDetail="low")),
            {"type": "input_image", "detail": "low", "image_url": "https://x.example/a.png"},
        ),
        (file("image/png", "file-123"), {"type": "input_image", "detail": "auto", "file_id": "file-123"}),
        (
            file("application/pdf", "QUJD", filename="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        ),
        (
            file("application/pdf", "QUJD"),
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        ),
        (file("application/pdf", "file-123"), {"type": "input_file", "file_id": "file-123"}),
        (file("application/pdf", "assistant-123"), {"type": "input_file", "file_id": "assistant-123"}),
        (
            file("application/pdf", "https://x.example/a.pdf"),
            {"type": "input_file", "file_url": "https://x.example/a.pdf"},
        ),
        (file("text/plain", base64.b64encode("naïve".encode()).decode()), {"type": "input_text", "text": "naïve"}),
    ],
)
def test_files_of_a_user_are_sent_in_the_providers_form(part: dict[str, Any], expected: dict[str, Any]) -> None:
    """R4.16"""
    assert items(user({"type": "text", "text": "see"}, part))[0]["content"][1] == expected


@pytest.mark.parametrize(
    ("part", "match"),
    [
        (file("video/mp4", "QUJD"), "takes no file of type 'video/mp4'"),
        (file("audio/wav", "QUJD"), "takes no file of type 'audio/wav'"),
        (file("text/plain", "QUJDR"), "the data of a file of type 'text/plain' is no base64"),
        ({"type": "hologram"}, "a part of type 'hologram'"),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused(part: dict[str, Any], match: str) -> None:
    """R4.16"""
    with pytest.raises(ModelError, match=match):
        sent(user(part))


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ModelError, match="the role 'critic'"):
        sent([{"role": "critic", "content": []}])


def test_blank_text_is_not_sent() -> None:
    """R4.14, FR-099"""
    assert items([*USER, *user({"type": "text", "text": " \n"})]) == items(USER)


def test_the_end_of_a_cached_prefix_may_be_marked() -> None:
    (message,) = items(user({"type": "text", "text": "long", **own(promptCacheBreakpoint=True)}))
    assert message["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


# -- what the assistant said -----------------------------------------------------------------------------------------

CALL = {"type": "tool-call", "toolCallId": "call_1", "toolName": "get_weather", "input": {"city": "Oslo"}}
RESULT = {"type": "tool-result", "toolCallId": "call_1", "toolName": "get_weather"}


def after_call(output: dict[str, Any]) -> Any:
    return items([*assistant(CALL), {"role": "tool", "content": [{**RESULT, "output": output}]}])


def test_text_and_calls_without_ids_are_sent_in_the_short_form() -> None:
    """R4.10"""
    assert items(assistant({"type": "text", "text": "Let me see."}, CALL))[1:] == [
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Oslo"}'},
    ]


@pytest.mark.parametrize(
    ("args", "expected"),
    [('{"a":1}', '{"a":1}'), ('{"a":', '{"unparsed":"{\\"a\\":"}'), ({}, "{}")],
)
def test_arguments_are_sent_as_the_text_of_an_object(args: Any, expected: str) -> None:
    """R4.10"""
    assert items(assistant({**CALL, "input": args}))[1]["arguments"] == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"type": "text", "value": "sunny"}, "sunny"),
        ({"type": "json", "value": {"t": 3, "ok": None}}, '{"t":3,"ok":null}'),
        ({"type": "json", "value": None}, "null"),
        ({"type": "error-text", "value": "no such city"}, "no such city"),
        ({"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        (
            {
                "type": "content",
                "value": [
                    {"type": "text", "text": "a map"},
                    {"type": "media", "mediaType": "image/png", "data": "QUJD"},
                    {"type": "file-data", "mediaType": "application/pdf", "data": "QUJD", "filename": "a.pdf"},
                    {"type": "image-url", "url": "https://x.example/a.png"},
                ],
            },
            [
                {"type": "input_text", "text": "a map"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
                {"type": "input_image", "detail": "auto", "image_url": "https://x.example/a.png"},
            ],
        ),
    ],
)
def test_tool_outputs_are_sent_as_text_or_as_parts(output: dict[str, Any], expected: Any) -> None:
    """R4.11"""
    assert after_call(output)[-1] == {"type": "function_call_output", "call_id": "call_1", "output": expected}


def thought(item_id: str = "rs_1", text: str = "", **facts: Any) -> dict[str, Any]:
    return {"type": "reasoning", "text": text, **own(itemId=item_id, **facts)}


def said(item_id: str | None = "msg_1", text: str = "Hello.", **facts: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **(own(itemId=item_id, **facts) if item_id else {})}


MESSAGE = {
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}


def test_reasoning_is_given_back_with_what_followed_it() -> None:
    """R4.15, FR-104"""
    assert items(assistant(thought(text="Hm.", reasoningEncryptedContent="gAAA"), said()))[1:] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        {**MESSAGE, "id": "msg_1"},
    ]


def test_the_parts_of_one_reasoning_become_one_item_again() -> None:
    """R4.15"""
    first, second = thought(text="One."), thought(text="Two.", reasoningEncryptedContent="gAAA")
    (reasoning, _) = items(assistant(first, second, said()))[1:]
    assert [part["text"] for part in reasoning["summary"]] == ["One.", "Two."]
    assert reasoning["encrypted_content"] == "gAAA"


def test_reasoning_in_full_is_given_back_as_such() -> None:
    """R4.15"""
    (reasoning, _) = items(assistant(thought(text="All of it.", contentType="reasoning_text"), said()))[1:]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "All of it."}]
    assert reasoning["summary"] == []


def test_reasoning_goes_with_all_calls_that_it_led_to() -> None:
    """FR-104"""
    calls = [{**CALL, "toolCallId": f"call_{n}", **own(itemId=f"fc_{n}", reasoningItemId="rs_1")} for n in (1, 2)]
    assert [item.get("id") for item in items(assistant(thought(), *calls))[1:]] == ["rs_1", "fc_1", "fc_2"]


@pytest.mark.parametrize(
    "follower",
    [[], [said(None)], [{**CALL}], [thought("rs_2"), said(reasoningItemId="rs_2")], [said(reasoningItemId="rs_9")]],
    ids=["nothing", "text without id", "call without id", "another reasoning", "what another reasoning led to"],
)
def test_reasoning_that_lost_its_follower_is_left_out(follower: list[dict[str, Any]]) -> None:
    """FR-104"""
    body, warnings = sent(assistant(thought(), *follower))
    assert "rs_1" not in str(body)
    assert warnings == [
        {"type": "other", "message": "the reasoning 'rs_1' was left out: what followed it is gone"},
    ]


@pytest.mark.parametrize("facts", [{}, {"reasoningItemId": "rs_1"}], ids=["unknown reasoning", "known reasoning"])
def test_what_lost_its_reasoning_goes_without_its_id(facts: dict[str, Any]) -> None:
    """FR-104"""
    call = {**CALL, **own(itemId="fc_1", **facts)}
    message, function_call = items(assistant(said(**facts), call))[1:]
    assert message == {"role": "assistant", "content": "Hello."}
    assert function_call["call_id"] == "call_1"
    assert "id" not in function_call


def test_what_lost_one_of_two_reasonings_goes_without_its_id() -> None:
    """FR-104"""
    call = {**CALL, **own(itemId="fc_1", reasoningItemId="rs_1")}
    kept = items(assistant(thought("rs_1"), call, said(reasoningItemId="rs_2")))[1:]
    assert [item.get("id") for item in kept] == ["rs_1", "fc_1", None]


def test_reasoning_that_the_server_did_not_keep_needs_its_encrypted_form() -> None:
    """FR-104"""
    store: dict[str, Any] = {"provider_options": {"openai": {"store": False}}}
    body, warnings = sent(assistant(thought(), said()), **store)
    assert body["input"][1:] == [{"role": "assistant", "content": "Hello."}]
    assert "the server keeps nothing" in warnings[0]["message"]
    kept = items(assistant(thought(reasoningEncryptedContent="gAAA"), said()), **store)
    assert [item.get("id") for item in kept[1:]] == ["rs_1", "msg_1"]


def test_the_reasoning_of_another_provider_is_not_sent() -> None:
    """R4.15"""
    foreign = {"type": "reasoning", "text": "Hm.", "providerOptions": {"anthropic": {"signature": "s"}}}
    assert items(assistant(foreign, said(None)))[1:] == [{"role": "assistant", "content": "Hello."}]


def test_each_provider_has_a_namespace_of_its_own() -> None:
    """R4.15: what OpenAI keeps, Azure does not know"""
    body, _ = sent(assistant(thought(), said()), provider="azure")
    assert body["input"][1:] == [{"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([{"type": "reasoning", "text": "", "providerMetadata": {"openai": {"itemId": "rs_1"}}}], []),
        (
            [
                {
                    "type": "tool-invocation",
                    "toolInvocation": {
                        "state": "result",
                        "toolCallId": "c1",
                        "toolName": "t",
                        "args": {},
                        "result": "x",
                    },
                    "providerMetadata": {"openai": {"itemId": "fc_1"}},
                }
            ],
            [
                {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "x"},
            ],
        ),
    ],
    ids=["reasoning only", "call whose reasoning is gone"],
)
def test_a_thread_with_half_a_pair_can_go_on(stored: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """FR-104"""
    messages = MessageList()
    messages.add({"id": "u1", "role": "user", "content": "q"}, source="memory")
    content = {"format": 2, "parts": stored}
    messages.add({"id": "a1", "role": "assistant", "content": content}, source="memory")
    messages.add({"id": "u2", "role": "user", "content": "next"}, source="input")
    assert items(messages.prompt_for_model())[1:-1] == expected


def test_several_parts_of_one_message_become_one_message_again() -> None:
    (_, message) = items(assistant(thought(), said(text="One."), said(text="Two.", refusal=True)))[1:]
    assert message["content"] == [
        {"type": "output_text", "text": "One.", "annotations": []},
        {"type": "refusal", "refusal": "Two."},
    ]


def test_the_phase_of_a_message_is_given_back() -> None:
    assert items(assistant(said(phase="commentary")))[1] == {
        "role": "assistant",
        "content": "Hello.",
        "phase": "commentary",
    }
    assert items(assistant(thought(), said(phase="commentary")))[2]["phase"] == "commentary"


# -- tools that the provider executes --------------------------------------------------------------------------------


def server_call(kind: str, name: str, args: Any, value: Any, **facts: Any) -> list[dict[str, Any]]:
    call = {"type": "tool-call", "toolCallId": "x_1", "toolName": name, "input": args, "providerExecuted": True}
    result = {"type": "tool-result", "toolCallId": "x_1", "toolName": name, "output": value}
    return [{**call, **own(itemId="x_1", itemType=kind, **facts)}, {**result, **own(itemId="x_1", itemType=kind)}]


def json_output(value: Any) -> dict[str, Any]:
    return {"type": "json", "value": value}


SEARCH = {"type": "search", "query": "q"}
SOURCES = [{"type": "url", "url": "https://a.example"}]
HITS = [{"file_id": "file-1", "filename": "a.pdf", "score": 0.5, "text": "x"}]
LOGS = [{"type": "logs", "logs": "4\n"}]


@pytest.mark.parametrize(
    ("kind", "args", "value", "expected"),
    [
        (
            "web_search_call",
            SEARCH,
            json_output({"sources": SOURCES}),
            {"status": "completed", "action": {**SEARCH, "sources": SOURCES}},
        ),
        ("web_search_call", SEARCH, {"type": "text", "value": "hidden"}, {"status": "completed", "action": SEARCH}),
        (
            "file_search_call",
            {"queries": ["q"]},
            json_output({"results": HITS}),
            {"status": "completed", "queries": ["q"], "results": HITS},
        ),
        (
            "code_interpreter_call",
            {"container_id": "cntr_1", "code": "2+2"},
            json_output({"outputs": LOGS}),
            {"status": "completed", "container_id": "cntr_1", "code": "2+2", "outputs": LOGS},
        ),
        (
            "code_interpreter_call",
            {"container_id": "cntr_1", "code": "2+2"},
            {"type": "text", "value": "hidden"},
            {
                "status": "completed",
                "container_id": "cntr_1",
                "code": "2+2",
                "outputs": [{"type": "logs", "logs": "hidden"}],
            },
        ),
        (
            "mcp_call",
            {"id": 7},
            {"type": "text", "value": "Printer"},
            {"arguments": '{"id":7}', "name": "find", "server_label": "tickets", "output": "Printer"},
        ),
    ],
)
def test_a_call_that_the_provider_executed_is_given_back_with_its_result(
    kind: str, args: Any, value: dict[str, Any], expected: dict[str, Any]
) -> None:
    """R4.13; what a hook put in the result's place is what the model sees"""
    parts = server_call(kind, "find", args, value, serverLabel="tickets")
    assert items(assistant(*parts))[1:] == [{"type": kind, "id": "x_1", **expected}]


def test_such_a_call_goes_only_with_its_reasoning() -> None:
    """R4.13, FR-104"""
    parts = server_call("web_search_call", "web_search", SEARCH, json_output({}), reasoningItemId="rs_1")
    assert [item.get("id") for item in items(assistant(thought(), *parts))[1:]] == ["rs_1", "x_1"]
    body, warnings = sent(assistant(*parts))
    assert len(body["input"]) == 1
    assert "the reasoning that it came from is gone" in warnings[0]["message"]


def test_such_a_call_without_a_result_is_left_out() -> None:
    """R4.12"""
    call, _ = server_call("web_search_call", "web_search", SEARCH, json_output({}))
    assert items(assistant(call))[1:] == []


def test_a_call_that_another_provider_executed_is_left_out() -> None:
    """R4.13"""
    call = {"type": "tool-call", "toolCallId": "srv_1", "toolName": "search", "input": {}, "providerExecuted": True}
    body, warnings = sent(assistant(call, said(None)))
    assert body["input"][1:] == [{"role": "assistant", "content": "Hello."}]
    assert "another provider executed" in warnings[0]["message"]


def test_an_image_that_the_provider_made_is_given_back() -> None:
    """R4.16"""
    image = file("image/webp", "QUJD", **own(itemId="ig_1"))
    assert items(assistant(image))[1:] == [
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QUJD"}
    ]


def test_other_files_of_the_assistant_are_left_out() -> None:
    body, warnings = sent(assistant(file("image/png", "QUJD")))
    assert len(body["input"]) == 1
    assert "a part of type 'file'" in warnings[0]["message"]


# -- the rest of the body --------------------------------------------------------------------------------------------


def test_tools_are_described_and_not_strict() -> None:
    body, _ = sent(tools=[WEATHER], tool_choice="required")
    assert body["tools"] == [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Tells the weather.",
            "parameters": CLOSED,
            "strict": False,
        }
    ]
    assert body["tool_choice"] == "required"


def test_one_tool_may_be_demanded() -> None:
    body, _ = sent(tools=[WEATHER], tool_choice={"type": "tool", "toolName": "get_weather"})
    assert body["tool_choice"] == {"type": "function", "name": "get_weather"}


@pytest.mark.parametrize(
    ("tool", "included"),
    [
        ({"type": "web_search"}, "web_search_call.action.sources"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "code_interpreter_call.outputs"),
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "file_search_call.results"),
    ],
)
def test_tools_of_the_providers_own_stand_beside_the_callers_and_tell_their_results(
    tool: dict[str, Any], included: str
) -> None:
    """R10.12"""
    body, _ = sent(tools=[WEATHER], provider_options={"openai": {"tools": [tool]}})
    assert [one["type"] for one in body["tools"]] == ["function", tool["type"]]
    assert body["include"] == [included]


def test_a_schema_that_strict_mode_takes_is_strict() -> None:
    """R12.32"""
    body, _ = sent(response_format={"type": "json", "schema": CLOSED, "name": "thing", "description": "A thing."})
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "thing",
        "description": "A thing.",
        "schema": CLOSED,
        "strict": True,
    }


def test_any_other_schema_is_sent_as_it_is() -> None:
    """R12.32, FR-135"""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    body, _ = sent(response_format={"type": "json", "schema": schema})
    assert (body["text"]["format"]["schema"], body["text"]["format"]["strict"]) == (schema, False)


def test_json_without_a_schema_is_some_object() -> None:
    """R12.32"""
    assert sent(response_format={"type": "json"})[0]["text"]["format"] == {"type": "json_object"}


def test_settings_have_their_names_and_others_are_warned_of() -> None:
    body, warnings = sent(
        settings={
            "temperature": 0.5,
            "top_p": 0.9,
            "max_output_tokens": 64,
            "seed": 1,
            "top_k": 3,
            "stop_sequences": ["x"],
            "presence_penalty": 0.1,
            "frequency_penalty": None,
            "max_retries": 2,
        }
    )
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.5, 0.9, 64)
    assert [warning["setting"] for warning in warnings] == ["seed", "topK", "stopSequences", "presencePenalty"]


@pytest.mark.parametrize("model_id", ["gpt-5", "gpt-5-mini", "o3", "gpt-6-astra"])
def test_reasoning_models_choose_their_sampling_and_seal_their_reasoning(model_id: str) -> None:
    """R4.15"""
    body, warnings = sent(model_id=model_id, settings={"temperature": 0.5})
    assert "temperature" not in body
    assert warnings[0]["setting"] == "temperature"
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(("model_id", "effort"), [("gpt-4.1", None), ("gpt-5-chat-latest", None), ("gpt-5.1", "none")])
def test_models_that_do_not_reason_are_left_alone(model_id: str, effort: str | None) -> None:
    given = {"openai": {"reasoningEffort": effort}} if effort else None
    body, warnings = sent(model_id=model_id, settings={"temperature": 0.5}, provider_options=given)
    assert (body["temperature"], warnings) == (0.5, [])
    assert "include" not in body


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"store": False, "previousResponseId": "resp_1", "parallelToolCalls": False},
            {"store": False, "previous_response_id": "resp_1", "parallel_tool_calls": False},
        ),
        (
            {"reasoningEffort": "low", "reasoningSummary": "auto"},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        ({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
        ({"textVerbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"logprobs": True}, {"top_logprobs": 20, "include": ["message.output_text.logprobs"]}),
        (
            {"logprobs": 3, "include": ["web_search_call.results"]},
            {"top_logprobs": 3, "include": ["web_search_call.results", "message.output_text.logprobs"]},
        ),
        ({"promptCacheKey": "k", "safetyIdentifier": "u"}, {"prompt_cache_key": "k", "safety_identifier": "u"}),
        ({"instructions": "Be kind.", "metadata": {"a": "b"}}, {"instructions": "Be kind.", "metadata": {"a": "b"}}),
        ({"conversation": "conv_1", "serviceTier": "flex"}, {"conversation": "conv_1", "service_tier": "flex"}),
    ],
)
def test_options_go_where_the_api_has_them(given: dict[str, Any], expected: dict[str, Any]) -> None:
    body, _ = sent(provider_options={"openai": given})
    assert {name: value for name, value in body.items() if name not in ("model", "input", "stream")} == expected


def test_a_format_and_a_verbosity_stand_side_by_side() -> None:
    wanted = {"type": "json"}
    body, _ = sent(response_format=wanted, provider_options={"openai": {"textVerbosity": "low"}})
    assert body["text"] == {"verbosity": "low", "format": {"type": "json_object"}}


def test_the_given_options_are_not_changed() -> None:
    given = {"openai": {"tools": [{"type": "web_search"}], "include": [], "text": {"verbosity": "low"}}}
    sent(response_format={"type": "json"}, provider_options=given)
    assert given == {"openai": {"tools": [{"type": "web_search"}], "include": [], "text": {"verbosity": "low"}}}


def test_a_message_as_a_whole_may_end_a_cached_prefix() -> None:
    text = {"type": "text", "text": "long"}
    system, user_ = items(
        [
            {"role": "system", "content": "rules", **own(promptCacheBreakpoint=True)},
            {"role": "user", "content": [text, text], **own(promptCacheBreakpoint=True)},
        ]
    )
    end = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert system["content"] == [{"type": "input_text", "text": "rules", **end}]
    assert [part.keys() & end.keys() for part in user_["content"]] == [set(), end.keys()]
