"""How likely a candidate survives its round, and what that is worth."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

__all__ = ["survival", "tiered"]


def survival(score: float, known: Sequence[float], pending: int, slots: int) -> float:
    """Return the chance that a candidate is among the best ``slots`` of its round.

    ``known`` are the scores so far in ascending order, its own among them; ``pending`` others have none yet.
    Of them each is better with chance (b + 1) / (k + 1) where b of the k known ones are (the rule of
    succession with its own score as one draw), and independent of the others. 1 and 0 are certain. The tail
    of the binomial is exact up to 64 pending ones, beyond that by the normal distribution.
    """
    better = len(known) - bisect_right(known, score)
    ties = bisect_right(known, score) - bisect_left(known, score) - 1
    if better >= slots:
        return 0.0
    if better + max(0, ties) + pending < slots:
        return 1.0
    if pending <= 0:
        # Among equals the first sample stays; which one that is has been left to the search.
        return min(1.0, (slots - better) / (ties + 1))
    chance = (better + 1) / (len(known) + 1)
    return min(1.0 - 1e-9, _at_most(slots - better - 1, pending, chance))


def _at_most(most: int, draws: int, chance: float) -> float:
    """Return P(X <= most) for X ~ Binomial(draws, chance)."""
    if most >= draws:
        return 1.0
    if chance >= 1:
        return 0.0
    if draws > 64:
        mean, deviation = draws * chance, math.sqrt(draws * chance * (1 - chance))
        return (1 + math.erf((most + 0.5 - mean) / (deviation * math.sqrt(2)))) / 2
    term = total = (1 - chance) ** draws
    for successes in range(1, most + 1):
        term *= (draws - successes + 1) / successes * chance / (1 - chance)
        total += term
    return min(1.0, total)


def tiered(chance: float, children: int, tiers: int) -> int:
    """Return how many of a candidate's children are worth a try.

    Candidates fall into ``tiers`` tiers by their chance; the best has all its children tried, the j-th the
    share (tiers - j + 1) / tiers of them, rounded up (FastTTS, arXiv 2509.00195, section 4.1, where a tier
    is one of scores). With no chance at all there is nothing to try.
    """
    if chance <= 0:
        return 0
    tier = min(tiers, 1 + math.floor((1 - chance) * tiers))
    return math.ceil(children * (tiers - tier + 1) / tiers)
