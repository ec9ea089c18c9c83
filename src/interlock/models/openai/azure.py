"""Azure's way to address OpenAI's models: a resource, deployments in it, and dated versions of the API."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from interlock.models.network import require_address

_V1 = "/openai/v1"


class Azure(msgspec.Struct, frozen=True, kw_only=True):
    """Where an Azure OpenAI resource is; a model's id is then the name of a deployment in it."""

    endpoint: str
    """The resource, such as ``https://acme.openai.azure.com``."""
    api_version: str | None = None
    """A dated version such as ``2024-10-21``; ``None`` for the API without dates, ``/openai/v1``."""

    def url(self, path: str, deployment: str) -> str:
        """The address of ``path``, which is ``chat/completions`` or ``responses``, for a deployment.

        Raises:
            ConfigurationError: ``endpoint`` is no address.
        """
        parts = urlsplit(require_address(self.endpoint, "the Azure endpoint", "https://acme.openai.azure.com"))
        root = parts.path.rstrip("/").removesuffix(_V1).removesuffix("/openai")
        if self.api_version is None:
            return urlunsplit((parts.scheme, parts.netloc, f"{root}{_V1}/{path}", "", ""))
        # With dates, the deployment stands in the path; only the newer endpoints look for it in the body.
        place = f"deployments/{quote(deployment, safe='')}/{path}" if path == "chat/completions" else path
        query = f"api-version={quote(self.api_version, safe='')}"
        return urlunsplit((parts.scheme, parts.netloc, f"{root}/openai/{place}", query, ""))
