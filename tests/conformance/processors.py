"""Processors that carry out a scenario's rules, and write down what each of their hooks received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from . import observe
from .conditions import Moment, holds
from .observe import Facts, Journal, present
from .operations import HookCall, World, message_texts, step_result, text_of
from .scenario import ProcessorSpec

METHODS = {
    "processInput": "process_input",
    "processInputStep": "process_input_step",
    "processLLMRequest": "process_llm_request",
    "processLLMResponse": "process_llm_response",
    "processOutputStream": "process_output_stream",
    "processOutputStep": "process_output_step",
    "processToolResult": "process_tool_result",
    "processOutputResult": "process_output_result",
    "processAPIError": "process_api_error",
}

_HAS_MESSAGES = frozenset(METHODS) - {"processLLMRequest", "processLLMResponse", "processOutputStream"}
_HAS_SYSTEM = frozenset(("processInput", "processInputStep", "processOutputStep", "processToolResult"))
_HAS_STEP = frozenset(METHODS) - {"processInput", "processOutputStream", "processOutputResult"}
_HAS_STEPS = _HAS_STEP
_HAS_MODEL = frozenset(("processInputStep", "processLLMRequest", "processLLMResponse"))


class RuleProcessor:
    """One processor of a scenario; it has exactly the hooks that the scenario gives it."""

    def __init__(self, spec: ProcessorSpec, world: World, journal: Callable[[], Journal]) -> None:
        self.id = spec.id
        self.process_data_parts = spec.process_data_parts
        self.on_violation = self._on_violation if spec.on_violation is not None else None
        self._spec = spec
        self._world = world
        self._journal = journal
        self._invocations: Counter[str] = Counter()
        for hook in spec.hooks:
            setattr(self, METHODS[hook], self._method(hook))

    def _method(self, hook: str) -> Callable[[Any], Awaitable[Any]]:
        async def method(args: Any) -> Any:
            return await self._run(hook, args)

        return method

    async def _run(self, hook: str, args: Any) -> Any:
        now = moment(hook, args, self._invocations[hook])
        self._invocations[hook] += 1
        if not self._spec.silent and now.part_type not in observe.TRANSPORT:
            self._journal().add(self.id, hook, facts(hook, args, self._spec.observe))
        if hook in _HAS_SYSTEM:
            # Read here so that a rule's operations all see them as they were when the hook began.
            _ = args.system_messages
        call = HookCall(hook, args, self._world)
        for rule in self._spec.hooks[hook]:
            if holds(rule.when, now):
                for op in rule.do:
                    await call.carry_out(op)
        return call.returned

    def _on_violation(self, violation: Any) -> None:
        if not self._spec.silent:
            told = present(
                processorId=violation.processor_id, message=violation.message, detail=observe.detached(violation.detail)
            )
            self._journal().add(self.id, "onViolation", told)
        assert self._spec.on_violation is not None
        if "throws" in self._spec.on_violation:
            raise RuntimeError(self._spec.on_violation["throws"])


def prepare_step(changes: Mapping[str, Any], world: World, journal: Callable[[], Journal]) -> Callable[[Any], Any]:
    """The call option that returns the same object for each step."""

    def prepare(args: Any) -> dict[str, Any]:
        seen = present(stepNumber=args.step_number, toolChoice=args.tool_choice, model=args.model.model_id)
        journal().add("@prepareStep", "call", seen)
        return step_result(args, changes, world)

    return prepare


def moment(hook: str, args: Any, invocation: int) -> Moment:
    """What the conditions of rules look at."""
    part = args.part if hook == "processOutputStream" else None
    return Moment(
        invocation=invocation,
        retry_count=args.retry_count,
        step_number=args.step_number if hook in _HAS_STEP else None,
        part_type=None if part is None else part.type,
        text=text_of(hook, args),
        tool_name=args.tool_name
        if hook == "processToolResult"
        else getattr(getattr(part, "payload", None), "tool_name", None),
        message_texts=message_texts(args) if hook in _HAS_MESSAGES else [],
        error=str(args.error) if hook == "processAPIError" else None,
        has_tool_calls=bool(args.tool_calls) if hook == "processOutputStep" else None,
        from_cache=args.from_cache if hook in ("processLLMResponse", "processOutputStream") else None,
        state=observe.detached(args.state),
    )


def facts(hook: str, args: Any, extra: frozenset[str]) -> Facts:
    """The facts of one hook call: those that are always logged, and those that the scenario asks for."""
    found: Facts = {"retryCount": args.retry_count}
    if hook in _HAS_STEP and (hook != "processToolResult" or "toolStep" in extra):
        found["stepNumber"] = args.step_number
    found |= _own_facts(hook, args)
    if "messages" in extra and hook in _HAS_MESSAGES:
        found["messages"] = observe.messages(args.messages)
    if "system" in extra and hook in _HAS_SYSTEM:
        found["system"] = observe.system(args.system_messages)
    if "state" in extra:
        found["state"] = observe.detached(args.state)
    if "steps" in extra and hook in _HAS_STEPS:
        found["steps"] = len(args.steps)
    if "model" in extra and hook in _HAS_MODEL:
        found["model"] = args.model.model_id
    if "settings" in extra and hook == "processInputStep":
        found |= observe.step_settings(args)
    if "streamParts" in extra and hook == "processOutputStream":
        found["streamParts"] = len(args.stream_parts)
    if "usage" in extra and hook in ("processOutputStep", "processOutputResult"):
        found["usage"] = observe.usage(args.usage if hook == "processOutputStep" else args.result.usage)
    if "result" in extra and hook == "processOutputResult":
        found["resultSteps"] = observe.result_steps(args.result.steps)
    return found


def _own_facts(hook: str, args: Any) -> Facts:
    match hook:
        case "processOutputStream":
            return {"partType": args.part.type} | present(text=text_of(hook, args))
        case "processLLMResponse":
            shown = [chunk for chunk in args.chunks if chunk.type not in observe.TRANSPORT]
            return {
                "fromCache": args.from_cache,
                "chunkTypes": [chunk.type for chunk in shown],
                "chunkText": "".join(chunk.payload["text"] for chunk in shown if chunk.type == "text-delta"),
            }
        case "processOutputStep":
            called = [call.tool_name for call in args.tool_calls or []]
            return present(text=args.text, finishReason=args.finish_reason, toolCalls=called)
        case "processToolResult":
            return {
                "toolName": args.tool_name,
                "args": observe.detached(args.args),
                "result": observe.detached(args.result),
            } | present(providerExecuted=args.provider_executed)
        case "processAPIError":
            return {"error": str(args.error)}
        case "processOutputResult":
            return {"text": args.result.text, "finishReason": args.result.finish_reason}
        case _:
            return {}
