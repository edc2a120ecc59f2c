"""The law of votes still to come, given those cast: an urn from which every vote is drawn.

Of n votes cast, the next one is for an answer that has c of them with chance c / (n + alpha), and for an
answer that nobody gave yet with chance alpha / (n + alpha): Polya's urn, also called the Chinese restaurant
process with concentration alpha. Where an answer is one of K options it is (c + alpha/K) / (n + alpha) for
each of them, a symmetric Dirichlet prior of alpha in all; with K growing the two become the same.

The answers with most votes win and share the win equally. A win chance is then a martingale: what it is now
is the mean of what it will be after the next vote.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["DRAWS", "LARGEST", "STATES", "enumerated", "simulated", "states"]

DRAWS = 2048
"""Runs of a simulation: its standard error is at most 0.011."""
STATES = 4096
"""Most sets of counts that are enumerated; that takes a twentieth of a second. Beyond it is simulated."""
LARGEST = 1024
"""Most answers, those to come among them, that are simulated; that takes about 50 MiB and half a second."""

Counts = tuple[int, ...]


def states(counts: Counts, further: int) -> int:
    """Return a bound on the sets of counts that ``further`` votes lead to, at the end and on the way.

    The lower of two: all sets of as many votes, and all ways to add votes to these ``counts``, each answer
    told from the others. Quick for any numbers; above ``STATES`` it counts no further.
    """
    return min(_ways(0, sum(counts) + further), _ways(len(counts), further))


def _ways(known: int, votes: int) -> int:
    """Return in how many ways up to j votes go to so many known answers and to new ones, summed over j.

    New answers differ in nothing but their votes. It is a coefficient of 1 / (1 - x)^(known + 2) (1 - x^2)
    (1 - x^3) ..., multiplied out one factor after the other.
    """
    ways = [1] + [0] * min(votes, STATES)
    for part in [1] * min(known + 2, STATES) + list(range(2, len(ways))):
        for at in range(part, len(ways)):
            ways[at] += ways[at - part]
        if ways[-1] > STATES:
            break
    return ways[-1]


@lru_cache(maxsize=1 << 14)
def enumerated(counts: Counts, further: int, alpha: float, options: int | None) -> tuple[float, ...]:
    """Return by j, from 0 to ``further``, the mean win chance of whoever leads after j more votes.

    ``counts`` are the votes of each answer in descending order; the win is decided ``further`` votes from
    now, and its chance is the one seen after j of them. The first entry is the chance of today's leader, one
    of them where several lead; 0 where nobody has a vote. Exact: all sequences of votes are summed, those
    that lead to the same counts together. Takes time by the number of ``states``.
    """
    found = []
    reached: dict[Counts, float] = {counts: 1.0}
    for left in range(further, -1, -1):
        # Who has most votes also has the highest chance, so the first of the sorted ones is the best.
        wins = [(chance, _wins(state, left, alpha, options)) for state, chance in reached.items()]
        found.append(min(1.0, math.fsum(chance * win[0] for chance, win in wins if win)))
        if left:
            reached = _spread(reached, alpha, options)
    return tuple(found)


def _spread(reached: dict[Counts, float], alpha: float, options: int | None) -> dict[Counts, float]:
    """Return the chances of all sets of counts one vote later."""
    later: dict[Counts, float] = {}
    for state, chance in reached.items():
        for _, _, share, after in _next(state, alpha, options):
            later[after] = later.get(after, 0.0) + chance * share
    return later


@lru_cache(maxsize=1 << 16)
def _wins(counts: Counts, left: int, alpha: float, options: int | None) -> tuple[float, ...]:
    """Return the win chance of every answer that has votes, ``left`` votes before the end."""
    if not counts:
        return ()
    if not left:
        tied = counts.count(counts[0])
        return (1 / tied,) * tied + (0.0,) * (len(counts) - tied)
    second = counts[1] if len(counts) > 1 else 0
    if counts[0] - second > left:
        return (1.0,) + (0.0,) * (len(counts) - 1)
    chances = [0.0] * len(counts)
    for at, many, share, after in _next(counts, alpha, options):
        wins = _wins(after, left - 1, alpha, options)
        # The vote goes to any of those that had as many, and each of them is that one as often.
        any_of_them = sum(wins[at : at + many]) / max(many, 1)
        for place in range(len(counts)):
            chances[place] += share * (any_of_them if at <= place < at + many else wins[place])
    return tuple(chances)


def _next(counts: Counts, alpha: float, options: int | None) -> Iterator[tuple[int, int, float, Counts]]:
    """Yield where the next vote may go: to one of equal counts, or to a new answer.

    By first place among ``counts``, how many are equal, the chance of all of these, and the counts after.
    """
    total = sum(counts) + alpha
    unseen = alpha / options if options else 0.0
    at = 0
    while at < len(counts):
        many = counts.count(counts[at])
        share = many * (counts[at] + unseen) / total
        yield at, many, share, (*counts[:at], counts[at] + 1, *counts[at + 1 :])
        at += many
    if options is None or len(counts) < options:
        yield at, 0, (alpha - len(counts) * unseen) / total, (*counts, 1)


@lru_cache(maxsize=1 << 10)
def simulated(
    counts: Counts,
    further: int,
    alpha: float,
    options: int | None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, ...]:
    """Return what ``enumerated`` does, as the mean over ``draws`` runs of the urn: the paper's way.

    The same ``seed`` gives the same numbers. All entries are of the same runs, so that what they have in
    common does not blur their differences. Takes ``draws`` times ``further`` steps.
    """
    import numpy as np  # noqa: PLC0415 - only large counts need it

    random = np.random.default_rng(seed)
    runs, cast, known = np.arange(draws), sum(counts), len(counts)
    votes = np.zeros((draws, options or max(1, known + further)), np.int32)
    votes[:, :known] = counts
    limits, given = np.cumsum(counts), np.empty((further, draws), np.int32)
    lead, most = np.zeros(draws, np.int32), votes[:, 0].copy()
    leaders = [lead]
    for step in range(further):
        # A vote repeats one of those before it, all of them alike, or is bound by none.
        ticket = random.random(draws) * (cast + step + alpha)
        old = np.searchsorted(limits, ticket, side="right")
        new = random.integers(0, options, draws) if options else known + step
        choice = np.where(ticket < cast, old, new)
        (again,) = np.nonzero((ticket >= cast) & (ticket < cast + step))
        choice[again] = given[(ticket[again] - cast).astype(np.int64), again]
        given[step] = choice
        votes[runs, choice] += 1
        ahead = votes[runs, choice] > most
        lead, most = np.where(ahead, choice, lead).astype(np.int32), most + ahead
        leaders.append(lead)
    won = votes == most[:, None]
    shares = won / won.sum(axis=1, keepdims=True)
    means = [float(shares[runs, place].mean()) for place in leaders]
    return tuple(means) if counts else (0.0, *means[1:])
