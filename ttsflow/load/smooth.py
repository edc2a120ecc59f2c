"""A signal smoothed over time."""

from __future__ import annotations

import math

from ttsflow.errors import ConfigError

__all__ = ["SMOOTH", "Smooth", "check_smooth"]

#: The time constant that parts have by default, in seconds.
SMOOTH = 0.5


def check_smooth(seconds: float) -> None:
    """Refuse a time constant that is none. Raises ``ConfigError`` at the field ``smooth``."""
    if not 0 <= seconds <= 3600:
        raise ConfigError(
            f"seconds of smoothing lie between 0 (none) and 3600, got {seconds}; {SMOOTH} is the default.",
            "smooth",
        )


class Smooth:
    """An exponential mean: what was ``constant`` seconds ago counts e times less.

    Exact for a signal that is constant between two values: y <- x + (y - x) exp(-seconds / constant). Before
    the first value it is 0; the first one stands for all that was before it.
    """

    def __init__(self, constant: float) -> None:
        self._constant = constant
        self._mean: float | None = None

    @property
    def value(self) -> float:
        """The mean by now, within 0 and 1 whatever was added."""
        return min(1.0, max(0.0, self._mean or 0.0))

    def add(self, value: float, seconds: float) -> None:
        """Say that the signal was ``value`` for the last ``seconds``; no finite number: nothing is said."""
        if not math.isfinite(value) or not seconds >= 0:
            return
        if self._mean is None or self._constant == 0:
            self._mean = value
            return
        self._mean = value + (self._mean - value) * math.exp(-seconds / self._constant)
