"""The per-chunk hook: the stream hooks of one run, and the flush at the end of each attempt (R2.25–R2.27, R19.2)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from interlock.chunks import (
    CHUNK_TYPES,
    RUN_TYPES,
    Chunk,
    DataChunk,
    GenericChunk,
    ReasoningDelta,
    TextDelta,
    chunk_from_dict,
    flaw_of,
)
from interlock.errors import ProcessorReturnError, TripWire
from interlock.processors.args import FlushOutputStreamArgs, ProcessOutputStreamArgs
from interlock.processors.bound import BoundProcessor
from interlock.processors.observe import HookEvent, notify
from interlock.processors.scope import RunScope, hook_failure, own_chunk

_log = logging.getLogger("interlock")

HOOK = "process_output_stream"


class Link:
    """One processor's place in the chain during one run.

    It takes one chunk at a time: an emission of a tool or of a background task waits while the hook is at work on
    another chunk, since both would share the args object (R0.4, R1.2). A hook emits to the links behind its own, so
    nobody waits for himself.
    """

    __slots__ = ("args", "call", "end", "flush", "is_async", "is_busy", "parts", "processor", "waiting", "wants_data")

    def __init__(self, bound: BoundProcessor | None, flush: BoundProcessor | None, scope: RunScope) -> None:
        owner = bound or flush
        assert owner is not None
        self.processor = owner.processor
        self.call = bound.call if bound is not None else None
        self.is_async = bound is not None and bound.is_async
        self.args = ProcessOutputStreamArgs(scope, owner)
        self.parts = self.args.stream_parts
        self.wants_data = bool(getattr(owner.processor, "process_data_parts", False))
        self.flush = flush
        self.end = 0
        """Position in its chain of what comes behind it."""
        self.is_busy = False
        """Whether the hook is at work."""
        self.waiting: deque[asyncio.Future[None]] | None = None
        """Who comes next, in order of arrival; made when somebody has to wait."""

    async def turn(self) -> None:
        """Wait until the hook is free; it is the caller's then."""
        if not self.is_busy:
            self.is_busy = True
            return
        place = asyncio.get_running_loop().create_future()
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Hand the hook to the next in line."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.is_busy = False


class Place(Protocol):
    """What one entry of an array contributes to the chain, known before any run."""

    def open(self, scope: RunScope) -> list[Link]:
        """Its links for one run; always the same number."""
        ...


class ProcessorPlace:
    """The place of one processor: its stream hook, its flush hook, or both."""

    __slots__ = ("_flush", "_stream")

    def __init__(self, stream: BoundProcessor | None, flush: BoundProcessor | None) -> None:
        self._stream = stream
        self._flush = flush

    def open(self, scope: RunScope) -> list[Link]:
        """One link."""
        return [Link(self._stream, self._flush, scope)]


