from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from interlock.errors import ConfigurationError
from interlock.models import Azure, ModelRequest, OpenAIChatModel, OpenAIModel, resolve_model
from interlock.testing import drain, text_of
from tests.models.responses_server import fixture
from tests.models.wire import HELLO, event_reply

HI = ModelRequest(prompt=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
RESOURCE = "https://acme.openai.azure.com"


async def request_of(model_class: Any, reply: httpx2.Response, azure: Azure) -> httpx2.Request:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return reply

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    model = model_class("my gpt/5", azure=azure, api_key="sk-secret", client=client)
    assert model.provider == "azure"
    assert text_of(await drain(model.stream(HI)))
    return requests[0]


@pytest.mark.anyio
async def test_chat_with_a_dated_version_has_the_deployment_in_its_path() -> None:
    azure = Azure(endpoint=RESOURCE, api_version="2024-10-21")
    request = await request_of(OpenAIChatModel, event_reply(HELLO), azure)
    path = "/openai/deployments/my%20gpt%2F5/chat/completions?api-version=2024-10-21"
    assert str(request.url) == f"{RESOURCE}{path}"
    assert request.headers["api-key"] == "sk-secret"
    assert "authorization" not in request.headers


@pytest.mark.anyio
async def test_responses_with_a_dated_version_have_the_deployment_in_their_body() -> None:
    azure = Azure(endpoint=f"{RESOURCE}/", api_version="2025-04-01-preview")
    request = await request_of(OpenAIModel, event_reply([fixture("text")]), azure)
    assert str(request.url) == f"{RESOURCE}/openai/responses?api-version=2025-04-01-preview"
    assert json.loads(request.content)["model"] == "my gpt/5"
    assert request.headers["api-key"] == "sk-secret"


@pytest.mark.parametrize("endpoint", [RESOURCE, f"{RESOURCE}/", f"{RESOURCE}/openai", f"{RESOURCE}/openai/v1/"])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_without_a_version_it_is_the_api_without_dates(endpoint: str, path: str) -> None:
    assert Azure(endpoint=endpoint).url(path, "my-gpt") == f"{RESOURCE}/openai/v1/{path}"


@pytest.mark.parametrize("endpoint", ["acme.openai.azure.com", "", "ftp://acme"])
def test_an_endpoint_that_is_no_address_is_refused_at_once(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the Azure endpoint .* is not an address"):
        OpenAIModel("my-gpt", azure=Azure(endpoint=endpoint))


def test_a_resource_and_a_base_url_conflict() -> None:
    with pytest.raises(ConfigurationError, match="give one of them"):
        OpenAIChatModel("my-gpt", azure=Azure(endpoint=RESOURCE), base_url="https://api.example")


@pytest.mark.parametrize(("name", "path"), [("azure", "responses"), ("azure-chat", "chat/completions")])
def test_the_router_finds_the_resource_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    """R12.3"""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", RESOURCE)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    model = resolve_model(f"{name}/my-gpt")
    assert f"provider='azure', url='{RESOURCE}/openai/v1/{path}'" in repr(model)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    assert "/openai/v1" not in repr(resolve_model(f"{name}/my-gpt"))


def test_a_missing_resource_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12.3"""
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    monkeypatch.delenv("AZURE_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="set the environment variable AZURE_OPENAI_ENDPOINT"):
        resolve_model("azure/my-gpt", api_key="k")
