"""What holds for every message and every sequence of operations."""

from __future__ import annotations

import json
from itertools import cycle, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from interlock.messages import Attempt, Message, MessageList, Part, copy_message, part_from_dict, saved_form
from interlock.messages.parts import DataPart, ReasoningPart, StepStartPart
from interlock.messages.prompt import prompt_of
from tests.messages.builders import at, call, done, message, text

words = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.sampled_from(["a", "b", "later"])
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words
)
json_data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)
json_object = st.dictionaries(names, json_data, max_size=2)
states = st.sampled_from(
    ["partial-call", "call", "approval-requested", "approval-responded", "result", "output-error", "output-denied"]
)


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """A JSON object with fixed fields, optional ones, and perhaps one that nobody knows."""
    return st.fixed_dictionaries(required, optional={**(optional or {}), "fromTheFuture": json_data})


COMMON = {"providerMetadata": st.dictionaries(names, json_object, max_size=2), "createdAt": st.integers(0, 2**41)}
approvals = record({"id": words}, {"approved": st.booleans(), "reason": words})


@st.composite
def invocations(draw: st.DrawFn) -> dict[str, Any]:
    state = draw(states)
    required: dict[str, Any] = {"state": st.just(state), "toolCallId": words, "toolName": words, "args": json_data}
    if state == "result":
        required["result"] = json_data
    optional = {"step": st.integers(0, 9), "errorText": words, "isError": st.booleans(), "approval": approvals}
    return draw(record(required, optional))


