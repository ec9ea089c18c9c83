"""Where a value that a guard took out may not turn up."""

from __future__ import annotations

import logging
from typing import Any

from interlock import Agent, ProcessorError
from interlock.agent import InMemoryRunStore
from interlock.memory import InMemoryStore, Memory
from interlock.testing import ScriptedModel
from tests.agent.kit import THREAD, Outcome, stored, streamed
from tests.field_reports.cases import as_text, shown

SECRET = "4111 1111 1111 1111"
"""What no guard lets through."""


class Watch(logging.Handler):
    """An agent with a memory, and everything that its runs tell, keep, send or log."""

    def __init__(self, turns: Any, **settings: Any) -> None:
        super().__init__()
        self.model = turns if hasattr(turns, "prompts") else ScriptedModel(turns)
        self.store, self.runs = InMemoryStore(), InMemoryRunStore()
        self.agent = Agent(
            id="watched", model=self.model, memory=Memory(self.store), run_store=self.runs, tracer=self, **settings
        )
        self.told: dict[str, list[Any]] = {}
        self.outcomes: list[Outcome] = []

    async def run(self, messages: Any = "hi", *, fails: bool = False, **options: Any) -> Outcome:
        """A streamed run with every callback; no hook may fail in it unless that is what is looked at."""
        names = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_iteration_complete")
        callbacks = {name: self.told.setdefault(name, []).append for name in names}
        logging.getLogger("interlock").addHandler(self)
        try:
            outcome = await streamed(self.agent, messages, memory=THREAD, **callbacks, **options)
        finally:
            logging.getLogger("interlock").removeHandler(self)
        assert isinstance(outcome.error, ProcessorError) is fails, outcome.error
        self.outcomes.append(outcome)
        return outcome

    def hook_started(self, event: Any) -> None:
        """Nothing is known yet."""

    def hook_ended(self, event: Any) -> None:
        """Keep the event as it is now."""
        self.told.setdefault("observer", []).append(repr(event))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the log."""
        self.told.setdefault("log", []).append(logging.Formatter().format(record))

    async def places(self, value: str = SECRET) -> list[str]:
        """Where the value is; the prompts of the runs count, except for the ones before it came up."""
        found = [name for name, told in self.told.items() if value in _everything_in(told)]
        kept = {"storage": await stored(self.store), "run store": list(self.runs._states.values())}
        found += [name for name, content in kept.items() if value in as_text(content)]
        found += [f"prompt {number}" for number, prompt in enumerate(self.model.prompts) if value in as_text(prompt)]
        for number, outcome in enumerate(self.outcomes):
            if value in as_text([chunk.to_dict() for chunk in outcome.chunks]):
                found.append(f"chunks {number}")
            elif value in shown(outcome):
                found.append(f"result {number}")
        return sorted(found)


def _everything_in(told: list[Any]) -> str:
    return as_text([item if isinstance(item, (str, dict)) else repr(item) for item in told])
