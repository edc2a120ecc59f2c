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
    most = rungs[-1]
    if most > LARGEST:
        raise ValueError(f"plans are made for votes of up to {LARGEST}, this one has {most}.")
    known: dict[Votes, Prospect] = {}
    start = tuple(sorted((count for count in votes if count), reverse=True))

    def best(votes: Votes) -> Prospect:
        if votes not in known:
            drawn = sum(votes)
            stop = stability(votes, most, alpha, options) if votes else 0.0
            found: Prospect = None, stop
            for rung in rungs:
                if rung > drawn:
                    more = rung - drawn
                    mean = sum(
                        chance * best(then)[1] for then, chance in _further(votes, more, alpha, options)
                    )
                    value = mean - fixed - each * more
                    if value > found[1] + 1e-12:
                        found = rung, value
            known[votes] = found
        return known[votes]

    rung, value = best(start)
    return rung, value - (stability(start, most, alpha, options) if start else 0.0)


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