def typed(
    kind: str, required: dict[str, Any], optional: dict[str, Any] | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    return record({"type": st.just(kind), **required}, {**(optional or {}), **COMMON})


json_parts = st.one_of(
    typed("text", {"text": words}),
    typed("reasoning", {"reasoning": words}, {"details": st.lists(json_object, max_size=2)}),
    typed("tool-invocation", {"toolInvocation": invocations()}, {"providerExecuted": st.booleans(), "title": words}),
    typed("file", {"mimeType": words, "data": words}, {"filename": words}),
    typed("source", {"source": json_object}),
    typed("source-document", {"sourceId": words, "mediaType": words, "title": words}),
    typed("step-start", {}, {"model": words}),
    typed("data-x", {"data": json_data}, {"id": words}),
    typed("error", {"error": json_object}),
    st.dictionaries(words.filter(lambda key: key not in COMMON and key != "type"), json_data, max_size=3).map(
        lambda fields: {"type": "from-the-future", **fields}
    ),
)
json_contents = record(
    {"format": st.just(2), "parts": st.lists(json_parts, max_size=4)},
    {"content": words, "metadata": json_object, "toolInvocations": st.lists(json_object, max_size=2)},
)
json_messages = record(
    {
        "id": words.filter(bool),
        "role": st.sampled_from(["user", "assistant", "signal"]),
        "createdAt": st.integers(0, 10**12).map(lambda ms: at(ms / 1000).strftime("%Y-%m-%dT%H:%M:%S.000Z")),
        "content": json_contents,
    },
    {"threadId": words, "resourceId": words, "type": words},
)


@given(json_parts)
def test_a_part_survives_its_json_form(data: dict[str, Any]) -> None:
    """R0.1, R4.3"""
    read = part_from_dict(data)
    assert read.to_dict() == data
    assert part_from_dict(json.loads(json.dumps(read.to_dict()))) == read


@given(json_messages)
def test_a_message_survives_its_json_form(data: dict[str, Any]) -> None:
    """R0.1, R4.1, R4.2"""
    read = Message.from_dict(data)
    assert read.to_dict() == data
    assert Message.from_dict(json.loads(json.dumps(read.to_dict()))) == read
    assert copy_message(read).to_dict() == data


@given(st.lists(st.tuples(json_messages, st.sampled_from(["input", "response", "memory", "context"])), max_size=5))
def test_a_list_survives_its_json_form(items: list[tuple[dict[str, Any], str]]) -> None:
    """R3.26"""
    message_list = MessageList(thread_id="t")
    for data, source in items:
        message_list.add(Message.from_dict(data), source)
    stored = json.loads(json.dumps(message_list.serialize()))
    restored = MessageList.deserialize(stored)
    assert json.loads(json.dumps(restored.serialize())) == stored
    assert restored.get.all.llm_prompt() == message_list.get.all.llm_prompt()
    assert message_list.fork().serialize() == message_list.serialize()


@given(json_messages)
def test_every_message_can_be_shown_sent_and_saved(data: dict[str, Any]) -> None:
    """R4.3, FR-080"""
    message_list = MessageList().add(data, "input")
    for form in ("ui", "core", "model", "prompt", "llm_prompt"):
        json.dumps(getattr(message_list.get.all, form)()).encode()
    saved_form(message_list.get.all.db()[0])


@given(st.text(st.characters(), max_size=12), st.integers(0, 12))
def test_text_cut_anywhere_can_be_stored_and_sent(whole: str, cut: int) -> None:
    """FR-080"""
    utf16 = whole.encode("utf-16-le", "surrogatepass")
    halves = [piece.decode("utf-16-le", "surrogatepass") for piece in (utf16[: 2 * cut], utf16[2 * cut :])]
    message_list = MessageList().add([part for part in halves if part], "input")
    message_list.append_response([text(halves[0]), done(result={"x": halves[1]})], message_id="r")
    for one in (message_list.serialize(), message_list.prompt_for_model()):
        json.dumps(one, ensure_ascii=False).encode()


call_ids = st.sampled_from(["c1", "c2", "c3", ""])
small_parts = st.one_of(
    st.sampled_from(["x", "y", ""]).map(text),
    st.builds(call, call_ids, state=states, provider_executed=st.sampled_from([None, True])),
    st.builds(done, call_ids, st.sampled_from(["r", 1, None]), provider_executed=st.sampled_from([None, True])),
    st.just(None).map(lambda _: StepStartPart()),
    st.just(None).map(lambda _: DataPart(type="data-x", data=1)),
    st.just(None).map(lambda _: ReasoningPart(reasoning="hm")),
)
part_lists = st.lists(small_parts, max_size=4)
message_ids = st.sampled_from(["", "m1", "m2", "m3", "r"])
moments = st.none() | st.integers(0, 5).map(at)
sources = st.sampled_from(["input", "user", "response", "memory", "context"])
outcomes = st.lists(
    st.builds(lambda one: {"type": "tool-result", "toolCallId": one, "toolName": "t", "result": "late"}, call_ids),
    max_size=2,
)


class Operations(RuleBasedStateMachine):
    """Any sequence of operations, with edits in place between them, keeps the list consistent."""

    messages: Bundle[Message] = Bundle("messages")
    snapshots: Bundle[Attempt] = Bundle("snapshots")

    @initialize(target=messages)
    def start(self) -> Any:
        self.message_list = MessageList(thread_id="t")
        self.message_list.add_system("S")
        return multiple()

    @rule(
        target=messages,
        role=st.sampled_from(["user", "assistant", "signal"]),
        parts=part_lists,
        message_id=message_ids,
        moment=moments,
        source=sources,
        merge=st.booleans(),
    )
    def add(self, role: str, parts: list[Part], message_id: str, moment: Any, source: str, merge: bool) -> Message:
        made = message(role, *parts, id=message_id, created_at=moment)
        self.message_list.add(made, source, merge=merge)
        return made

    @rule(known=messages, source=sources)
    def add_again(self, known: Message, source: str) -> None:
        self.message_list.add([known], source)

    @rule(count=st.integers(1, 4), first=st.integers(0, 5), source=sources)
    def add_batch(self, count: int, first: int, source: str) -> None:
        roles = ("user", "assistant")
        batch = [
            message(roles[number % 2], "x", done(), id=f"b{first + number}", created_at=at(first + number))
            for number in range(count)
        ]
        self.message_list.add(batch, source)

    @rule(content=outcomes, source=sources, message_id=message_ids)
    def add_outcomes(self, content: list[dict[str, Any]], source: str, message_id: str) -> None:
        self.message_list.add({"id": message_id, "role": "tool", "content": content}, source)

    @rule(parts=part_lists, message_id=message_ids.filter(bool))
    def respond(self, parts: list[Part], message_id: str) -> None:
        held = self.message_list.append_response(parts, message_id=message_id, model="m")
        assert (held is None) is (not parts)

    @rule(message_id=st.none() | message_ids.filter(bool))
    def write_data(self, message_id: str | None) -> None:
        held = self.message_list.append_data_part(DataPart(type="data-x", data=1), message_id=message_id)
        assert held.content.parts[-1].type == "data-x"

    @rule(call_id=call_ids, state=states)
    def update(self, call_id: str, state: str) -> None:
        self.message_list.update_tool_invocation(call(call_id, state=state, result="new"), {"note": 1})

    @rule(message_ids=st.lists(message_ids, max_size=2))
    def remove(self, message_ids: list[str]) -> None:
        removed = self.message_list.remove_by_ids(message_ids)
        assert all(self.message_list.source_of(one.id) is None for one in removed)

    @rule(message_id=message_ids, moment=moments)
    def replace(self, message_id: str, moment: Any) -> None:
        self.message_list.replace(message_id, message("user", "other", created_at=moment))

    @rule(view=st.sampled_from(["all", "input", "response"]), is_rare=st.integers(0, 9))
    def clear(self, view: str, is_rare: int) -> None:
        if not is_rare:
            getattr(self.message_list.clear, view).db()

    # What is drawn must not depend on what the list holds: whether two messages get the same date depends on the clock.

    @rule(which=st.integers(0, 11), parts=part_lists)
    def edit_in_place(self, which: int, parts: list[Part]) -> None:
        messages = self.message_list.get.all.db()
        if messages:
            messages[which % len(messages)].content.parts = parts

    @rule(
        fates=st.lists(st.sampled_from(["dropped", "kept", "copied"]), min_size=8, max_size=8),
        additions=st.lists(st.tuples(moments, st.integers(0, 8)), max_size=2),
        default=st.sampled_from(["input", "response"]),
    )
    def reconcile(self, fates: list[str], additions: list[tuple[Any, int]], default: str) -> None:
        stage = self.message_list.stage()
        returned: list[Any] = []
        for one, fate in zip(stage, cycle(fates), strict=False):
            if fate != "dropped":
                returned.append(one if fate == "kept" else one.to_dict())
        for moment, place in additions:
            returned.insert(place, message("user", "new", created_at=moment))
        self.message_list.reconcile(returned, stage, default)
        assert len(self.message_list) == len(returned)

    @rule(target=snapshots)
    def snapshot(self) -> Attempt:
        return self.message_list.response_snapshot()

    @rule(snapshot=snapshots)
    def restore(self, snapshot: Attempt) -> None:
        self.message_list.restore_response(snapshot)

    @rule()
    def reject_at_once(self) -> None:
        before = self.message_list.serialize()["messages"]
        snapshot = self.message_list.response_snapshot()
        self.message_list.append_response([text("bad"), call("c9")], message_id="r", model="m")
        self.message_list.update_tool_invocation(done("c9"))
        self.message_list.append_data_part(DataPart(type="data-x"))
        self.message_list.restore_response(snapshot)
        assert self.message_list.serialize()["messages"] == before

    @rule()
    def store_and_load(self) -> None:
        stored = json.loads(json.dumps(self.message_list.serialize()))
        self.message_list = MessageList.deserialize(stored)
        assert json.loads(json.dumps(self.message_list.serialize())) == stored

    # The invariants look without `get`, so that what is kept inside stays inside.

    @invariant()
    def every_message_is_of_one_source(self) -> None:
        everything = self.message_list.stage()
        by_source = [self.message_list.stage(source) for source in ("input", "response", "memory", "context")]
        assert sorted(id(one) for found in by_source for one in found) == sorted(map(id, everything))
        for found in by_source:
            held = set(map(id, found))
            assert [id(one) for one in everything if id(one) in held] == list(map(id, found))

    @invariant()
    def ids_are_unique_and_found(self) -> None:
        everything = self.message_list.stage()
        assert len({one.id for one in everything}) == len(everything)
        assert all(one.id and self.message_list.source_of(one.id) for one in everything)

    @invariant()
    def dates_are_in_order(self) -> None:
        dates = [one.created_at for one in self.message_list.stage()]
        assert dates == sorted(dates)  # type: ignore[type-var]

    @invariant()
    def the_prompt_is_what_the_messages_say(self) -> None:
        sent = self.message_list.prompt_for_model()
        assert repr(sent[1:]) == repr([one for held in self.message_list.stage() for one in prompt_of(held)])

    @invariant()
    def no_result_is_sent_without_its_call(self) -> None:
        sent = self.message_list.prompt_for_model()
        for before, one in pairwise(sent):
            if one["role"] == "tool":
                asked = [
                    part["toolCallId"]
                    for part in before["content"]
                    if part["type"] == "tool-call" and not part.get("providerExecuted")
                ]
                assert before["role"] == "assistant"
                assert [part["toolCallId"] for part in one["content"]] == asked
        assert not sent or sent[0]["role"] != "tool"


Operations.TestCase.settings = settings(max_examples=150, stateful_step_count=25)
test_any_sequence_of_operations_keeps_the_list_consistent = Operations.TestCase
