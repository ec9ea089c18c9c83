"""A provider prompt as the input items of the Responses API (R4.9 to R4.20)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.errors import ModelError
from interlock.models.base import Prompt
from interlock.models.openai.protocol import to_arguments, with_cache_marker
from interlock.models.openai.server_tools import SERVER_TOOLS, to_server_item
from interlock.models.prompt_parts import (
    bare_data,
    base64_of,
    data_uri,
    image_type,
    is_address,
    options_of,
    output_parts,
    text_of_file,
)

Item = dict[str, Any]

_FILE_ID_PREFIXES = ("file-", "file_", "assistant-")
_UNREADABLE = ("audio/", "video/")


class ResponsesInput:
    """Turns a prompt into items.

    Args:
        provider: Namespace of ``providerOptions``.
        is_stored: Whether the server keeps what it said, so that it knows its reasoning by the id alone.
        warnings: Is told what had to be left out.
    """

    def __init__(self, provider: str, warnings: list[dict[str, Any]], *, is_stored: bool = True) -> None:
        self._provider = provider
        self._warnings = warnings
        self._is_stored = is_stored

    def items(self, prompt: Prompt) -> Iterator[Item]:
        """The items, in order.

        Raises:
            ModelError: The prompt holds something that the API cannot carry.
        """
        for message in prompt:
            content = message["content"]
            match message["role"]:
                case "system":
                    yield {"role": "system", "content": self._to_system(content, options_of(message, self._provider))}
                case "user":
                    parts = [part for part in map(self._to_content, content) if part is not None]
                    if parts:
                        with_cache_marker(parts[-1], options_of(message, self._provider))
                        yield {"role": "user", "content": parts}
                case "assistant":
                    yield from self._paired(self._drafts(content))
                case "tool":
                    for part in content:
                        output = self._to_output(part["output"])
                        yield {"type": "function_call_output", "call_id": part["toolCallId"], "output": output}
                case role:
                    raise ModelError(f"a prompt message has the role {role!r}; it is system, user, assistant or tool")

    @staticmethod
    def _to_system(text: str, options: dict[str, Any]) -> str | list[Item]:
        content = with_cache_marker({"type": "input_text", "text": text}, options)
        return [content] if len(content) > 2 else text

    def _to_content(self, part: dict[str, Any]) -> Item | None:
        """A part of a user's message."""
        if part["type"] == "text":
            if not part["text"].strip():
                return None
            content = {"type": "input_text", "text": part["text"]}
        elif part["type"] == "file":
            content = self._to_file(part)
        else:
            raise ModelError(f"a user message has a part of type {part['type']!r}, which Responses cannot carry")
        return with_cache_marker(content, options_of(part, self._provider))

    def _to_file(self, part: dict[str, Any]) -> Item:
        media_type, data = part["mediaType"], bare_data(part)
        is_id = data.startswith(_FILE_ID_PREFIXES)
        if media_type.startswith("image/"):
            detail = options_of(part, self._provider).get("imageDetail") or "auto"
            image: Item = {"type": "input_image", "detail": detail}
            if is_id:
                return {**image, "file_id": data}
            address = data if is_address(data) else data_uri(image_type(media_type, data), base64_of(part))
            return {**image, "image_url": address}
        if is_id:
            return {"type": "input_file", "file_id": data}
        if is_address(data):
            return {"type": "input_file", "file_url": data}
        if media_type.startswith("text/"):
            return {"type": "input_text", "text": text_of_file(part)}
        if media_type.startswith(_UNREADABLE):
            raise ModelError(f"Responses takes no file of type {media_type!r}: it takes images, documents and text")
        name = part.get("filename") or ("file.pdf" if media_type == "application/pdf" else "file")
        return {"type": "input_file", "filename": name, "file_data": data_uri(media_type, base64_of(part))}

    def _to_output(self, output: dict[str, Any]) -> str | list[Item]:
        parts = list(output_parts(output))
        if all(part["type"] == "text" for part in parts):
            return "\n".join(part["text"] for part in parts)
        return [item for item in map(self._to_content, parts) if item is not None]

    def _drafts(self, content: list[dict[str, Any]]) -> list[Draft]:
        """What the assistant said, item by item, before it is settled which of them may keep their ids."""
        outputs = {part["toolCallId"]: part["output"] for part in content if part["type"] == "tool-result"}
        drafts: list[Draft] = []
        for part in content:
            own = options_of(part, self._provider)
            last = drafts[-1] if drafts else None
            match part["type"]:
                case "reasoning" if own.get("itemId"):
                    self._add_reasoning(part, own, drafts)
                case "reasoning":
                    # Somebody else's thoughts, which OpenAI takes from nobody.
                    pass
                case "text":
                    said = _to_said(part["text"], own)
                    if last is not None and last.continues(own):
                        last.item["content"].append(said)
                    elif own.get("itemId"):
                        drafts.append(Draft(_to_message(said, own), own))
                    elif part["text"].strip():
                        drafts.append(Draft({"role": "assistant", "content": part["text"]}, {}))
                case "tool-call" if not part.get("providerExecuted"):
                    arguments = to_arguments(part["input"])
                    call = {"call_id": part["toolCallId"], "name": part["toolName"], "arguments": arguments}
                    drafts.append(Draft({"type": "function_call", **call}, own))
                case "tool-call":
                    item = to_server_item(part, outputs.get(part["toolCallId"]), own)
                    if item is not None:
                        drafts.append(Draft(item, own))
                    elif own.get("itemType") not in SERVER_TOOLS:
                        self._warn(f"a call of {part['toolName']!r}, which another provider executed, was left out")
                case "file" if str(own.get("itemId")).startswith("ig_"):
                    image = {"type": "image_generation_call", "id": own["itemId"], "status": "completed"}
                    drafts.append(Draft({**image, "result": bare_data(part)}, own))
                case "tool-result":
                    pass
                case kind:
                    self._warn(f"an assistant message had a part of type {kind!r}, which Responses cannot carry")
        return drafts

    def _add_reasoning(self, part: dict[str, Any], own: dict[str, Any], drafts: list[Draft]) -> None:
        """One reasoning item for all parts that have its id: each is a summary, or a piece of the reasoning itself."""
        draft = next((one for one in drafts if one.is_reasoning and one.own["itemId"] == own["itemId"]), None)
        if draft is None:
            draft = Draft({"type": "reasoning", "id": own["itemId"], "summary": []}, own)
            drafts.append(draft)
        if own.get("reasoningEncryptedContent"):
            draft.item["encrypted_content"] = own["reasoningEncryptedContent"]
        if part["text"] and own.get("contentType") == "reasoning_text":
            draft.item.setdefault("content", []).append({"type": "reasoning_text", "text": part["text"]})
        elif part["text"]:
            draft.item["summary"].append({"type": "summary_text", "text": part["text"]})

    def _paired(self, drafts: list[Draft]) -> Iterator[Item]:
        """The items of one turn, with their ids where the API will not miss anything (FR-104).

        The API refuses a reasoning item without the item that followed it, and an item with an id whose reasoning is
        not there. So reasoning that lost its follower is left out, as is reasoning that the server can read from
        nowhere; an item that lost its reasoning goes without its id, or not at all if it cannot be sent without.
        """
        reasoning: Draft | None = None
        for place, draft in enumerate(drafts):
            if draft.is_reasoning:
                is_readable = self._is_stored or "encrypted_content" in draft.item
                reasoning = draft if is_readable and _has_follower(draft, drafts[place + 1 :]) else None
                if reasoning is not None:
                    yield draft.item
                else:
                    why = "what followed it is gone" if is_readable else "the server keeps nothing to read it from"
                    self._warn(f"the reasoning {draft.own['itemId']!r} was left out: {why}")
                continue
            wanted = draft.own.get("reasoningItemId")
            has_reasoning = reasoning is not None and wanted in (None, reasoning.own["itemId"])
            if has_reasoning or (draft.needs_id and wanted is None):
                yield {**draft.item, "id": draft.own["itemId"]} if draft.own.get("itemId") else draft.item
            elif draft.needs_id:
                self._warn(f"{draft.own['itemId']!r} was left out: the reasoning that it came from is gone")
            else:
                yield _without_id(draft.item)

    def _warn(self, message: str) -> None:
        self._warnings.append({"type": "other", "message": message})


