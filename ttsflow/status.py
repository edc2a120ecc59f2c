"""How far a run has come, for a display."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Status"]


@dataclass(slots=True)
class Status:
    """A live view of a run, for a display; ``seconds`` on the engine's clock."""

    problems: int = 0
    done: int = 0
    graded: int = 0
    correct: int = 0
    in_flight: int = 0
    live: int = 0
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0