class StreamChain:
    """The stream hooks of one run, in order. ``process`` is the hot path: one call a chunk."""

    __slots__ = ("_from_cache", "_has_flush", "_scope", "links")

    def __init__(self, links: list[Link], scope: RunScope) -> None:
        self.links = links
        self._scope = scope
        self._from_cache = self._has_flush = False
        for position, link in enumerate(links, 1):
            link.end = position
            if link.flush is not None:
                self._has_flush = True

    def set_from_cache(self, from_cache: bool) -> None:
        """Tell the hooks whether the chunks to come are replayed (R11.4)."""
        if from_cache is self._from_cache:
            return
        self._from_cache = from_cache
        for link in self.links:
            link.args.from_cache = from_cache

    async def process(self, chunk: Chunk, start: int = 0) -> Chunk | list[Chunk] | None:
        """Pass one chunk through the links from ``start`` on.

        Returns:
            The chunk, ``None`` when it was dropped, or a list when a hook returned one.

        Raises:
            TripWire: a hook aborted.
            ProcessorError: a hook raised; the stream fails closed (R17.3).
        """
        scope = self._scope
        cls, kind = chunk.__class__, chunk.type
        is_data = cls is DataChunk
        # Text that a hook edits in place must still be text; every other chunk it hands back as it was.
        text: Any = chunk.payload if cls is TextDelta or cls is ReasoningDelta else None  # type: ignore[attr-defined]
        observer = scope.observer
        before: dict[str, Any] | None = None
        for link in self.links[start:] if start else self.links:
            call = link.call
            if call is None or (is_data and not link.wants_data):
                continue
            if link.is_busy:
                await self._wait_for(link)
            link.is_busy = True
            args = link.args
            args.part = chunk
            link.parts.append(chunk)
            if observer is not None:
                before = chunk.to_dict() if args._bound.is_observed else None
            try:
                result = call(args)
                if link.is_async or (result is not None and hasattr(result, "__await__")):
                    result = await result
            except Exception as error:
                result = await self._failed(link, chunk, error)
            finally:
                if link.waiting:
                    link.leave()
                else:
                    link.is_busy = False
            if scope.trip is not None or scope.failure is not None:
                await self._stopped(link)
            if before is not None:
                self._observe(link, chunk, result, before)
            if (
                result is not chunk
                or chunk.type is not kind
                or (text is not None and (text is not chunk.payload or text.text.__class__ is not str))
            ):
                return await self._spread(link, result, chunk, kind, link.end)
        return chunk

    async def send_through(self, chunk: Chunk, start: int) -> list[Chunk]:
        """``process`` with its result as a list, for emissions."""
        return as_list(await self.process(chunk, start))

    async def flush(self, reason: str) -> list[Chunk]:
        """Ask every processor that has ``flush_output_stream`` for what it holds back (R19.2).

        Args:
            reason: ``finish``, ``error``, ``cancel`` or ``tripwire``; for the last two what is returned is discarded,
                and so is any failure, since the run already has its outcome.
        """
        released: list[Chunk] = []
        if not self._has_flush:
            return released
        for position, link in enumerate(self.links, 1):
            if link.flush is None:
                continue
            args = FlushOutputStreamArgs(self._scope, link.flush)
            args.stream_parts = link.parts
            discard = reason in ("cancel", "tripwire")
            await link.turn()
            try:
                result = link.flush.call(args, reason)
                if hasattr(result, "__await__"):
                    result = await result
            except Exception as error:
                if discard:
                    _log.debug("flush of processor %r failed after %s", link.processor.id, reason, exc_info=True)
                    continue
                result = await self._failed(link, None, error, "flush_output_stream")
            finally:
                link.leave()
            if discard:
                continue
            await self._scope.check()
            held = self._chunks_of(link, result, None, "flush_output_stream")
            self._check_own(link, held, None, "flush_output_stream")
            for chunk in held:
                released += as_list(await self.process(chunk, position))
        return released

    async def _wait_for(self, link: Link) -> None:
        """Wait for the link's turn; what ended the run meanwhile ends this too."""
        await link.turn()
        try:
            await self._scope.check()
        except BaseException:
            link.leave()
            raise

    async def _spread(
        self, link: Link, result: Any, source: Chunk, kind: str, position: int
    ) -> Chunk | list[Chunk] | None:
        """Go on with what a hook put in place of ``source``, whose type was ``kind``."""
        if result is None:
            return None
        chunks = self._chunks_of(link, result, source, HOOK)
        self._check_own(link, chunks, kind, HOOK)
        if len(chunks) == 1:
            return await self.process(chunks[0], position)
        out: list[Chunk] = []
        for chunk in chunks:
            out += as_list(await self.process(chunk, position))
        return out

    def _chunks_of(self, link: Link, result: Any, source: Chunk | None, hook: str) -> list[Chunk]:
        items = result if isinstance(result, (list, tuple)) else [] if result is None else [result]
        return [self._chunk_of(link, item, source, hook) for item in items]

    def _chunk_of(self, link: Link, returned: Any, source: Chunk | None, hook: str) -> Chunk:
        item: Chunk | None = returned if isinstance(returned, Chunk) else None
        if isinstance(returned, Mapping):
            with contextlib.suppress(ValueError):
                item = chunk_from_dict(_with_payload_ids(dict(returned), source))
        if item is None:
            allowed = "allowed are a chunk, a mapping with a string 'type', a list of these, or None"
            raise _refused(link, hook, f"{type(returned).__name__}; {allowed}")
        if not item.run_id:
            item = own_chunk(item, source.run_id if source is not None else self._scope.data.run_id)
        item = _of_its_type(item)
        flaw = flaw_of(item)
        if flaw is not None:
            raise _refused(link, hook, f"a {item.type!r} chunk that is none: {flaw}")
        return item

    def _check_own(self, link: Link, chunks: list[Chunk], kind: str | None, hook: str) -> None:
        """Refuse what would pass for the run's word: only what the hook was given, or stands for it, is that.

        Args:
            link: The hook's place.
            chunks: What it returned.
            kind: The type of the chunk that it was given, if it was given one.
            hook: Its name.
        """
        told = [chunk for chunk in chunks if chunk.type in RUN_TYPES]
        for chunk in told:
            stands_for_it = chunk.type == kind and sum(one.type == kind for one in told) == 1
            if not stands_for_it and not any(chunk is part for part in link.parts):
                raise _refused(link, hook, f"a {chunk.type!r} chunk, which only the run itself sends")

    async def _failed(self, link: Link, chunk: Chunk | None, error: Exception, hook: str = HOOK) -> Any:
        """Turn what a hook raised into a recorded abort, a failure of the run, or the unprocessed chunk."""
        if isinstance(error, TripWire):
            self._scope.record_trip(error, link.processor, hook)
            return None
        if self._scope.trip is None and getattr(link.processor, "fail_open", False):
            _log.warning("processor %r failed in %s and fails open", link.processor.id, hook, exc_info=error)
            return chunk
        if self._scope.trip is None:
            self._scope.failure = hook_failure(link.processor.id, hook, error, link.args._bound.step)
        return None

    async def _stopped(self, link: Link) -> None:
        trip, observer = self._scope.trip, self._scope.observer
        if observer is not None and trip is not None and trip.processor is link.processor:
            event = self._event(link, "aborted", trip.tripwire.reason)
            event.retry = trip.tripwire.retry
            notify(observer, event)
        await self._scope.check()

    def _observe(self, link: Link, chunk: Chunk, result: Any, before: dict[str, Any]) -> None:
        if result is None or result == []:
            outcome = "dropped"
        elif (result is chunk or result == [chunk]) and chunk.to_dict() == before:
            return
        else:
            outcome = "changed"
        notify(self._scope.observer, self._event(link, outcome, before["type"]))

    def _event(self, link: Link, outcome: str, detail: str) -> HookEvent:
        data = self._scope.data
        return HookEvent(
            hook=HOOK,
            processor_id=link.processor.id,
            processor_index=link.args._bound.index,
            executor=link.args._bound.executor,
            run_id=data.run_id,
            step_number=data.step_number,
            retry_count=data.retry_count,
            outcome=outcome,
            detail=detail,
        )


