"""Every hook answers the same five questions."""

from __future__ import annotations

import pytest

from interlock import processors
from interlock.processors import HookArgs

QUESTIONS = ("Runs:", "How often:", "May change:", "Returns:", "If it raises:")

HOOK_ARGS = [
    value
    for name in processors.__all__
    if isinstance(value := getattr(processors, name), type) and issubclass(value, HookArgs) and value is not HookArgs
]


def test_there_is_one_args_class_a_hook() -> None:
    assert len(HOOK_ARGS) == 10


@pytest.mark.parametrize("args", HOOK_ARGS)
def test_a_hooks_docstring_answers_the_five_questions_in_order(args: type[HookArgs]) -> None:
    doc = args.__doc__ or ""
    places = [doc.find(question) for question in QUESTIONS]
    assert -1 not in places
    assert places == sorted(places)
