"""A model that says what a test tells it to say."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock._json import copy_json
from interlock.chunks import Chunk
from interlock.models.base import ModelRequest, Prompt
from interlock.testing.turns import Event, Pause, Turn, events_of, fresh


class ScriptExhaustedError(AssertionError):
    """A scripted model was called more often than its script has turns."""


class ScriptedModel:
    """A ``LanguageModel`` that plays one turn a provider call, over all runs that share the object.

    A turn is

    - a string: a text span of one delta;
    - an exception: raised when the first chunk is asked for;
    - a list of chunks, wire dicts (``{"type": "text-delta", "payload": {…}}``), strings (each one delta of one open
      text span), exceptions (raised at that place), ``delay(…)``, ``wait_for(…)``, functions without arguments (called
      at that place, awaited if awaitable) and lists of these;
    - a function of the ``ModelRequest``, sync or async, that returns any of these.

    A turn without a ``finish`` gets one: reason ``tool-calls`` if it calls tools, else ``stop``; a turn with an
    ``error`` chunk gets none. Every call yields fresh chunks, so that a processor's edits do not reach the script.

    Args:
        turns: The script. A single function answers every call.
        provider: Provider name.
        model_id: Model name.
        supported_urls: Media type → regular expressions of the URLs the model fetches itself (R4.16).
        record: Keep a copy of every request; a benchmark turns it off.

    Raises:
        TypeError: An item of a turn is of no known kind.
        ValueError: A wire dict is not a chunk.
    """

    def __init__(
        self,
        turns: Sequence[Turn] | Callable[[ModelRequest], Any],
        *,
        provider: str = "scripted",
        model_id: str = "scripted",
        supported_urls: Mapping[str, Sequence[str]] | None = None,
        record: bool = True,
    ) -> None:
        self.provider = provider
        self.model_id = model_id
        self.supported_urls: Mapping[str, Sequence[str]] = dict(supported_urls or {})
        self.requests: list[ModelRequest] = []
        """Every request so far, each with its own copy of the prompt, as it was sent."""
        self.calls = 0
        """Provider calls so far."""
        self.open_streams = 0
        """Streams that began and are neither at their end nor closed."""
        self._record = record
        self._answer = turns if callable(turns) else None
        script = [] if callable(turns) else [turns] if isinstance(turns, str) else list(turns)
        self._script = [
            turn
            if callable(turn) and not _is_exception_class(turn)
            else events_of(turn, f"turn {number} of the script")
            for number, turn in enumerate(script, 1)
        ]

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts of ``requests``."""
        return [request.prompt for request in self.requests]

    @property
    def turns_left(self) -> int:
        """How many turns of the script were not played yet."""
        return max(0, len(self._script) - self.calls)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next turn; it is taken when the first chunk is asked for.

        Raises:
            ScriptExhaustedError: No turn is left.
        """
        number = self.calls = self.calls + 1
        if self._record:
            self.requests.append(_recorded(request))
        self.open_streams += 1
        try:
            for event in await self._turn(number, request):
                if isinstance(event, Chunk):
                    yield fresh(event)
                elif isinstance(event, Pause):
                    outcome = event.act()
                    if inspect.isawaitable(outcome):
                        await outcome
                else:
                    raise event
        finally:
            self.open_streams -= 1

    async def _turn(self, number: int, request: ModelRequest) -> list[Event]:
        turn = self._answer
        if turn is None:
            if number > len(self._script):
                raise ScriptExhaustedError(
                    f"provider call {number} of the scripted model {self.model_id!r}, but its script has "
                    f"{len(self._script)} turn(s): add a turn, or find out why the model is called again"
                )
            scripted = self._script[number - 1]
            if isinstance(scripted, list):
                return scripted
            turn = scripted
        said = turn(request)
        if inspect.isawaitable(said):
            said = await said
        return events_of(said, f"the turn that a function returned for call {number}")

    def __repr__(self) -> str:
        return f"ScriptedModel(model_id={self.model_id!r}, calls={self.calls}, turns_left={self.turns_left})"


def _is_exception_class(turn: Any) -> bool:
    return isinstance(turn, type) and issubclass(turn, BaseException)


def _recorded(request: ModelRequest) -> ModelRequest:
    return msgspec.structs.replace(
        request,
        prompt=copy_json(request.prompt),
        tools=list(request.tools),
        settings=copy_json(request.settings),
        provider_options=copy_json(request.provider_options),
    )
