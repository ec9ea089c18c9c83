"""How an assistant message grows: parts folded in, tool calls updated in place (R3.17 to R3.20)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from interlock._text import well_formed_data
from interlock.messages._model_output import without_output
from interlock.messages._part_index import PartIndex
from interlock.messages.parts import Message, Part, StepStartPart, ToolInvocationPart
from interlock.messages.text import texts_of

_NO_ARGS: tuple[Any, ...] = (None, {}, "")


def can_merge(latest: Message, incoming: Message) -> bool:
    """Whether ``incoming`` is folded into ``latest``, the last message of the list (R3.17)."""
    return (
        incoming.role == "assistant"
        and can_grow(latest, incoming.id, incoming.thread_id)
        and (incoming.created_at is None or latest.created_at is None or incoming.created_at >= latest.created_at)
    )


def can_grow(latest: Message, message_id: str, thread_id: str | None) -> bool:
    """Whether an assistant message of that id and thread that comes now is folded into ``latest`` (R3.17)."""
    return (
        latest.role == "assistant"
        and latest.thread_id == thread_id
        and not (latest.content.metadata and _is_sealed(latest.content.metadata))
        and (latest.id == message_id or not _is_data_only(latest))
    )


def merge_message(target: Message, incoming: Message) -> None:
    """Fold ``incoming`` into ``target``, which keeps its id and date (R3.17, R3.18)."""
    content, addition = target.content, incoming.content
    parts: Sequence[Part] = addition.parts
    known = len(content.parts)
    if target.id == incoming.id and _starts_with(parts, content.parts):
        for part, update in zip(content.parts, parts, strict=False):
            if isinstance(part, ToolInvocationPart) and isinstance(update, ToolInvocationPart):
                update_invocation(part, update)
        parts = parts[known:]
    fold_parts(PartIndex(content.parts), parts)
    texts = texts_of(addition.parts)
    if addition.content is not None or texts:
        content.content = addition.content if addition.content is not None else texts[-1]
    content.metadata = _shallow(content.metadata, addition.metadata)
    content.provider_metadata = _shallow(content.provider_metadata, addition.provider_metadata)
    for mirror in ("tool_invocations", "annotations", "experimental_attachments"):
        setattr(content, mirror, _joined(getattr(content, mirror), getattr(addition, mirror)))
    content.reasoning = addition.reasoning if addition.reasoning is not None else content.reasoning
    for part in content.parts:
        if isinstance(part, ToolInvocationPart):
            mirror_invocation(target, part)


def fold_parts(index: PartIndex, incoming: Sequence[Part]) -> list[ToolInvocationPart]:
    """Append ``incoming`` to the parts that are indexed; a tool call that they have is updated in place (R3.18).

    Returns:
        The calls that were updated.
    """
    updated: list[ToolInvocationPart] = []
    for part in incoming:
        if isinstance(part, ToolInvocationPart):
            known = index.find(part.tool_invocation.tool_call_id)
            if known is not None and not _is_another_call(known, part):
                update_invocation(known, part)
                updated.append(known)
                continue
        append_part(index.parts, part)
    return updated


def append_part(parts: list[Part], part: Part) -> None:
    """Append one part; text directly after a tool call begins a new step (R3.19)."""
    if part.type == "text" and parts and parts[-1].type == "tool-invocation":
        parts.append(StepStartPart())
    parts.append(part)


def find_call(parts: Sequence[Part], tool_call_id: str) -> ToolInvocationPart | None:
    """The newest tool call with that id; calls without an id are never the same call."""
    if not tool_call_id:
        return None
    for part in reversed(parts):
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.tool_call_id == tool_call_id:
            return part
    return None


def pending_tool_invocations(message: Message) -> list[ToolInvocationPart]:
    """The message's tool calls that have no outcome yet (R4.4)."""
    return list(_calls(message, pending=True))


