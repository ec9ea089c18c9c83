from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.errors import APICallError
from interlock.models import is_context_overflow
from interlock.models.http_errors import error_in_stream, refusal

URL = "https://api.example/v1/chat/completions"


def refused(status: int, body: Any, *, media_type: str = "application/json", **context: Any) -> APICallError:
    text = body if isinstance(body, str) else json.dumps(body)
    return refusal(status, {"content-type": media_type}, text, URL, **context)


@pytest.mark.parametrize(
    ("key_name", "advice"),
    [("OPENAI_API_KEY", "check the key in OPENAI_API_KEY"), (None, "no API key was sent: give api_key")],
)
def test_a_wrong_key_names_where_it_came_from(key_name: str | None, advice: str) -> None:
    error = refused(401, {"error": {"message": "Incorrect API key provided."}}, key_name=key_name)
    assert str(error) == f"Incorrect API key provided. ({advice})"
    assert not error.is_retryable


def test_a_key_that_may_not_is_named() -> None:
    error = refused(403, {"error": {"message": "Denied."}}, key_name="OPENAI_API_KEY")
    assert str(error) == "Denied. (check what the key in OPENAI_API_KEY may do)"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The model `gpt-55` does not exist.", "code": "model_not_found"}},
        {"error": {"message": "Not here.", "code": "model_not_found"}},
        {"error": 'model "gpt-55" not found, try pulling it first'},
    ],
)
def test_an_unknown_model_is_named(body: Any) -> None:
    error = refused(404, body, model="openai/gpt-55")
    assert str(error).endswith("(check that 'openai/gpt-55' is the name of a model there)")
    assert not error.is_retryable


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        ({"error": {"message": "Invalid URL (POST /v1/v1/responses)"}}, "application/json"),
        ({"detail": "Not Found"}, "application/json"),
        ("404 page not found", "text/plain"),
        ("<html>", "text/html"),
    ],
)
def test_a_wrong_address_says_to_check_it(body: Any, media_type: str) -> None:
    message = str(refused(404, body, media_type=media_type, model="openai/gpt-5"))
    assert message.count("check base_url") == 1
    assert "name of a model" not in message


def test_another_thing_that_is_missing_is_told_in_the_providers_words() -> None:
    body = {"error": {"message": "Previous response with id 'resp_1' not found."}}
    assert str(refused(404, body, model="openai/gpt-5")) == "Previous response with id 'resp_1' not found."


def test_too_large_a_request_says_what_to_send() -> None:
    error = refused(413, {"error": {"message": "Request Entity Too Large"}})
    assert str(error) == "Request Entity Too Large (send fewer or smaller files)"
    assert not error.is_retryable


OVERFLOWS: list[tuple[int, Any]] = [
    (400, {"error": {"message": "Too long.", "param": "messages", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "This model's maximum context length is 128000 tokens. However, you sent more."}}),
    (400, {"type": "error", "error": {"message": "prompt is too long: 214676 tokens > 200000 maximum"}}),
    (400, {"type": "error", "error": {"message": "input length and `max_tokens` exceed context limit: 199000 + 8192"}}),
    (400, {"object": "error", "message": "This model's maximum context length is 262144 tokens.", "code": 400}),
    (400, {"error": {"code": 400, "message": "The input token count (1100000) exceeds the maximum number of tokens"}}),
    (400, {"message": "Input is too long for requested model.", "__type": "ValidationException"}),
    (400, {"error_code": "BAD_REQUEST", "message": '{"inner":{"message":"prompt is too long: 201000 tokens > 2"}}'}),
    (500, {"error": {"message": "the request exceeds the available context size. try increasing it"}}),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_an_overflow_is_known_however_it_is_worded(status: int, body: Any) -> None:
    """FR-102"""
    error = refused(status, body)
    assert is_context_overflow(error)
    assert str(error).endswith("(the prompt does not fit into the model: leave out old messages or long tool results)")


def test_an_overflow_inside_a_stream_is_known() -> None:
    """FR-102"""
    body = {"type": "error", "error": {"code": "context_length_exceeded", "message": "Your input is too much."}}
    error = error_in_stream(json.dumps(body), {}, URL)
    assert is_context_overflow(error)
    assert not error.is_retryable


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, {"error": {"message": "Rate limit reached: too many input tokens per min", "type": "tokens"}}),
        (400, {"error": {"message": "max_tokens is too large: 500000. This model supports at most 16384"}}),
        (400, {"error": {"message": "Unknown parameter: 'context_window'.", "param": "context_window"}}),
        (413, {"error": {"message": "Request too large"}}),
    ],
)
def test_what_is_no_overflow_is_not_taken_for_one(status: int, body: Any) -> None:
    """FR-102"""
    assert not is_context_overflow(refused(status, body))


def test_only_a_providers_error_is_an_overflow() -> None:
    assert not is_context_overflow(ValueError("maximum context length"))


def test_a_used_up_quota_says_whom_to_ask() -> None:
    error = refused(429, {"error": {"message": "Quota exceeded.", "code": "insufficient_quota"}})
    assert str(error) == "Quota exceeded. (check plan and billing of the account)"
    assert not error.is_retryable


def test_a_prompt_that_is_too_long_is_known_by_its_words_whatever_the_status() -> None:
    """FR-102"""
    error = refused(413, {"error": {"message": "prompt is too long: 210000 tokens"}})
    assert "leave out old messages" in str(error)
