from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import ModelError
from interlock.models import ModelRequest, ToolSpec
from interlock.models.anthropic.request import API_VERSION, AnthropicCall, to_anthropic

USER = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
TOOL = ToolSpec(name="f", description="Does it.", input_schema={"type": "object", "properties": {}})
SEARCH = {"type": "web_search_20260318", "name": "web_search", "max_uses": 3}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
JSON = {"type": "json", "schema": SCHEMA}


def built(
    *, model_id: str = "claude-sonnet-5-5", api_version: str = API_VERSION, options: Any = None, **fields: Any
) -> tuple[AnthropicCall, list[dict[str, Any]]]:
    warnings: list[dict[str, Any]] = []
    given = {"prompt": USER, "provider_options": {"anthropic": options or {}}, **fields}
    return to_anthropic(ModelRequest(**given), model_id, api_version, warnings), warnings


def body(**fields: Any) -> dict[str, Any]:
    return built(**fields)[0].body


def warned(**fields: Any) -> list[str]:
    return [warning.get("setting") or warning["message"] for warning in built(**fields)[1]]


def test_the_smallest_request_streams_and_has_a_limit() -> None:
    call, warnings = built()
    assert call.body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }
    assert (call.betas, warnings) == ([], [])


@pytest.mark.parametrize(
    ("model_id", "settings", "options", "limit"),
    [
        ("claude-opus-4-20250514", {}, {}, 32_000),
        ("claude-3-haiku-20240307", {}, {}, 4096),
        ("some-proxy-model", {}, {}, 32_000),
        ("claude-sonnet-5-5", {"max_output_tokens": 100}, {}, 100),
        ("claude-sonnet-5-5", {"max_output_tokens": 0}, {}, 0),
        ("claude-haiku-4-5", {}, {"thinking": {"type": "enabled", "budgetTokens": 2000}}, 32_000),
        ("claude-haiku-4-5", {"max_output_tokens": 500}, {"thinking": {"budgetTokens": 2000}}, 2500),
    ],
)
def test_the_limit_is_the_wanted_one_or_fits_the_model(
    model_id: str, settings: dict[str, Any], options: dict[str, Any], limit: int
) -> None:
    assert body(model_id=model_id, settings=settings, options=options)["max_tokens"] == limit


def test_settings_that_the_api_does_not_offer_become_warnings() -> None:
    settings = {
        "presence_penalty": 1.0,
        "frequency_penalty": 1.0,
        "seed": 1,
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 4,
    }
    assert set(body(settings=settings)) == {"model", "max_tokens", "messages", "stream"}
    assert warned(settings=settings) == [
        *("presencePenalty", "frequencyPenalty", "seed", "temperature", "topP", "topK")
    ]


def test_the_older_version_of_the_api_takes_sampling_settings() -> None:
    settings = {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "seed": None}
    sent = body(settings=settings, api_version="2023-06-01")
    assert (sent["temperature"], sent["top_p"], sent["top_k"]) == (0.5, 0.9, 4)
    assert warned(settings=settings, api_version="2023-06-01") == []


def test_settings_of_the_client_are_not_sent() -> None:
    settings = {"max_retries": 2, "timeout": {"total_ms": 1}, "headers": {"a": "b"}}
    assert body(settings=settings) == body()
    assert warned(settings=settings) == []


def test_stop_sequences_of_white_space_are_left_out() -> None:
    assert body(settings={"stop_sequences": ["END", "\n"]})["stop_sequences"] == ["END"]
    assert warned(settings={"stop_sequences": ["END", "\n"]}) == ["stopSequences"]
    assert "stop_sequences" not in body(settings={"stop_sequences": [" "]})


def test_tools_are_sent_with_their_schema() -> None:
    tools = [TOOL, ToolSpec(name="g")]
    assert body(tools=tools)["tools"] == [
        {"name": "f", "description": "Does it.", "input_schema": {"type": "object", "properties": {}}},
        {"name": "g", "input_schema": {"type": "object"}},
    ]
    assert "tool_choice" not in body(tools=tools)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "tool", "toolName": "f"}, {"type": "tool", "name": "f"}),
    ],
)
def test_a_tool_choice_is_sent_in_the_apis_words(choice: Any, sent: dict[str, Any]) -> None:
    assert body(tools=[TOOL], tool_choice=choice)["tool_choice"] == sent


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
    ],
)
def test_parallel_calls_can_be_switched_off(choice: Any, sent: dict[str, Any]) -> None:
    sent_choice = body(tools=[TOOL], tool_choice=choice, options={"disableParallelToolUse": True})["tool_choice"]
    assert sent_choice == sent


