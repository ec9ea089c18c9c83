"""When a rule of a processor applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Moment:
    """What a hook call looks like to a rule; ``None`` means that the hook has no such thing."""

    invocation: int
    """How often this hook of this processor ran before."""
    retry_count: int | None = None
    step_number: int | None = None
    part_type: str | None = None
    text: str | None = None
    """Text of the chunk, of the step or of the result."""
    tool_name: str | None = None
    message_texts: list[str] = field(default_factory=list)
    error: str | None = None
    has_tool_calls: bool | None = None
    from_cache: bool | None = None
    state: Mapping[str, Any] = field(default_factory=dict)


def holds(when: Mapping[str, Any], moment: Moment) -> bool:
    """Whether every condition of ``when`` is met."""
    return all(_CONDITIONS[name](moment, wanted) for name, wanted in when.items())


def _state_equals(moment: Moment, wanted: Mapping[str, Any]) -> bool:
    if set(wanted) == {"key", "value"}:
        return bool(moment.state.get(wanted["key"]) == wanted["value"])
    return all(moment.state.get(key) == value for key, value in wanted.items())


_CONDITIONS: dict[str, Callable[[Moment, Any], bool]] = {
    "invocation": lambda moment, wanted: moment.invocation == wanted,
    "retryCount": lambda moment, wanted: moment.retry_count == wanted,
    "stepNumber": lambda moment, wanted: moment.step_number == wanted,
    "partType": lambda moment, wanted: moment.part_type == wanted,
    "textContains": lambda moment, wanted: wanted in (moment.text or ""),
    "toolName": lambda moment, wanted: moment.tool_name == wanted,
    "messageTextContains": lambda moment, wanted: any(wanted in text for text in moment.message_texts),
    "errorContains": lambda moment, wanted: wanted in (moment.error or ""),
    "hasToolCalls": lambda moment, wanted: bool(moment.has_tool_calls) == wanted,
    "fromCache": lambda moment, wanted: bool(moment.from_cache) == wanted,
    "stateEquals": _state_equals,
}
