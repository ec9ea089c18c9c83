"""Everything one run works with: its settings, resolved once, and its state and scope."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from interlock.agent.deadlines import Deadlines
from interlock.agent.state import RunState
from interlock.agent.suspension import Resumption
from interlock.chunks import Chunk
from interlock.models import ModelFallback, ToolSpec
from interlock.processors import Pipeline
from interlock.processors.bound import BoundProcessor
from interlock.processors.scope import RunScope
from interlock.processors.stream import StreamChain
from interlock.tools import Tool

_log = logging.getLogger("interlock")

Callback = Callable[..., Any]


class ModelFailure(Exception):
    """A provider call failed for good; ``error`` is the original exception (R7.14)."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(str(error))


class Interrupted(Exception):
    """The run stopped waiting; ``scope.interruption``, the signal or the tripwire says why."""


class Run:
    """One ``generate`` or ``stream`` call from its first hook to its last."""

    __slots__ = (
        "_specs",
        "active_tools",
        "agent",
        "attempts",
        "callbacks",
        "chain",
        "deadlines",
        "include_raw_chunks",
        "input_step_hooks",
        "is_read",
        "max_retries",
        "max_steps",
        "model_index",
        "model_override",
        "model_settings",
        "models",
        "pipeline",
        "provider_options",
        "require_tool_approval",
        "resumption",
        "scope",
        "state",
        "stop_when",
        "structured_output",
        "tool_call_concurrency",
        "tool_choice",
        "tools",
    )

    def __init__(self, agent: Any, state: RunState, scope: RunScope, pipeline: Pipeline) -> None:
        self.agent = agent
        self.state = state
        self.scope = scope
        self.pipeline = pipeline
        self.chain: StreamChain | None = pipeline.chain(scope)
        scope.chain = self.chain
        self.input_step_hooks: Sequence[BoundProcessor] = pipeline.by_hook["process_input_step"]
        self.models: list[ModelFallback] = []
        """Enabled models in the order in which they are tried (R12.3); their ``model`` is resolved."""
        self.model_index = 0
        """Which of them the current step uses."""
        self.model_override: Any = None
        """What an error processor chose for the next attempt (R19.5)."""
        self.tools: dict[str, Tool] = {}
        self._specs: list[ToolSpec] | None = None
        self.tool_choice: Any = "auto"
        self.active_tools: list[str] | None = None
        self.provider_options: dict[str, Any] | None = None
        self.model_settings: dict[str, Any] = {}
        self.structured_output: Any = None
        self.max_retries: int | None = None
        """The agent's number of client-level retries (R7.13)."""
        self.max_steps: int | None = None
        self.stop_when: Sequence[Callback] = ()
        self.include_raw_chunks = False
        self.tool_call_concurrency: int | None = None
        self.require_tool_approval: Any = False
        self.callbacks: dict[str, Callback] = {}
        self.is_read = True
        """Whether somebody may see the chunks that tell of the run's own doings; what nobody sees is not made."""
        self.attempts = 0
        """Attempts begun in this process."""
        self.deadlines: Deadlines | None = None
        self.resumption: Resumption | None = None
        """What a suspended run goes on with; taken by its first attempt."""

    @property
    def has_chunk_readers(self) -> bool:
        """Whether somebody sees chunks even if nobody reads the stream: hooks, or a callback."""
        return self.chain is not None or bool(self.pipeline.by_hook["process_llm_response"])

    def may_retry(self) -> bool:
        """Whether a processor may have one more attempt (R7.4, R12.30)."""
        return self.state.has_retry_left and not self.scope.is_aborted

    def count_retry(self) -> None:
        """Count a granted retry (R7.3)."""
        count_retry(self.scope)

    def specs_of(self, tools: dict[str, Tool]) -> list[ToolSpec]:
        """The tools as a model sees them; made once for the tools that every step has."""
        if tools is not self.tools:
            return [_spec(name, tool) for name, tool in tools.items()]
        if self._specs is None:
            self._specs = [_spec(name, tool) for name, tool in tools.items()]
        return self._specs

    async def tell(self, name: str, *args: Any) -> Any:
        """Call a callback of the caller, if it was given; its exceptions are logged (R12.27)."""
        callback = self.callbacks.get(name)
        if callback is None:
            return None
        try:
            outcome = callback(*args)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except Exception:
            # The caller's own code: it must not change what the run does.
            _log.exception("the callback %s failed", name)
            return None

    def stamped(self, chunk: Chunk) -> list[Chunk]:
        """What ``process`` gives where there are no stream hooks."""
        chunk.run_id = self.state.run_id
        return [chunk]

    async def process(self, chunk: Chunk) -> list[Chunk]:
        """Stamp a chunk of the runtime's own and pass it through the stream hooks."""
        chunk.run_id = self.state.run_id
        if self.chain is None:
            return [chunk]
        out = await self.chain.process(chunk)
        return [] if out is None else out if isinstance(out, list) else [out]


def count_retry(scope: RunScope) -> None:
    """Count a granted retry (R7.3)."""
    scope.data.retry_count += 1
    if scope.budget is not None:
        scope.budget.retries += 1


def _spec(name: str, tool: Tool) -> ToolSpec:
    return ToolSpec(name=name, description=tool.description, input_schema=tool.json_schema)
