from __future__ import annotations

import pytest

from interlock.errors import ModelError
from interlock.models.network import allow_model_requests, is_loopback, require_model_requests


@pytest.fixture(autouse=True)
def _restored_switch() -> object:
    with allow_model_requests(True):
        yield


def test_a_switched_off_call_says_what_to_do() -> None:
    with (
        allow_model_requests(False),
        pytest.raises(ModelError, match=r"^acme/one was asked for while .* ScriptedModel"),
    ):
        require_model_requests("acme/one")


def test_the_switch_is_put_back_after_the_block() -> None:
    with allow_model_requests(False):
        pass
    require_model_requests("acme/one")


def test_blocks_nest() -> None:
    with allow_model_requests(False):
        with allow_model_requests(True):
            require_model_requests("acme/one")
        with pytest.raises(ModelError):
            require_model_requests("acme/one")


def test_a_plain_call_sets_the_switch_for_good() -> None:
    allow_model_requests(False)
    with pytest.raises(ModelError):
        require_model_requests("acme/one")


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1/", True),
        ("http://[::1]:80/", True),
        ("https://api.example/", False),
        ("https://localhost.example/", False),
    ],
)
def test_only_this_machine_is_loopback(url: str, is_local: bool) -> None:
    assert is_loopback(url) is is_local
