"""Text that every encoder accepts."""

from __future__ import annotations

import pytest

from interlock._text import well_formed, well_formed_data


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain", "plain"),
        ("ünï 🎉", "ünï 🎉"),
        ("\ud83c\udf89", "🎉"),
        ("a\ud83d…", "a\ufffd…"),
        ("\udc00\ud800", "\ufffd\ufffd"),
    ],
)
def test_text_can_always_be_encoded(given: str, expected: str) -> None:
    """FR-080"""
    assert well_formed(given) == expected


def test_data_without_broken_strings_is_not_copied() -> None:
    """FR-080"""
    for value in ({"a": ["ü", 1]}, [2**80, object()], 5, None):
        mended = well_formed_data(value)
        assert mended is value or mended == value
    assert well_formed_data({"a": ("\ud83d", 2**80)}) == {"a": ["\ufffd", 2**80]}
