"""Packages that interlock does not bring itself, and the extras that do."""

from __future__ import annotations

from importlib.util import find_spec

from interlock.errors import ConfigurationError


def require_package(package: str, extra: str, who: str) -> None:
    """Raise if ``package`` is not installed.

    Args:
        package: The name it is imported by.
        extra: The extra of interlock that brings it.
        who: What needs it, for the error.

    Raises:
        ConfigurationError: It is missing; the message has the command that installs it.
    """
    if find_spec(package) is None:
        raise ConfigurationError(f"{who} needs the package {package}: pip install 'interlock[{extra}]'")
