from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from interlock import Agent, tool
from interlock._json import camel
from interlock.errors import ModelError
from interlock.models import ModelRequest, ToolSpec
from interlock.models.google.prompt import UNCHECKED_SIGNATURE
from interlock.models.google.request import to_google
from tests.models.google_server import GoogleServer, fixture
from tests.models.wire import event_reply

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather in a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "get_weather", "input": {"city": "Oslo"}}
SIGNATURE = "c2lnbmF0dXJl"
SIGNED = {"providerOptions": {"google": {"thoughtSignature": SIGNATURE}}}


def build(
    *messages: dict[str, Any], model_id: str = "gemini-3-flash", warns: list[Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """The body of a request; ``warns`` are the warnings that it must give."""
    prompt = list(messages) or [user("hi")]
    warnings: list[dict[str, Any]] = []
    body = to_google(ModelRequest(prompt=prompt, **fields), model_id, "google", warnings)
    assert warnings == (warns or [])
    check(body)
    return body


def check(body: dict[str, Any]) -> None:
    """The SDK's own types take the request."""
    rest = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    types.GenerateContentConfig.model_validate_json(json.dumps({**rest, **body.get("generationConfig", {})}))
    for content in body["contents"]:
        types.Content.model_validate_json(json.dumps(content))


def user(*parts: str | dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]}


def assistant(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts)}


def results(*outputs: dict[str, Any], call_id: str = "c1") -> dict[str, Any]:
    named = {"type": "tool-result", "toolCallId": call_id, "toolName": "get_weather"}
    return {"role": "tool", "content": [{**named, "output": output} for output in outputs]}


def model_parts(*parts: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """What becomes of the parts of an assistant message."""
    told: list[dict[str, Any]] = build(user("hi"), assistant(*parts), **options)["contents"][1]["parts"]
    return told


def response_of(output: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """What becomes of a tool's output."""
    told: list[dict[str, Any]] = build(user("hi"), assistant(CALL), results(output), **options)["contents"][2]["parts"]
    return told


def file(data: str, media_type: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "data": data, **more}


def test_the_smallest_request() -> None:
    assert build() == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_system_messages_are_the_system_instruction_in_order() -> None:
    """R4.9"""
    body = build({"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}, user("hi"))
    assert body["systemInstruction"] == {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_gemma_3_is_instructed_by_the_user() -> None:
    body = build({"role": "system", "content": "Be kind."}, user("hi"), model_id="gemma-3-27b-it")
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Be kind."}, {"text": "hi"}]}]}


@pytest.mark.parametrize("prompt", [[assistant({"type": "text", "text": "Welcome."})], []])
def test_the_first_word_is_the_users(prompt: list[Any]) -> None:
    """R4.19"""
    body = build({"role": "system", "content": "Greet."}, *prompt)
    assert body["contents"][0] == {"role": "user", "parts": [{"text": "."}]}


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ("QUJD", {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}),
        ("data:image/png;base64,QUJD", {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}),
        ("gs://bucket/a.png", {"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/a.png"}}),
        (
            "https://youtu.be/abc",
            {"fileData": {"mimeType": "image/png", "fileUri": "https://youtu.be/abc"}},
        ),
        (
            "files/abc-123",
            {
                "fileData": {
                    "mimeType": "image/png",
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc-123",
                }
            },
        ),
    ],
)
def test_files_are_sent_inline_or_by_their_address(data: str, part: dict[str, Any]) -> None:
    """R4.16"""
    assert build(user("What is it?", file(data)))["contents"][0]["parts"] == [{"text": "What is it?"}, part]


def test_an_image_of_some_kind_is_called_a_jpeg() -> None:
    """R4.16"""
    assert build(user(file("QUJD", "image/*")))["contents"][0]["parts"][0]["inlineData"]["mimeType"] == "image/jpeg"


def test_a_film_may_be_cut_for_the_model() -> None:
    options = {"google": {"videoMetadata": {"startOffset": "10s", "fps": 2}, "other": 1}}
    body = build(user(file("https://www.youtube.com/watch?v=1", "video/mp4", providerOptions=options)))
    assert body["contents"][0]["parts"][0]["videoMetadata"] == {"startOffset": "10s", "fps": 2}


def test_blank_text_is_not_sent() -> None:
    """FR-099"""
    body = build(user("hi", "  "), assistant({"type": "text", "text": " "}), user("\n"))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_signatures_go_back_where_they_came_from() -> None:
    """R4.15, R4.18"""
    assert model_parts(
        {"type": "reasoning", "text": "hm", **SIGNED},
        {"type": "text", "text": "Let me see.", **SIGNED},
        {"type": "reasoning", "text": "", **SIGNED},
        {**CALL, **SIGNED},
        file("QUJD", **SIGNED),
    ) == [
        {"text": "hm", "thought": True, "thoughtSignature": SIGNATURE},
        {"text": "Let me see.", "thoughtSignature": SIGNATURE},
        {"text": "", "thoughtSignature": SIGNATURE},
        {
            "functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Oslo"}},
            "thoughtSignature": SIGNATURE,
        },
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}, "thoughtSignature": SIGNATURE},
    ]


