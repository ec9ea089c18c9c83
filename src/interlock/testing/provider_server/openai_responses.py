"""The Responses API, as a server says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.chunks import CONTENT_FILTER, LENGTH, OTHER
from interlock.testing.provider_server.wire import Event, Wire, counts
from interlock.usage import Usage

_INCOMPLETE = {LENGTH: "max_output_tokens", CONTENT_FILTER: "content_filter", OTHER: "max_messages"}


class OpenAIResponsesWire(Wire):
    """One reply."""

    name = "the Responses API"

    def __init__(self, model: str, body: dict[str, Any], number: int) -> None:
        super().__init__(model, body, number)
        self._events = 0
        self._items: list[dict[str, Any]] = []
        self._pieces: list[str] = []
        self._item: dict[str, Any] = {}
        self._part = "output_text"

    def begin(self) -> Iterable[Event]:
        """The response exists."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def text_start(self, *, is_refusal: bool) -> Iterable[Event]:
        """A message with one part begins."""
        self._part = "refusal" if is_refusal else "output_text"
        yield self._added({"type": "message", "id": self._id("msg"), "role": "assistant", "content": []})
        yield self._event("response.content_part.added", **self._place(content_index=0), part=self._content(""))

    def text(self, piece: str) -> Iterable[Event]:
        """A piece of the text."""
        self._pieces.append(piece)
        more: dict[str, Any] = {} if self._part == "refusal" else {"logprobs": []}
        yield self._event(f"response.{self._part}.delta", **self._place(content_index=0), delta=piece, **more)

    def text_end(self) -> Iterable[Event]:
        """The message is complete."""
        text = "".join(self._pieces)
        whole: dict[str, Any] = {"refusal": text} if self._part == "refusal" else {"text": text, "logprobs": []}
        yield self._event(f"response.{self._part}.done", **self._place(content_index=0), **whole)
        yield self._event("response.content_part.done", **self._place(content_index=0), part=self._content(text))
        yield self._done(content=[self._content(text)])

    def reasoning_start(self) -> Iterable[Event]:
        """Reasoning with one summary begins."""
        yield self._added({"type": "reasoning", "id": self._id("rs"), "summary": []})
        part = {"type": "summary_text", "text": ""}
        yield self._event("response.reasoning_summary_part.added", **self._place(summary_index=0), part=part)

    def reasoning(self, piece: str) -> Iterable[Event]:
        """A piece of the summary."""
        self._pieces.append(piece)
        yield self._event("response.reasoning_summary_text.delta", **self._place(summary_index=0), delta=piece)

    def signature(self, signature: str) -> Iterable[Event]:
        """The reasoning in its encrypted form."""
        self._item["encrypted_content"] = signature
        return ()

    def reasoning_end(self) -> Iterable[Event]:
        """The reasoning is complete."""
        text = "".join(self._pieces)
        part = {"type": "summary_text", "text": text}
        yield self._event("response.reasoning_summary_text.done", **self._place(summary_index=0), text=text)
        yield self._event("response.reasoning_summary_part.done", **self._place(summary_index=0), part=part)
        yield self._done(summary=[part])

    def call_start(self, call_id: str, name: str) -> Iterable[Event]:
        """A call begins."""
        call = {"type": "function_call", "id": self._id("fc"), "call_id": call_id, "name": name, "arguments": ""}
        yield self._added(call)

    def arguments(self, piece: str) -> Iterable[Event]:
        """A piece of the call's arguments."""
        self._pieces.append(piece)
        yield self._event("response.function_call_arguments.delta", **self._place(), delta=piece)

    def call_end(self) -> Iterable[Event]:
        """The call is complete."""
        arguments, name = "".join(self._pieces), self._item["name"]
        yield self._event("response.function_call_arguments.done", **self._place(), arguments=arguments, name=name)
        yield self._done(arguments=arguments)

    def finish(self, reason: str, usage: Usage) -> Iterable[Event]:
        """The response is complete."""
        sent, received = counts(usage)
        counted = {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0, "cache_write_tokens": 0},
            "output_tokens": received,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
            "total_tokens": sent + received,
        }
        why = _INCOMPLETE.get(reason)
        status = "completed" if why is None else "incomplete"
        details = None if why is None else {"reason": why}
        response = {**self._response(status), "usage": counted, "incomplete_details": details, "output": self._items}
        yield self._event(f"response.{status}", response=response)

    def failure(self, status: int, message: str, code: str | None) -> Iterable[Event]:
        """The response fails."""
        error = {"code": code or "server_error", "message": message}
        yield self._event("response.failed", response={**self._response("failed"), "error": error})

    @classmethod
    def refusal(cls, status: int, message: str, code: str | None) -> Event:
        """The body of an error."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def encode(self, event: Event) -> bytes:
        """An event on the wire."""
        return f"event: {event['type']}\n".encode() + b"data: " + msgspec.json.encode(event) + b"\n\n"

    def _added(self, item: dict[str, Any]) -> Event:
        self._item = item if item["type"] == "reasoning" else {**item, "status": "in_progress"}
        self._pieces = []
        return self._event("response.output_item.added", output_index=len(self._items), item=dict(self._item))

    def _done(self, **fields: Any) -> Event:
        item = {**self._item, **fields}
        if "status" in item:
            item["status"] = "completed"
        done = self._event("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)
        return done

    def _event(self, kind: str, **fields: Any) -> Event:
        event = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        return event

    def _place(self, **index: int) -> dict[str, Any]:
        return {"item_id": self._item["id"], "output_index": len(self._items), **index}

    def _id(self, kind: str) -> str:
        return f"{kind}_{self.number}_{len(self._items)}"

    def _content(self, text: str) -> dict[str, Any]:
        if self._part == "refusal":
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": 1_764_670_000,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": self.body.get("tool_choice") or "auto",
            "tools": self.body.get("tools") or [],
            "usage": None,
        }
