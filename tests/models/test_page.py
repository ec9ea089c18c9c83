"""The page on models says what is so: its names are looked up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock import models
from interlock.models import check_model_id
from interlock.models.providers import PROVIDERS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_every_model_that_the_page_names_can_be_named() -> None:
    """R12.3"""
    names = set(re.findall(r"`([a-z-]+/[\w.:-]+)", PAGE))
    assert len(names) > 5
    for name in names:
        check_model_id(name)


@pytest.mark.parametrize("provider", re.findall(r"`([a-z-]+)/…`", PAGE))
def test_every_provider_that_the_page_names_is_one(provider: str) -> None:
    """R12.3"""
    assert provider in PROVIDERS


def test_every_variable_of_a_key_that_the_page_names_is_read() -> None:
    known = {entry.key_variable for entry in PROVIDERS.values()}
    assert set(re.findall(r"`([A-Z_]+_API_KEY)`", PAGE)) <= known


def test_every_class_that_the_page_names_is_exported() -> None:
    named = set(re.findall(r"\b\w+Model\b", PAGE)) | {"ModelFallback", "is_context_overflow"}
    assert named <= set(models.__all__)