def test_without_tools_there_is_no_tool_choice() -> None:
    assert "tool_choice" not in body(tool_choice="auto", options={"disableParallelToolUse": True})


def test_tools_of_the_apis_own_stand_behind_the_callers() -> None:
    sent = body(tools=[TOOL], options={"tools": [SEARCH]})["tools"]
    assert sent[1] == SEARCH
    assert body(options={"tools": [SEARCH]})["tools"] == [SEARCH]


def test_eager_streaming_of_inputs_can_be_asked_for() -> None:
    assert body(tools=[TOOL], options={"toolStreaming": True})["tools"][0]["eager_input_streaming"] is True


def test_provider_options_go_into_the_request_in_the_apis_spelling() -> None:
    sent = body(
        options={
            "thinking": {"type": "enabled", "budgetTokens": 1024},
            "metadata": {"userId": "u1"},
            "serviceTier": "auto",
            "container": "container_1",
            "cacheControl": {"type": "ephemeral", "ttl": "1h"},
        }
    )
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert sent["metadata"] == {"user_id": "u1"}
    assert (sent["service_tier"], sent["container"]) == ("auto", "container_1")
    assert sent["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_keys_of_a_schema_in_the_options_keep_their_spelling() -> None:
    tool = {"name": "g", "input_schema": {"type": "object", "properties": {"userName": {"type": "string"}}}}
    assert body(options={"tools": [tool]})["tools"] == [tool]


def test_options_of_other_providers_are_not_sent() -> None:
    assert body(provider_options={"openai": {"store": True}}) == body()


def test_effort_and_format_share_the_output_config() -> None:
    config = body(options={"effort": "low"}, response_format=JSON)["output_config"]
    assert config["effort"] == "low"
    assert config["format"]["type"] == "json_schema"
    assert body(options={"outputConfig": {"effort": "max"}})["output_config"] == {"effort": "max"}


@pytest.mark.parametrize("options", [{"anthropicBeta": ["a", "b"]}, {"betas": ["a"], "anthropic_beta": "b"}])
def test_betas_are_for_the_header(options: dict[str, Any]) -> None:
    call, _ = built(options=options)
    assert sorted(call.betas) == ["a", "b"]
    assert call.body == body()


def test_json_is_asked_for_in_the_output_format() -> None:
    """R12.32"""
    assert body(response_format=JSON)["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        },
    }


@pytest.mark.parametrize(
    "model_id",
    ["claude-3-7-sonnet-latest", "claude-sonnet-4-20250514", "claude-opus-4-1-20250805", "claude-opus-4@20250514"],
)
def test_an_older_model_gives_its_json_through_a_tool(model_id: str) -> None:
    """R12.32"""
    call, warnings = built(model_id=model_id, response_format=JSON)
    assert call.json_tool == "json_response"
    assert call.body["tool_choice"] == {"type": "tool", "name": "json_response", "disable_parallel_tool_use": True}
    assert call.body["tools"][0]["input_schema"] == SCHEMA
    assert warnings == []


@pytest.mark.parametrize("model_id", ["claude-sonnet-4-5-20250929", "claude-opus-4-6", "claude-opus-5-5", "proxy"])
def test_a_newer_model_gives_its_json_in_the_output_format(model_id: str) -> None:
    """R12.32"""
    assert "format" in body(model_id=model_id, response_format=JSON)["output_config"]


def test_the_tool_for_the_answer_stands_beside_other_tools() -> None:
    sent = body(tools=[TOOL], response_format=JSON, options={"structuredOutputMode": "jsonTool"})
    assert [tool["name"] for tool in sent["tools"]] == ["f", "json_response"]
    assert sent["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


def test_a_schema_that_the_format_cannot_express_is_an_instruction() -> None:
    """R12.32, FR-135"""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    sent = body(response_format={"type": "json", "schema": schema})
    assert sent["system"] == [
        {
            "type": "text",
            "text": "Answer with nothing but JSON that fits this JSON Schema:\n"
            '{"type":"object","additionalProperties":{"type":"integer"}}',
        }
    ]
    assert "tools" not in sent
    assert warned(response_format={"type": "json", "schema": schema}) == ["responseFormat"]


def test_a_way_to_json_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ModelError, match="'auto' or 'outputFormat' or 'jsonTool', not 'magic'"):
        body(response_format=JSON, options={"structuredOutputMode": "magic"})


def test_json_without_a_schema_is_a_warning() -> None:
    assert body(response_format={"type": "json"}) == body()
    assert warned(response_format={"type": "json"}) == ["responseFormat"]
