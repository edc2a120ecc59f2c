"""No load: nothing is looked at."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Idle", "NoLoad"]


@dataclass(frozen=True, slots=True)
class NoLoad:
    """Always 0: nobody else is there, or nobody looks."""

    def check(self) -> None:
        """Accept every machine."""

    def open(self) -> Idle:
        """Return the working monitor."""
        return Idle()


class Idle:
    """A ``LoadMonitor`` that says 0."""

    def read(self, now: float, problem: int) -> float:
        """Return 0."""
        del now, problem
        return 0.0

    def close(self) -> None:
        """Do nothing."""
