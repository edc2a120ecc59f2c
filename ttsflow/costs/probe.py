"""A short measurement of this machine: matrix products and memory, in well under two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

__all__ = ["probed"]

_SIDE = 768
_BYTES = 1 << 27
_ROUNDS = 5


@cache
def probed() -> tuple[float, float]:
    """Return 10^12 operations per second in float32 products, and 10^9 bytes per second read and written.

    The best of five each: what the machine can do when nothing else runs.
    """
    import numpy as np  # noqa: PLC0415 - importing this package must stay quick

    left = np.ones((_SIDE, _SIDE), np.float32)
    product = np.empty_like(left)
    source = np.ones(_BYTES, np.uint8)
    target = np.empty_like(source)
    multiply = _best(lambda: np.matmul(left, left, out=product))
    copy = _best(lambda: np.copyto(target, source))
    return 2 * _SIDE**3 / multiply / 1e12, 2 * _BYTES / copy / 1e9


def _best(work: Callable[[], object]) -> float:
    """Return the shortest time of a few rounds, in seconds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
