"""How long requests go on, from how long others were, and the most room that running ones come to need."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import accumulate

__all__ = ["Lengths", "peak"]

#: Lengths that are remembered.
_KEPT = 512
#: Part of the mean rest of a length that room is kept for. In simulation more room spares little reading and
#: leaves seats empty (all of it: up to 1.12 of the time), less lets sequences be sent back.
_PART = 0.35


class Lengths:
    """The lengths of the requests that ended last."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_KEPT)
        self._sorted: list[int] = []
        self._sums: list[int] = []

    def observe(self, tokens: int) -> None:
        """Take in the length of a request that has ended."""
        self._last.append(tokens)
        self._sorted = []

    def mean(self, most: int) -> int:
        """Return the mean length, at most ``most``, and that before anything has ended."""
        if not self._last:
            return most
        self._sort()
        return max(1, min(most, round(self._sums[-1] / len(self._sums))))

    def remaining(self, done: int, most: int) -> float:
        """Return the tokens to keep room for, at most ``most``, behind ``done`` that were decoded.

        That is a part of the mean of what those longer than ``done`` had left: of lengths with a heavy tail,
        the more the longer one has run already. Before anything has ended, it is ``most``.
        """
        if not self._last:
            return most
        self._sort()
        longer = len(self._sorted) - bisect_right(self._sorted, done)
        # None was as long: as much is left as of the longest ones of a tail.
        mean = self._sums[longer - 1] / longer - done if longer else done / 3
        return max(1.0, min(most, _PART * mean))

    def _sort(self) -> None:
        if not self._sorted:
            self._sorted = sorted(self._last)
            self._sums = list(accumulate(reversed(self._sorted)))


def peak(running: Iterable[tuple[float, int]], block: int) -> float:
    """Return the most blocks of ``block`` tokens that sequences come to need for themselves.

    Each is given by the tokens it goes on for, and those it has now. All grow alike, so the most is needed
    when one of them ends; the last block of each is half full on average.
    """
    tokens, most = 0, 0.0
    for count, (left, now) in enumerate(sorted(running, reverse=True), 1):
        tokens += now
        most = max(most, (tokens + count * left) / block + count / 2)
    return most