def update_invocation(part: ToolInvocationPart, update: ToolInvocationPart, *, keep_args: bool = False) -> None:
    """Bring ``part`` to the state of ``update``. A call that has an outcome is never set back to a pending state.

    Args:
        part: The part in the list, changed in place.
        update: What arrived; not changed, and shared only in its result and its argument values.
        keep_args: Keep the arguments even if the update has some; otherwise only empty ones in it are ignored.
    """
    old, new = part.tool_invocation, update.tool_invocation
    is_news = old.is_pending or not new.is_pending
    if not keep_args and new.args not in _NO_ARGS and (is_news or old.args in _NO_ARGS):
        old.args = new.args
    if is_news:
        if old.result != new.result:
            part.provider_metadata = without_output(part.provider_metadata)
        old.state = new.state
        old.result = None if new.result is None else well_formed_data(new.result)
        old.is_error = new.is_error
        old.error_text = None if new.error_text is None else well_formed_data(new.error_text)
        part.preliminary = update.preliminary
    old.approval = new.approval or old.approval
    old.step = new.step if old.step is None else old.step
    old.raw_input = new.raw_input if old.raw_input is None else old.raw_input
    old.tool_name = old.tool_name or new.tool_name
    if new.extra is not None:
        old.extra = _shallow(old.extra, new.extra)
    part.title = update.title if part.title is None else part.title
    part.provider_executed = update.provider_executed if part.provider_executed is None else part.provider_executed
    if update.provider_metadata is not None:
        part.provider_metadata = two_level(part.provider_metadata, update.provider_metadata)


def mirror_invocation(message: Message, part: ToolInvocationPart, former_id: str | None = None) -> None:
    """Keep the message's legacy entry of this call in step with the part (R4.2)."""
    mirror = message.content.tool_invocations
    if mirror:
        call_id = former_id or part.tool_invocation.tool_call_id
        for position, entry in enumerate(mirror):
            if entry.get("toolCallId") == call_id:
                mirror[position] = part.tool_invocation.to_dict()


def take_outcomes(live: Message, stored: Message) -> bool:
    """Give calls that are pending in ``live`` the outcomes that ``stored`` has (R3.15); whether there were any."""
    took = False
    for part in _calls(live, pending=True):
        known = find_call(stored.content.parts, part.tool_invocation.tool_call_id)
        if known is not None and not known.tool_invocation.is_pending:
            update_invocation(part, known, keep_args=True)
            mirror_invocation(live, part)
            took = True
    return took


def same_content(one: Message, other: Message) -> bool:
    """Whether two messages say the same; legacy mirrors, ids and dates are not looked at."""
    a, b = one.content, other.content
    return one.role == other.role and (
        a == b
        or (
            a.parts == b.parts
            and (a.metadata or {}) == (b.metadata or {})
            and (a.provider_metadata or {}) == (b.provider_metadata or {})
        )
    )


def _is_another_call(known: ToolInvocationPart, part: ToolInvocationPart) -> bool:
    """Whether a provider used the id of an answered call once more, for a new one."""
    old, new = known.tool_invocation, part.tool_invocation
    is_new_call = new.state == "call" and not old.is_pending
    return is_new_call and old.args not in _NO_ARGS and new.args not in _NO_ARGS and old.args != new.args


def _calls(message: Message, *, pending: bool) -> Iterator[ToolInvocationPart]:
    for part in message.content.parts:
        if isinstance(part, ToolInvocationPart) and part.tool_invocation.is_pending is pending:
            yield part


def _is_sealed(metadata: dict[str, Any]) -> bool:
    notes = metadata.get("mastra")
    return isinstance(notes, dict) and notes.get("sealed") is True


def _is_data_only(message: Message) -> bool:
    parts = message.content.parts
    return bool(parts) and all(part.type.startswith("data-") for part in parts)


def _starts_with(parts: Sequence[Part], beginning: Sequence[Part]) -> bool:
    return 0 < len(beginning) <= len(parts) and all(
        _is_same_part(known, part) for known, part in zip(beginning, parts, strict=False)
    )


def _is_same_part(known: Part, part: Part) -> bool:
    """Equal, or the same call in another state; a client's copy may have lost time and metadata."""
    if isinstance(known, ToolInvocationPart) and isinstance(part, ToolInvocationPart):
        return known.tool_invocation.tool_call_id == part.tool_invocation.tool_call_id
    return known == part or _bare(known) == _bare(part)


def _bare(part: Part) -> dict[str, Any]:
    return {key: value for key, value in part.to_dict().items() if key not in ("createdAt", "providerMetadata")}


def _shallow(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**old, **new} if old and new else new or old


def two_level(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any] | None:
    if not old or not new:
        return new or old
    merged = {**old, **new}
    for namespace, values in new.items():
        known = old.get(namespace)
        if isinstance(known, dict) and isinstance(values, dict):
            merged[namespace] = {**known, **values}
    return merged


def _joined(old: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
    return [*old, *(item for item in new if item not in old)] if old and new else new or old
