"""Puts what interlock did into the form of the recorded facts: ids, times and transport details left out."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.chunks import Chunk, chunk_to_dict
from interlock.messages import get_text

from .scenario import Scenario

Facts = dict[str, Any]
Record = list[Any]
"""One entry of the log: who, what, and the facts."""

TRANSPORT = frozenset(
    (
        "response-metadata",
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
    )
)
"""Chunks that are left out everywhere."""

_SETTINGS = (
    "temperature",
    "max_output_tokens",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "stop_sequences",
    "seed",
)


class Journal:
    """The log of one call, in time order."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, who: str, what: str, facts: Facts) -> None:
        self.records.append([who, what, facts])


def detached(value: Any) -> Any:
    """A copy that later changes do not reach."""
    return copy.deepcopy(value)


def present(**facts: Any) -> Facts:
    """The facts that are not ``None``."""
    return {name: value for name, value in facts.items() if value is not None}


def camel(name: str) -> str:
    """``max_output_tokens`` → ``maxOutputTokens``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def snake(name: str) -> str:
    """``maxOutputTokens`` → ``max_output_tokens``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


# -- facts of hook calls -------------------------------------------------------------------------------------------


def messages(items: Iterable[Any]) -> list[Facts]:
    """Messages as role, text and the states of their tool calls."""
    return [_message(message) for message in items]


def _message(message: Any) -> Facts:
    invocations = [part.tool_invocation for part in message.content.parts if part.type == "tool-invocation"]
    facts: Facts = {"role": message.role, "text": get_text(message)}
    if invocations:
        facts["tools"] = [[invocation.tool_name, invocation.state] for invocation in invocations]
    return facts


def system(items: Iterable[Any]) -> list[str]:
    return [item["content"] if isinstance(item, Mapping) else item.content for item in items]


def usage(counts: Any) -> Facts:
    """The reported counts only."""
    if counts is None:
        return {}
    return {name: value for name, value in counts.to_dict().items() if value is not None}


def step_settings(args: Any) -> Facts:
    """Tools and settings as a step hook receives them."""
    return present(
        toolChoice=args.tool_choice,
        activeTools=None if args.active_tools is None else list(args.active_tools),
        tools=list(args.tools or {}),
        modelSettings={camel(name): value for name, value in (args.model_settings or {}).items()},
        providerOptions=detached(args.provider_options),
    )


def result_steps(steps: Iterable[Any]) -> list[Facts]:
    return [
        {
            "text": step.text,
            "toolCalls": len(step.tool_calls),
            "toolResults": len(step.tool_results),
            "finishReason": step.finish_reason,
        }
        for step in steps
    ]


# -- what the provider received ------------------------------------------------------------------------------------


def prompt(items: Sequence[Mapping[str, Any]], scenario: Scenario) -> list[Facts]:
    return [_prompt_message(item, scenario) for item in items]


def _prompt_message(item: Mapping[str, Any], scenario: Scenario) -> Facts:
    content = item["content"]
    if item["role"] == "system":
        quoted = _quoted(content, scenario.feedback)
        return {"role": "system", "feedback": quoted} if quoted else {"role": "system", "content": content}
    return {"role": item["role"], "content": [_prompt_part(part) for part in content]}