def test_thoughts_without_a_signature_stay_here() -> None:
    """R4.15"""
    thought = {"type": "reasoning", "text": "hm", "providerOptions": {"anthropic": {"signature": "x"}}}
    assert model_parts(thought, {"type": "text", "text": "Hi."}) == [{"text": "Hi."}]


@pytest.mark.parametrize("model_id", ["gemini-3-flash", "gemini-3.5-pro", "gemini-10-pro", "gemini-flash-latest"])
def test_the_first_call_of_another_model_is_excused_from_its_signature(model_id: str) -> None:
    """R4.15; a fallback model or a changed one meets such calls"""
    first, second = model_parts(CALL, {**CALL, "toolCallId": "c2"}, model_id=model_id)
    assert first["thoughtSignature"] == UNCHECKED_SIGNATURE
    assert "thoughtSignature" not in second


@pytest.mark.parametrize("model_id", ["gemini-2.5-pro", "gemma-3-27b-it", "tunedModels/weather-1"])
def test_models_that_sign_nothing_get_no_excuse(model_id: str) -> None:
    """R4.15"""
    assert "thoughtSignature" not in model_parts(CALL, model_id=model_id)[0]


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("{broken", {"unparsed": "{broken"}),
        ([1], {"unparsed": [1]}),
        (None, {}),
    ],
)
def test_arguments_are_an_object(args: Any, sent: dict[str, Any]) -> None:
    """R4.10"""
    assert model_parts({**CALL, "input": args})[0]["functionCall"]["args"] == sent


@pytest.mark.parametrize(
    ("output", "response"),
    [
        ({"type": "text", "value": "12°"}, {"output": "12°"}),
        ({"type": "json", "value": {"error": "none"}}, {"output": {"error": "none"}}),
        ({"type": "json", "value": None}, {"output": None}),
        ({"type": "json", "value": [0, False, ""]}, {"output": [0, False, ""]}),
        ({"type": "error-text", "value": "no such city"}, {"error": "no such city"}),
        (
            {"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"output": "a\nb"},
        ),
    ],
)
def test_tool_outputs_are_responses(output: dict[str, Any], response: dict[str, Any]) -> None:
    """R4.11, FR-122"""
    assert response_of(output) == [{"functionResponse": {"id": "c1", "name": "get_weather", "response": response}}]


MAP = {
    "type": "content",
    "value": [{"type": "text", "text": "a map"}, {"type": "media", "mediaType": "image/png", "data": "QUJD"}],
}
BLOB = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def test_a_file_of_a_tool_is_part_of_its_response() -> None:
    """R4.11"""
    (part,) = response_of(MAP)
    assert part["functionResponse"]["response"] == {"output": "a map"}
    assert part["functionResponse"]["parts"] == [BLOB]


def test_a_file_of_a_tool_stands_beside_its_response_for_older_models() -> None:
    """R4.11"""
    response, beside = response_of(MAP, model_id="gemini-2.5-flash")
    assert "parts" not in response["functionResponse"]
    assert beside == BLOB


def test_the_results_of_one_step_are_one_turn() -> None:
    """R4.12; the API counts calls and responses of a turn"""
    one, two = results({"type": "text", "value": "a"}), results({"type": "text", "value": "b"}, call_id="c2")
    body = build(user("hi"), assistant(CALL, {**CALL, "toolCallId": "c2"}), one, two, user("And now?"))
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user", "user"]
    assert [part["functionResponse"]["id"] for part in body["contents"][2]["parts"]] == ["c1", "c2"]


def test_code_and_its_outcome_go_back_as_parts() -> None:
    """R4.13"""
    options = {"providerOptions": {"google": {"part": "executableCode", "thoughtSignature": SIGNATURE}}}
    code = {"toolCallId": "x", "toolName": "code_execution", "providerExecuted": True, **options}
    outcome = {"outcome": "OUTCOME_OK", "output": "42\n"}
    assert model_parts(
        {"type": "tool-call", "input": {"language": "PYTHON", "code": "print(42)"}, **code},
        {"type": "tool-result", "output": {"type": "json", "value": outcome}, **code},
    ) == [
        {"executableCode": {"language": "PYTHON", "code": "print(42)"}, "thoughtSignature": SIGNATURE},
        {"codeExecutionResult": outcome},
    ]


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ({"type": "text", "value": "***"}, {"outcome": "OUTCOME_OK", "output": "***"}),
        ({"type": "error-text", "value": "withheld"}, {"outcome": "OUTCOME_FAILED", "output": "withheld"}),
    ],
)
def test_an_outcome_that_a_hook_changed_is_sent_as_it_is_now(output: dict[str, Any], outcome: dict[str, Any]) -> None:
    """R10.7"""
    options = {"providerOptions": {"google": {"part": "executableCode"}}}
    result = {"type": "tool-result", "toolCallId": "x", "toolName": "code_execution", "output": output, **options}
    assert model_parts(result) == [{"codeExecutionResult": outcome}]


