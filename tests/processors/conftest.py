from __future__ import annotations

from tests.agent.kit import drive, make

__all__ = ["drive", "make"]
