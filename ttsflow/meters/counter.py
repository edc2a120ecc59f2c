"""A counter of energy that only climbs, but for when it wraps or starts anew."""

from __future__ import annotations

import math

__all__ = ["Counter"]


class Counter:
    """Joules since the first value of a counter, of ``unit`` joules a count.

    A counter with a ``span`` starts at 0 again after so many counts: one that went back has wrapped if that
    makes it less than half the span, the way that is shorter. Any other that went back has been reset, and
    what was counted meanwhile is lost, never negative. Values that are no number are passed over; the next
    good one makes up for them.
    """

    __slots__ = ("_last", "_span", "_unit", "joules")

    def __init__(self, unit: float, span: float | None = None) -> None:
        self.joules = 0.0
        self._unit = unit
        self._span = span
        self._last: float | None = None

    def take(self, value: float) -> float:
        """Note a value and return the joules so far."""
        if not math.isfinite(value) or value < 0:
            return self.joules
        if self._last is not None:
            gain = value - self._last
            if gain < 0 and self._span is not None:
                around = gain + self._span
                gain = around if 0 <= around <= self._span / 2 else 0.0
            self.joules += max(0.0, gain) * self._unit
        self._last = value
        return self.joules
