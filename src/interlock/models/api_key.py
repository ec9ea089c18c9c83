"""A key for a provider, kept out of everything that is shown."""

from __future__ import annotations

from interlock.errors import ConfigurationError


class ApiKey:
    """A key that shows itself only when asked.

    Args:
        value: The key; white space around it is dropped, as files and shells tend to add some.
        name: Where it came from, for the error.

    Raises:
        ConfigurationError: It cannot be sent in a header.
    """

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str = "api_key") -> None:
        self.name = name
        value = value.strip()
        if not value or not value.isascii() or not value.isprintable():
            raise ConfigurationError(f"{name} is empty or has characters that no API key has: copy the key again")
        self._value = value

    def reveal(self) -> str:
        """The key itself, for a request header."""
        return self._value

    def hidden_in(self, text: str) -> str:
        """``text`` with the key blacked out; providers quote it in errors."""
        return text.replace(self._value, "***")

    def __repr__(self) -> str:
        return "ApiKey(***)"
