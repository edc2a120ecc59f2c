"""A trace that stays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Heard"]


class Heard:
    """Keeps what a driver says: ``events`` are (kind, problem, data), in order."""

    enabled = True

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Mapping[str, Any]]] = []

    def event(self, kind: str, problem: str, data: Mapping[str, Any]) -> None:
        """Keep an event."""
        self.events.append((kind, problem, data))

    def flush(self) -> None:
        """Do nothing."""

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the data of all events of a kind."""
        return [data for known, _, data in self.events if known == kind]
