"""What message hooks return, applied to the conversation (specification 2.2 and 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .conversation import Message
from .dispatch import Dispatcher
from .hooks import HookFailure, Returned


def reconcile(hooks: Dispatcher, returned: Any, stage: list[Message], source: str) -> None:
    """Apply what a message hook returned (R2.8, R2.28).

    Raises:
        HookFailure: it returned another list.
    """
    if returned is Returned.FOREIGN_LIST:
        raise HookFailure("")
    if isinstance(returned, Mapping):
        reconcile(hooks, returned["messages"], stage, source)
        hooks.conversation.system = list(returned["systemMessages"])
    if not isinstance(returned, list):
        return
    known = {message.id for message in stage}
    if any(message.id not in known for message in returned[:-1]) and any(message.id in known for message in returned):
        hooks.course.marks.add("new-message-placed")
    for message in returned:
        if message.id not in known and source == "response":
            for part in message.parts:
                part.setdefault("attempt", hooks.status.attempt)
    hooks.conversation.reconcile(returned, stage, source)
