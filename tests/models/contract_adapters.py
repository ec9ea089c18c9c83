"""The adapters of the contract, each with answers recorded in its provider's wire form."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import httpx2

from interlock.chunks import CONTENT_FILTER, STOP, TOOL_CALLS
from interlock.errors import APICallError
from interlock.models import (
    AnthropicModel,
    Azure,
    GoogleModel,
    LanguageModel,
    ModelRequest,
    OpenAIChatModel,
    OpenAIModel,
    ToolSpec,
)
from interlock.testing import ScriptedModel, finish, reasoning, text, tool_call, wait_for
from tests.models import anthropic_server, wire
from tests.models.contract import ASKED

FIXTURES = Path(__file__).parent / "fixtures"
SECRET = "sk-contract-secret"
EVENTS = {"content-type": "text/event-stream"}
PAUSE_S = 7.0
"""What a 429 asks for."""


@dataclass
class Said:
    """What an answer says."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    reason: str = STOP
    usage: dict[str, int] = field(default_factory=dict)


@dataclass
class Played:
    """A model that is about to give one answer."""

    model: LanguageModel
    sent: Callable[[], str]
    """The request, as text."""
    is_closed: Callable[[], bool]
    """Whether the reply was let go."""


@dataclass
class Asked:
    """A request, and what has to be in the body for it."""

    sent: Any
    """Stands somewhere in the body; of an object, these fields do."""
    part: dict[str, Any] | None = None
    """A part of the user's message."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the request."""


class Adapter(Protocol):
    """One column of the contract."""

    name: str
    not_offered: frozenset[str]
    expected: dict[str, Said]
    """Capability → what its recorded answer says."""
    asked: dict[str, Asked]
    """Capability → a request, and where its wish stands in what is sent."""
    signature: str
    """What the recorded answer to a call signs its reasoning with."""

    def play(self, capability: str) -> Played:
        """A model that gives the answer recorded for the capability."""
        ...

    def play_turns(self, *capabilities: str) -> Played:
        """A model that gives one recorded answer after the other."""
        ...

    def refuse(self, status: int) -> Played:
        """A model that is refused."""
        ...

    def hold(self) -> Played:
        """A model that begins an answer, and then is silent."""
        ...

    def show_page(self) -> Played:
        """A model whose address speaks HTML."""
        ...

    def fail(self, problem: Exception) -> Played:
        """A model whose connection has a problem."""
        ...

    def pieces(self, capability: str) -> bytes:
        """The bytes of the answer."""
        ...

    def play_pieces(self, pieces: Sequence[bytes]) -> Played:
        """A model whose answer comes in these packets."""
        ...


