"""One answer to "was the prompt too long?", however a provider words it."""

from __future__ import annotations

import re

from interlock.errors import APICallError

_WORDS = re.compile(
    r"context[ _]length[ _]exceeded"
    r"|maximum context length"
    r"|exceeds? (?:the |its |this )?(?:model's |available |maximum )?context"
    r"|context (?:size|window|limit) (?:has been |was )?exceeded"
    r"|(?:prompt|input) is too long"
    r"|input token count"
    r"|too many (?:input|prompt) tokens",
    re.IGNORECASE,
)


def is_context_overflow(error: BaseException) -> bool:
    """Whether the call failed because its prompt does not fit into the model's context window.

    A shorter prompt may succeed; the same one never will. A rate limit on tokens and a wish for too long an answer are
    something else.
    """
    if not isinstance(error, APICallError) or error.status_code == 429:
        return False
    return speaks_of_overflow(f"{error.code} {error} {error.response_body}")


def speaks_of_overflow(text: str) -> bool:
    """Whether a provider's error, or a part of it, says that the prompt is too long."""
    return _WORDS.search(text) is not None
