"""What interlock is expected to do: the recorded facts, changed where a divergence asks for it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .align import align
from .divergences import ABSENT, PROMPT_DIVERGENCES, Change, explanation
from .oracle import CallCourse, Course, Departure, Record, simulate
from .scenario import Scenario

Facts = dict[str, Any]

_OF = {"modelIds": "prompts", "callSettings": "prompts", "error": "result"}
"""Which facts go their own way together."""


@dataclass(frozen=True)
class Applied:
    """A divergence that changed a recorded fact."""

    id: str
    area: str
    """``calls[0].hooks`` and the like."""
    path: str


@dataclass
class Expectation:
    """What to compare a run with."""

    outcome: Facts
    applied: list[Applied] = field(default_factory=list)
    course: Course | None = None

    def table(self) -> dict[str, list[str]]:
        """The divergences by area, without repetition, in the order of their numbers."""
        areas: dict[str, set[str]] = defaultdict(set)
        for one in self.applied:
            areas[one.area].add(one.id)
        return {area: sorted(ids, key=lambda name: int(name[1:])) for area, ids in areas.items()}


def expectation(scenario: Scenario) -> Expectation:
    """The expected outcome of a scenario, in the form of ``expect``."""
    course = simulate(scenario)
    made = Expectation({"calls": []}, course=course)
    recorded_calls = scenario.expect["calls"]
    _follow_earlier_calls(scenario, recorded_calls, course)
    for number, recorded in enumerate(recorded_calls):
        merger = _CallMerger(f"calls[{number}]", recorded, course.calls[number], scenario, number)
        made.outcome["calls"].append(merger.merge())
        made.applied += merger.applied
    if "stored" in scenario.expect:
        made.outcome["stored"], applied = _stored(scenario.expect["stored"], course)
        made.applied += applied
    return made


def _follow_earlier_calls(scenario: Scenario, recorded_calls: Sequence[Facts], course: Course) -> None:
    """A call that begins with another script position or other memory departs at its beginning."""
    recorded_position = position = 0
    changed_threads: dict[str, str] = {}
    for call, recorded, of_call in zip(scenario.calls, recorded_calls, course.calls, strict=True):
        rule = changed_threads.get(call.thread) if scenario.has_memory else None
        if recorded_position != position:
            rule = course.calls[0].departures[0].rule if course.calls[0].departures else "D24"
        if rule is not None:
            everything = frozenset(("hooks", "prompts", "chunks", "result", "stored"))
            of_call.departures.append(Departure(rule, everything, 0, 0, 0, 0))
        changes = [departure.rule for departure in of_call.departures if _changes_memory(departure, of_call)]
        if changes:
            changed_threads.setdefault(call.thread, changes[0])
        recorded_position += _provider_calls(recorded, len(of_call.prompts))
        position += len(of_call.prompts)


def _changes_memory(departure: Departure, course: CallCourse) -> bool:
    if departure.rule == "D25":
        return "tripped in processOutputStep" in course.marks
    return "stored" in departure.of


def _provider_calls(recorded: Facts, otherwise: int) -> int:
    if "prompts" in recorded:
        return len(recorded["prompts"])
    if "hooks" in recorded:
        return sum(who == "@model" for who, _, _ in recorded["hooks"])
    return otherwise


def _stored(recorded: list[Facts], course: Course) -> tuple[list[Facts], list[Applied]]:
    if recorded == course.stored:
        return recorded, []
    for of_call in course.calls:
        departed = frozenset(departure.rule for departure in of_call.departures if "stored" in departure.of)
        found = explanation(Change("stored", "stored", recorded, course.stored, of_call, departures=departed))
        if found is not None:
            return course.stored or [], [Applied(found.id, "stored", "stored")]
    return recorded, []


class _CallMerger:
    """Merges the recording of one call with the oracle's course of it."""

    def __init__(self, path: str, recorded: Facts, course: CallCourse, scenario: Scenario, number: int) -> None:
        self.path = path
        self.recorded = recorded
        self.course = course
        self.facts = without_omitted(course.facts(is_stream=scenario.calls[number].is_stream), scenario.omit)
        self.applied: list[Applied] = []

    def merge(self) -> Facts:
        merged: Facts = {}
        for area, recorded in self.recorded.items():
            match area:
                case "hooks":
                    merged[area] = self._hooks(recorded)
                case "prompts" | "modelIds" | "callSettings":
                    merged[area] = self._per_provider_call(area, recorded)
                case "chunks":
                    merged[area] = self._chunks(recorded)
        return merged | self._ending()

    def _decide(self, change: Change) -> bool:
        """Whether a divergence asks for the change."""
        found = explanation(change)
        if found is None:
            return False
        self.applied.append(Applied(found.id, f"{self.path}.{change.area}", change.path))
        return True

    def _departed(self, area: str, place: int = 0, *, is_stream: bool = False) -> frozenset[str]:
        """The divergences by which the run left the reference's course before a place in the oracle's list."""
        of = _OF.get(area, area)
        return frozenset(
            departure.rule
            for departure in self.course.departures
            if of in departure.of and departure.place(of, is_stream=is_stream) <= place
        )

    # -- hooks -----------------------------------------------------------------------------------------------------

    def _hooks(self, recorded: list[list[Any]]) -> list[list[Any]]:
        """Stream records first, then the others: each list has its own order (comparing leaves open how they mix)."""
        merged: list[list[Any]] = []
        for is_stream in (True, False):
            old = [entry for entry in recorded if (entry[1] == "processOutputStream") == is_stream]
            new = [record for record in self.course.hooks if record.is_stream == is_stream]
            merged += self._records(old, new, is_stream=is_stream)
        return merged

    def _records(self, old: list[list[Any]], new: list[Record], *, is_stream: bool) -> list[list[Any]]:
        merged: list[list[Any]] = []
        causes: set[str] = set()
        reached = 0
        for i, j in align([_key(*entry) for entry in old], [_key(*record.as_list()) for record in new]):
            place = reached if j is None else j
            departed = self._departed("hooks", place, is_stream=is_stream)
            if i is None and j is not None:
                causes.add(new[j].cause or "D54")
                if self._decide(self._record_change(ABSENT, new[j], departed, causes)):
                    merged.append(new[j].as_list())
            elif j is None and i is not None:
                if self._decide(self._record_change(old[i], None, departed, causes)):
                    causes.add(self.applied[-1].id)
                else:
                    merged.append(old[i])
            elif i is not None and j is not None:
                merged.append(self._record(old[i], new[j], departed, causes))
            reached = place if j is None else j + 1
        return merged

    def _record_change(self, old: Any, new: Record | None, departed: frozenset[str], causes: set[str]) -> Change:
        entry = old if new is None else new.as_list()
        return Change(
            area="hooks",
            path=f"{self.path}.hooks[{entry[0]} {entry[1]}]",
            recorded=old,
            value=ABSENT if new is None else new.as_list(),
            course=self.course,
            record=new,
            hook=entry[1],
            departures=departed,
            earlier_causes=frozenset(causes),
        )

    def _record(self, old: list[Any], new: Record, departed: frozenset[str], causes: set[str]) -> list[Any]:
        who, what, facts = old
        merged: Facts = dict(facts)
        for name in {**facts, **new.facts}:
            before, after = facts.get(name, ABSENT), new.facts.get(name, ABSENT)
            if before == after:
                continue
            change = Change(
                area="hooks",
                path=f"{self.path}.hooks[{who} {what}].{name}",
                recorded=before,
                value=after,
                course=self.course,
                name=name,
                record=new,
                hook=what,
                departures=departed,
                earlier_causes=frozenset(causes),
            )
            if self._decide(change):
                merged[name] = after
        return [who, what, {name: value for name, value in merged.items() if value is not ABSENT}]

    # -- what the provider received --------------------------------------------------------------------------------

    def _per_provider_call(self, area: str, recorded: list[Any]) -> list[Any]:
        merged: list[Any] = []
        new = self.facts[area]
        for number in range(max(len(recorded), len(new))):
            before = recorded[number] if number < len(recorded) else ABSENT
            after = new[number] if number < len(new) else ABSENT
            path = f"{self.path}.{area}[{number}]"
            departed = self._departed(area, number)
            change = Change(area, path, before, after, self.course, departures=departed)
            if before == after:
                chosen = before
            elif self._decide(change):
                chosen = after
            elif area == "prompts" and before is not ABSENT and after is not ABSENT:
                chosen = self._rewritten(before, after, path)
            else:
                chosen = before
            if chosen is not ABSENT:
                merged.append(chosen)
        return merged

    def _rewritten(self, recorded: list[Facts], value: list[Facts], path: str) -> list[Facts]:
        prompt = recorded
        for divergence in PROMPT_DIVERGENCES:
            edited = divergence.rewrite(prompt, value)
            if edited != prompt:
                self.applied.append(Applied(divergence.id, f"{self.path}.prompts", path))
            prompt = edited
        return prompt

    # -- what the caller received ----------------------------------------------------------------------------------

    def _chunks(self, recorded: list[Facts]) -> list[Facts]:
        merged: list[Facts] = []
        new = self.facts.get("chunks", [])
        reached = 0
        for i, j in align([_chunk_key(chunk) for chunk in recorded], [_chunk_key(chunk) for chunk in new]):
            place = reached if j is None else j
            before = ABSENT if i is None else recorded[i]
            after = ABSENT if j is None else new[j]
            departed = self._departed("chunks", place)
            change = Change("chunks", f"{self.path}.chunks[{place}]", before, after, self.course, departures=departed)
            chosen = after if before == after or self._decide(change) else before
            if chosen is not ABSENT:
                merged.append(chosen)
            reached = place if j is None else j + 1
        return merged

    def _ending(self) -> Facts:
        """The result, or the error that the call raised; nothing if the scenario leaves both out."""
        if not {"result", "error"} & set(self.recorded):
            return {}
        departed = self._departed("result")
        old, new = ("result" if "result" in facts else "error" for facts in (self.recorded, self.facts))
        if old == new:
            return {old: self._values(old, departed)}
        before, after = self.recorded[old], self.facts[new]
        change = Change(new, f"{self.path}.{new}", before, after, self.course, departures=departed)
        return {new: after} if self._decide(change) else {old: before}

    def _values(self, kind: str, departed: frozenset[str]) -> Facts:
        merged: Facts = {}
        recorded, new = self.recorded[kind], self.facts[kind]
        for name in {**recorded, **new}:
            before, after = recorded.get(name, ABSENT), new.get(name, ABSENT)
            path = f"{self.path}.{kind}.{name}"
            change = Change(kind, path, before, after, self.course, name=name, departures=departed)
            chosen = after if before == after or self._decide(change) else before
            if chosen is not ABSENT:
                merged[name] = chosen
        return merged


def without_omitted(call: Facts, omit: Sequence[str]) -> Facts:
    """The facts of a call that the scenario does not leave out."""
    left = dict(call)
    for path in omit:
        area, _, name = path.partition(".")
        if not name:
            left.pop(area, None)
        elif isinstance(left.get(area), Mapping):
            left[area] = {key: value for key, value in left[area].items() if key != name}
    return left


def _key(who: str, what: str, facts: Facts) -> tuple[Any, ...]:
    """What makes a record of the recording and one of the oracle the same event."""
    return (who, what, facts.get("partType"), facts.get("text") if "partType" in facts else None, facts.get("call"))


def _chunk_key(chunk: Facts) -> str:
    """Chunks that may differ in a value are the same event; for the rest all of it counts."""
    if chunk["type"] in ("tool-result", "finish", "tripwire", "step-finish", "error"):
        return str(chunk["type"]) + str(chunk.get("toolName", ""))
    return json.dumps(chunk, sort_keys=True, ensure_ascii=False)
