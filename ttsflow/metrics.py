"""What recorded samples say: mean@k, pass@k, pass^k and maj@k, and intervals for what a run measured.

Four numbers that are easily taken for one another, with n samples of a question of which c are right:

- **mean@k**: the share of right answers among the first k samples. What one sample is worth.
- **pass@k**: the chance that at least one of k samples is right. What a perfect choice is worth.
- **pass^k**: the chance that all k samples are right. What one can rely on.
- **maj@k**: the chance that the most frequent answer of k samples is right. What voting is worth.

One rule for missing answers everywhere: a sample without an answer counts, as wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from ttsflow.majority import maj_at_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "maj_at_k",
    "mcnemar",
    "mean_at_k",
    "paired_bootstrap",
    "paired_ratio",
    "pass_at_k",
    "pass_hat_k",
    "rates",
    "resampled",
    "wilson",
]

#: Draws of a bootstrap that are worked on at once, and draws x questions up to which all are kept.
_AT_ONCE, _KEPT = 500, 5_000_000

#: One sample: the key of its answer, None where it has none, and whether it is right.
Sampled = tuple[str | None, bool | None]


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion (E. B. Wilson 1927); 95 % by default.

    Without trials nothing is known: (0, 1). Raises ``ValueError`` unless 0 <= successes <= trials.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"there were {trials} trials, so {successes} of them cannot have succeeded.")
    if trials < 1:
        return 0.0, 1.0
    share = successes / trials
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    centre, scale = share + z * z / (2 * trials), 1 + z * z / trials
    # Rounding may leave the ends a last bit away from an exact 0 or 1.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    return low, 1.0 if successes == trials else (centre + spread) / scale


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Return mean(first - second) over questions, and its percentile interval.

    ``first`` and ``second``, sequences or arrays, hold one value per question, in the same order:
    questions are resampled, never single samples, so that what two strategies share cancels out. Raises
    ``ValueError`` when the lengths differ or nothing is given, for a value that is no finite number,
    fewer than 1 draws, and a level outside (0, 1).
    """
    import numpy as np  # noqa: PLC0415 - a tenth of a second that most runs do not need

    one, other = _pairs(first, second, draws, level)
    gains = one - other
    means = resampled(gains[:, None], draws=draws, seed=seed)[:, 0]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(gains.mean()), float(low), float(high)


def paired_ratio(
    first: ArrayLike,
    second: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Return mean(first) / mean(second) over questions, and its percentile interval.

    For what is spent, such as tokens; questions are resampled in pairs as in ``paired_bootstrap``, which
    says what is refused. So are values below 0, and a ``second`` that is 0 throughout.
    """
    import numpy as np  # noqa: PLC0415 - as above

    one, other = _pairs(first, second, draws, level)
    if min(one.min(), other.min()) < 0 or not other.any():
        raise ValueError("a ratio needs values of at least 0, and one above it in the second.")
    means = resampled(np.stack([one, other], axis=1), draws=draws, seed=seed)
    # Where all drawn questions were free in the second, the ratio has no bound.
    ratios = np.divide(means[:, 0], means[:, 1], out=np.full(draws, np.inf), where=means[:, 1] > 0)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    return float(one.mean() / other.mean()), float(low), float(high)


def resampled(values: ArrayLike, *, draws: int = 10_000, seed: int = 0) -> NDArray[np.float64]:
    """Return the means of the columns of ``values`` over questions that are drawn again: draws x columns.

    ``values`` has a row per question. All columns see the same draws, so that differences and ratios of
    columns are paired.
    """
    import numpy as np  # noqa: PLC0415 - as above

    table = np.asarray(values, float)
    questions = len(table)
    blocks = _kept_counts if questions * draws <= _KEPT else _counts
    return np.concatenate([counts @ table / questions for counts in blocks(questions, draws, seed)])


def _counts(questions: int, draws: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Yield how often each draw has each question: blocks of draws x questions."""
    import numpy as np  # noqa: PLC0415 - as above

    rng = np.random.default_rng(seed)
    for start in range(0, draws, _AT_ONCE):
        rows = min(_AT_ONCE, draws - start)
        drawn = rng.integers(0, questions, (rows, questions)) + np.arange(rows)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=rows * questions)
        yield counts.reshape(rows, questions).astype(np.int32)


@lru_cache(maxsize=4)
def _kept_counts(questions: int, draws: int, seed: int) -> tuple[NDArray[np.int32], ...]:
    """Return the blocks of ``_counts``; those who compare many runs ask for the same ones again and again."""
    return tuple(_counts(questions, draws, seed))


