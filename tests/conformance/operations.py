"""The operations that a rule carries out on a running hook of interlock, one function each."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock.chunks import chunk_from_dict
from interlock.messages import Message, MessageContent, MessageList, get_text
from interlock.messages.parts import TextPart, ToolInvocation, ToolInvocationPart
from interlock.processors import CachedStepResponse

from .observe import snake

Op = Mapping[str, Any]


class World:
    """What the processors of one scenario share beside the agent: models, tools, saved replies."""

    def __init__(self, models: Callable[[str], Any], tools: Mapping[str, Any]) -> None:
        self.models = models
        self.tools = tools
        self.saved: dict[str, CachedStepResponse] = {}


class HookCall:
    """One running hook; ``returned`` is what it will return."""

    def __init__(self, hook: str, args: Any, world: World) -> None:
        self.hook = hook
        self.args = args
        self.world = world
        self.returned = default_return(hook, args)

    async def carry_out(self, op: Op) -> None:
        outcome = OPERATIONS[op["op"]](self, op)
        if outcome is not None:
            await outcome


def default_return(hook: str, args: Any) -> Any:
    """What a hook returns when no operation says otherwise."""
    if hook in ("processInput", "processOutputStep", "processToolResult", "processOutputResult"):
        return args.message_list
    return args.part if hook == "processOutputStream" else None


def message(role: str, text: str) -> Message:
    """A new message, undated."""
    return Message(role=role, content=MessageContent(parts=[TextPart(text=text)]))


def step_result(args: Any, changes: Op, world: World) -> dict[str, Any]:
    """The object that ``step-result`` and ``prepareStep`` return."""
    returned: dict[str, Any] = {}
    for key, value in changes.items():
        match key:
            case "op":
                continue
            case "model":
                returned["model"] = world.models(value)
            case "toolChoice" | "activeTools" | "providerOptions":
                returned[snake(key)] = copy.deepcopy(value)
            case "modelSettings":
                returned["model_settings"] = {snake(name): setting for name, setting in value.items()}
            case "tools":
                returned["tools"] = {name: world.tools[name] for name in value}
            case "addTools":
                returned["tools"] = {**args.tools, **{name: world.tools[name] for name in value}}
            case "systemMessages":
                returned["system_messages"] = [_system(text) for text in value]
            case "appendSystem":
                added = [value] if isinstance(value, str) else value
                returned["system_messages"] = [*args.system_messages, *(_system(text) for text in added)]
            case "messages":
                returned["messages"] = [message(item["role"], item["text"]) for item in value]
            case "sameMessages":
                returned["messages"] = args.messages
            case "sameList":
                returned["message_list"] = args.message_list
            case "foreignList":
                returned["message_list"] = MessageList()
            case _:
                raise KeyError(f"step-result has no {key!r}")
    return returned


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


# -- messages ------------------------------------------------------------------------------------------------------


def _copy(original: Message) -> Message:
    return Message.from_dict(original.to_dict())


def _edited(call: HookCall, op: Op, edit: Callable[[str], str]) -> list[Message]:
    """The hook's messages, those of ``role`` as edited copies."""
    return [
        _with_text(_copy(item), edit) if op.get("role") in (None, item.role) else item for item in call.args.messages
    ]


def _with_text(item: Message, edit: Callable[[str], str]) -> Message:
    for part in item.content.parts:
        if isinstance(part, TextPart):
            part.text = edit(part.text)
    return item


def uppercase_in_place(call: HookCall, op: Op) -> None:
    for item in call.args.messages:
        if op.get("role") in (None, item.role):
            _with_text(item, str.upper)


def return_uppercase(call: HookCall, op: Op) -> None:
    call.returned = _edited(call, op, str.upper)


def return_suffix(call: HookCall, op: Op) -> None:
    call.returned = _edited(call, op, lambda text: text + op["text"])


def return_only(call: HookCall, op: Op) -> None:
    call.returned = [call.args.messages[index] for index in op["indexes"]]


def return_appended(call: HookCall, op: Op) -> None:
    added = message(op.get("role", "user"), op.get("text", ""))
    items = list(call.args.messages)
    items.insert(op.get("index", len(items)), added)
    call.returned = items


