"""What a running tool writes into the stream (R9.13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.chunks import Chunk, DataChunk, ToolOutput, ToolOutputPayload
from interlock.processors.scope import RunScope
from interlock.processors.writer import as_data_chunk
from interlock.tools import to_serializable


class RunToolWriter:
    """``context.writer`` of one call."""

    __slots__ = ("_call_id", "_name", "_scope")

    def __init__(self, scope: RunScope, call_id: str, name: str) -> None:
        self._scope = scope
        self._call_id = call_id
        self._name = name

    async def custom(self, chunk: DataChunk | Mapping[str, Any], *, message_id: str | None = None) -> None:
        """Write a ``data-*`` chunk (R9.1); all processors that opted in see it (R9.9).

        Raises:
            ValueError: the type does not begin with ``data-``.
        """
        await self._scope.emit(as_data_chunk(chunk, self._scope.data.run_id), 0)

    async def write(self, value: Any) -> None:
        """Write a nested chunk or a value as a ``tool-output`` chunk, which passes the stream hooks."""
        output = value.to_dict() if isinstance(value, Chunk) else to_serializable(value)
        payload = ToolOutputPayload(tool_call_id=self._call_id, tool_name=self._name, output=output)
        await self._scope.emit(ToolOutput(payload=payload), 0)
