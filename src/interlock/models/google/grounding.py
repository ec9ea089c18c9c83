"""What Gemini tells beside an answer of where it looked: searches, pages it read, sources it cites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interlock.chunks import Chunk, Source, SourcePayload
from interlock.models.google.tools import FromGoogleTools

GOOGLE_SEARCH = "google_search"
URL_CONTEXT = "url_context"


class Grounding:
    """Gathers it while the answer is streamed, since it comes in pieces and some of it twice."""

    def __init__(self) -> None:
        self.grounding: dict[str, Any] = {}
        self.url_context: dict[str, Any] = {}
        self.citations: dict[str, Any] = {}
        self._sources: dict[str, SourcePayload] = {}

    def add(
        self,
        grounding: dict[str, Any] | None,
        url_context: dict[str, Any] | None,
        citations: dict[str, Any] | None,
    ) -> None:
        """Take the fields of one event, as the API names them without ``Metadata``."""
        if grounding:
            self.grounding |= grounding
            for chunk in grounding.get("groundingChunks") or ():
                self._cite(_source_of(chunk))
        if url_context:
            self.url_context |= url_context
        if citations:
            self.citations |= citations
            for cited in _cited(citations):
                if cited.get("uri"):
                    self._cite(SourcePayload(url=cited["uri"], title=cited.get("title")))

    def tell(self, out: list[Chunk], tools: FromGoogleTools) -> None:
        """Append searches and pages as calls with results, unless the answer had them as parts, then the sources."""
        queries = self.grounding.get("webSearchQueries")
        if queries and not any(name.startswith(GOOGLE_SEARCH) for name in tools.names):
            found = [{"url": one.url, "title": one.title} for one in self._sources.values() if one.url]
            tools.tell(out, GOOGLE_SEARCH, {"queries": queries}, {"sources": found}, "groundingMetadata")
        pages = self.url_context.get("urlMetadata")
        if pages and URL_CONTEXT not in tools.names:
            urls = [page.get("retrievedUrl") for page in pages]
            tools.tell(out, URL_CONTEXT, {"urls": urls}, {"pages": pages}, "urlContextMetadata")
        out.extend(Source(payload=source) for source in self._sources.values())

    def metadata(self) -> dict[str, Any]:
        """Everything as the API said it, for those who place citations in the text."""
        fields = {
            "groundingMetadata": self.grounding,
            "urlContextMetadata": self.url_context,
            "citationMetadata": self.citations,
        }
        return {name: value for name, value in fields.items() if value}

    def _cite(self, source: SourcePayload | None) -> None:
        if source is None:
            return
        key = source.url or source.title or ""
        if key not in self._sources:
            source.id = f"source-{len(self._sources) + 1}"
            self._sources[key] = source


def _source_of(chunk: dict[str, Any]) -> SourcePayload | None:
    if web := chunk.get("web") or chunk.get("maps"):
        return SourcePayload(url=web["uri"], title=web.get("title")) if web.get("uri") else None
    if image := chunk.get("image"):
        return SourcePayload(url=image.get("sourceUri"), title=image.get("title"))
    document = chunk.get("retrievedContext")
    if not document:
        return None
    uri, title = document.get("uri"), document.get("title")
    if uri and uri.startswith(("https://", "http://")):
        return SourcePayload(url=uri, title=title)
    name = (uri or "").rpartition("/")[2]
    return SourcePayload(
        source_type="document",
        title=title or name,
        mime_type="application/octet-stream",
        filename=name or None,
    )


def _cited(citations: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Gemini API and Vertex AI have different names for the same list."""
    yield from citations.get("citationSources") or ()
    yield from citations.get("citations") or ()
