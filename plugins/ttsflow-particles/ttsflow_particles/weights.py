"""Weights of particles, as logarithms, and draws in proportion to them."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

__all__ = ["How", "Weigh", "draw", "effective", "factor", "shares"]

#: What one step multiplies a particle's weight by, T the temperature: its odds (s / (1 - s))^(1/T), as in the
#: reference implementation of arXiv 2502.01618; exp(s / T); the likelihood s^(1/T) of the paper's state-space
#: model; or what it has become since the last step, (s / s before)^(1/T), so that the product is s^(1/T).
Weigh = Literal["logit", "softmax", "likelihood", "ratio"]

#: Ways to draw from weights; in all of them a particle has its share of the draws on average.
How = Literal["multinomial", "stratified", "systematic"]

#: Scores of 0 and 1 count as this far from it.
_CLOSE = 1e-7


def factor(score: float, before: float | None, weigh: Weigh, temperature: float) -> float:
    """Return the logarithm of what a step multiplies the weight of a particle by.

    ``before`` is its score one step ago, None when it has just begun. Raises ``ValueError`` for a score that
    is no probability, except with ``softmax``.
    """
    if weigh == "softmax":
        return score / temperature
    now = _probability(score)
    if weigh == "logit":
        now = min(now, 1 - _CLOSE)
        return math.log(now / (1 - now)) / temperature
    old = 1.0 if before is None or weigh == "likelihood" else _probability(before)
    return math.log(now / old) / temperature


def _probability(score: float) -> float:
    if not 0 <= score <= 1:
        msg = f"a score of {score:.4g} is no probability: set `weigh: softmax`."
        raise ValueError(msg)
    return max(score, _CLOSE)


def shares(logs: Sequence[float]) -> list[float]:
    """Return weights that sum to 1; an empty list when there is none above 0."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return []
    weights = [math.exp(log - top) for log in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def effective(weights: Sequence[float]) -> float:
    """Return the effective sample size of weights that sum to 1: between 1 and their number."""
    return 1 / math.fsum(weight * weight for weight in weights)


def draw(weights: Sequence[float], count: int, how: How, rng: random.Random) -> list[int]:
    """Return ``count`` places in ascending order; each comes ``count`` times its weight on average.

    Multinomial draws are independent. Stratified ones take one from each of ``count`` equal parts, systematic
    ones the same place in every part, so that a weight w comes floor or ceil of w * ``count`` times.
    """
    if how == "multinomial":
        points = [rng.random() for _ in range(count)]
    elif how == "stratified":
        points = [(place + rng.random()) / count for place in range(count)]
    else:
        shift = rng.random()
        points = [(place + shift) / count for place in range(count)]
    sums = list(accumulate(weights))
    last = max(place for place, weight in enumerate(weights) if weight > 0)
    return sorted(min(bisect_right(sums, point * sums[-1]), last) for point in points)
