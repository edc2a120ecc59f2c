"""Fits of a calibration: what n samples cost under a load, and how often their vote is right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cell", "fit_accuracy", "fit_cost"]

Floats = NDArray[np.float64]

#: By how much a curve may miss a measured accuracy and still stand for it.
_NEAR = 0.02


class Cell(NamedTuple):
    """Queries of one kind: their number of samples, the mean load under which they ran, their mean cost."""

    samples: int
    load: float
    cost: float


def fit_cost(cells: Sequence[Cell]) -> tuple[tuple[float, float, float, float], float]:
    """Return a, b, c and d of a + b n + c u + d n u, and the error of the fit.

    The least squares of relative errors with no coefficient below 0: of all subsets of the four the best
    whose solution is not negative, which is exact. One number of samples cannot tell a from b, and counts as
    the price of samples; one load cannot tell what a load adds. The error is the root mean square of what a
    cell is off, over its cost. Raises ``ValueError`` without a cell, and for a cost that is not above 0.
    """
    if not cells or not all(cell.cost > 0 for cell in cells):
        raise ValueError("a fit needs costs above 0.")
    counts = np.array([cell.samples for cell in cells], np.float64)
    loads = np.array([cell.load for cell in cells], np.float64)
    costs = np.array([cell.cost for cell in cells], np.float64)
    features = np.stack([np.ones_like(counts), counts, loads, counts * loads], axis=1) / costs[:, None]
    several, loaded = np.unique(counts).size > 1, np.unique(loads).size > 1
    usable = [at for at in range(4) if (several or at in {1, 3}) and (loaded or at < 2)]
    best, least = np.zeros(4), np.inf
    for size in range(1, len(usable) + 1):
        for chosen in combinations(usable, size):
            found = np.linalg.lstsq(features[:, chosen], np.ones(len(cells)), rcond=None)[0]
            coefficients = np.zeros(4)
            coefficients[list(chosen)] = found
            off = _off(features, coefficients)
            # What adds nothing but rounding is left out, and a query without load has to cost something.
            if (found >= 0).all() and coefficients[:2].sum() > 0 and off < least - 1e-12:
                best, least = coefficients, off
    a, b, c, d = map(float, best)
    return (a, b, c, d), float(least)


def _off(features: Floats, coefficients: Floats) -> float:
    return float(np.sqrt(np.mean((features @ coefficients - 1) ** 2)))


def fit_accuracy(rungs: Sequence[int], measured: Sequence[float]) -> tuple[float, ...]:
    """Return accuracies that do not fall with the number of samples.

    Where it comes near enough, within two points everywhere, that is a curve towards a limit, top - gain
    r^(n - 1) with gain at least 0; otherwise the isotonic regression (pool adjacent violators).
    """
    shares = np.array(measured, np.float64)
    curve = _saturating(np.array(rungs, np.float64), shares)
    if curve is not None and float(np.abs(curve - shares).max()) <= _NEAR:
        return tuple(float(share) for share in np.clip(np.maximum.accumulate(curve), 0, 1))
    return tuple(_isotonic(measured))


def _saturating(rungs: Floats, shares: Floats) -> Floats | None:
    """Return the curve of least squares, None where one would fall or there are too few points for one."""
    if len(rungs) < 4:
        return None
    best, least = None, np.inf
    for r in np.linspace(0.05, 0.95, 91):
        features = np.stack([np.ones_like(rungs), -(r ** (rungs - 1))], axis=1)
        found = np.linalg.lstsq(features, shares, rcond=None)[0]
        curve = features @ found
        off = float(((curve - shares) ** 2).sum())
        if found[1] >= 0 and off < least:
            best, least = curve, off
    return best


def _isotonic(values: Sequence[float]) -> list[float]:
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, size = (before * many + mean * size) / (many + size), many + size
        blocks.append((mean, size))
    return [mean for mean, size in blocks for _ in range(size)]
