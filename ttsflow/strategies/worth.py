"""What further samples of a vote are worth: how likely today's leader stays, and what could be won by more.

All functions take the votes of each answer, in any order, and the votes or samples at which the question is
settled at the latest, ``most``. ``drawn`` is how many samples there are so far, by default as many as votes:
one without an answer was drawn and has no vote, so that ``most - drawn`` are to come, which are all taken to
vote. ``alpha`` and ``options`` are those of ``ttsflow.strategies.urn``: how much speaks for answers that
nobody gave yet, in votes, and how many different ones there can be, None for any number.

Exact up to ``urn.STATES`` sets of counts: any votes up to ``most`` = 21, and more where a part of them is
cast. Beyond that 2,048 seeded runs of the urn, whose standard error is at most 0.011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ttsflow.errors import ConfigError
from ttsflow.strategies import urn

__all__ = ["best_rate", "one_rung", "prospects", "rates", "stability"]

Cost = Callable[[int], float] | Mapping[int, float]


def stability(
    counts: Iterable[int],
    most: int,
    alpha: float = 1.0,
    options: int | None = None,
    *,
    drawn: int | None = None,
) -> float:
    """Return S, the chance that today's leader wins the vote when it ends at ``most`` samples.

    The leader is one answer: where several lead, one of them, whichever it is. Answers that tie for most
    votes at the end share the win equally, so that two that are tied now have at most one half each. Without
    a vote there is no leader and S is 0. With alpha = 1 and ``most`` = 8 that is .662 at votes (1), .490 at
    (2, 2), .301 at (1, 1, 1) and .500 at (3, 3). Raises as ``prospects``.
    """
    return prospects(counts, most, alpha, options, drawn=drawn)[0]


def prospects(
    counts: Iterable[int],
    most: int,
    alpha: float = 1.0,
    options: int | None = None,
    *,
    drawn: int | None = None,
) -> tuple[float, ...]:
    """Return by j, from 0 to the samples to come, the mean win chance of whoever leads after j more votes.

    The win is decided at ``most`` samples; who leads after j votes is kept to from there. The first entry is
    the stability S. None is below the one before it: the chance of today's leader stays the same on average,
    and one may change the leader. Raises ``ConfigError`` for settings that cannot be, and ``ValueError`` for
    counts that cannot be, or for more answers than are simulated (``urn.LARGEST``).
    """
    votes = tuple(sorted((count for count in counts if count), reverse=True))
    drawn = sum(votes) if drawn is None else drawn
    _check(votes, drawn, most, alpha, options)
    further = max(0, most - drawn)
    lead = votes[0] - (votes[1] if len(votes) > 1 else 0) if votes else 0
    if lead > further:
        return (1.0,) * (further + 1)
    if urn.states(votes, further) <= urn.STATES:
        return urn.enumerated(votes, further, alpha, options)
    if (size := max(len(votes) + further, options or 0)) > urn.LARGEST:
        raise ValueError(
            f"{len(votes)} answers and {further} votes to come can make {size} answers, and at most "
            f"{urn.LARGEST} are foreseen. Ask with a smaller `most`, or with `options` null if they are many."
        )
    return urn.simulated(votes, further, alpha, options)


def one_rung(
    counts: Iterable[int],
    rung: int,
    most: int,
    alpha: float = 1.0,
    options: int | None = None,
    *,
    drawn: int | None = None,
) -> float:
    """Return what going on to ``rung`` samples adds: the mean of the highest win chance there, less S.

    In units of S, for the whole rung. It is 0 where no votes of one rung can change who leads, even if those
    of the next could, as at votes (2, 1) and (3, 1): ``best_rate`` looks further. Raises as ``prospects``,
    and ``ValueError`` for a rung that is not above the samples drawn, or is above ``most``.
    """
    votes = tuple(counts)
    drawn = sum(votes) if drawn is None else drawn
    if not drawn < rung <= most:
        raise ValueError(f"a rung lies above the {drawn} samples drawn and up to {most}, got {rung}.")
    means = prospects(votes, most, alpha, options, drawn=drawn)
    return max(0.0, means[rung - drawn] - means[0])


def rates(
    counts: Iterable[int],
    rungs: Iterable[int],
    most: int,
    *,
    cost: Cost | None = None,
    alpha: float = 1.0,
    options: int | None = None,
    drawn: int | None = None,
) -> dict[int, float]:
    """Return for each higher rung what going on to it adds to S per unit of cost.

    ``rungs`` are the numbers of samples at which one may stop; those up to ``drawn`` and above ``most`` are
    left out. ``cost`` is what it takes to go from here to a rung, by rung, in any unit; by default the number
    of samples. Raises as ``prospects``, and ``ConfigError`` for a cost that is missing or not above 0.
    """
    votes = tuple(counts)
    drawn = sum(votes) if drawn is None else drawn
    means = prospects(votes, most, alpha, options, drawn=drawn)
    higher = sorted({rung for rung in rungs if drawn < rung <= most})
    prices = {rung: rung - drawn if cost is None else _price(cost, rung) for rung in higher}
    return {rung: max(0.0, means[rung - drawn] - means[0]) / prices[rung] for rung in higher}


def best_rate(
    counts: Iterable[int],
    rungs: Iterable[int],
    most: int,
    *,
    cost: Cost | None = None,
    alpha: float = 1.0,
    options: int | None = None,
    drawn: int | None = None,
) -> float:
    """Return the best of ``rates``, 0 where no rung is left: the gain to compare with a price.

    With alpha = 1, ``most`` = 8, rungs 1, 3, 4, 6, 8 and by sample that is .0478 at votes (1), .0346 at
    (2, 1), .131 at (2, 2) and .161 at (3, 3). Arguments and errors are those of ``rates``.
    """
    found = rates(counts, rungs, most, cost=cost, alpha=alpha, options=options, drawn=drawn)
    return max(found.values(), default=0.0)


def _price(cost: Cost, rung: int) -> float:
    if isinstance(cost, Mapping):
        if rung not in cost:
            known = ", ".join(map(str, sorted(cost))) or "none"
            raise ConfigError(f"rung {rung} has no cost; there are costs for {known}.", "cost")
        price = cost[rung]
    else:
        price = cost(rung)
    if not 0 < price < math.inf:
        raise ConfigError(f"a cost lies above 0 and is finite, got {price} for rung {rung}.", "cost")
    return price


def _check(votes: tuple[int, ...], drawn: int, most: int, alpha: float, options: int | None) -> None:
    if most < 1:
        raise ConfigError(f"at least one sample is needed, got {most}.", "most")
    if not 0 < alpha < math.inf:
        raise ConfigError(f"must lie above 0 and be finite, got {alpha}.", "alpha")
    if options is not None and options < 1:
        raise ConfigError(f"there is at least one option, got {options}.", "options")
    if votes and votes[-1] < 0:
        raise ValueError(f"votes are counted from 0, got {votes[-1]}.")
    if drawn < sum(votes):
        raise ValueError(f"{sum(votes)} votes cannot come from {drawn} samples.")
    if options is not None and len(votes) > options:
        raise ValueError(f"{len(votes)} different answers got votes, and there are {options} options.")
