"""A provider prompt (R4.9) as the contents and the system instruction of a Gemini request."""

from __future__ import annotations

import re
from typing import Any

from interlock.errors import ModelError
from interlock.models.base import Prompt
from interlock.models.google.tools import is_own, to_tool_part
from interlock.models.prompt_parts import bare_data, base64_of, call_args, image_type, options_of, output_parts

FILES_URL = "https://generativelanguage.googleapis.com/v1beta/files/"
"""Where files are that were uploaded to the API before."""

SUPPORTED_URLS = {
    "*": [
        "^" + re.escape(FILES_URL),
        r"^https://(?:www\.)?youtube\.com/watch\?",
        r"^https://youtu\.be/",
    ]
}
"""Addresses that every Gemini loads itself; some take any, but refuse what they cannot reach (R4.16)."""

UNCHECKED_SIGNATURE = "skip_thought_signature_validator"
"""Stands where Gemini 3 wants a signature and the call was not its own, as Google's page on thought signatures says."""

_FILE_ID = re.compile(r"files/[a-z0-9-]{1,40}")
_FILE_OPTIONS = ("mediaResolution", "videoMetadata")


class GooglePrompt:
    """Reads a prompt.

    Args:
        prompt: What is to be sent.
        provider: Namespace of the options that concern this API.
        is_before_3: Whether the model is older than Gemini 3, which signs every call and looks into results.
        warnings: Takes what cannot be sent.

    Raises:
        ModelError: The prompt holds something that this API cannot carry.
    """

    def __init__(self, prompt: Prompt, provider: str, *, is_before_3: bool, warnings: list[dict[str, Any]]) -> None:
        self.system: list[str] = []
        """Texts of the system messages."""
        self.contents: list[dict[str, Any]] = []
        self._provider = provider
        self._is_before_3 = is_before_3
        self._warnings = warnings
        for message in prompt:
            self._add(message)
        if not self.contents or self.contents[0]["role"] != "user":
            # The first word must be the user's.
            self.contents.insert(0, {"role": "user", "parts": [{"text": "."}]})

    def _add(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["role"]:
            case "system":
                self.system.append(content)
            case "user":
                self._say("user", [part for one in content if (part := self._to_user_part(one)) is not None])
            case "assistant":
                self._say("model", self._to_model_parts(content))
            case "tool":
                parts = [part for one in content for part in self._to_results(one)]
                # All results of a step are one turn, however many messages they come in.
                if self.contents and "functionResponse" in self.contents[-1]["parts"][0]:
                    self.contents[-1]["parts"] += parts
                else:
                    self._say("user", parts)
            case role:
                raise ModelError(f"a prompt message has the role {role!r}; it is system, user, assistant or tool")

    def _say(self, role: str, parts: list[dict[str, Any]]) -> None:
        """Add a turn; what the model says in a row is one."""
        if not parts:
            return
        if role == "model" and self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _options(self, part: dict[str, Any]) -> dict[str, Any]:
        return options_of(part, self._provider)

    def _to_user_part(self, part: dict[str, Any]) -> dict[str, Any] | None:
        if part["type"] == "text":
            return {"text": part["text"]} if part["text"].strip() else None
        if part["type"] != "file":
            raise ModelError(f"a user message has a part of type {part['type']!r}, which Gemini cannot carry")
        return self._to_file(part)

    def _to_file(self, part: dict[str, Any]) -> dict[str, Any]:
        data = bare_data(part)
        media_type = image_type(part["mediaType"], data)
        options = self._options(part)
        details = {name: options[name] for name in _FILE_OPTIONS if name in options}
        if _FILE_ID.fullmatch(data):
            data = FILES_URL + data.removeprefix("files/")
        if data.startswith(("https://", "http://", "gs://")):
            return {"fileData": {"mimeType": media_type, "fileUri": data}, **details}
        return {"inlineData": {"mimeType": media_type, "data": base64_of(part)}, **details}

    def _to_model_parts(self, content: list[dict[str, Any]]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for one in content:
            part = self._to_model_part(one)
            if part is None:
                continue
            signature = self._options(one).get(
                "resultSignature" if one["type"] == "tool-result" else "thoughtSignature"
            )
            if signature:
                part["thoughtSignature"] = signature
            parts.append(part)
        self._sign_first_call(parts)
        return parts

    def _to_model_part(self, part: dict[str, Any]) -> dict[str, Any] | None:
        is_signed = "thoughtSignature" in self._options(part)
        match part["type"]:
            case "text":
                return {"text": part["text"]} if part["text"].strip() or is_signed else None
            case "reasoning":
                # Thoughts without a signature are a summary, which the API has no use for.
                if not is_signed:
                    return None
                return {"text": part["text"], **({"thought": True} if part["text"] else {})}
            case "file":
                return self._to_file(part)
            case "tool-call" if not part.get("providerExecuted"):
                call = {"id": part["toolCallId"], "name": part["toolName"], "args": call_args(part["input"])}
                return {"functionCall": call}
            case "tool-call" | "tool-result" if is_own(self._options(part)):
                return to_tool_part(part, self._options(part))
            case kind:
                message = f"an assistant message had a part of type {kind!r}, which Gemini cannot carry"
                self._warnings.append({"type": "other", "message": message})
                return None

    def _sign_first_call(self, parts: list[dict[str, Any]]) -> None:
        """Calls of a step that another model made have no signature, which Gemini 3 takes for a fault."""
        call = next((part for part in parts if "functionCall" in part), None)
        if call is not None and not self._is_before_3:
            call.setdefault("thoughtSignature", UNCHECKED_SIGNATURE)

    def _to_results(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        """The result of a call; files in it are parts of it, or stand beside it for a model that looks only there."""
        output = part["output"]
        value = output.get("value")
        files: list[dict[str, Any]] = []
        if output["type"] == "content":
            told = list(output_parts(output))
            files = [self._to_file(item) for item in told if item["type"] == "file"]
            value = "\n".join(item["text"] for item in told if item["type"] == "text")
        key = "error" if output["type"].startswith("error") else "output"
        response = {"id": part["toolCallId"], "name": part["toolName"], "response": {key: value}}
        if not files:
            return [{"functionResponse": response}]
        if self._is_before_3:
            return [{"functionResponse": response}, *files]
        return [{"functionResponse": {**response, "parts": files}}]