def _quoted(text: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that ``text`` contains, without those that are only part of a longer one."""
    found = [candidate for candidate in candidates if candidate in text]
    return [one for one in found if not any(one != other and one in other for other in found)]


def _prompt_part(part: Mapping[str, Any]) -> Facts:
    match part["type"]:
        case "tool-call":
            return {"type": "tool-call", "toolName": part["toolName"], "args": detached(part["input"])}
        case "tool-result":
            return {"type": "tool-result", "toolName": part["toolName"], "output": detached(part["output"])}
        case "file":
            return {"type": "file", "mediaType": part["mediaType"]}
        case kind:
            return {"type": kind, "text": part["text"]}


def call_settings(request: Any) -> Facts:
    """What a provider call was sent beside its prompt."""
    tools = [tool.name for tool in request.tools]
    facts: Facts = {}
    if tools or request.tool_choice == "none":
        facts["toolChoice"] = request.tool_choice if request.tool_choice is not None else "auto"
    if tools and request.tool_choice != "none":
        facts["tools"] = tools
    facts |= {camel(name): request.settings[name] for name in _SETTINGS if request.settings.get(name) is not None}
    if request.provider_options:
        facts["providerOptions"] = detached(request.provider_options)
    if request.response_format is not None:
        facts["responseFormat"] = request.response_format["type"]
    return facts


# -- what the caller received --------------------------------------------------------------------------------------


def chunks(items: Iterable[Chunk], scenario: Scenario) -> list[Facts]:
    return [chunk(item, scenario) for item in items if item.type not in TRANSPORT]


def chunk(item: Chunk, scenario: Scenario) -> Facts:
    """A chunk of the full stream."""
    wire = chunk_to_dict(item)
    payload = wire.get("payload") or {}
    kind = item.type
    facts: Facts = {"type": kind}
    if kind.startswith("data-"):
        return facts | {"data": wire.get("data")} | present(transient=wire.get("transient"))
    match kind:
        case "text-delta" | "reasoning-delta":
            facts["text"] = payload["text"]
        case "tool-call":
            facts |= {"toolName": payload["toolName"], "args": payload["args"]}
            facts |= present(providerExecuted=payload.get("providerExecuted"))
        case "tool-result":
            facts |= {"toolName": payload["toolName"], "result": payload["result"]}
            facts |= present(providerExecuted=payload.get("providerExecuted"))
        case "tool-error":
            facts |= {"toolName": payload["toolName"], "error": error(_error_of(item), scenario)}
        case "error":
            facts |= error(_error_of(item), scenario)
        case "source":
            facts |= present(url=payload.get("url"))
        case "file":
            facts["mediaType"] = payload["mimeType"]
        case "step-finish":
            outcome = payload["stepResult"]
            facts |= {"reason": outcome["reason"], "isContinued": bool(outcome.get("isContinued"))}
        case "finish":
            facts |= {"reason": payload["stepResult"]["reason"]}
            facts["usage"] = (payload.get("output") or {}).get("usage") or {}
        case "tripwire":
            facts |= present(
                reason=payload["reason"],
                retry=payload.get("retry"),
                metadata=payload.get("metadata"),
                processorId=payload["processorId"],
            )
        case "object" | "object-result":
            facts["object"] = wire.get("object")
    return facts


def _error_of(item: Any) -> Any:
    return item.payload.error


def tripwire(info: Any) -> Facts:
    return present(reason=info.reason, retry=info.retry or None, metadata=info.metadata, processorId=info.processor_id)


def error(failure: Any, scenario: Scenario) -> Facts:
    """An error by its message if that is a text of the scenario, else by the texts of the scenario that it mentions."""
    said = [str(part) for part in _chain(failure)]
    if said and said[0] in scenario.strings:
        return {"message": said[0]}
    return {"mentions": [text for text in scenario.strings if any(text in part for part in said)]}


def _chain(failure: Any) -> Iterator[Any]:
    seen: list[Any] = []
    while failure is not None and failure not in seen:
        yield failure.get("message", "") if isinstance(failure, Mapping) else failure
        seen.append(failure)
        failure = getattr(failure, "__cause__", None) or getattr(failure, "__context__", None)


def result(
    *,
    text: str,
    finish_reason: str,
    tripwire_info: Any,
    steps: Sequence[Any],
    step_usage: Any,
    total_usage: Any,
    tool_calls: Iterable[Any],
    tool_results: Iterable[Any],
    reasoning_text: str | None,
    sources: Sequence[Any],
    files: Sequence[Any],
    structured: Any,
    failure: Any,
    scenario: Scenario,
) -> Facts:
    """What the caller reads from the result, or from the stream after its end."""
    facts: Facts = {
        "text": text,
        "finishReason": finish_reason,
        "steps": len(steps),
        "stepTexts": [step.text for step in steps],
        "usage": usage(step_usage),
        "totalUsage": usage(total_usage),
        "toolCalls": [call.payload.tool_name for call in tool_calls],
        "toolResults": [detached(outcome.payload.result) for outcome in tool_results],
    }
    facts |= present(
        tripwire=None if tripwire_info is None else tripwire(tripwire_info),
        reasoningText=reasoning_text or None,
        sources=len(sources) or None,
        files=len(files) or None,
        object=structured,
        error=None if failure is None else error(failure, scenario),
    )
    return facts


# -- what was stored -----------------------------------------------------------------------------------------------


def stored(items: Iterable[Any], scenario: Scenario) -> list[Facts]:
    """Persisted messages, without step-start parts."""
    return [_stored_message(message, scenario) for message in items]


def _stored_message(message: Any, scenario: Scenario) -> Facts:
    parts = [_stored_part(part) for part in message.content.parts if part.type != "step-start"]
    facts: Facts = {"role": message.role, "parts": parts}
    metadata = message.content.metadata or {}
    shown = {key: metadata[key] for key in scenario.stored_metadata if key in metadata}
    return facts | ({"metadata": shown} if shown else {})


def _stored_part(part: Any) -> Facts:
    facts: Facts = {"type": part.type}
    if part.type.startswith("data-"):
        return facts | {"data": part.data}
    match part.type:
        case "text":
            facts["text"] = part.text
        case "reasoning":
            facts["text"] = part.reasoning
        case "file":
            facts["mediaType"] = part.mime_type
        case "tool-invocation":
            invocation = part.tool_invocation
            facts |= {"toolName": invocation.tool_name, "state": invocation.state, "args": invocation.args}
            if invocation.state == "result":
                facts["result"] = invocation.result
    return facts
