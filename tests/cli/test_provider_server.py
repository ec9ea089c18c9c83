"""`interlock run` on real adapters, against the stand-in for the providers' servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import APICallError
from interlock.testing import finish, text, tool_call
from interlock.testing.provider_server import ProviderServer
from tests.cli.conftest import Write, interlock

EXAMPLES = Path(__file__).parents[2] / "examples"
PROVIDERS = [
    *("openai/gpt-5", "openai-chat/gpt-5", "azure/gpt-5", "azure-chat/gpt-5"),
    *("anthropic/claude-sonnet-5", "google/gemini-3-flash"),
]
EMAIL = "maria.keller@example.com"

TURNS: list[Any] = [
    [tool_call("lookup_customer", {"email": EMAIL}, id="c1"), finish("tool-calls", 90, 12)],
    [*text("Dear ", "Maria, the"), finish("length", 140, 8)],
    [*text("Your refund ", "arrives on ", "Friday."), finish("stop", 150, 9)],
]

SUPPORT = f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
from support_agent import build_agent
from tests.cli.test_provider_server import TURNS

scripted = build_agent(ScriptedModel(TURNS))
agent = build_agent()
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with ProviderServer(TURNS) as running:
        for variable, value in running.environment.items():
            monkeypatch.setenv(variable, value)
        yield running


@pytest.mark.parametrize("model", PROVIDERS)
def test_an_agent_says_the_same_on_every_provider_as_on_its_script(
    agents: Write, server: ProviderServer, model: str
) -> None:
    path = agents(SUPPORT)
    question = f"I am {EMAIL}. When does my refund arrive?"
    scripted = interlock("run", f"{path}:scripted", question)
    real = interlock("run", f"{path}:agent", question, "--model", model)
    assert (scripted.exit_code, real.exit_code) == (0, 0)
    assert "Your refund arrives on Friday." in real.stdout
    assert real.stdout == scripted.stdout
    assert len(server.requests) == 3
    assert server.open_streams == 0


@pytest.mark.parametrize("model", PROVIDERS)
def test_the_chunks_are_the_same_too(agents: Write, server: ProviderServer, model: str) -> None:
    path = agents(SUPPORT)
    runs = [
        [json.loads(line) for line in interlock("run", target, "hello", "--json", *options).stdout.splitlines()]
        for target, options in ((f"{path}:scripted", ()), (f"{path}:agent", ("--model", model)))
    ]
    scripted, real = [[_essence(chunk) for chunk in run if chunk["type"] in _SAME_EVERYWHERE] for run in runs]
    assert real == scripted


_SAME_EVERYWHERE = frozenset({"tool-call", "tool-result", "text-delta", "step-finish", "finish", "tripwire"})
"""The others tell how a provider streams: where spans begin and end, whether arguments come in pieces."""


def _essence(chunk: dict[str, Any]) -> dict[str, Any]:
    payload = chunk["payload"]
    facts = {name: payload[name] for name in ("toolName", "args", "result", "text", "reason") if name in payload}
    outcome = payload.get("stepResult")
    return {"type": chunk["type"], **facts, **({"reason": outcome["reason"]} if outcome else {})}


def test_a_provider_that_refuses_is_told_in_one_line(agents: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = agents('agent = Agent(id="a", model="openai/gpt-5")')
    with ProviderServer([APICallError("Incorrect API key provided.", status_code=401)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.environment["OPENAI_BASE_URL"])
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
        done = interlock("run", f"{path}:agent", "hello")
    assert done.exit_code == 1
    assert "Incorrect API key provided. (check the key in OPENAI_API_KEY)" in done.stderr
    assert "sk-very-secret" not in done.output