class Draft(msgspec.Struct):
    """An item of the assistant's, without its id, and what the provider said about it."""

    item: Item
    own: dict[str, Any]

    @property
    def is_reasoning(self) -> bool:
        """Whether it is reasoning, which needs the item that followed it."""
        return self.item.get("type") == "reasoning"

    @property
    def needs_id(self) -> bool:
        """Whether the API takes such an item only with its id."""
        return self.item.get("type") not in (None, "message", "function_call")

    def continues(self, own: dict[str, Any]) -> bool:
        """Whether text with these provider options belongs to the same message."""
        return self.item.get("type") == "message" and self.own["itemId"] == own.get("itemId")


def _has_follower(reasoning: Draft, rest: list[Draft]) -> bool:
    for draft in rest:
        if draft.is_reasoning:
            return False
        if draft.own.get("itemId") and draft.own.get("reasoningItemId") in (None, reasoning.own["itemId"]):
            return True
    return False


def _without_id(item: Item) -> Item:
    if item.get("type") != "message":
        return item
    # A message in the API's own form must have an id; this is the form of those who never got one.
    text = "".join(said.get("text") or said.get("refusal") or "" for said in item["content"])
    return {"role": "assistant", "content": text, **({"phase": item["phase"]} if "phase" in item else {})}


def _to_message(said: Item, own: dict[str, Any]) -> Item:
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [said]}
    return {**message, "phase": own["phase"]} if own.get("phase") else message


def _to_said(text: str, own: dict[str, Any]) -> Item:
    if own.get("refusal"):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}
