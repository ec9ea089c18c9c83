from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing
from typing import Any

import pytest

from interlock.chunks import GenericChunk, ToolCall, chunk_to_dict
from interlock.errors import APICallError, ConfigurationError, ModelError
from interlock.models import LocalModel, ModelRequest, ToolSpec, allow_model_requests, resolve_model
from interlock.models.local_server import THREADS_VARIABLE, thread_count
from interlock.models.local_weights import SMOLLM2
from interlock.testing import drain, text_of

needs_weights = [
    pytest.mark.anyio,
    pytest.mark.local_model,
    pytest.mark.skipif(
        SMOLLM2.find() is None and os.environ.get("INTERLOCK_REQUIRE_LOCAL_MODEL") != "1",
        reason="the weights of the local model are not installed: run `interlock local install`",
    ),
]

EMAIL: dict[str, Any] = {
    "type": "object",
    "properties": {"email": {"type": "string"}},
    "required": ["email"],
    "additionalProperties": False,
}


def asking(words: str, **fields: Any) -> ModelRequest:
    return ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": words}]}], **fields)


def test_an_unknown_local_model_lists_the_known_one() -> None:
    """R12.3"""
    with pytest.raises(ConfigurationError, match="no local model is called 'llama'; there is: smollm2"):
        resolve_model("local/llama")


def test_half_of_the_cores_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    assert thread_count() == max(1, (os.cpu_count() or 1) // 2)


def test_the_environment_sets_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert thread_count() == 3


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, value)
    with pytest.raises(ConfigurationError, match=f"{THREADS_VARIABLE} must be a positive number, not '{value}'"):
        thread_count()


class TestRealModel:
    """The weights are loaded once for all of these."""

    pytestmark = needs_weights

    @pytest.fixture(autouse=True)
    def _allowed(self) -> Any:
        with allow_model_requests(True):
            yield

    async def test_a_switched_off_model_is_not_loaded(self) -> None:
        with allow_model_requests(False), pytest.raises(ModelError, match="local/smollm2 was asked for while"):
            await drain(LocalModel().stream(asking("hi")))

    async def test_it_answers(self) -> None:
        """R5.5"""
        chunks = await drain(resolve_model("local/smollm2").stream(asking("What is the capital of France?")))
        assert "Paris" in text_of(chunks)
        finish = chunk_to_dict(chunks[-1])["payload"]
        assert finish["stepResult"]["reason"] == "stop"
        assert finish["output"]["usage"]["outputTokens"] > 0

    async def test_its_reply_does_not_tell_where_the_weights_lie(self) -> None:
        chunks = await drain(LocalModel().stream(asking("Hi", settings={"max_output_tokens": 2})))
        assert chunk_to_dict(chunks[1])["payload"]["modelId"] == "smollm2"

    async def test_a_named_tool_gets_arguments_that_fit_its_schema(self) -> None:
        """R12.11"""
        tool = ToolSpec(name="lookup_customer", description="Find a customer by e-mail address.", input_schema=EMAIL)
        request = asking(
            "Hello, my order has not arrived. My mail is jane.doe@example.com, please help.",
            tools=[tool],
            tool_choice={"type": "tool", "toolName": "lookup_customer"},
        )
        calls = [chunk for chunk in await drain(LocalModel().stream(request)) if isinstance(chunk, ToolCall)]
        assert [(call.payload.tool_name, call.payload.args) for call in calls] == [
            ("lookup_customer", {"email": "jane.doe@example.com"})
        ]

    async def test_tools_it_would_have_to_choose_are_left_out_with_a_warning(self) -> None:
        """R12.11"""
        request = asking("Hi", tools=[ToolSpec(name="f")], settings={"max_output_tokens": 2})
        first = (await drain(LocalModel().stream(request)))[0]
        assert isinstance(first, GenericChunk)
        assert "these were left out: f" in first.payload["warnings"][0]["message"]

    async def test_a_schema_forces_the_form_of_the_answer(self) -> None:
        """R12.32"""
        request = asking("My mail is a@b.example.", response_format={"type": "json", "schema": EMAIL})
        answer = text_of(await drain(LocalModel().stream(request)))
        assert answer.lstrip().startswith("{")
        assert '"email"' in answer

    async def test_a_prompt_that_is_too_long_is_refused(self) -> None:
        """R17.7"""
        with pytest.raises(APICallError, match="exceeds the available context size") as caught:
            await drain(LocalModel().stream(asking("x " * 9_000)))
        assert caught.value.status_code == 400
        assert not caught.value.is_retryable

    async def test_leaving_early_frees_it_for_the_next_call(self) -> None:
        """R12.28"""
        async with aclosing(LocalModel().stream(asking("Tell me a long story."))) as stream:
            for _ in range(4):
                await anext(stream)
        short = asking("Hi", settings={"max_output_tokens": 2})
        await asyncio.wait_for(drain(LocalModel().stream(short)), timeout=10)

    async def test_the_process_ends_cleanly(self) -> None:
        code = (
            "import asyncio\n"
            "from interlock.models import LocalModel, ModelRequest\n"
            "from interlock.testing import drain\n"
            "prompt = [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}]}]\n"
            "request = ModelRequest(prompt=prompt, settings={'max_output_tokens': 2})\n"
            "asyncio.run(drain(LocalModel().stream(request)))\n"
        )
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")
        assert "Warning" not in done.stderr
        assert "Error" not in done.stderr