def test_a_search_that_was_told_beside_the_answer_does_not_go_back() -> None:
    """R4.13"""
    options = {"providerOptions": {"google": {"part": "groundingMetadata"}}}
    call = {"toolCallId": "x", "toolName": "google_search", "providerExecuted": True, **options}
    parts = model_parts(
        {"type": "text", "text": "Norway."},
        {"type": "tool-call", "input": {"queries": ["q"]}, **call},
        {"type": "tool-result", "output": {"type": "json", "value": {}}, **call},
    )
    assert parts == [{"text": "Norway."}]


def test_another_providers_tool_cannot_be_sent_and_warns() -> None:
    """R4.13"""
    call = {**CALL, "providerExecuted": True}
    message = "an assistant message had a part of type 'tool-call', which Gemini cannot carry"
    body = build(user("hi"), assistant(call), warns=[{"type": "other", "message": message}])
    assert len(body["contents"]) == 1


@pytest.mark.parametrize(
    "message",
    [{"role": "robot", "content": []}, {"role": "user", "content": [{"type": "audio"}]}],
)
def test_what_cannot_be_said_is_an_error(message: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"has (the role|a part of type) '(robot|audio)'"):
        build(message)


def test_functions_are_declared_with_their_json_schema() -> None:
    now = ToolSpec(name="now", input_schema={"type": "object", "properties": {}})
    assert build(tools=[WEATHER, now])["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "get_weather",
                    "description": "The weather in a city.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                    },
                },
                {"name": "now", "description": ""},
            ]
        }
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "tool", "toolName": "get_weather"}, {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}),
    ],
)
def test_a_tool_choice_is_a_mode(choice: Any, config: dict[str, Any]) -> None:
    """R12.11"""
    assert build(tools=[WEATHER], tool_choice=choice)["toolConfig"] == {"functionCallingConfig": config}


def test_a_choice_without_functions_is_not_sent() -> None:
    """R12.11; the API refuses it"""
    assert "toolConfig" not in build(tool_choice="none")


def test_google_tools_and_modes_come_from_the_provider_options() -> None:
    options = {
        "tools": ["google_search", {"urlContext": {}}],
        "tool_config": {"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {"languageCode": "no"}},
    }
    body = build(tools=[WEATHER], tool_choice="auto", provider_options={"google": options})
    assert body["tools"][:2] == [{"googleSearch": {}}, {"urlContext": {}}]
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "VALIDATED"},
        "retrievalConfig": {"languageCode": "no"},
        "includeServerSideToolInvocations": True,
    }


def test_arguments_in_pieces_are_not_asked_for() -> None:
    config = {"functionCallingConfig": {"streamFunctionCallArguments": True}}
    warning = {
        "type": "unsupported-setting",
        "setting": "streamFunctionCallArguments",
        "details": "arguments are read in one piece",
    }
    body = build(tools=[WEATHER], provider_options={"google": {"toolConfig": config}}, warns=[warning])
    assert "toolConfig" not in body


