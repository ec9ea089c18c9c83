from __future__ import annotations

from typing import Any

import pytest

from interlock.models import ModelFallback
from interlock.testing import ScriptedModel


def test_an_entry_needs_only_a_model() -> None:
    """R12.3"""
    model = ScriptedModel([])
    entry = ModelFallback(model)
    assert entry.model is model
    assert entry.enabled
    assert (entry.max_retries, entry.model_settings, entry.provider_options, entry.headers) == (None, None, None, None)


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_a_number_of_retries_that_is_none_is_refused(retries: Any) -> None:
    """R12.3"""
    with pytest.raises(ValueError, match=r"max_retries must be 0 or a positive integer"):
        ModelFallback("openai/gpt-5", max_retries=retries)


def test_options_are_given_by_name() -> None:
    """R12.3"""
    with pytest.raises(TypeError):
        ModelFallback("openai/gpt-5", 3)  # type: ignore[call-arg]
