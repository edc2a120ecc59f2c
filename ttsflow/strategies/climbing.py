"""How many samples of a vote to draw next, when a query has a fixed price and each sample in it one more.

The best plan by dynamic programming over the votes there can be: the value of votes is the best of stopping,
where the leader wins with the chance S (``worth.stability``), and of a query for one of the higher rungs,
which is the mean value of the votes behind it less what it costs. Votes follow the urn of ``worth``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ttsflow.strategies.worth import stability

__all__ = ["LARGEST", "Prospect", "effort", "plan"]

#: Votes beyond which plans are not made: there are 5,604 sets of counts of 30 votes, and 231 of 16.
LARGEST = 16

Votes = tuple[int, ...]

#: A rung, and what a query for it is expected to bring above its price, in stability.
Prospect = tuple[int | None, float]


def plan(
    votes: Sequence[int],
    rungs: Sequence[int],
    *,
    fixed: float,
    each: float,
    alpha: float = 1.0,
    options: int | None = None,
) -> Prospect:
    """Return to which of ``rungs`` to draw now, None for no more, and what that adds to stopping here.

    The vote ends at the last of them. ``fixed`` is the price of a query and ``each`` that of a sample in it,
    both in stability: price times the stability that a unit of cost has to bring. Without any vote stopping
    is worth nothing. Raises ``ValueError`` for a vote of more than ``LARGEST``.
    """
    if rungs[-1] > LARGEST:
        raise ValueError(f"plans are made for votes of up to {LARGEST}, this one has {rungs[-1]}.")
    start = tuple(sorted((count for count in votes if count), reverse=True))
    # In two digits, so that prices that hardly differ have one table.
    policy = _policy(tuple(rungs), _rounded(fixed), _rounded(each), alpha, options)
    rung, value = policy.best(start)
    return rung, value - policy.stopping(start)


class _Policy:
    """The best plans at fixed prices, each worked out when it is first needed."""

    def __init__(
        self, rungs: tuple[int, ...], fixed: float, each: float, alpha: float, options: int | None
    ) -> None:
        self._rungs = rungs
        self._fixed = fixed
        self._each = each
        self._alpha = alpha
        self._options = options
        self._known: dict[Votes, Prospect] = {}

    def stopping(self, votes: Votes) -> float:
        """Return what votes are worth when no more are drawn."""
        return stability(votes, self._rungs[-1], self._alpha, self._options) if votes else 0.0

    def best(self, votes: Votes) -> Prospect:
        """Return the rung to draw to, None for no more, and what the votes are worth then."""
        if votes in self._known:
            return self._known[votes]
        drawn = sum(votes)
        found: Prospect = None, self.stopping(votes)
        for rung in self._rungs:
            if rung > drawn:
                more = rung - drawn
                after = _further(votes, more, self._alpha, self._options)
                mean = sum(chance * self.best(then)[1] for then, chance in after)
                value = mean - self._fixed - self._each * more
                if value > found[1] + 1e-12:
                    found = rung, value
        self._known[votes] = found
        return found


_policy = lru_cache(maxsize=1 << 12)(_Policy)


def _rounded(price: float) -> float:
    return float(f"{price:.2g}")


@lru_cache(maxsize=1 << 12)
def effort(
    rungs: tuple[int, ...], fixed: float, each: float, alpha: float = 1.0, options: int | None = None
) -> tuple[float, float]:
    """Return how many queries and how many samples ``plan`` takes on average for a question of the urn.

    Prices are those of ``plan``. The first rung is climbed whatever it costs. Both fall as prices rise.
    """
    queries = samples = 0.0
    reached: dict[Votes, float] = {(): 1.0}
    while reached:
        after: dict[Votes, float] = {}
        for votes, chance in reached.items():
            rung, _ = plan(votes, rungs, fixed=fixed, each=each, alpha=alpha, options=options)
            if not votes:
                rung = rung or rungs[0]
            if rung is None:
                continue
            queries += chance
            samples += chance * (rung - sum(votes))
            for then, part in _further(votes, rung - sum(votes), alpha, options):
                after[then] = after.get(then, 0.0) + chance * part
        reached = after
    return queries, samples


@lru_cache(maxsize=1 << 14)
def _further(votes: Votes, more: int, alpha: float, options: int | None) -> tuple[tuple[Votes, float], ...]:
    """Return the votes that there can be after so many more, and their chances."""
    if not more:
        return ((votes, 1.0),)
    found: dict[Votes, float] = {}
    for before, chance in _further(votes, more - 1, alpha, options):
        total = sum(before) + alpha
        own = 0.0 if options is None else alpha / options
        for place, count in enumerate(before):
            then = tuple(sorted((*before[:place], count + 1, *before[place + 1 :]), reverse=True))
            found[then] = found.get(then, 0.0) + chance * (count + own) / total
        unseen = alpha if options is None else alpha * (options - len(before)) / options
        if unseen > 0:
            then = (*before, 1)
            found[then] = found.get(then, 0.0) + chance * unseen / total
    return tuple(found.items())
