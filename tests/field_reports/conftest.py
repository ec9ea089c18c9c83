from __future__ import annotations

from tests.agent.kit import drive

__all__ = ["drive"]
