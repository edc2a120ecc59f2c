"""How much the samples of a run agree: the concentration of the urn by which further votes are foreseen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["Agreement"]

#: Before anything was seen the urn has the concentration 1, as if so many pairs of samples had shown that.
_START, _PAIRS = 1.0, 4.0
#: Values per decade that are told apart, and the ends: plans are worked out anew for each.
_PER_DECADE, _LOW, _HIGH = 12, -18, 18


class Agreement:
    """Learns ``alpha`` of ``ttsflow.strategies.urn`` from how often samples bring an answer not seen before.

    After i samples of a question the next one does so with chance alpha / (alpha + i). The estimate is the
    alpha at which as many would be expected, over all samples that were told of, as there were. Each term is
    right on average whatever decided that the sample was drawn, so that it does not matter that questions
    stop when their samples agree; and it is the maximum of the likelihood (Ewens 1972). Four pairs of samples
    that agree half the time, as at alpha = 1, are put before those seen. It lies between 0.03 and 32, and is
    one of 12 values per decade. It does no I/O.
    """

    def __init__(self) -> None:
        self._fresh = _PAIRS / 2
        #: By samples before it, how many draws there were.
        self._draws: dict[int, float] = {1: _PAIRS}
        self._alpha: float | None = _START

    def observe(self, drawn: int, more: int, fresh: int) -> None:
        """Take in that ``more`` samples after ``drawn`` brought ``fresh`` answers not seen before.

        Raises ``ValueError`` for numbers that cannot be.
        """
        if drawn < 0 or more < 1 or not (not drawn) <= fresh <= more:
            raise ValueError(f"{more} samples after {drawn} cannot bring {fresh} new answers.")
        # The first answer of a question is always new, and tells nothing.
        for before in range(max(1, drawn), drawn + more):
            self._draws[before] = self._draws.get(before, 0.0) + 1
        self._fresh += fresh - (not drawn)
        self._alpha = None

    @property
    def alpha(self) -> float:
        """The concentration."""
        if self._alpha is None:
            low, high = _LOW, _HIGH
            # The lowest value at which at least as many new answers are expected as there were.
            while low < high:
                middle = (low + high) // 2
                # Half a step further: the value in whose reach the solution lies.
                if self._expected(10 ** ((middle + 0.5) / _PER_DECADE)) < self._fresh:
                    low = middle + 1
                else:
                    high = middle
            self._alpha = float(f"{10 ** (low / _PER_DECADE):.3g}")
        return self._alpha

    def _expected(self, alpha: float) -> float:
        return math.fsum(count * alpha / (alpha + before) for before, count in self._draws.items())

    def state(self) -> dict[str, Any]:
        """Return all there is to it, as plain numbers that JSON can hold."""
        return {"alpha": self.alpha, "fresh": self._fresh, "draws": sorted(map(list, self._draws.items()))}

    @classmethod
    def from_state(cls, state: Any) -> Agreement:
        """Return what ``state`` was taken from. Raises ``ValueError`` for what is none."""
        made = cls()
        try:
            made._fresh = float(state["fresh"])
            made._draws = {int(before): float(count) for before, count in state["draws"]}
            counts = made._draws.values()
            fits = isinstance(state, Mapping) and min(made._draws) >= 1 and min(counts) >= 0
            fits = fits and 0 <= made._fresh <= sum(counts) < math.inf
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"this is no saved state of how far samples agree: {error}.") from error
        if not fits:
            raise ValueError("this is no saved state of how far samples agree: its numbers cannot be.")
        made._alpha = None
        return made
