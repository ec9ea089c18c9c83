from __future__ import annotations

import subprocess
import sys

import pytest

from interlock.errors import ConfigurationError
from interlock.models import (
    GenerateModel,
    LanguageModel,
    ModelReply,
    ModelRequest,
    OpenAIChatModel,
    OpenAIModel,
    resolve_model,
    to_language_model,
)
from interlock.models.providers import PROVIDERS
from interlock.testing import ScriptedModel, drain, text_of
from tests.models.wire import HELLO, Reply, loopback

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, entry in PROVIDERS.items():
        monkeypatch.delenv(f"{name.upper()}_BASE_URL", raising=False)
        if entry.key_variable:
            monkeypatch.delenv(entry.key_variable, raising=False)


def test_a_model_string_names_provider_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    model = resolve_model("openai/gpt-5")
    assert isinstance(model, OpenAIModel)
    assert repr(model) == "OpenAIModel('gpt-5', provider='openai', url='https://api.openai.com/v1/responses')"


def test_openai_may_be_asked_through_chat_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    model = resolve_model("openai-chat/gpt-5")
    assert isinstance(model, OpenAIChatModel)
    assert (
        repr(model) == "OpenAIChatModel('gpt-5', provider='openai', url='https://api.openai.com/v1/chat/completions')"
    )


def test_a_model_name_may_have_slashes() -> None:
    """R12.3"""
    model = resolve_model("openrouter/acme/model-1:free", api_key="k")
    assert (model.provider, model.model_id) == ("openrouter", "acme/model-1:free")


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_provider_resolves(name: str) -> None:
    """R12.3"""
    base_url = None if PROVIDERS[name].base_url else "https://acme.example"
    model = resolve_model(f"{name}/some-model", api_key="k", base_url=base_url)
    assert model.provider == (PROVIDERS[name].name or name)


@pytest.mark.parametrize("name", sorted(name for name, entry in PROVIDERS.items() if entry.key_variable))
def test_a_missing_key_names_its_variable(name: str) -> None:
    """R12.3"""
    with pytest.raises(ConfigurationError, match=rf"set the environment variable {PROVIDERS[name].key_variable}$"):
        resolve_model(f"{name}/some-model", base_url=PROVIDERS[name].base_url or "https://acme.example")


@pytest.mark.parametrize("name", ["ollama", "vllm", "lmstudio"])
def test_a_server_of_ones_own_needs_no_key(name: str) -> None:
    """R12.3"""
    assert "localhost" in repr(resolve_model(f"{name}/llama3"))


def test_an_unknown_provider_lists_the_near_and_the_known() -> None:
    """R12.3"""
    with pytest.raises(
        ConfigurationError, match=r"unknown model provider 'opnai' .* Did you mean openai\b.*Known: anthropic, "
    ) as caught:
        resolve_model("opnai/gpt-5")
    assert "local" in str(caught.value)


@pytest.mark.parametrize("name", ["gpt-5", "openai/", "/gpt-5", ""])
def test_a_string_without_provider_or_model_is_refused(name: str) -> None:
    """R12.3"""
    with pytest.raises(ConfigurationError, match=r"write 'provider/model'"):
        resolve_model(name)


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk\u2026abc")
    with pytest.raises(ConfigurationError, match="GROQ_API_KEY is empty or has characters") as caught:
        resolve_model("groq/llama")
    assert "abc" not in str(caught.value)


@pytest.mark.anyio
async def test_the_environment_may_point_a_provider_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3; a stand-in on this machine needs no key"""
    async with loopback(lambda _: Reply(HELLO)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        assert text_of(await drain(resolve_model("openai-chat/gpt-5").stream(HI))) == "Hello"
    assert "authorization" not in server.requests[0][1]


@pytest.mark.anyio
async def test_key_address_and_headers_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback(lambda _: Reply(HELLO)) as server:
        await drain(resolve_model("groq/m", api_key="k", base_url=server.url, headers={"x-a": "1"}).stream(HI))
    headers = server.requests[0][1]
    assert (headers["authorization"], headers["x-a"]) == ("Bearer k", "1")


class OnePiece:
    provider = "acme"
    model_id = "one"

    async def generate(self, request: ModelRequest) -> ModelReply:
        return ModelReply(content=[])


@pytest.mark.parametrize("blank", [" ", "\n", "\t "])
def test_white_space_around_an_address_is_dropped(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    for name, path in (
        ("openai", "responses"),
        ("groq", "chat/completions"),
        ("anthropic", "messages"),
        ("google", "models/m:streamGenerateContent"),
    ):
        address = f"{blank}http://127.0.0.1:9/v1{blank}"
        assert f"url='http://127.0.0.1:9/v1/{path}" in repr(resolve_model(f"{name}/m", base_url=address))
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", address)
        assert f"url='http://127.0.0.1:9/v1/{path}" in repr(resolve_model(f"{name}/m"))


@pytest.mark.parametrize("address", [" ", "groq.example", "ftp://groq.example", "https://"])
@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("groq/m", "GROQ_BASE_URL"),
        ("anthropic/m", "ANTHROPIC_BASE_URL"),
        ("google/m", "GOOGLE_BASE_URL"),
        ("azure/m", "AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_an_address_that_is_none_names_its_variable(
    name: str, variable: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R12.3"""
    monkeypatch.setenv(variable, address)
    with pytest.raises(ConfigurationError, match=f"^{variable} .* is not an address"):
        resolve_model(name, api_key="k")


def test_every_form_of_a_model_becomes_a_streaming_model() -> None:
    """R12.3"""
    model = ScriptedModel([])
    assert to_language_model(model) is model
    assert isinstance(OnePiece(), GenerateModel)
    assert isinstance(to_language_model(OnePiece()), LanguageModel)
    assert to_language_model("ollama/llama3").provider == "ollama"


def test_what_is_no_model_is_refused() -> None:
    """R12.3"""
    with pytest.raises(ConfigurationError, match=r"^7 is no model"):
        to_language_model(7)  # type: ignore[arg-type]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_models_loads_no_http_client_and_no_runtime() -> None:
    code = "import sys, interlock.models; print([m for m in ('httpx2', 'xllamacpp', 'pydantic') if m in sys.modules])"
    assert run_python(code) == "[]"


@pytest.mark.parametrize(
    ("missing", "name", "command"),
    [
        ("httpx2", "ollama/llama3", "pip install 'interlock[openai]'"),
        ("httpx2", "openai/gpt-5", "pip install 'interlock[openai]'"),
        ("httpx2", "anthropic/claude-sonnet-5-5", "pip install 'interlock[anthropic]'"),
        ("httpx2", "google/gemini-3-flash", "pip install 'interlock[google]'"),
        ("httpx2", "anyllm/cohere:command-a", "pip install 'interlock[anyllm]'"),
        ("any_llm", "anyllm/cohere:command-a", "pip install 'interlock[anyllm]'"),
        ("httpx2", "local/smollm2", "pip install 'interlock[local]'"),
        ("xllamacpp", "local/smollm2", "pip install 'interlock[local]'"),
    ],
)
def test_a_missing_extra_fails_with_the_command_that_installs_it(missing: str, name: str, command: str) -> None:
    """R12.3"""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from interlock.errors import ConfigurationError\n"
        "from interlock.models import resolve_model\n"
        f"try: resolve_model({name!r}, api_key='k')\n"
        "except ConfigurationError as error: print(error)"
    )
    shown = run_python(code)
    assert command in shown
    assert "\n" not in shown