def _pairs(
    first: ArrayLike, second: ArrayLike, draws: int, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as arrays with one finite value per question. Raises ``ValueError``."""
    import numpy as np  # noqa: PLC0415 - as above

    one, other = np.asarray(first, float), np.asarray(second, float)  # None becomes NaN
    if one.ndim != 1 or one.shape != other.shape or not one.size:
        sizes = " and ".join(
            str(values.size) if values.ndim == 1 else str(values.shape) for values in (one, other)
        )
        raise ValueError(f"one value per question each, got {sizes}.")
    if (bad := np.flatnonzero(~np.isfinite(one + other))).size:
        raise ValueError(f"question {bad[0]} has no finite value; leave out questions that were not graded.")
    if draws < 1 or not 0 < level < 1:
        raise ValueError(f"draws are at least 1 and level lies in (0, 1), got {draws} and {level}.")
    return one, other


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the p-value of the exact McNemar test (Q. McNemar 1947), two-sided.

    Of the questions that just one of two strategies has right, as many should be the first's as the
    second's if neither is better: a binomial test at one half, in integers, rounded once. Raises
    ``ValueError`` for counts below 0.
    """
    if min(first_only, second_only) < 0:
        raise ValueError(f"counts are at least 0, got {first_only} and {second_only}.")
    trials, fewer = first_only + second_only, min(first_only, second_only)
    ways = tail = 1
    for k in range(1, fewer + 1):
        ways = ways * (trials - k + 1) // k
        tail += ways
    return min(1.0, float(2 * tail / 2**trials))


def mean_at_k(correct: Sequence[bool | None], k: int | None = None) -> float:
    """Return mean@k: the share of right ones among the first ``k`` samples, of all by default.

    None is a missing answer and counts as wrong. Raises ``ValueError`` for k < 1 and k > n.
    """
    k = len(correct) if k is None else k
    _check("mean@", len(correct), 0, k)
    return sum(map(bool, correct[:k])) / k


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return pass@k = 1 - C(n-c, k) / C(n, k): at least one of ``k`` out of ``n`` samples is right.

    The unbiased estimator for one question with ``c`` right samples (arXiv 2107.03374, section 2.1),
    from integers, rounded once. ``n`` and ``c`` count samples of one question, never questions. Raises
    ``ValueError`` for k < 1 and k > n: what n samples do not tell is not made up.
    """
    _check("pass@", n, c, k)
    return (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return pass^k = C(c, k) / C(n, k): all of ``k`` out of ``n`` samples are right.

    For one question with ``c`` right samples (arXiv 2406.12045, section 4). Raises as ``pass_at_k``.
    """
    _check("pass^", n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def rates(
    questions: Sequence[Sequence[Sampled]], ks: Iterable[int] | None = None
) -> dict[int, dict[str, float | None]]:
    """Return ``{k: {"mean@k", "pass@k", "pass^k", "maj@k"}}``, means over questions.

    A question is its samples in the order of sampling. Every k of ``ks`` is there and always n, the
    number of samples per question (the least one where they differ); by default 1, 2, 4, 8 ... and n.
    An answer judged both right and wrong is as right as the share of its samples. "maj@k" is None when
    a sample is right and its answer not on record, for then nobody knows what it voted for. Raises
    ``ValueError`` without questions, for k < 1 and k > n, and for an answer without a verdict.
    """
    n = min((len(samples) for samples in questions), default=0)
    if not n:
        raise ValueError(f"every question needs a sample, and there are {len(questions)} questions.")
    if any(right is None and answer is not None for samples in questions for answer, right in samples):
        raise ValueError("an answer is neither right nor wrong; leave out questions that were not graded.")
    chosen = (1 << power for power in range(n.bit_length())) if ks is None else ks
    counted = [(len(samples), sum(bool(right) for _, right in samples)) for samples in questions]
    known = all(answer is not None or not right for samples in questions for answer, right in samples)
    groups = [_groups(samples) for samples in questions] if known else []
    majority = lru_cache(maxsize=None)(maj_at_k)
    found: dict[int, dict[str, float | None]] = {}
    for k in sorted({*chosen, n}):
        _check("every rate at ", n, 0, k)
        found[k] = {
            "mean@k": _mean([mean_at_k([right for _, right in samples], k) for samples in questions]),
            "pass@k": _mean([pass_at_k(samples, right, k) for samples, right in counted]),
            "pass^k": _mean([pass_hat_k(samples, right, k) for samples, right in counted]),
            "maj@k": _mean([majority(*group, k) for group in groups]) if known else None,
        }
    return found


def _groups(samples: Sequence[Sampled]) -> tuple[tuple[int, ...], tuple[int | Fraction, ...], int]:
    """Return the samples per answer, how right each answer is, and how many samples have none."""
    counts = Counter(answer for answer, _ in samples if answer is not None)
    right = Counter(answer for answer, correct in samples if answer is not None and correct)
    shares = [Fraction(right[answer], count) for answer, count in counts.items()]
    # In one order, so that questions with the same votes are worked out once; whole numbers are faster.
    votes = sorted(zip(counts.values(), shares, strict=True), reverse=True)
    worth = tuple(int(share) if share.denominator == 1 else share for _, share in votes)
    return tuple(count for count, _ in votes), worth, len(samples) - sum(counts.values())


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _check(name: str, n: int, c: int, k: int) -> None:
    """Refuse numbers that cannot be, and a k that the samples say nothing about."""
    if not 0 <= c <= n:
        raise ValueError(f"there are n = {n} samples, so {c} of them cannot be right.")
    if not 1 <= k <= n:
        raise ValueError(f"{name}{k} needs 1 <= k <= n, and there are n = {n} samples per question.")