def replace_messages(call: HookCall, op: Op) -> None:
    call.returned = [message(item["role"], item["text"]) for item in op["messages"]]


def return_empty_list(call: HookCall, op: Op) -> None:
    call.returned = []


def return_messages(call: HookCall, op: Op) -> None:
    call.returned = call.args.messages


def return_list(call: HookCall, op: Op) -> None:
    call.returned = call.args.message_list


def return_nothing(call: HookCall, op: Op) -> None:
    call.returned = None


def return_foreign_list(call: HookCall, op: Op) -> None:
    call.returned = MessageList()


def append_message(call: HookCall, op: Op) -> None:
    call.args.message_list.add(message(op["role"], op["text"]), op.get("source", "input"))


def remove_message(call: HookCall, op: Op) -> None:
    call.args.message_list.remove_by_ids([call.args.messages[op["index"]].id])


def add_system(call: HookCall, op: Op) -> None:
    call.args.message_list.add_system(op["text"])


def replace_system(call: HookCall, op: Op) -> None:
    call.returned = {"messages": call.args.messages, "system_messages": [_system(text) for text in op["system"]]}


def append_system(call: HookCall, op: Op) -> None:
    systems = [*call.args.system_messages, _system(op["text"])]
    call.returned = {"messages": call.args.messages, "system_messages": systems}


def set_message_metadata(call: HookCall, op: Op) -> None:
    def marked(item: Message) -> Message:
        twin = _copy(item)
        twin.content.metadata = {**(twin.content.metadata or {}), **op["metadata"]}
        return twin

    call.returned = [marked(item) if item.role == "assistant" else item for item in call.args.messages]


# -- step, request and response ------------------------------------------------------------------------------------


def return_step_result(call: HookCall, op: Op) -> None:
    call.returned = step_result(call.args, op, call.world)


