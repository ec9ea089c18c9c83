"""Messages: their parts, the list that holds a run's conversation, and its forms for models, UIs and storage."""

from interlock.messages._attempt import Attempt
from interlock.messages._copying import copy_data, copy_given, copy_message
from interlock.messages._merge import pending_tool_invocations
from interlock.messages._model_output import noted_output
from interlock.messages._system import FEEDBACK_PREFIX, FEEDBACK_TAG, SystemMessage
from interlock.messages._timeline import Source
from interlock.messages._ui import to_ui_message
from interlock.messages.message_list import MessageList
from interlock.messages.parts import Message, MessageContent, Part, part_from_dict
from interlock.messages.prompt import PromptMessage
from interlock.messages.saving import saved_form, saved_forms
from interlock.messages.text import get_text, texts_of

__all__ = [
    "FEEDBACK_PREFIX",
    "FEEDBACK_TAG",
    "Attempt",
    "Message",
    "MessageContent",
    "MessageList",
    "Part",
    "PromptMessage",
    "Source",
    "SystemMessage",
    "copy_data",
    "copy_given",
    "copy_message",
    "get_text",
    "noted_output",
    "part_from_dict",
    "pending_tool_invocations",
    "saved_form",
    "saved_forms",
    "texts_of",
    "to_ui_message",
]
