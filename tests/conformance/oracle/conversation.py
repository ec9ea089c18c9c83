"""The message list as plain data: sources, merging, reconciliation and the prompt (specification sections 3 and 4)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Part = dict[str, Any]
Facts = dict[str, Any]

_ids = itertools.count(1)


@dataclass(eq=False)
class Message:
    """A message; a part's ``attempt`` says which attempt of the run made it."""

    role: str
    parts: list[Part]
    source: str = ""
    metadata: Facts = field(default_factory=dict)
    id: int = field(default_factory=lambda: next(_ids))
    time: float = 0.0
    """Its place in the order of a thread (R3.13, R3.14)."""

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def tools(self) -> list[Part]:
        return [part for part in self.parts if part["type"] == "tool-invocation"]

    def copy(self) -> Message:
        return copy.deepcopy(self)


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


class Conversation:
    """The run's messages in order, its untagged system messages, and the feedback of a rejected attempt."""

    def __init__(self, system: list[str]) -> None:
        self.messages: list[Message] = []
        self.system = system
        self.feedback: str | None = None

    # -- changes ---------------------------------------------------------------------------------------------------

    def add(self, message: Message, source: str) -> Message:
        """Append a message, or fold an assistant message into the latest one (R3.17)."""
        if message.role == "system":
            self.add_system(message.text)
            return message
        latest = self.messages[-1] if self.messages else None
        folds = message.role == "assistant" and source != "memory" and latest is not None and latest.role == "assistant"
        if not folds or latest is None:
            message.source = source
            if source != "memory":
                message.time = max((other.time for other in self.messages), default=0.0) + 1
            self.messages.append(message)
            return message
        for part in message.parts:
            self._append_part(latest, part)
        latest.metadata |= message.metadata
        latest.source = source
        return latest

    def add_part(self, part: Part) -> None:
        """Append a part to the response message (R9.4)."""
        self.add(Message("assistant", [part]), "response")

    def _append_part(self, message: Message, part: Part) -> None:
        if part["type"] == "text" and message.parts and message.parts[-1]["type"] == "tool-invocation":
            message.parts.append({"type": "step-start", "attempt": part.get("attempt")})
        message.parts.append(part)

    def open_step(self, attempt: int) -> None:
        """Separate a new step's parts from those of the step before (R3.19)."""
        latest = self.messages[-1] if self.messages else None
        if latest is not None and latest.role == "assistant" and latest.parts:
            latest.parts.append({"type": "step-start", "attempt": attempt})

    def add_system(self, text: str) -> None:
        if text not in self.system:
            self.system.append(text)

    def remove(self, message_id: int) -> None:
        self.messages = [message for message in self.messages if message.id != message_id]

    def remove_attempt(self, attempt: int) -> None:
        """Take out all that a rejected or failed attempt added to response messages (R7.9)."""
        for message in self.messages:
            message.parts = [part for part in message.parts if part.get("attempt") != attempt]
        self.messages = [message for message in self.messages if message.parts or message.source != "response"]

    def reconcile(self, returned: list[Message], stage: list[Message], default_source: str) -> None:
        """Apply a returned list (R3.22, R3.23)."""
        kept = {message.id for message in returned}
        staged = {message.id for message in stage}
        self.messages = [message for message in self.messages if message.id in kept or message.id not in staged]
        previous: Message | None = None
        first: list[Message] = []
        for message in returned:
            if message.role == "system":
                self.add_system(message.text)
                continue
            place = next((i for i, other in enumerate(self.messages) if other.id == message.id), None)
            if place is not None:
                message.source = self.messages[place].source
                self.messages[place] = message
                self._insert(place, first)
                first = []
            else:
                message.source = default_source
                if previous is None:
                    first.append(message)
                    continue
                self._insert(self.messages.index(previous) + 1, [message])
            previous = message
        self._insert(len(self.messages), first)

    def _insert(self, place: int, messages: list[Message]) -> None:
        """Put undated messages at a place, dated so that they stay there (R3.23)."""
        before = self.messages[place - 1].time if place else (self.messages[0].time - 1 if self.messages else 0.0)
        after = self.messages[place].time if place < len(self.messages) else before + 1
        for number, message in enumerate(messages, 1):
            message.time = before + (after - before) * number / (len(messages) + 1)
        self.messages[place:place] = messages

    def tool_part(self, call_id: str) -> Part | None:
        """The newest part of a call."""
        found = [part for message in self.messages for part in message.tools if part["id"] == call_id]
        return found[-1] if found else None

    # -- views -----------------------------------------------------------------------------------------------------

    def of(self, *sources: str) -> list[Message]:
        return [message for message in self.messages if message.source in sources]

    def response_text(self) -> str:
        return "".join(message.text for message in self.of("response"))

    def prompt(self) -> list[Facts]:
        """The provider prompt in recorded form (R4.9 to R4.14)."""
        items: list[Facts] = [{"role": "system", "content": text} for text in self.system]
        if self.feedback is not None:
            items.append({"role": "system", "feedback": [self.feedback]})
        for message in self.messages:
            items += _user(message) if message.role != "assistant" else _assistant(message)
        return items