def _replaced_prompt(call: HookCall, edit: Callable[[str], str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = copy.deepcopy(call.args.prompt)
    _edit_prompt(items, edit)
    return items


def _edit_prompt(items: list[dict[str, Any]], edit: Callable[[str], str]) -> None:
    for item in items:
        if isinstance(item["content"], str):
            item["content"] = edit(item["content"])
            continue
        for part in item["content"]:
            if part["type"] == "text":
                part["text"] = edit(part["text"])


def replace_prompt_text(call: HookCall, op: Op) -> None:
    call.returned = {"prompt": _replaced_prompt(call, lambda text: text.replace(op["find"], op["with"]))}


def append_prompt(call: HookCall, op: Op) -> None:
    content = op["text"] if op["role"] == "system" else [{"type": "text", "text": op["text"]}]
    call.returned = {"prompt": [*call.args.prompt, {"role": op["role"], "content": content}]}


def mutate_prompt_text(call: HookCall, op: Op) -> None:
    _edit_prompt(call.args.prompt, lambda text: edited_text(text, op))


def cached_response(call: HookCall, op: Op) -> None:
    call.returned = {"response": CachedStepResponse(chunks=copy.deepcopy(op["chunks"]))}


def save_response(call: HookCall, op: Op) -> None:
    args = call.args
    call.world.saved[op["key"]] = CachedStepResponse(
        chunks=args.chunks, warnings=args.warnings, request=args.request, raw_response=args.raw_response
    )


def replay_saved(call: HookCall, op: Op) -> None:
    if op["key"] in call.world.saved:
        call.returned = {"response": call.world.saved[op["key"]]}


# -- stream --------------------------------------------------------------------------------------------------------


def edited_text(text: str, op: Op) -> str:
    """``text`` as an operation with ``text``, ``upper`` or ``find`` and ``with`` changes it."""
    if "text" in op:
        return str(op["text"])
    if "find" in op:
        return text.replace(op["find"], op["with"])
    return text.upper()


def drop_part(call: HookCall, op: Op) -> None:
    call.returned = None


def rewrite_part(call: HookCall, op: Op) -> None:
    wire = call.args.part.to_dict()
    payload = wire.get("payload")
    if isinstance(payload, dict) and isinstance(payload.get("text"), str):
        wire["payload"] = {**payload, "text": edited_text(payload["text"], op)}
        call.returned = chunk_from_dict(wire)


def rewrite_data(call: HookCall, op: Op) -> None:
    call.returned = chunk_from_dict({**call.args.part.to_dict(), "data": op["data"]})


async def emit(call: HookCall, op: Op) -> None:
    if call.args.writer is not None:
        await call.args.writer.custom({key: value for key, value in op.items() if key != "op"})


# -- state and outcome ---------------------------------------------------------------------------------------------


def set_state(call: HookCall, op: Op) -> None:
    call.args.state[op["key"]] = copy.deepcopy(op["value"])


def incr_state(call: HookCall, op: Op) -> None:
    call.args.state[op["key"]] = call.args.state.get(op["key"], 0) + 1


def collect_state(call: HookCall, op: Op) -> None:
    call.args.state.setdefault(op["key"], []).append(_collected(call))


def _collected(call: HookCall) -> Any:
    if call.hook != "processOutputStream":
        return text_of(call.hook, call.args)
    part = call.args.part
    return copy.deepcopy(part.data) if part.type.startswith("data-") else text_of(call.hook, call.args)


def set_context(call: HookCall, op: Op) -> None:
    call.args.request_context.set(op["key"], op["value"])


def abort(call: HookCall, op: Op) -> None:
    call.args.abort(op.get("reason"), retry=bool(op.get("retry")), metadata=copy.deepcopy(op.get("metadata")))


def retry(call: HookCall, op: Op) -> None:
    call.returned = {"retry": op.get("value", True)}


def redact_tool_result(call: HookCall, op: Op) -> None:
    args = call.args
    invocation = ToolInvocation(
        state="result",
        tool_call_id=args.tool_call_id,
        tool_name=args.tool_name,
        args=args.args,
        result=copy.deepcopy(op["result"]),
    )
    args.message_list.update_tool_invocation(ToolInvocationPart(tool_invocation=invocation))


def throw(call: HookCall, op: Op) -> None:
    raise RuntimeError(op["message"])


def do_nothing(call: HookCall, op: Op) -> None:
    """The hook does what it does without rules."""


def text_of(hook: str, args: Any) -> str | None:
    """Text of the chunk, of the step or of the result."""
    match hook:
        case "processOutputStream":
            text = getattr(getattr(args.part, "payload", None), "text", None)
            return text if isinstance(text, str) else None
        case "processOutputStep":
            return str(args.text)
        case "processOutputResult":
            return str(args.result.text)
        case _:
            return None


def message_texts(args: Any) -> list[str]:
    return [get_text(item) for item in args.messages]


OPERATIONS: dict[str, Callable[[HookCall, Op], Awaitable[None] | None]] = {
    "uppercase-in-place": uppercase_in_place,
    "return-uppercase": return_uppercase,
    "return-suffix": return_suffix,
    "return-only": return_only,
    "return-appended": return_appended,
    "replace-messages": replace_messages,
    "return-empty-list": return_empty_list,
    "return-messages": return_messages,
    "return-list": return_list,
    "return-nothing": return_nothing,
    "return-null": return_nothing,
    "return-foreign-list": return_foreign_list,
    "append-message": append_message,
    "remove-message": remove_message,
    "add-system": add_system,
    "replace-system": replace_system,
    "append-system": append_system,
    "set-message-metadata": set_message_metadata,
    "step-result": return_step_result,
    "replace-prompt-text": replace_prompt_text,
    "append-prompt": append_prompt,
    "mutate-prompt-text": mutate_prompt_text,
    "cached-response": cached_response,
    "save-response": save_response,
    "replay-saved": replay_saved,
    "drop-part": drop_part,
    "rewrite-part": rewrite_part,
    "rewrite-data": rewrite_data,
    "emit": emit,
    "set-state": set_state,
    "incr-state": incr_state,
    "collect-state": collect_state,
    "set-context": set_context,
    "abort": abort,
    "retry": retry,
    "redact-tool-result": redact_tool_result,
    "throw": throw,
    "pass": do_nothing,
}
