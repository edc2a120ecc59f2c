"""Which arm of each cell is worth its price when so much may be spent on a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Funds", "Rung", "Taken", "climb", "hull"]


class Rung(NamedTuple):
    """An arm that some price makes the best, and what it earns more per cost than the rung below."""

    arm: int
    cost: float
    slope: float


class Taken(NamedTuple):
    """Rungs of one cell that are worth it: how many, and the share of questions that climb one more."""

    rungs: int
    share: float


class Funds(NamedTuple):
    """What is left, for a question and as many ``after`` it that cost ``each`` at least.

    ``margin`` is by how much a cost may exceed what is expected of it, as a share of that. Costs of different
    questions are independent, so that their margins add up as squares.
    """

    left: float
    after: float = 0.0
    each: float = 0.0
    margin: float = 0.0

    def cover(self, cost: float) -> bool:
        """Return whether a question may cost this much, and those after it be paid for."""
        over = self.margin * math.hypot(math.sqrt(self.after) * self.each, cost)
        return cost + self.after * self.each + over <= self.left


def hull(rewards: Sequence[float], costs: Sequence[float]) -> list[Rung]:
    """Return the arms on the upper hull of reward over cost, the cheapest first, slopes falling.

    The slope of the first is infinite. Of arms that cost the same the one that earns most counts. All
    slopes are above 0: an arm that costs more and earns no more is on no hull.
    """
    order = sorted(range(len(costs)), key=lambda arm: (costs[arm], -rewards[arm], arm))
    rungs = [Rung(order[0], costs[order[0]], float("inf"))]
    for arm in order[1:]:
        while True:
            last = rungs[-1]
            more, extra = rewards[arm] - rewards[last.arm], costs[arm] - last.cost
            if more <= 0 or extra <= 0:
                break
            if len(rungs) == 1 or more / extra < last.slope:
                rungs.append(Rung(arm, costs[arm], more / extra))
                break
            rungs.pop()
    return rungs


def climb(
    hulls: Sequence[Sequence[Rung]], weights: Sequence[float], pace: float, least: float
) -> list[Taken]:
    """Return how far up each cell's hull to go so that the mean cost of a question is ``pace``.

    ``weights`` are the shares of questions in each cell, 1 in all. The best rungs over all cells are taken
    first, by slope, until the pace is reached or the slope is not above ``least``: that is the best solution
    of the linear program with the one constraint on cost (the multiple-choice knapsack relaxed, Sinha and
    Zoltners 1979), its price being the last slope. The share of at most one cell lies between 0 and 1.
    """
    room = pace - sum(weight * rungs[0].cost for weight, rungs in zip(weights, hulls, strict=True))
    taken = [Taken(0, 0.0)] * len(hulls)
    steps = sorted(
        (-rungs[at].slope, cell, at) for cell, rungs in enumerate(hulls) for at in range(1, len(rungs))
    )
    for negative, cell, at in steps:
        if room <= 0 or -negative <= least:
            break
        extra = weights[cell] * (hulls[cell][at].cost - hulls[cell][at - 1].cost)
        if extra > room:
            taken[cell] = Taken(at - 1, room / extra)
            break
        room -= extra
        taken[cell] = Taken(at, 0.0)
    return taken
