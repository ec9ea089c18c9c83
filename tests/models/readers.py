"""A reader of each protocol, for events that are handed to it without a server."""

from __future__ import annotations

from functools import partial

from interlock.models.anthropic.reply import FromAnthropic
from interlock.models.anthropic.request import API_VERSION, to_anthropic
from interlock.models.google.reply import FromGoogle
from interlock.models.openai.chat_reply import FromOpenAIChat
from interlock.models.openai.responses_reply import FromOpenAIResponses
from interlock.models.reply import ReplyHead
from tests.models.reading import HI

HEAD = ReplyHead("https://api.example/v1")
READERS = {
    "anthropic": partial(FromAnthropic, HEAD, to_anthropic(HI, "claude-sonnet-5-5", API_VERSION, []), HI),
    "google": partial(FromGoogle, HEAD, HI, "google"),
    "openai_chat": partial(FromOpenAIChat, HEAD, HI, "openai"),
    "openai_responses": partial(FromOpenAIResponses, HEAD, HI, "openai"),
}
