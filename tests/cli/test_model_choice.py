from __future__ import annotations

import pytest

from interlock import Agent, ConfigurationError
from interlock.cli.failures import UsageFailure
from interlock.cli.model_choice import choose_model
from interlock.models import LanguageModel
from interlock.testing import ScriptedModel
from tests.cli.conftest import Write, interlock


def resolve(name: str) -> LanguageModel:
    return ScriptedModel([], model_id=name)


def not_installed(name: str) -> LanguageModel:
    raise ConfigurationError("the weights are not installed")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return []


def test_an_agent_s_own_model_object_is_used(told: list[str]) -> None:
    agent = Agent(id="a", model=ScriptedModel([]))
    assert choose_model(agent, None, told.append, resolve=resolve) is None
    assert told == []


def test_a_model_string_with_its_key_is_used(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    model = choose_model(Agent(id="a", model="openai/gpt-5"), None, told.append, resolve=resolve)
    assert model is not None
    assert (model.model_id, told) == ("openai/gpt-5", [])


def test_a_model_string_without_its_key_is_stood_in_for_and_one_line_says_so(told: list[str]) -> None:
    model = choose_model(Agent(id="a", model="openai/gpt-5"), None, told.append, resolve=resolve)
    assert model is not None
    assert model.model_id == "local/smollm2"
    assert told == [
        "OPENAI_API_KEY is not set: running local/smollm2 instead of openai/gpt-5 (choose another with --model)"
    ]


def test_a_server_on_this_machine_needs_no_key(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    model = choose_model(Agent(id="a", model="openai/gpt-5"), None, told.append, resolve=resolve)
    assert model is not None
    assert (model.model_id, told) == ("openai/gpt-5", [])


def test_the_given_model_replaces_any_other(told: list[str]) -> None:
    model = choose_model(Agent(id="a", model=ScriptedModel([])), "ollama/qwen3", told.append, resolve=resolve)
    assert model is not None
    assert model.model_id == "ollama/qwen3"


def test_the_model_among_the_agent_s_default_options_counts_as_its_own(told: list[str]) -> None:
    agent = Agent(id="a", model=ScriptedModel([]), default_options={"model": "ollama/qwen3"})
    model = choose_model(agent, None, told.append, resolve=resolve)
    assert model is not None
    assert model.model_id == "ollama/qwen3"


def test_a_missing_stand_in_is_explained(told: list[str]) -> None:
    with pytest.raises(
        UsageFailure, match="openai/gpt-5 needs OPENAI_API_KEY, which is not set, and nothing can stand in: the weights"
    ):
        choose_model(Agent(id="a", model="openai/gpt-5"), None, told.append, resolve=not_installed)


def test_a_given_model_without_its_key_is_not_stood_in_for(agents: Write, told: list[str]) -> None:
    path = agents('agent = Agent(id="a", model=ScriptedModel([]))')
    done = interlock("run", f"{path}:agent", "hi", "--model", "openai/gpt-5")
    assert done.exit_code == 2
    assert done.stderr == "error: 'openai/gpt-5' needs an API key: set the environment variable OPENAI_API_KEY\n"


@pytest.mark.parametrize(("own", "arguments"), [("openai/gpt-5", ["--model", "opnai/gpt-5"]), ("opnai/gpt-5", [])])
def test_an_unknown_provider_lists_the_known_ones(agents: Write, own: str, arguments: list[str]) -> None:
    path = agents(f'agent = Agent(id="a", model="{own}")')
    done = interlock("run", f"{path}:agent", "hi", *arguments)
    assert done.exit_code == 2
    assert "unknown model provider 'opnai' in 'opnai/gpt-5'. Did you mean openai" in done.stderr
    assert "mistral, " in done.stderr
