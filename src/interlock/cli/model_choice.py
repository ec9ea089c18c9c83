"""Which model a command runs: the one it was given, the agent's own, or the embedded one."""

from __future__ import annotations

from collections.abc import Callable

from interlock import Agent, ConfigurationError
from interlock.cli.failures import UsageFailure
from interlock.models import LanguageModel, missing_key_variable, resolve_model

STAND_IN = "local/smollm2"


def choose_model(
    agent: Agent,
    given: str | None,
    tell: Callable[[str], None],
    *,
    resolve: Callable[[str], LanguageModel] = resolve_model,
) -> LanguageModel | None:
    """The model to run instead of the agent's own; ``None`` if that is no string and so is nothing to resolve.

    Args:
        agent: The agent to be run.
        given: A model string that replaces the agent's model.
        tell: Called with one line if the embedded model stands in, because the agent's needs a key that is not there.
        resolve: Makes a model of a string.

    Raises:
        UsageFailure: a model string that cannot be resolved.
    """
    own = agent.default_options.get("model", agent.model)
    name = given if given is not None else own
    if not isinstance(name, str):
        return None
    variable = None
    try:
        variable = missing_key_variable(name) if given is None else None
        if variable is None:
            return resolve(name)
        model = resolve(STAND_IN)
    except ConfigurationError as error:
        missing = f"{name} needs {variable}, which is not set, and nothing can stand in: " if variable else ""
        raise UsageFailure(f"{missing}{error}") from error
    tell(f"{variable} is not set: running {STAND_IN} instead of {name} (choose another with --model)")
    return model
