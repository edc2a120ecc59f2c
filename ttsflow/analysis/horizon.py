"""Whether a model is short-horizon, long-horizon or non-reasoning, from its recorded samples.

The types are those of arXiv 2512.02008: of a short-horizon model the shorter traces are more often right,
of a long-horizon model the longer ones are as good or better, and a non-reasoning model writes short
traces. The rule here is the first line that holds::

    at most 5 % of the traces are long, and at most 5 % were cut     non-reasoning
    S >= 0.56                                                        short-horizon
    more than 5 % of the traces are long                             long-horizon
    otherwise                                                        non-reasoning

S is the share of pairs of a right and a wrong sample of one question in which the right one is shorter,
half a pair for equal lengths: the measure A of Vargha and Delaney (2000), with 0.56 their smallest effect
that counts. A trace is long above 8,192 tokens, or when its text has a thinking part that ends. Where a
limit cut many traces nobody knows how long they would be, so S decides before their length does.

Questions are resampled: a type that under three quarters of the resamples share is undecided, and so is
one that rests on under 10 questions: those with both right and wrong samples where S is asked for. A
sample without an answer counts as wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ttsflow.analysis.graded import Floats, Question

__all__ = [
    "DRAWS",
    "EFFECT",
    "FEWEST",
    "KINDS",
    "LONG",
    "OFTEN",
    "SURE",
    "Estimate",
    "Kind",
    "Verdict",
    "verdict",
]

Kind: TypeAlias = Literal["short-horizon", "long-horizon", "non-reasoning", "undecided"]
KINDS: tuple[Kind, ...] = ("short-horizon", "long-horizon", "non-reasoning")

EFFECT = 0.56
"""The smallest share of pairs in which length tells right from wrong."""
LONG = 8192
"""Tokens above which a trace is long."""
OFTEN = 0.05
"""The share of long traces, and of cut ones, above which traces do not count as short."""
SURE = 0.75
"""The share of resamples that must give the same type."""
FEWEST = 10
"""Questions with both right and wrong samples that a type needs."""
DRAWS = 2000
"""Resamples of the questions."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval over resampled questions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the samples say about the model's type.

    ``kind`` may be undecided, ``nearest`` is what the rule says of all questions, None where it needs S and
    there is no pair; ``shares`` are the shares of resamples by type. ``shorter`` is S, ``long`` the share
    of long traces, ``short`` whether they count as short; ``mixed`` questions have both right and wrong
    samples, which make ``pairs``. ``first`` is the gain in accuracy from
    taking the shortest of a question's samples that has an answer instead of any one of them.
    """

    kind: Kind
    nearest: Kind | None
    shares: Mapping[Kind, float]
    shorter: Estimate | None
    long: float
    short: bool
    first: Estimate
    mixed: int
    pairs: int


def verdict(questions: Sequence[Question], *, draws: int = DRAWS, seed: int = 0) -> Verdict:
    """Return the type by the rule, and how many of ``draws`` resamples of the questions give it."""
    count = len(questions)
    shorter, pairs = np.array([question.pairs for question in questions], float).T
    long = np.array([((one.tokens > LONG) | one.thinks).sum() for one in questions], float)
    sizes = np.array([len(question.tokens) for question in questions], float)
    cut = np.array([one.cut.sum() for one in questions], float)
    gains = np.array([question.gain for question in questions])
    weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), draws).astype(float)

    def over(measure: Callable[[Floats], Floats]) -> Estimate:
        """Return a measure of weights with its interval."""
        found = measure(weights)
        low, high = np.quantile(found[~np.isnan(found)], (0.025, 0.975))
        return Estimate(float(measure(np.ones((1, count)))[0]), float(low), float(high))

    def share(weights: Floats) -> Floats:
        total = weights @ pairs
        found: Floats = np.full(len(total), np.nan)
        np.divide(weights @ shorter, total, out=found, where=total > 0)
        return found

    def kinds(weights: Floats) -> list[Kind | None]:
        total = weights @ sizes
        often = ((weights @ one) / total > OFTEN for one in (long, cut))
        return [_kind(*each) for each in zip(share(weights), *often, strict=True)]

    (nearest,) = kinds(np.ones((1, count)))
    found = kinds(weights)
    shares = {kind: found.count(kind) / draws for kind in KINDS}
    mixed = int((pairs > 0).sum())
    parts = (float(one.sum() / sizes.sum()) for one in (long, cut))
    short = all(part <= OFTEN for part in parts)
    enough = (count if short else mixed) >= FEWEST
    sure = nearest is not None and enough and shares[nearest] >= SURE
    return Verdict(
        kind=nearest if sure and nearest is not None else "undecided",
        nearest=nearest,
        shares=shares,
        shorter=over(share) if mixed else None,
        long=float(long.sum() / sizes.sum()),
        short=short,
        first=over(lambda weights: weights @ gains / count),
        mixed=mixed,
        pairs=int(pairs.sum()),
    )


def _kind(shorter: float, long: bool, cut: bool) -> Kind | None:
    """Return the type by the rule; None where it needs a pair of a right and a wrong sample."""
    if not (long or cut):
        return "non-reasoning"
    if np.isnan(shorter):
        return None
    if shorter >= EFFECT:
        return "short-horizon"
    return "long-horizon" if long else "non-reasoning"
