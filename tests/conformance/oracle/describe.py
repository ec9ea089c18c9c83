"""Errors in recorded form."""

from __future__ import annotations

from typing import Any

from ..scenario import Scenario
from .hooks import HookFailure

Facts = dict[str, Any]


def describe(error: str, scenario: Scenario) -> Facts:
    """An error in recorded form: by its message, if that is a text of the scenario."""
    if error in scenario.strings:
        return {"message": error}
    return {"mentions": [text for text in scenario.strings if text in error]}


def mentions(failure: HookFailure) -> Facts:
    """The failure of a hook in recorded form: it is wrapped, so only what it quotes counts."""
    return {"mentions": [str(failure)] if str(failure) else []}
