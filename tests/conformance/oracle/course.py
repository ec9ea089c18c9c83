"""The facts of a run by the specification, and the places where it leaves the reference's course."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Facts = dict[str, Any]
STREAM_HOOK = "processOutputStream"


@dataclass(eq=False)
class Record:
    """One entry of the hook log."""

    who: str
    what: str
    facts: Facts
    abort_retries: int = 0
    """Abort-retries granted earlier in the call."""
    retries: int = 0
    """Retries of both kinds granted earlier in the call."""
    attempt: int = -1
    cause: str = ""
    """The divergence by which this record exists, if the reference has no such record."""

    @property
    def is_stream(self) -> bool:
        return self.what == STREAM_HOOK

    def as_list(self) -> list[Any]:
        return [self.who, self.what, self.facts]


@dataclass(frozen=True)
class Departure:
    """From here on the call takes another course than the reference's, by one divergence."""

    rule: str
    of: frozenset[str]
    """Which facts: of ``hooks``, ``prompts``, ``chunks``, ``result``, ``stored``."""
    stream_records: int
    other_records: int
    chunks: int
    prompts: int

    def place(self, of: str, *, is_stream: bool = False) -> int:
        """Where in the oracle's list of such facts the other course begins."""
        match of:
            case "hooks":
                return self.stream_records if is_stream else self.other_records
            case "chunks":
                return self.chunks
            case "prompts":
                return self.prompts
            case _:
                return 0


@dataclass
class CallCourse:
    """One call."""

    hooks: list[Record] = field(default_factory=list)
    prompts: list[list[Facts]] = field(default_factory=list)
    model_ids: list[str] = field(default_factory=list)
    call_settings: list[Facts] = field(default_factory=list)
    chunks: list[Facts] = field(default_factory=list)
    result: Facts | None = None
    error: Facts | None = None
    departures: list[Departure] = field(default_factory=list)
    marks: set[str] = field(default_factory=set)
    """What happened in the call that makes a divergence possible; the names are those of ``Mark``."""

    def depart(self, rule: str, *of: str) -> None:
        """Note that from here on ``of`` (all, if none is named) is not the reference's."""
        self.departures.append(
            Departure(
                rule,
                frozenset(of or ("hooks", "prompts", "chunks", "result", "stored")),
                sum(record.is_stream for record in self.hooks),
                sum(not record.is_stream for record in self.hooks),
                len(self.chunks),
                len(self.prompts),
            )
        )

    def facts(self, *, is_stream: bool) -> Facts:
        """The call in recorded form."""
        found: Facts = {
            "hooks": [record.as_list() for record in self.hooks],
            "prompts": self.prompts,
            "modelIds": self.model_ids,
            "callSettings": self.call_settings,
        }
        if is_stream and self.error is None:
            found["chunks"] = self.chunks
        return found | ({"result": self.result} if self.error is None else {"error": self.error})


@dataclass
class Course:
    """All calls of a scenario, and what is stored after them."""

    calls: list[CallCourse]
    stored: list[Facts] | None
