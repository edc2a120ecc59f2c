"""Which partly filled KV blocks are kept, and which of them a new text goes on from.

A prefix cache holds whole blocks. What follows the last of them, a tail, is computed again by every text that
goes on from there: half a block on average for each continuation of a search, which on a processor is as much
work as decoding the step. This is the book of the tails; nothing here touches memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

__all__ = ["Tails", "common"]

Tokens = tuple[int, ...]


class Tails:
    """A book of ``places``, each for the tail of one text; the one used longest ago gives way.

    ``prefix`` stands for all tokens before the tail, equal for equal ones: the hash of the last whole block.
    """

    def __init__(self, places: int) -> None:
        self._free = list(reversed(range(places)))
        self._used: OrderedDict[tuple[Hashable, Tokens], int] = OrderedDict()
        self._behind: dict[Hashable, dict[Tokens, None]] = {}

    def __len__(self) -> int:
        return len(self._used)

    def keep(self, prefix: Hashable, tail: Tokens) -> int | None:
        """Return the place for a tail; None when what is kept covers it."""
        if not tail or self._covers(prefix, tail):
            return None
        for shorter in [other for other in self._behind.get(prefix, ()) if tail[: len(other)] == other]:
            self._free.append(self._drop(prefix, shorter))
        if not self._free:
            if not self._used:
                return None
            self._free.append(self._drop(*next(iter(self._used))))
        place = self._free.pop()
        self._used[prefix, tail] = place
        self._behind.setdefault(prefix, {})[tail] = None
        return place

    def find(self, prefix: Hashable, tokens: Sequence[int]) -> tuple[int, int]:
        """Return the place that holds the most of ``tokens`` behind ``prefix``, and how many that are.

        Without any, the place means nothing and the number is 0.
        """
        best: Tokens = ()
        most = 0
        for tail in self._behind.get(prefix, ()):
            both = common(tail, tokens)
            if both > most:
                best, most = tail, both
        if not most:
            return 0, 0
        self._used.move_to_end((prefix, best))
        return self._used[prefix, best], most

    def clear(self) -> None:
        """Forget all."""
        self._free.extend(self._used.values())
        self._used.clear()
        self._behind.clear()

    def _covers(self, prefix: Hashable, tail: Tokens) -> bool:
        for other in self._behind.get(prefix, ()):
            if other[: len(tail)] == tail:
                self._used.move_to_end((prefix, other))
                return True
        return False

    def _drop(self, prefix: Hashable, tail: Tokens) -> int:
        del self._behind[prefix][tail]
        if not self._behind[prefix]:
            del self._behind[prefix]
        return self._used.pop((prefix, tail))


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