def _refused(link: Link, hook: str, what: str) -> ProcessorReturnError:
    return ProcessorReturnError(
        f"processor {link.processor.id!r} returned from {hook} {what}",
        code="PROCESSOR_RETURNED_INVALID_RESULT",
        processor_id=link.processor.id,
        hook=hook,
    )


def as_list(result: Chunk | list[Chunk] | None) -> list[Chunk]:
    """What ``process`` returned, always as a list."""
    if result is None:
        return []
    return result if isinstance(result, list) else [result]


_IDS = ("id", "messageId", "toolCallId", "toolName")


def _with_payload_ids(item: dict[str, Any], source: Chunk | None) -> dict[str, Any]:
    """Fill the ids that a replacement of the same type leaves unset from the chunk that it replaces (R2.26).

    Nothing else is filled in: what a hook left out of the content was left out.
    """
    payload = getattr(source, "payload", None)
    if source is not None and item.get("type") == source.type and isinstance(item.get("payload"), Mapping):
        known = payload.to_dict() if payload is not None else {}
        item["payload"] = {**{key: known[key] for key in _IDS if key in known}, **item["payload"]}
    return item


def _of_its_type(chunk: Chunk) -> Chunk:
    """The chunk as an object of its type's class: a hook may have changed ``type`` in place (R2.26)."""
    cls = DataChunk if chunk.type.startswith("data-") else CHUNK_TYPES.get(chunk.type, GenericChunk)
    if chunk.__class__ is cls or chunk.__class__ is GenericChunk:
        return chunk
    return chunk_from_dict(chunk.to_dict())