def test_settings_have_the_names_of_the_api() -> None:
    settings: Any = {
        "temperature": 0.5,
        "max_output_tokens": 100,
        "top_p": 0.9,
        "top_k": 40,
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop_sequences": ["END"],
        "max_retries": 3,
        "timeout": {"step_ms": 5},
        "headers": {"x": "1"},
    }
    assert build(settings=settings)["generationConfig"] == {
        "temperature": 0.5,
        "maxOutputTokens": 100,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "stopSequences": ["END"],
    }


def test_a_setting_that_the_api_does_not_have_warns() -> None:
    warning = {
        "type": "unsupported-setting",
        "setting": "minTokens",
        "details": "the server has no such setting",
    }
    settings: Any = {"min_tokens": 5, "temperature": None}
    assert "generationConfig" not in build(settings=settings, warns=[warning])


def test_provider_options_find_their_places() -> None:
    options = {
        "thinking_config": {"thinkingLevel": "LOW", "includeThoughts": True},
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "16:9"},
        "cachedContent": "cachedContents/c1",
        "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "labels": {"team": "a"},
    }
    body = build(provider_options={"google": options, "openai": {"store": True}})
    assert body["generationConfig"] == {
        "thinkingConfig": options["thinking_config"],
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "16:9"},
    }
    assert (body["cachedContent"], body["labels"]) == ("cachedContents/c1", {"team": "a"})
    assert body["safetySettings"] == options["safety_settings"]


ANSWER = {"type": "json", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}


def test_an_answer_is_asked_for_by_its_json_schema() -> None:
    """R12.32"""
    assert build(response_format=ANSWER)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": ANSWER["schema"],
    }


def test_some_json_is_asked_for_without_a_schema() -> None:
    """R12.32"""
    assert build(response_format={"type": "json"})["generationConfig"] == {"responseMimeType": "application/json"}


def test_tools_and_a_format_go_together_since_gemini_3() -> None:
    """R12.32"""
    body = build(response_format=ANSWER, tools=[WEATHER])
    assert "responseJsonSchema" in body["generationConfig"]


def in_words(reason: str) -> dict[str, Any]:
    details = f"{reason}; the model is asked for the JSON in words"
    return {"type": "unsupported-setting", "setting": "responseFormat", "details": details}


def test_an_older_model_with_tools_is_asked_for_the_format_in_words() -> None:
    """R12.32"""
    warning = in_words("before Gemini 3 a model takes tools or a format")
    body = build(response_format=ANSWER, tools=[WEATHER], model_id="gemini-2.5-pro", warns=[warning])
    assert "generationConfig" not in body
    assert body["systemInstruction"]["parts"][-1]["text"].endswith(json.dumps(ANSWER["schema"], separators=(",", ":")))


def test_a_schema_without_end_is_asked_for_in_words() -> None:
    """R12.32, FR-135"""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    wanted = {"type": "json", "schema": {"$ref": "#/$defs/Node", "$defs": {"Node": node}}}
    warning = in_words("the schema refers to itself through what it requires")
    body = build(response_format=wanted, warns=[warning])
    assert body["generationConfig"] == {"responseMimeType": "application/json"}
    assert "$defs" in body["systemInstruction"]["parts"][0]["text"]


