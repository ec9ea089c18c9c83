from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from interlock import Agent, tool
from interlock.errors import APICallError, ConfigurationError, ModelError
from interlock.models import AnyLLMModel, ModelRequest, ToolSpec, allow_model_requests, resolve_model
from interlock.testing import drain, text_of, types_of

pytestmark = pytest.mark.anyio

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> ChatCompletionChunk:
    """A chunk of the type that the SDK's own are made from."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    data = {"id": "c1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "command-a"}
    return ChatCompletionChunk.model_validate({**data, "choices": [choice], **fields})


HELLO = [chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk(finish="stop")]
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


class AnyLLMError(Exception):
    """As ``any_llm.exceptions`` has it."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(f"[cohere] {message}")
        self.status_code: int | None = fields.get("status_code")
        self.code: str | None = fields.get("code")
        self.retry_after: str | None = fields.get("retry_after")


class ProviderError(AnyLLMError):
    pass


class InvalidRequestError(AnyLLMError):
    pass


class Sdk:
    """Stands in for ``any_llm.acompletion``, with its keywords, and notes what it was asked."""

    def __init__(self, *replies: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_closed = False
        self._replies = list(replies)

    async def __call__(
        self,
        model: str,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | dict[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: dict[str, Any] | None = None,
        stream: bool | None = None,
        stop: list[str] | None = None,
        seed: int | None = None,
        api_key: str | None = None,
        api_base: str | None = None,
        stream_options: dict[str, Any] | None = None,
        client_args: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatCompletionChunk]:
        given = {key: value for key, value in locals().items() if key not in ("self", "kwargs") and value is not None}
        self.asked.append({**given, **kwargs})
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return self._answer(reply)

    async def _answer(self, pieces: list[Any]) -> AsyncIterator[ChatCompletionChunk]:
        try:
            for piece in pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.is_closed = True


async def until_failure(*pieces: Any, **options: Any) -> tuple[list[Any], APICallError]:
    seen: list[Any] = []
    reply = pieces[0] if len(pieces) == 1 else list(pieces)
    try:
        async for one in AnyLLMModel("cohere:command-a", complete=Sdk(reply), **options).stream(HI):
            seen.append(one)  # noqa: PERF401 - what came before the failure counts
    except APICallError as error:
        return seen, error
    raise AssertionError("the stream did not fail")


async def test_text_becomes_one_span_with_the_usage_at_the_end() -> None:
    """R5.5"""
    last = chunk(usage=USAGE, choices=[])
    chunks = await drain(AnyLLMModel("cohere:command-a", complete=Sdk([*HELLO, last])).stream(HI))
    assert types_of(chunks) == [
        *("stream-start", "response-metadata", "text-start", "text-delta", "text-delta", "text-end", "finish")
    ]
    assert text_of(chunks) == "Hello"
    payload = chunks[-1].to_dict()["payload"]
    assert payload["output"]["usage"] == {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}


async def test_the_function_gets_a_chat_completions_request() -> None:
    sdk = Sdk(HELLO)
    model = AnyLLMModel("cohere:command-a", api_key="co-secret", api_base="https://x.example", complete=sdk)
    request = ModelRequest(
        prompt=HI.prompt,
        tools=[ToolSpec(name="now")],
        tool_choice="required",
        settings={"temperature": 0.5, "max_output_tokens": 9, "headers": {"x-a": "1"}},
        response_format={"type": "json"},
        provider_options={"anyllm": {"reasoningEffort": "low", "client_args": {"timeout": 3}}},
    )
    await drain(model.stream(request))
    function = {"name": "now", "description": "", "parameters": {}}
    assert sdk.asked == [
        {
            "model": "cohere:command-a",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": function}],
            "tool_choice": "required",
            "temperature": 0.5,
            "max_tokens": 9,
            "response_format": {"type": "json_object"},
            "reasoning_effort": "low",
            "api_key": "co-secret",
            "api_base": "https://x.example",
            "extra_headers": {"x-a": "1"},
            "client_args": {"unified_exceptions": True, "timeout": 3},
        }
    ]


@tool
async def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Where.
    """
    return f"rain in {city}"


async def test_an_agent_runs_on_it() -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    call = chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
    sdk = Sdk([call, chunk(finish="tool_calls")], HELLO)
    result = await Agent(id="a", model=AnyLLMModel("cohere:command-a", complete=sdk), tools=[get_weather]).generate(
        "hi"
    )
    assert result.text == "Hello"
    assert sdk.asked[1]["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "rain in Oslo"}


async def test_reasoning_is_read() -> None:
    pieces = [chunk({"reasoning": "hm"}), *HELLO]
    chunks = await drain(AnyLLMModel("cohere:command-a", complete=Sdk(pieces)).stream(HI))
    assert types_of(chunks)[2:5] == ["reasoning-start", "reasoning-delta", "reasoning-end"]


@pytest.mark.parametrize(
    ("error", "status", "code", "is_retryable", "pause"),
    [
        (
            ProviderError("slow down", status_code=429, code="rate_limited", retry_after="7"),
            429,
            "rate_limited",
            True,
            7,
        ),
        (ProviderError("overloaded"), None, "ProviderError", True, None),
        (InvalidRequestError("no such field"), None, "InvalidRequestError", False, None),
        (InvalidRequestError("no such model", status_code=404), 404, "InvalidRequestError", False, None),
    ],
)
async def test_the_sdks_errors_are_typed_errors(
    error: Exception, status: int | None, code: str, is_retryable: bool, pause: float | None
) -> None:
    """R17.7, R7.13"""
    _, caught = await until_failure(error)
    assert (caught.status_code, caught.code, caught.is_retryable) == (status, code, is_retryable)
    assert caught.retry_after_s == pause
    assert str(caught) == str(error)


async def test_an_error_inside_the_answer_is_a_typed_error() -> None:
    """R7.14, FR-100"""
    seen, caught = await until_failure(chunk({"content": "Par"}), ProviderError("broke off"))
    assert text_of(seen) == "Par"
    assert caught.is_retryable


async def test_an_answer_that_ends_in_the_middle_is_an_error() -> None:
    """R7.14, FR-100"""
    seen, caught = await until_failure(chunk({"content": "Par"}), chunk({"content": "is"}))
    assert text_of(seen) == "Paris"
    assert caught.code == "truncated_stream"


async def test_neither_repr_nor_errors_show_the_key() -> None:
    _, caught = await until_failure(ProviderError("bad key co-secret"), api_key="co-secret")
    assert str(caught) == "[cohere] bad key ***"
    model = AnyLLMModel("cohere:command-a", api_key="co-secret", complete=Sdk())
    assert repr(model) == "AnyLLMModel('cohere:command-a')"
    assert "co-secret" not in f"{vars(model)}"


async def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError):
        await drain(AnyLLMModel("cohere:command-a", complete=Sdk(ZeroDivisionError())).stream(HI))


async def test_leaving_the_stream_closes_the_answer() -> None:
    sdk = Sdk(HELLO)
    async with aclosing(AnyLLMModel("cohere:command-a", complete=sdk).stream(HI)) as stream:
        async for one in stream:
            if one.type == "text-delta":
                break
    assert sdk.is_closed


@pytest.mark.parametrize("model_id", ["command-a", "cohere:", ":command-a"])
def test_a_model_without_provider_or_name_is_refused(model_id: str) -> None:
    with pytest.raises(ConfigurationError, match="write 'provider:model'"):
        AnyLLMModel(model_id, complete=Sdk())


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    monkeypatch.setitem(sys.modules, "any_llm", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'interlock\[anyllm\]'"):
        resolve_model("anyllm/cohere:command-a")


@pytest.fixture(name="sdk")
def installed_sdk(monkeypatch: pytest.MonkeyPatch) -> Sdk:
    """The package, with nothing but its function."""
    sdk = Sdk(HELLO)
    package = ModuleType("any_llm")
    package.__spec__ = ModuleSpec("any_llm", None)
    package.acompletion = sdk  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "any_llm", package)
    return sdk


async def test_a_model_string_leads_to_the_package(sdk: Sdk) -> None:
    """R12.3"""
    with allow_model_requests(True):
        assert text_of(await drain(resolve_model("anyllm/cohere:command-a", api_key="k").stream(HI))) == "Hello"
    assert sdk.asked[0]["api_key"] == "k"


async def test_a_switched_off_network_raises_before_anything_is_sent(sdk: Sdk) -> None:
    with pytest.raises(ModelError, match="anyllm/cohere:command-a was asked for"):
        await drain(AnyLLMModel("cohere:command-a").stream(HI))
    assert sdk.asked == []