class HttpAdapter:
    """An adapter whose provider is spoken to over HTTP.

    Args:
        name: Column.
        make: Makes the model that sends through a client.
        folder: Of the recorded answers; ``None`` if it is called as the column is.
        expected: What the recorded answers say.
        asked: What requests become.
        signature: What reasoning is signed with.
        answers: Capability → name of a fixture, or the answer itself.
        refusal: The body of a refusal, with this status and message.
        surprise: An event that the protocol does not know.
        not_offered: Capabilities that the provider has not.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[httpx2.AsyncClient], LanguageModel],
        *,
        folder: str | None = None,
        expected: dict[str, Said],
        asked: dict[str, Asked],
        signature: str,
        answers: Mapping[str, str | bytes],
        refusal: Callable[[int, str], Any],
        surprise: bytes,
        not_offered: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self._folder = FIXTURES / (folder or name)
        self.expected = expected
        self.asked = asked
        self.signature = signature
        self.not_offered = not_offered
        self._make = make
        self._answers = answers
        self._refusal = refusal
        self._surprise = surprise

    def play(self, capability: str) -> Played:
        return self.play_pieces([self.pieces(capability)])

    def play_turns(self, *capabilities: str) -> Played:
        return self._serve(200, EVENTS, *(_Body([self.pieces(capability)]) for capability in capabilities))

    def pieces(self, capability: str) -> bytes:
        if capability == "unknown event":
            return self._with_surprise(self.pieces("streamed text"))
        answer = self._answers.get(capability) or self._answers["streamed text"]
        return answer if isinstance(answer, bytes) else (self._folder / f"{answer}.sse").read_bytes()

    def play_pieces(self, pieces: Sequence[bytes]) -> Played:
        return self._serve(200, EVENTS, _Body(pieces))

    def refuse(self, status: int) -> Played:
        headers = {"content-type": "application/json", **({"retry-after": f"{PAUSE_S:g}"} if status == 429 else {})}
        body = json.dumps(self._refusal(status, f"no: {SECRET}")).encode()
        return self._serve(status, headers, _Body([body]))

    def hold(self) -> Played:
        data = self.pieces("streamed text")
        return self._serve(200, EVENTS, _Body([data[: len(data) * 3 // 4]], is_held=True))

    def show_page(self) -> Played:
        return self._serve(200, {"content-type": "text/html; charset=utf-8"}, _Body([b"<html>Welcome</html>"]))

    def fail(self, problem: Exception) -> Played:
        return self._serve(200, EVENTS, _Body([], problem=problem))

    def _serve(self, status: int, headers: dict[str, str], *bodies: _Body) -> Played:
        sent: list[httpx2.Request] = []

        def reply(request: httpx2.Request) -> httpx2.Response:
            sent.append(request)
            return httpx2.Response(status, headers=headers, stream=bodies[len(sent) - 1])

        model = self._make(httpx2.AsyncClient(transport=httpx2.MockTransport(reply)))
        return Played(model, lambda: sent[-1].content.decode(), lambda: all(body.is_closed for body in bodies))

    def _with_surprise(self, data: bytes) -> bytes:
        border = re.search(rb"\r?\n\r?\n", data)
        assert border is not None
        return data[: border.end()] + self._surprise + data[border.end() :]


class _Body(wire.Pieces):
    """A body that may stay open after its last piece, or have a problem there."""

    def __init__(self, pieces: Sequence[bytes], *, is_held: bool = False, problem: Exception | None = None) -> None:
        super().__init__(pieces)
        self._is_held = is_held
        self._problem = problem

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in super().__aiter__():
            yield piece
        if self._problem is not None:
            raise self._problem
        if self._is_held:
            await asyncio.Event().wait()


SCRIPT: dict[str, tuple[Said, list[Any]]] = {
    "streamed text": (Said("Grüße 🌦"), [text("Grüße ", "🌦")]),
    "tool call": (
        Said(calls=[("get_weather", {"city": "Oslo"})], reason=TOOL_CALLS),
        [tool_call("get_weather", {"city": "Oslo"})],
    ),
    "parallel tool calls": (
        Said(calls=[("get_weather", {"city": "Oslo"}), ("now", {})], reason=TOOL_CALLS),
        [tool_call("get_weather", {"city": "Oslo"}), tool_call("now")],
    ),
    "reasoning": (Said("Bergen.", "The rivers first."), [reasoning("The rivers ", "first."), text("Bergen.")]),
    "content filter": (Said("First you ", reason=CONTENT_FILTER), [text("First you "), finish(CONTENT_FILTER)]),
    "usage": (
        Said("Yes.", usage={"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}),
        [text("Yes."), finish(STOP, 7, 2)],
    ),
    "structured output": (Said('{"city":"Oslo"}'), [text('{"city":', '"Oslo"}')]),
    "error inside the stream": (Said("Par"), ["Par", APICallError("overloaded", is_retryable=True)]),
}


class ScriptedAdapter:
    """The model that tests are written with, which has no wire."""

    asked: ClassVar[dict[str, Asked]] = {}
    signature = "c2lnbmVk"

    def __init__(self) -> None:
        self.name = "scripted"
        self.not_offered = frozenset(
            {
                *("missing call ids", "truncated stream", "odd chunk borders", "cut multi-byte characters"),
                *("unknown event", "unsupported setting", "raw events", "web page", "timeout", "lost connection"),
                *("provider-executed tools", "citations", "bare error behind the events", "another provider's file id"),
                *("signed reasoning goes back", *ASKED),
            }
        )
        self.expected = {capability: said for capability, (said, _) in SCRIPT.items()}

    def play(self, capability: str) -> Played:
        _, turn = SCRIPT.get(capability) or SCRIPT["streamed text"]
        return self._play(turn)

    def play_turns(self, *capabilities: str) -> Played:
        raise AssertionError("a scripted model signs nothing")

    def refuse(self, status: int) -> Played:
        return self._play(APICallError("no: ***", status_code=status, retry_after_s=PAUSE_S if status == 429 else None))

    def hold(self) -> Played:
        return self._play(["Grüße", wait_for(asyncio.Event())])

    def show_page(self) -> Played:
        raise AssertionError("a scripted model has no wire")

    def fail(self, problem: Exception) -> Played:
        raise AssertionError("a scripted model has no wire")

    def pieces(self, capability: str) -> bytes:
        raise AssertionError("a scripted model has no wire")

    def play_pieces(self, pieces: Sequence[bytes]) -> Played:
        raise AssertionError("a scripted model has no wire")

    def _play(self, turn: Any) -> Played:
        model = ScriptedModel([turn])
        return Played(model, lambda: json.dumps(_asked(model.requests[-1])), lambda: model.open_streams == 0)


def _asked(request: ModelRequest) -> Any:
    return {"prompt": request.prompt, "format": request.response_format}


def _without_ids(name: str, fixture: str, pattern: bytes) -> bytes:
    """A recorded answer with the ids of its calls taken out."""
    data, count = re.subn(pattern, rb"\1", (FIXTURES / name / f"{fixture}.sse").read_bytes())
    assert count, f"{name}/{fixture} has no ids like {pattern!r}"
    return data


def _openai_refusal(status: int, message: str) -> Any:
    return {"error": {"message": message, "type": "some_error", "param": None, "code": None}}


TEXT_BLOCK = {"type": "text", "text": ""}
PAGE = "https://x.example/a.png"
PNG = "iVBORw0KGgo="
IMAGES = {
    "image by address": {"type": "file", "mediaType": "image/png", "data": PAGE},
    "image as data URI": {"type": "file", "mediaType": "image/png", "data": f"data:image/png;base64,{PNG}"},
}
PDF = {"type": "file", "mediaType": "application/pdf", "data": "JVBERi0=", "filename": "a.pdf"}
STOP_AT = {"settings": {"stop_sequences": ["END"]}}
ONE_TOOL = {"tools": [ToolSpec(name="now")], "tool_choice": {"type": "tool", "toolName": "now"}}


def uploaded(file_id: str) -> dict[str, Any]:
    """An image that the provider has already."""
    return {"type": "file", "mediaType": "image/png", "data": file_id}


def marked(provider: str, **marker: Any) -> dict[str, Any]:
    """A text that ends what is to be cached."""
    return {"type": "text", "text": "long", "providerOptions": {provider: marker}}


OPENAI_CHAT = HttpAdapter(
    "openai_chat",
    lambda client: OpenAIChatModel("gpt-5", api_key=SECRET, client=client),
    answers={
        "streamed text": "text",
        "tool call": "tool",
        "parallel tool calls": "parallel_tools",
        "missing call ids": _without_ids("openai_chat", "parallel_tools", rb'("id":")call_[^"]*'),
        "reasoning": "deepseek_reasoner",
        "signed reasoning goes back": "signed_reasoning",
        "citations": "search",
        "content filter": "content_filter",
        "usage": "text",
        "structured output": "structured",
        "error inside the stream": "error_in_stream",
        "truncated stream": "truncated",
    },
    expected={
        "streamed text": Said("Grüße, 世界 👋🏽\n\u2028bye."),
        "tool call": Said(calls=[("get_weather", {"city": "Tromsø ❄️"})], reason=TOOL_CALLS),
        "parallel tool calls": Said(
            "Let me see.",
            calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}), ("now", {})],
            reason=TOOL_CALLS,
        ),
        "reasoning": Said("Hello.", "The user greets."),
        "content filter": Said("Well", reason=CONTENT_FILTER),
        "usage": Said(
            "Grüße, 世界 👋🏽\n\u2028bye.",
            usage={
                "inputTokens": 21,
                "outputTokens": 9,
                "totalTokens": 30,
                "reasoningTokens": 0,
                "cachedInputTokens": 16,
            },
        ),
        "structured output": Said('{"city":"Århus"}'),
        "error inside the stream": Said("Par"),
    },
    asked={
        "image by address": Asked({"image_url": {"url": PAGE}}, IMAGES["image by address"]),
        "image as data URI": Asked({"url": f"data:image/png;base64,{PNG}"}, IMAGES["image as data URI"]),
        "image by file id": Asked({"file": {"file_id": "file-a1"}}, uploaded("file-a1")),
        "document in the prompt": Asked({"file_data": "data:application/pdf;base64,JVBERi0="}, PDF),
        "tool choice": Asked({"tool_choice": {"type": "function", "function": {"name": "now"}}}, fields=ONE_TOOL),
        "provider options": Asked(
            {"reasoning_effort": "low"}, fields={"provider_options": {"openai": {"reasoningEffort": "low"}}}
        ),
        "cache marker": Asked(
            {"text": "long", "prompt_cache_breakpoint": {"mode": "explicit"}},
            marked("openai", promptCacheBreakpoint=True),
        ),
        "stop sequences": Asked({"stop": ["END"]}, fields=STOP_AT),
    },
    signature="c2lnbmVk",
    refusal=_openai_refusal,
    surprise=b'data: {"object":"chat.completion.surprise","surprise":{"a":1}}\n\n',
    not_offered=frozenset({"provider's own tool", "provider-executed tools"}),
)


def responses_adapter(name: str, azure: Azure | None = None) -> HttpAdapter:
    """The Responses API, at OpenAI or at Azure."""
    provider = "openai" if azure is None else "azure"
    return HttpAdapter(
        name,
        lambda client: OpenAIModel("gpt-5", api_key=SECRET, azure=azure, client=client),
        folder="openai_responses",
        answers={
            "streamed text": "text",
            "tool call": "reasoning_tool",
            "parallel tool calls": "parallel_tools",
            "missing call ids": _without_ids("openai_responses", "parallel_tools", rb'("call_id":")call_[^"]*'),
            "reasoning": "raw_reasoning",
            "signed reasoning goes back": "reasoning_tool",
            "provider-executed tools": "web_search",
            "citations": "web_search",
            "content filter": "refusal",
            "usage": "text",
            "structured output": "structured",
            "error inside the stream": "failed",
            "truncated stream": "truncated",
        },
        expected={
            "streamed text": Said("Grüße, 世界 👋🏽 from\n\u2028the other side."),
            "tool call": Said(
                reasoning="**Looking up** the weather.Oslo is in Norway.",
                calls=[("get_weather", {"city": "Tromsø ❄️"})],
                reason=TOOL_CALLS,
            ),
            "parallel tool calls": Said(
                calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}), ("now", {})],
                reason=TOOL_CALLS,
            ),
            "reasoning": Said("Hello.", "The user greets me."),
            "content filter": Said("I'm sorry, I can't help with that.", reason=CONTENT_FILTER),
            "usage": Said(
                "Grüße, 世界 👋🏽 from\n\u2028the other side.",
                usage={
                    "inputTokens": 31,
                    "outputTokens": 14,
                    "totalTokens": 45,
                    "reasoningTokens": 0,
                    "cachedInputTokens": 16,
                },
            ),
            "structured output": Said('{"city":"Århus","inhabitants":null}'),
            "error inside the stream": Said("Partial."),
        },
        asked={
            "image by address": Asked({"type": "input_image", "image_url": PAGE}, IMAGES["image by address"]),
            "image as data URI": Asked({"image_url": f"data:image/png;base64,{PNG}"}, IMAGES["image as data URI"]),
            "image by file id": Asked({"type": "input_image", "file_id": "file-a1"}, uploaded("file-a1")),
            "document in the prompt": Asked({"file_data": "data:application/pdf;base64,JVBERi0="}, PDF),
            "tool choice": Asked({"tool_choice": {"type": "function", "name": "now"}}, fields=ONE_TOOL),
            "provider's own tool": Asked(
                {"tools": [{"type": "web_search"}], "include": ["web_search_call.action.sources"]},
                fields={
                    "provider_options": {provider: {"tools": [{"type": "web_search"}], "reasoning": {"effort": "none"}}}
                },
            ),
            "provider options": Asked(
                {"reasoning": {"effort": "low"}}, fields={"provider_options": {provider: {"reasoningEffort": "low"}}}
            ),
            "cache marker": Asked(
                {"text": "long", "prompt_cache_breakpoint": {"mode": "explicit"}},
                marked(provider, promptCacheBreakpoint=True),
            ),
        },
        signature="gAAAAABo-wea-ther-encrypted-0123456789==",
        not_offered=frozenset({"stop sequences"}),
        refusal=_openai_refusal,
        surprise=b'event: response.surprise\ndata: {"type":"response.surprise","delta":{"a":1}}\n\n',
    )


OPENAI_RESPONSES = responses_adapter("openai_responses")
AZURE = responses_adapter("azure", Azure(endpoint="https://acme.openai.azure.com"))

ANTHROPIC = HttpAdapter(
    "anthropic",
    lambda client: AnthropicModel("claude-sonnet-5-5", api_key=SECRET, client=client),
    answers={
        "streamed text": "text",
        "tool call": "thinking",
        "parallel tool calls": "parallel_tools",
        "missing call ids": _without_ids("anthropic", "parallel_tools", rb'("id":")toolu_[^"]*'),
        "reasoning": "thinking",
        "signed reasoning goes back": "thinking",
        "provider-executed tools": "web_search",
        "citations": "web_search",
        "content filter": "refusal",
        "usage": "cached",
        "structured output": anthropic_server.answer(
            anthropic_server.block(0, TEXT_BLOCK, {"type": "text_delta", "text": '{"city":"Århus"}'})
        ),
        "error inside the stream": "overloaded",
        "truncated stream": "truncated",
    },
    expected={
        "streamed text": Said("Hello, Zürich 🏔️"),
        "tool call": Said(
            reasoning="The user asks for the weather.", calls=[("get_weather", {"city": "Oslo"})], reason=TOOL_CALLS
        ),
        "parallel tool calls": Said(
            "I look at both.",
            calls=[("get_weather", {"city": "Zürich", "unit": "c"}), ("get_time", {})],
            reason=TOOL_CALLS,
        ),
        "reasoning": Said(
            reasoning="The user asks for the weather.", calls=[("get_weather", {"city": "Oslo"})], reason=TOOL_CALLS
        ),
        "content filter": Said("That I", reason=CONTENT_FILTER),
        "usage": Said(
            "Yes.",
            usage={"inputTokens": 2176, "outputTokens": 4, "totalTokens": 2180, "cachedInputTokens": 2048},
        ),
        "structured output": Said('{"city":"Århus"}'),
        "error inside the stream": Said("Par"),
    },
    asked={
        "image by address": Asked({"source": {"type": "url", "url": PAGE}}, IMAGES["image by address"]),
        "image as data URI": Asked({"media_type": "image/png", "data": PNG}, IMAGES["image as data URI"]),
        "image by file id": Asked(
            {"type": "image", "source": {"type": "file", "file_id": "file_011a"}}, uploaded("file_011a")
        ),
        "document in the prompt": Asked(
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}, PDF
        ),
        "tool choice": Asked({"tool_choice": {"type": "tool", "name": "now"}}, fields=ONE_TOOL),
        "provider's own tool": Asked(
            {"tools": [{"type": "web_search_20260209", "name": "web_search"}]},
            fields={
                "provider_options": {"anthropic": {"tools": [{"type": "web_search_20260209", "name": "web_search"}]}}
            },
        ),
        "provider options": Asked(
            {"thinking": {"type": "adaptive"}},
            fields={"provider_options": {"anthropic": {"thinking": {"type": "adaptive"}}}},
        ),
        "cache marker": Asked(
            {"text": "long", "cache_control": {"type": "ephemeral"}},
            marked("anthropic", cacheControl={"type": "ephemeral"}),
        ),
        "stop sequences": Asked({"stop_sequences": ["END"]}, fields=STOP_AT),
    },
    signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk=",
    refusal=lambda status, message: {"type": "error", "error": {"type": "some_error", "message": message}},
    surprise=b'event: surprise\ndata: {"type":"surprise","a":1}\n\n',
)

GOOGLE = HttpAdapter(
    "google",
    lambda client: GoogleModel("gemini-3-flash", api_key=SECRET, client=client),
    answers={
        "streamed text": "text",
        "tool call": "tools",
        "parallel tool calls": "parallel_tools",
        "missing call ids": "missing_ids",
        "reasoning": "reasoning",
        "signed reasoning goes back": "tools",
        "provider-executed tools": "code_execution",
        "citations": "google_search",
        "content filter": "safety",
        "usage": "usage",
        "structured output": "structured",
        "error inside the stream": "error_in_stream",
        "truncated stream": "truncated",
    },
    expected={
        "streamed text": Said("Grüße aus Oslo 🌦, 日本"),
        "tool call": Said("Let me see.", calls=[("get_weather", {"city": "Oslo", "days": 2})], reason=TOOL_CALLS),
        "parallel tool calls": Said(
            calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}), ("get_time", {})],
            reason=TOOL_CALLS,
        ),
        "missing call ids": Said(
            calls=[("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})], reason=TOOL_CALLS
        ),
        "reasoning": Said("It is Bergen.", "**Weighing it**\n\nThe rivers first. Then the sea."),
        "content filter": Said("First you ", reason=CONTENT_FILTER),
        "usage": Said(
            "Yes.",
            usage={
                "inputTokens": 2130,
                "outputTokens": 66,
                "totalTokens": 2196,
                "reasoningTokens": 64,
                "cachedInputTokens": 2048,
            },
        ),
        "structured output": Said('{"city": "Oslo", "mild": true}'),
        "error inside the stream": Said("Par"),
    },
    asked={
        "image by address": Asked({"fileData": {"mimeType": "image/png", "fileUri": PAGE}}, IMAGES["image by address"]),
        "image as data URI": Asked({"mimeType": "image/png", "data": PNG}, IMAGES["image as data URI"]),
        "image by file id": Asked(
            {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/a1"}, uploaded("files/a1")
        ),
        "document in the prompt": Asked({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}, PDF),
        "tool choice": Asked(
            {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["now"]}}, fields=ONE_TOOL
        ),
        "provider's own tool": Asked(
            {"tools": [{"googleSearch": {}}]}, fields={"provider_options": {"google": {"tools": ["google_search"]}}}
        ),
        "provider options": Asked(
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
            fields={"provider_options": {"google": {"thinkingConfig": {"thinkingLevel": "low"}}}},
        ),
        "stop sequences": Asked({"stopSequences": ["END"]}, fields=STOP_AT),
    },
    signature="c2lnbmF0dXJlIGNhbGw=",
    not_offered=frozenset({"cache marker"}),
    refusal=lambda status, message: {"error": {"code": status, "message": message, "status": "SOME_ERROR"}},
    surprise=b'data: {"surprise": {"a": 1}}\r\n\r\n',
)

ADAPTERS: list[Adapter] = [ANTHROPIC, AZURE, GOOGLE, OPENAI_CHAT, OPENAI_RESPONSES, ScriptedAdapter()]