def everything() -> ModelRequest:
    """A request that uses most of what there is."""
    search = {"google": {"part": "toolCall", "toolType": "GOOGLE_SEARCH_WEB", "thoughtSignature": SIGNATURE}}
    told = {"toolCallId": "s1", "toolName": "google_search_web", "providerOptions": search, "providerExecuted": True}
    return ModelRequest(
        prompt=[
            {"role": "system", "content": "Be kind."},
            user("Look:", file("QUJD"), file("gs://bucket/a.pdf", "application/pdf")),
            assistant(
                {"type": "text", "text": "Let me see.", **SIGNED},
                {"type": "tool-call", "input": {"queries": ["q"]}, **told},
                {"type": "tool-result", "output": {"type": "json", "value": {"a": 1}}, **told},
                {**CALL, **SIGNED},
            ),
            results(MAP),
        ],
        tools=[WEATHER],
        tool_choice={"type": "tool", "toolName": "get_weather"},
        settings={"temperature": 0.5, "max_output_tokens": 100, "stop_sequences": ["END"]},
        response_format=ANSWER,
        provider_options={
            "google": {
                "tools": ["google_search"],
                "thinkingConfig": {"includeThoughts": True},
                "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            }
        },
    )


@pytest.mark.anyio
async def test_the_official_sdk_sends_the_same_body() -> None:
    body = to_google(everything(), "gemini-3-flash", "google", [])
    check(body)
    server = GoogleServer(event_reply([fixture("text")]))
    client = genai.Client(api_key="k", http_options=types.HttpOptions(httpx_async_client=server.http))
    rest = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    config = types.GenerateContentConfig.model_validate_json(json.dumps({**rest, **body["generationConfig"]}))
    contents = [types.Content.model_validate_json(json.dumps(content)) for content in body["contents"]]
    async for _ in await client.aio.models.generate_content_stream(
        model="gemini-3-flash", contents=contents, config=config
    ):
        pass
    sent = camel_keys(server.body)
    # The SDK says of the system's text that it is the user's, which the API ignores.
    sent["systemInstruction"].pop("role", None)
    assert sent == body


def camel_keys(value: Any) -> Any:
    """The API takes both spellings, and the SDK mixes them."""
    if isinstance(value, dict):
        return {camel(key): camel_keys(item) for key, item in value.items()}
    return [camel_keys(item) for item in value] if isinstance(value, list) else value


@tool
async def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Where.
    """
    return f"rain in {city}"


@pytest.mark.anyio
async def test_an_agent_sends_a_turn_back_as_it_came() -> None:
    """R4.13, R4.15, R10.12"""
    server = GoogleServer(event_reply([fixture("server_tools")]), event_reply([fixture("text")]))
    agent = Agent(id="a", model=server.model, tools=[get_weather])
    result = await agent.generate("Where is it coldest?")
    assert result.text == "Grüße aus Oslo 🌦, 日本"
    came = [part for event in events("server_tools") for part in event["candidates"][0]["content"]["parts"]]
    _, said, answered = server.body["contents"]
    assert said == {"role": "model", "parts": came}
    assert answered["parts"] == [
        {"functionResponse": {"id": "fc-7", "name": "get_weather", "response": {"output": "rain in Hammerfest"}}}
    ]
    check(server.body)


def events(name: str) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in fixture(name).decode().split("\r\n\r\n") if line]


texts = st.text(max_size=8)
outputs = st.one_of(
    st.builds(lambda value: {"type": "text", "value": value}, texts),
    st.builds(lambda value: {"type": "error-text", "value": value}, texts),
    st.builds(lambda value: {"type": "json", "value": value}, st.recursive(texts | st.none(), st.lists, max_leaves=3)),
)
options = st.sampled_from([{}, SIGNED, {"providerOptions": {"openai": {"itemId": "x"}}}])
own_parts = st.one_of(
    st.builds(lambda text, own: {"type": "text", "text": text, **own}, texts, options),
    st.builds(lambda text, own: {"type": "reasoning", "text": text, **own}, texts, options),
    st.builds(lambda data, own: file(base64.b64encode(data).decode(), **own), st.binary(max_size=4), options),
    st.builds(lambda args, own: {**CALL, "input": args, **own}, st.dictionaries(texts, texts, max_size=2), options),
)
messages = st.one_of(
    st.builds(lambda text: {"role": "system", "content": text}, texts),
    st.builds(lambda *parts: user(*parts), texts, texts),
    st.lists(own_parts, max_size=4).map(lambda parts: assistant(*parts)),
    st.lists(outputs, min_size=1, max_size=2).map(lambda told: results(*told)),
)


@given(st.lists(messages, max_size=6), st.sampled_from(["gemini-3-flash", "gemini-2.5-pro", "gemma-3-1b-it"]))
def test_whatever_the_prompt_the_request_is_one_that_the_api_knows(prompt: list[Any], model_id: str) -> None:
    body = to_google(ModelRequest(prompt=prompt), model_id, "google", [])
    check(body)
    assert body["contents"][0]["role"] == "user"
    assert all(content["parts"] for content in body["contents"])


def test_what_the_model_said_in_a_row_is_one_turn() -> None:
    """R4.13: code and its outcome stay with the text that came of them"""
    asked = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    said = [{"role": "assistant", "content": [{"type": "text", "text": text}]} for text in ("One.", "Two.")]
    body = to_google(ModelRequest(prompt=[*asked, *said, *asked]), "gemini-3-flash", "google", [])
    assert [one["role"] for one in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][1]["parts"] == [{"text": "One."}, {"text": "Two."}]
