"""What each arm costs in each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ttsflow.controllers.tables import Floats, dumped, loaded

__all__ = ["ArmCosts"]

#: As how many observations a guess counts.
_GUESSES = 2.0
_ROUNDS = 2
_LEAST, _LARGEST = 1e-100, 1e100


class ArmCosts:
    """Mean costs of arms by cell: the declared cost times a factor of the cell and one of the arm.

    ``declared`` are costs in proportion to each other, in any unit (samples, say); what one of that unit
    costs in the unit of what is observed is learnt from the first observation on. The factors are those of a
    table whose margins are fitted in turn (iterative proportional fitting, Deming and Stephan 1940), each
    held near 1 by a guess that counts as two observations; the (cell, arm) itself is corrected likewise.
    ``seen`` is for how many questions each cell had, kept by the caller.
    """

    def __init__(self, declared: Floats) -> None:
        self.declared = declared
        none = np.zeros((0, declared.size))
        self.counts, self.sums, self.squares = none, none.copy(), none.copy()
        self.seen = list[float]()

    def grow(self) -> None:
        """Make room for one cell more."""
        row = np.zeros((1, self.declared.size))
        self.counts, self.sums, self.squares = (
            np.vstack((table, row)) for table in (self.counts, self.sums, self.squares)
        )
        self.seen.append(0.0)

    def learn(self, cell: int, arm: int, cost: float | None) -> bool:
        """Take in one cost, and return whether it was taken in.

        One that is None, not finite or not above 0 (1e-100 to 1e100 pass) is a measurement that failed.
        """
        if cost is None or not _LEAST < cost < _LARGEST:
            return False
        self.counts[cell, arm] += 1
        self.sums[cell, arm] += cost
        self.squares[cell, arm] += cost * cost
        return True

    def state(self) -> dict[str, list[list[float]]]:
        """Return what was observed, as lists that JSON can hold."""
        return {**dumped(counts=self.counts, sums=self.sums, squares=self.squares), "seen": [list(self.seen)]}

    def load(self, state: Mapping[str, Any], cells: int) -> None:
        """Take in a state in place of what was observed. Raises ``ValueError`` for what is none."""
        shape = (cells, self.declared.size)
        self.counts, self.sums, self.squares = (
            loaded(state, name, shape) for name in ("counts", "sums", "squares")
        )
        self.seen = list(map(float, loaded(state, "seen", (1, cells))[0]))

    @property
    def known(self) -> bool:
        """Whether anything was observed, so that costs are in the unit of what is observed."""
        return bool(self.counts.any())

    def estimate(self) -> Floats:
        """Return mean costs, shape (cells + 1, arms); the last row is a cell not seen yet."""
        empty = np.zeros((1, self.declared.size))
        counts, sums = np.vstack((self.counts, empty)), np.vstack((self.sums, empty))
        unit = float(sums.sum() / (counts * self.declared).sum()) if self.known else 1.0
        base = unit * self.declared
        ratios = sums / base
        cells, arms = np.ones((counts.shape[0], 1)), np.ones(self.declared.size)
        for _ in range(_ROUNDS):
            many = counts.sum(axis=1, keepdims=True)
            cells = (_GUESSES + (ratios / arms).sum(axis=1, keepdims=True)) / (_GUESSES + many)
            arms = (_GUESSES + (ratios / cells).sum(axis=0)) / (_GUESSES + counts.sum(axis=0))
        factors = cells * arms
        estimate: Floats = base * (_GUESSES * factors + ratios) / (_GUESSES + counts)
        return estimate

    def deviation(self, estimate: Floats) -> float:
        """Return the standard deviation of a cost about its ``estimate``, as a share of that; 0 with no cost.

        One for all arms and cells. That of an arm alone would be known last where it is dear and rarely run.
        """
        if not self.known:
            return 0.0
        mean = estimate[:-1]
        squares = self.squares / mean**2 - 2 * self.sums / mean + self.counts
        return math.sqrt(max(0.0, float(squares.sum() / self.counts.sum())))
