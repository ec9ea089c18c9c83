"""The operations of rules on plain data: what a hook of the scenario does to the simulated run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..scenario import ProcessorSpec
from .chunks import from_payload
from .conversation import Conversation, Message, edited, text_part

Facts = dict[str, Any]
Op = Mapping[str, Any]


class Returned(Enum):
    """What a hook may return beside data."""

    NOTHING = "nothing"
    SAME_LIST = "the list that was passed in"
    FOREIGN_LIST = "another list"


class Abort(Exception):
    """A hook aborted."""

    def __init__(self, processor: ProcessorSpec, hook: str, op: Op) -> None:
        super().__init__(op.get("reason") or f"Tripwire triggered by {processor.id}")
        self.processor = processor
        self.hook = hook
        self.reason = str(self)
        self.retry = bool(op.get("retry"))
        self.metadata = op.get("metadata")

    @property
    def facts(self) -> Facts:
        facts: Facts = {"reason": self.reason, "processorId": self.processor.id}
        if self.retry:
            facts["retry"] = True
        return facts | ({} if self.metadata is None else {"metadata": self.metadata})


class HookFailure(Exception):
    """A hook raised an ordinary exception, or returned what it may not."""

    hook = ""


class ProviderFailure(Exception):
    """A provider call failed."""


@dataclass
class HookCall:
    """One running hook and what it works on; unused fields stay empty."""

    processor: ProcessorSpec
    hook: str
    conversation: Conversation
    state: Facts
    saved: dict[str, list[Facts]]
    emit: Callable[[Op], None]
    set_context: Callable[[str, Any], None]
    messages: list[Message] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    attempt: int = -1
    part: Facts | None = None
    prompt: list[Facts] = field(default_factory=list)
    settings: Facts = field(default_factory=dict)
    chunks: list[Facts] = field(default_factory=list)
    call_id: str = ""
    text: str | None = None
    mutated_prompt: bool = False
    returned: Any = Returned.NOTHING

    def carry_out(self, op: Op) -> None:
        _OPERATIONS[op["op"]](self, op)


def step_result(call: HookCall, changes: Op) -> Facts:
    """The object that ``step-result`` and ``prepareStep`` return, with recorded names."""
    returned: Facts = {}
    for key, value in changes.items():
        match key:
            case "addTools":
                returned["tools"] = list(dict.fromkeys([*call.settings["tools"], *value]))
            case "tools":
                returned["tools"] = list(dict.fromkeys(value))
            case "appendSystem":
                added = [value] if isinstance(value, str) else value
                returned["systemMessages"] = [*call.system, *added]
            case "messages":
                returned["messages"] = [Message(item["role"], [text_part(item["text"])]) for item in value]
            case "sameMessages":
                returned["messages"] = call.messages
            case "sameList":
                returned["messageList"] = Returned.SAME_LIST
            case "foreignList":
                returned["messageList"] = Returned.FOREIGN_LIST
            case "op":
                continue
            case _:
                returned[key] = value
    return returned


def _edited(call: HookCall, op: Op, edit: Callable[[str], str]) -> list[Message]:
    return [edited(item.copy(), edit) if op.get("role") in (None, item.role) else item for item in call.messages]


def _uppercase_in_place(call: HookCall, op: Op) -> None:
    for item in call.messages:
        if op.get("role") in (None, item.role):
            edited(item, str.upper)


def _return_appended(call: HookCall, op: Op) -> None:
    items = list(call.messages)
    items.insert(op.get("index", len(items)), Message(op.get("role", "user"), [text_part(op.get("text", ""))]))
    call.returned = items


def _set_message_metadata(call: HookCall, op: Op) -> None:
    items = [item.copy() if item.role == "assistant" else item for item in call.messages]
    for item in items:
        if item.role == "assistant":
            item.metadata |= op["metadata"]
    call.returned = items


def _append_message(call: HookCall, op: Op) -> None:
    source = str(op.get("source", "input"))
    part = text_part(op["text"]) | ({"attempt": call.attempt} if source == "response" else {})
    call.conversation.add(Message(op["role"], [part]), {"user": "input"}.get(source, source))


def _change_system(systems: Callable[[HookCall, Op], list[str]]) -> Callable[[HookCall, Op], None]:
    def change(call: HookCall, op: Op) -> None:
        call.returned = {"messages": call.messages, "systemMessages": systems(call, op)}

    return change


def _edit_prompt(call: HookCall, edit: Callable[[str], str]) -> list[Facts]:
    items = copy.deepcopy(call.prompt)
    for item in items:
        if isinstance(item.get("content"), str):
            item["content"] = edit(item["content"])
        for part in item["content"] if isinstance(item.get("content"), list) else ():
            if part["type"] == "text":
                part["text"] = edit(part["text"])
    return items


def _append_prompt(call: HookCall, op: Op) -> None:
    content = op["text"] if op["role"] == "system" else [text_part(op["text"])]
    call.returned = {"prompt": [*call.prompt, {"role": op["role"], "content": content}]}


def _mutate_prompt_text(call: HookCall, op: Op) -> None:
    call.mutated_prompt = True


def _replay_saved(call: HookCall, op: Op) -> None:
    if op["key"] in call.saved:
        call.returned = {"response": call.saved[op["key"]]}


def _edited_text(text: str, op: Op) -> str:
    if "text" in op:
        return str(op["text"])
    return text.replace(op["find"], op["with"]) if "find" in op else text.upper()


def _rewrite_part(call: HookCall, op: Op) -> None:
    if call.part is not None and "text" in call.part:
        call.returned = call.part | {"text": _edited_text(call.part["text"], op)}


def _rewrite_data(call: HookCall, op: Op) -> None:
    call.returned = (call.part or {}) | {"data": op["data"]}


def _collect_state(call: HookCall, op: Op) -> None:
    part = call.part or {}
    seen = part["data"] if part.get("type", "").startswith("data-") else call.text
    call.state.setdefault(op["key"], []).append(seen)


def _redact_tool_result(call: HookCall, op: Op) -> None:
    part = call.conversation.tool_part(call.call_id)
    if part is not None:
        part |= {"state": "result", "result": op["result"]}


def _abort(call: HookCall, op: Op) -> None:
    raise Abort(call.processor, call.hook, op)


def _throw(call: HookCall, op: Op) -> None:
    raise HookFailure(op["message"])


def _returning(value: Callable[[HookCall, Op], Any]) -> Callable[[HookCall, Op], None]:
    def operation(call: HookCall, op: Op) -> None:
        call.returned = value(call, op)

    return operation


_OPERATIONS: dict[str, Callable[[HookCall, Op], None]] = {
    "uppercase-in-place": _uppercase_in_place,
    "return-uppercase": _returning(lambda call, op: _edited(call, op, str.upper)),
    "return-suffix": _returning(lambda call, op: _edited(call, op, lambda text: text + op["text"])),
    "return-only": _returning(lambda call, op: [call.messages[index] for index in op["indexes"]]),
    "return-appended": _return_appended,
    "replace-messages": _returning(
        lambda call, op: [Message(item["role"], [text_part(item["text"])]) for item in op["messages"]]
    ),
    "return-empty-list": _returning(lambda call, op: []),
    "return-messages": _returning(lambda call, op: call.messages),
    "return-list": _returning(lambda call, op: Returned.SAME_LIST),
    "return-nothing": _returning(lambda call, op: Returned.NOTHING),
    "return-null": _returning(lambda call, op: Returned.NOTHING),
    "return-foreign-list": _returning(lambda call, op: Returned.FOREIGN_LIST),
    "append-message": _append_message,
    "remove-message": lambda call, op: call.conversation.remove(call.messages[op["index"]].id),
    "add-system": lambda call, op: call.conversation.add_system(op["text"]),
    "replace-system": _change_system(lambda call, op: list(op["system"])),
    "append-system": _change_system(lambda call, op: [*call.system, op["text"]]),
    "set-message-metadata": _set_message_metadata,
    "step-result": _returning(step_result),
    "replace-prompt-text": _returning(
        lambda call, op: {"prompt": _edit_prompt(call, lambda text: text.replace(op["find"], op["with"]))}
    ),
    "append-prompt": _append_prompt,
    "mutate-prompt-text": _mutate_prompt_text,
    "cached-response": _returning(lambda call, op: {"response": [from_payload(chunk) for chunk in op["chunks"]]}),
    "save-response": lambda call, op: call.saved.update({op["key"]: copy.deepcopy(call.chunks)}),
    "replay-saved": _replay_saved,
    "drop-part": _returning(lambda call, op: None),
    "rewrite-part": _rewrite_part,
    "rewrite-data": _rewrite_data,
    "emit": lambda call, op: call.emit(op),
    "set-state": lambda call, op: call.state.update({op["key"]: copy.deepcopy(op["value"])}),
    "incr-state": lambda call, op: call.state.update({op["key"]: call.state.get(op["key"], 0) + 1}),
    "collect-state": _collect_state,
    "set-context": lambda call, op: call.set_context(op["key"], op["value"]),
    "abort": _abort,
    "retry": _returning(lambda call, op: {"retry": op.get("value", True)}),
    "redact-tool-result": _redact_tool_result,
    "throw": _throw,
    "pass": lambda call, op: None,
}
