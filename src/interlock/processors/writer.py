"""How hooks write chunks of their own into the stream (runtime-spec section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock._json import copy_json
from interlock.chunks import DataChunk
from interlock.processors.scope import RunScope


def as_data_chunk(chunk: DataChunk | Mapping[str, Any], run_id: str) -> DataChunk:
    """A ``DataChunk`` of its own made from what a caller wrote; the caller's object stays untouched (R9.2).

    Raises:
        ValueError: the type does not begin with ``data-`` plus a name (R9.1).
    """
    if isinstance(chunk, DataChunk):
        data = chunk.to_dict()
    elif isinstance(chunk, Mapping):
        data = copy_json(dict(chunk))
    else:
        raise ValueError(f"writer.custom() takes a mapping or a DataChunk, not {type(chunk).__name__}")
    kind = data.get("type")
    if not isinstance(kind, str) or not kind.startswith("data-") or kind == "data-":
        raise ValueError(
            f"writer.custom() takes chunks whose type begins with 'data-' and has a name after it, got {kind!r}"
        )
    written = DataChunk.from_dict(data)
    written.run_id = written.run_id or run_id
    return written


class ProcessorStreamWriter:
    """``args.writer``: writes ``data-*`` chunks to the client and into the response message."""

    __slots__ = ("_scope", "_start", "_uses_message_id")

    def __init__(self, scope: RunScope, start: int, uses_message_id: bool) -> None:
        self._scope = scope
        self._start = start
        self._uses_message_id = uses_message_id

    async def custom(self, chunk: DataChunk | Mapping[str, Any], *, message_id: str | None = None) -> None:
        """Write ``{"type": "data-…", "data": …, "id"?, "transient"?}`` (R9.1).

        The chunk is handed to the client before the chunk that is being processed, and, unless ``transient`` is true,
        kept as a part of the response message (R9.4).

        Args:
            chunk: The chunk; not changed and not kept.
            message_id: In ``process_output_stream`` and ``process_output_result`` the message that gets the part;
                a new response message if the list has none of that id (R9.6). Elsewhere ignored.

        Raises:
            ValueError: the type does not begin with ``data-``.
        """
        written = as_data_chunk(chunk, self._scope.data.run_id)
        await self._scope.emit(written, self._start, message_id if self._uses_message_id else None)
