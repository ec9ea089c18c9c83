"""What the simulated calls of one scenario share."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from ..scenario import Scenario
from ..script import Script
from .conversation import Message

Facts = dict[str, Any]


class World:
    """The script's position, the threads, the saved replies, and how often hooks and tools ran."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.script = Script(scenario.script)
        self.tools = {**scenario.extra_tools, **scenario.tools}
        self.threads: dict[str, list[Message]] = {}
        self.saved: dict[str, list[Facts]] = {}
        self.invocations: Counter[Any] = Counter()
        self._executions: Counter[str] = Counter()

    def tool_result(self, name: str) -> Any:
        """What the tool returns this time."""
        tool = self.tools[name]
        results = tool["results"] if "results" in tool else [tool.get("result")]
        self._executions[name] += 1
        return copy.deepcopy(results[min(self._executions[name], len(results)) - 1])