def _user(message: Message) -> list[Facts]:
    content = [text_part(part["text"]) for part in message.parts if part["type"] == "text" and part["text"]]
    return [{"role": "user", "content": content}] if content else []


def _assistant(message: Message) -> list[Facts]:
    """Assistant and tool messages in turn, split where a step begins and after results (R3.11)."""
    items: list[Facts] = []
    block: list[Part] = []
    for part in [*message.parts, {"type": "step-start"}]:
        is_after_result = part["type"] in ("text", "reasoning", "file") and any(map(_is_local_outcome, block))
        if part["type"] != "step-start" and not is_after_result:
            block.append(part)
            continue
        content = [shown for item in block for shown in _assistant_part(item)]
        results = [_tool_result(item) for item in block if _is_local_outcome(item)]
        if content:
            items.append({"role": "assistant", "content": content})
        if results:
            items.append({"role": "tool", "content": results})
        block = [part]
    return items


def _assistant_part(part: Part) -> list[Facts]:
    match part["type"]:
        case "text":
            return [text_part(part["text"])] if part["text"] else []
        case "reasoning":
            return [{"type": "reasoning", "text": part["text"]}] if part["text"] else []
        case "file":
            return [{"type": "file", "mediaType": part["mediaType"]}]
        case "tool-invocation" if part["state"] != "call" or part["provider"]:
            shown: list[Facts] = [{"type": "tool-call", "toolName": part["name"], "args": part["args"]}]
            return [*shown, _tool_result(part)] if part["provider"] and part["state"] != "call" else shown
        case _:
            return []


def _is_local_outcome(part: Part) -> bool:
    return part["type"] == "tool-invocation" and not part["provider"] and part["state"] != "call"


def _tool_result(part: Part) -> Facts:
    if part["state"] == "output-error":
        output: Facts = {"type": "error-text", "value": part["error"]}
    else:
        output = {"type": "text" if isinstance(part["result"], str) else "json", "value": part["result"]}
    return {"type": "tool-result", "toolName": part["name"], "output": output}


# -- facts in recorded form ----------------------------------------------------------------------------------------


def message_facts(messages: Iterable[Message]) -> list[Facts]:
    return [_message_facts(message) for message in messages]


def _message_facts(message: Message) -> Facts:
    facts: Facts = {"role": message.role, "text": message.text}
    if message.tools:
        facts["tools"] = [[part["name"], part["state"]] for part in message.tools]
    return facts


def stored_facts(messages: Iterable[Message], metadata: Iterable[str]) -> list[Facts]:
    return [_stored_message(message, metadata) for message in messages]


def _stored_message(message: Message, metadata: Iterable[str]) -> Facts:
    parts = [_stored_part(part) for part in message.parts if part["type"] != "step-start"]
    shown = {key: message.metadata[key] for key in metadata if key in message.metadata}
    return {"role": message.role, "parts": parts} | ({"metadata": shown} if shown else {})


def _stored_part(part: Part) -> Facts:
    if part["type"] == "tool-invocation":
        facts = {"type": part["type"], "toolName": part["name"], "state": part["state"], "args": part["args"]}
        return facts | ({"result": part["result"]} if part["state"] == "result" else {})
    return {key: value for key, value in part.items() if key != "attempt"}


def edited(message: Message, edit: Callable[[str], str]) -> Message:
    """The message, its text parts changed."""
    for part in message.parts:
        if part["type"] == "text":
            part["text"] = edit(part["text"])
    return message
