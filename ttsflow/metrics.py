"""Intervals for what a run measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["paired_bootstrap", "wilson"]


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion (E. B. Wilson 1927); 95 % by default.

    Without trials nothing is known: (0, 1).
    """
    if trials < 1:
        return 0.0, 1.0
    share = successes / trials
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    centre, scale = share + z * z / (2 * trials), 1 + z * z / trials
    # Rounding may leave the ends a last bit away from an exact 0 or 1.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    return low, 1.0 if successes == trials else (centre + spread) / scale


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Return mean(first - second) over questions, and its percentile interval.

    ``first`` and ``second`` hold one value per question, in the same order: questions are resampled,
    never single samples, so that what two strategies share cancels out. Raises ``ValueError`` when
    the lengths differ or nothing is given.
    """
    import numpy as np  # noqa: PLC0415 - a tenth of a second that most runs do not need

    if len(first) != len(second) or not first:
        msg = f"one value per question each, got {len(first)} and {len(second)}."
        raise ValueError(msg)
    gains = np.asarray(first, float) - np.asarray(second, float)
    means = gains[np.random.default_rng(seed).integers(0, len(gains), (draws, len(gains)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(gains.mean()), float(low), float(high)
