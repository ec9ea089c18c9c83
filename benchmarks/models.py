"""Each adapter, with the runtime around it, beside the provider's official SDK alone, reading the same stream.

An SDK takes seconds to import, so each is imported by the side that needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

from benchmarks import recorded
from benchmarks.subject import Noop
from benchmarks.workloads import Run, Workload
from interlock import Agent, TextDelta
from interlock.models import AnthropicModel, GoogleModel, LanguageModel, OpenAIChatModel, OpenAIModel

AIM = 0.25
"""How many times the SDK's own time the adapter may take, the runtime included."""

NAMES = ("anthropic", "google", "openai_chat", "openai_responses")
HOOKS = (0, 4)
_MESSAGES: Any = [{"role": "user", "content": "hi"}]


def model_workloads(*, chunks: int = 2_000) -> list[Workload]:
    """A workload for each adapter, without and with processors; a unit is one piece of text.

    Args:
        chunks: Pieces of text in each stream.
    """
    return [_workload(name, hooks, chunks) for name in NAMES for hooks in HOOKS]


def model_names() -> list[str]:
    """The names of ``model_workloads``."""
    return [_name(name, hooks) for name in NAMES for hooks in HOOKS]


def _name(adapter: str, hooks: int) -> str:
    return f"{adapter}_h{hooks}"


def _workload(adapter: str, hooks: int, chunks: int) -> Workload:
    record, sdk, model = _SIDES[adapter]
    client = _client(record(chunks))
    return Workload(
        name=_name(adapter, hooks),
        bare=sdk(client),
        ours=_run_of(model(client), hooks),
        expected=recorded.PIECE * chunks,
        units=chunks,
        aim=AIM,
    )


class _Packets(httpx2.AsyncByteStream):
    """A body that comes in these packets."""

    def __init__(self, packets: list[bytes]) -> None:
        self._packets = packets

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for packet in self._packets:
            yield packet


def _client(packets: list[bytes]) -> httpx2.AsyncClient:
    """A client that gets the recorded stream, whatever it asks for."""

    def reply(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=_Packets(packets))

    return httpx2.AsyncClient(transport=httpx2.MockTransport(reply))


def _run_of(model: LanguageModel, hooks: int) -> Run:
    processors = [Noop(number) for number in range(hooks)]
    agent = Agent(
        id="benchmark",
        model=model,
        input_processors=processors,
        output_processors=processors,
        error_processors=processors,
    )

    async def run() -> str:
        async with agent.stream("hi") as stream:
            return "".join([one.payload.text async for one in stream.full_stream if isinstance(one, TextDelta)])

    return run


def _anthropic_sdk(client: httpx2.AsyncClient) -> Run:
    from anthropic import AsyncAnthropic

    sdk = AsyncAnthropic(api_key="k", http_client=client)
    request: Any = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": _MESSAGES}

    async def run() -> str:
        async with await sdk.messages.create(**request, stream=True) as events:
            deltas = [event.delta async for event in events if event.type == "content_block_delta"]
        return "".join([delta.text for delta in deltas if delta.type == "text_delta"])

    return run


def _google_sdk(client: httpx2.AsyncClient) -> Run:
    from google import genai
    from google.genai import types

    sdk = genai.Client(api_key="k", http_options=types.HttpOptions(httpx_async_client=client))

    async def run() -> str:
        events = await sdk.aio.models.generate_content_stream(model="gemini-3-flash", contents="hi")
        return "".join([event.text or "" async for event in events])

    return run


def _chat_sdk(client: httpx2.AsyncClient) -> Run:
    from openai import AsyncOpenAI

    sdk = AsyncOpenAI(api_key="k", http_client=client)

    async def run() -> str:
        async with await sdk.chat.completions.create(model="gpt-4.1", messages=_MESSAGES, stream=True) as events:
            return "".join([event.choices[0].delta.content or "" async for event in events if event.choices])

    return run


def _responses_sdk(client: httpx2.AsyncClient) -> Run:
    from openai import AsyncOpenAI

    sdk = AsyncOpenAI(api_key="k", http_client=client)

    async def run() -> str:
        async with await sdk.responses.create(model="gpt-5", input="hi", stream=True) as events:
            return "".join([event.delta async for event in events if event.type == "response.output_text.delta"])

    return run


_Sides = tuple[
    Callable[[int], list[bytes]],
    Callable[[httpx2.AsyncClient], Run],
    Callable[[httpx2.AsyncClient], LanguageModel],
]

_SIDES: dict[str, _Sides] = {
    "anthropic": (
        recorded.anthropic,
        _anthropic_sdk,
        lambda client: AnthropicModel("claude-sonnet-5-5", api_key="k", client=client),
    ),
    "google": (
        recorded.google,
        _google_sdk,
        lambda client: GoogleModel("gemini-3-flash", api_key="k", client=client),
    ),
    "openai_chat": (
        recorded.openai_chat,
        _chat_sdk,
        lambda client: OpenAIChatModel("gpt-4.1", api_key="k", client=client),
    ),
    "openai_responses": (
        recorded.openai_responses,
        _responses_sdk,
        lambda client: OpenAIModel("gpt-5", api_key="k", client=client),
    ),
}
"""Adapter → its stream, what the SDK does with it, and the model."""
