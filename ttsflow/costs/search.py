"""Ways to look for the smallest of a row of values without asking for more of them than needed.

``linear`` asks for all: nothing is smaller than what it returns. ``coarse`` asks for about every
sqrt(count)-th and then for all between the neighbours of the best of those: nothing of what it asked for is
smaller. ``golden`` (golden-section search, Kiefer 1953) asks for about 1.44 log2(count): the smallest where
the row strictly falls and then strictly rises, and never larger than either end. Of equal values each
returns the first that it asked for from the left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ttsflow.memory import Method

__all__ = ["SEARCHES"]

_Value = Callable[[int], float]

_RATIO = (math.sqrt(5) - 1) / 2


def _linear(count: int, value: _Value) -> int:
    """Return the place of the smallest of all."""
    return _least(range(count), value)


def _coarse(count: int, value: _Value) -> int:
    """Return the place of the smallest on a grid and between the neighbours of the best on it."""
    step = max(1, math.isqrt(count))
    best = _least([*range(0, count, step), count - 1], value)
    return _least(range(max(0, best - step), min(count, best + step + 1)), value)


def _golden(count: int, value: _Value) -> int:
    """Return the place of the smallest of a row that falls and then rises."""
    known: dict[int, float] = {}

    def seen(place: int) -> float:
        if place not in known:
            known[place] = value(place)
        return known[place]

    first, last = 0, count - 1
    while last - first > 2:
        width = last - first
        left, right = last - round(_RATIO * width), first + round(_RATIO * width)
        if left >= right:
            left, right = first + width // 2, first + width // 2 + 1
        if seen(left) <= seen(right):
            last = right
        else:
            first = left
    return _least(sorted({0, count - 1, *range(first, last + 1)}), seen)


def _least(places: Iterable[int], value: _Value) -> int:
    best, least = -1, math.inf
    for place in places:
        found = value(place)
        if found < least or best < 0:
            best, least = place, found
    return best


#: Each returns the place of the value it found, in a row of so many that a function gives.
SEARCHES: Mapping[Method, Callable[[int, _Value], int]] = {
    "linear": _linear,
    "coarse": _coarse,
    "golden": _golden,
}
