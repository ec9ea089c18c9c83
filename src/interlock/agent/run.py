"""Everything one run works with: its settings, resolved once, and its state and scope."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from interlock.agent.call import UsualCall
from interlock.agent.deadlines import Deadlines
from interlock.agent.state import RunState
from interlock.agent.suspension import Resumption
from interlock.chunks import Chunk
from interlock.models import ModelFallback, ToolSpec
from interlock.processors import Pipeline
from interlock.processors.bound import BoundProcessor
from interlock.processors.scope import RunScope
from interlock.processors.stream import StreamChain, as_list
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


class Run(msgspec.Struct, eq=False):
    """One ``generate`` or ``stream`` call from its first hook to its last."""

    agent: Any
    state: RunState
    scope: RunScope
    pipeline: Pipeline
    chain: StreamChain | None = None
    input_step_hooks: Sequence[BoundProcessor] = ()
    models: list[ModelFallback] = []
    """Enabled models in the order in which they are tried (R12.3); their ``model`` is resolved."""
    model_index: int = 0
    """Which of them the current step uses."""
    model_override: Any = None
    """What an error processor chose for the next attempt (R19.5)."""
    tools: dict[str, Tool] = {}
    _specs: list[ToolSpec] | None = None
    tool_choice: Any = "auto"
    active_tools: list[str] | None = None
    provider_options: dict[str, Any] | None = None
    model_settings: dict[str, Any] = {}
    structured_output: Any = None
    max_retries: int | None = None
    """The agent's number of client-level retries (R7.13)."""
    max_steps: int | None = None
    stop_when: Sequence[Callback] = ()
    pause_when: Sequence[Callback] = ()
    include_raw_chunks: bool = False
    tool_call_concurrency: int | None = None
    require_tool_approval: Any = False
    callbacks: dict[str, Callback] = {}
    is_read: bool = True
    """Whether somebody may see the chunks that tell of the run's own doings; what nobody sees is not made."""
    attempts: int = 0
    """Attempts begun in this process."""
    usual_call: UsualCall | None = None
    """What the calls of all steps have in common."""
    is_as_configured: bool = False
    """Whether models, tools and settings are those that the agent was made with."""
    deadlines: Deadlines | None = None
    is_resumed: bool = False
    """Whether the run began earlier, and was stored meanwhile."""
    resumption: Resumption | None = None
    """What a suspended run goes on with; taken by its first attempt."""

    def __post_init__(self) -> None:
        self.chain = self.scope.chain = self.pipeline.chain(self.scope)
        self.input_step_hooks = self.pipeline.by_hook["process_input_step"]

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

    async def process(self, chunk: Chunk) -> list[Chunk]:
        """Stamp a chunk of the runtime's own and pass it through the stream hooks."""
        chunk.run_id = self.state.run_id
        if self.chain is None:
            return [chunk]
        out = await self.chain.process(chunk)
        return [chunk] if out is chunk else as_list(out)


def count_retry(scope: RunScope) -> None:
    """Count a granted retry (R7.3)."""
    scope.data.retry_count += 1
    if scope.budget is not None:
        scope.budget.retries += 1


def _spec(name: str, tool: Tool) -> ToolSpec:
    return ToolSpec(name=name, description=tool.description, input_schema=tool.json_schema)
