"""The JSON of what a run state is made of, and that JSON as text (R3.26, R8.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from interlock._json import parse_time, to_json
from interlock.chunks import (
    Chunk,
    File,
    Source,
    ToolCall,
    ToolCallApproval,
    ToolCallSuspended,
    ToolResult,
    chunk_from_dict,
    chunk_to_dict,
)
from interlock.errors import RunStateError
from interlock.messages import Message
from interlock.messages.parts import Part, ReasoningPart, part_from_dict
from interlock.processors import StepResult, TripwireInfo
from interlock.usage import Usage

# -- text ----------------------------------------------------------------------------------------------------------


def encode(data: Any) -> bytes:
    """JSON data as text in UTF-8. What is no number becomes ``null``, as it does on its way to a model.

    Raises:
        RunStateError: something in it is no JSON.
    """
    try:
        try:
            return msgspec.json.encode(data)
        except UnicodeEncodeError:
            # Half of a surrogate pair, as a model cut off in the middle of an emoji writes it: JSON has an escape.
            return json.dumps(msgspec.to_builtins(data, str_keys=True), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RunStateError(
            f"the run cannot be stored: {error}; messages, arguments and results must be JSON"
        ) from error


def decode(text: str | bytes) -> Any:
    """The data of a JSON text.

    Raises:
        RunStateError: it is no JSON.
    """
    try:
        try:
            return msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeError):
            # The strict reader knows no halves of surrogate pairs.
            return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise RunStateError(f"this is no run state: it is not JSON ({error})") from error


# -- data of users -------------------------------------------------------------------------------------------------


def is_json(value: Any) -> bool:
    """Whether ``value`` is JSON data as it is."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_json, value))
    return value is None or isinstance(value, (str, int, bool)) or (isinstance(value, float) and isfinite(value))


def json_safe(value: Any) -> Any:
    """``value`` without what JSON cannot hold."""
    if isinstance(value, dict):
        kept = {key: json_safe(item) for key, item in value.items() if isinstance(key, str)}
        return {key: item for key, item in kept.items() if item is not _UNSAFE}
    if isinstance(value, (list, tuple)):
        return [item for item in map(json_safe, value) if item is not _UNSAFE]
    return value if is_json(value) else _UNSAFE


def storable(state: Mapping[str, Any]) -> dict[str, Any]:
    """A processor's state without the entries that JSON cannot hold (R8.4)."""
    kept: dict[str, Any] = {}
    for key, value in state.items():
        try:
            safe = json_safe(value) if isinstance(key, str) else _UNSAFE
        except RecursionError:
            continue  # it refers to itself
        if safe is not _UNSAFE:
            kept[key] = safe
    return kept


_UNSAFE: Any = object()

# -- steps ---------------------------------------------------------------------------------------------------------


class PartPlaces:
    """Where the parts of steps stand in the messages of a run.

    A step's parts are those of its message, not copies: hooks and outcomes that change one change both. JSON has each
    once, and the step says where: ``[position of the message, position of the part]``. A part that is in no message is
    written out.

    Args:
        messages: The messages of the list, in order.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._places = {
            id(part): [place, position]
            for place, message in enumerate(messages)
            for position, part in enumerate(message.content.parts)
        }

    def write(self, parts: Iterable[Part]) -> list[Any]:
        """Where the parts stand."""
        return [self._places.get(id(part)) or part.to_dict() for part in parts]

    def read(self, written: Iterable[Any]) -> list[Part]:
        """The parts that stand there.

        Raises:
            LookupError: there is no such place.
        """
        return [
            part_from_dict(one) if isinstance(one, dict) else self._messages[one[0]].content.parts[one[1]]
            for one in written
        ]


def step_to_dict(step: StepResult, places: PartPlaces) -> dict[str, Any]:
    """A step as JSON data.

    Without its request, since the prompts of all steps grow with the square of their number, and without the headers of
    its reply, which may hold cookies.
    """
    tripwire = step.tripwire
    facts = {key: fact for key, fact in step.response.items() if key != "headers"}
    return {
        "stepNumber": step.step_number,
        "stepType": step.step_type,
        "text": step.text,
        "reasoning": places.write(step.reasoning),
        "sources": [chunk.to_dict() for chunk in step.sources],
        "files": [chunk.to_dict() for chunk in step.files],
        "toolCalls": [chunk_to_dict(chunk) for chunk in step.tool_calls],
        "toolResults": [chunk_to_dict(chunk) for chunk in step.tool_results],
        "parts": places.write(step.parts),
        "finishReason": step.finish_reason,
        "usage": step.usage.to_dict(),
        "warnings": json_safe(to_json(step.warnings)),
        "response": json_safe(to_json(facts)),
        "modelId": step.model_id,
        "providerMetadata": json_safe(to_json(step.provider_metadata)),
        "tripwire": None
        if tripwire is None
        else {
            "reason": tripwire.reason,
            "processorId": tripwire.processor_id,
            "retry": tripwire.retry,
            "metadata": _metadata(tripwire),
        },
    }


def _metadata(tripwire: TripwireInfo) -> Any:
    kept = json_safe(to_json(tripwire.metadata))
    return None if kept is _UNSAFE else kept


def step_from_dict(data: Mapping[str, Any], places: PartPlaces) -> StepResult:
    """Read what ``step_to_dict`` wrote; the types in it were checked (``state_shape``)."""
    tripwire = data["tripwire"]
    return StepResult(
        step_number=data["stepNumber"],
        step_type=data["stepType"],
        text=data["text"],
        reasoning=[part for part in places.read(data["reasoning"]) if isinstance(part, ReasoningPart)],
        sources=[Source.from_dict(chunk) for chunk in data["sources"]],
        files=[File.from_dict(chunk) for chunk in data["files"]],
        tool_calls=[ToolCall.from_dict(chunk) for chunk in data["toolCalls"]],
        tool_results=[ToolResult.from_dict(chunk) for chunk in data["toolResults"]],
        parts=places.read(data["parts"]),
        finish_reason=data["finishReason"],
        usage=usage_from_dict(data["usage"]),
        warnings=data["warnings"],
        response=_read_response(data["response"]),
        model_id=data["modelId"],
        provider_metadata=data["providerMetadata"],
        tripwire=None
        if tripwire is None
        else TripwireInfo(
            reason=tripwire["reason"],
            processor_id=tripwire["processorId"],
            retry=tripwire["retry"],
            metadata=tripwire["metadata"],
        ),
    )


def _read_response(data: dict[str, Any]) -> dict[str, Any]:
    timestamp = data.get("timestamp")
    return data if timestamp is None else {**data, "timestamp": parse_time(timestamp)}


def usage_from_dict(data: Any) -> Usage:
    """Read token counts.

    Raises:
        TypeError: a count is no number.
    """
    usage = Usage.from_dict(data)
    for name in usage.__struct_fields__:
        count = getattr(usage, name)
        if name != "extra" and count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise TypeError(f"usage.{name} must be a number")
    return usage


def waiting_from_dict(data: Any) -> Chunk:
    """Read the chunk that tells why a call waits.

    Raises:
        ValueError: it is another chunk.
    """
    chunk = chunk_from_dict(data)
    if not isinstance(chunk, (ToolCallApproval, ToolCallSuspended)):
        raise ValueError(f"a call waits with an approval or a suspension, not with {chunk.type!r}")
    return chunk
