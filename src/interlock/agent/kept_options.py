"""What a stored run keeps of the options that it was started with (R12.37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.agent.state import RunState
from interlock.agent.state_json import is_json
from interlock.agent.structured import structured_output

KEPT_OPTIONS = (
    "model",
    "memory",
    "max_steps",
    "stop_when",
    "prepare_step",
    "toolsets",
    "client_tools",
    "tool_choice",
    "active_tools",
    "tool_call_concurrency",
    "require_tool_approval",
    "input_processors",
    "output_processors",
    "error_processors",
    "max_processor_retries",
    "model_settings",
    "provider_options",
    "structured_output",
    "include_raw_chunks",
)
"""Options without which a stored run would go on as another one: kept if they are JSON, else to be given again."""


def keep_options(state: RunState, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Note in the run's state what a stored run keeps of its options.

    What JSON cannot hold must not make a run that goes on laxer than it was: a function that asks for approval becomes
    approval of everything, and the rest has to be given again (R12.37). So have headers, which may hold keys. What came
    from the agent's defaults comes from there again.
    """
    kept: dict[str, Any] = {}
    required: list[str] = []
    for name in KEPT_OPTIONS:
        if name not in options:
            continue
        value = options[name]
        if name == "require_tool_approval" and callable(value):
            kept[name] = True
        elif name == "active_tools" and value is not None:
            kept[name] = list(value)
        elif name == "structured_output" and is_json(data := _asked_as_data(value)):
            kept[name] = data
        elif is_json(value) and not (name == "model_settings" and value is not None and "headers" in value):
            kept[name] = value
        elif value is not defaults.get(name):
            required.append(name)
    state.options, state.required_options = kept, required


def _asked_as_data(given: Any) -> dict[str, Any] | None:
    asked = structured_output(given)
    return None if asked is None else asked.data
