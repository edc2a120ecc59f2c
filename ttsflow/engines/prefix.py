"""The order of sequences in which neighbours share the longest prefix, and what an order costs."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from ttsflow.engines.remembered import Remembered
from ttsflow.lineage import Path

__all__ = ["Recency", "order_key", "replaced", "shared", "switches"]


def order_key(path: Path) -> tuple[int, ...]:
    """Return a key that sorts a lineage tree as a walk of it meets its members: siblings side by side.

    Continuations share a prefix exactly where their paths do, so no token is compared. The direction of the
    walk alternates with the depth: a round begins where the one before ended, whose blocks were used last.
    """
    return tuple(-number for number in path) if len(path) % 2 else path


class Recency:
    """Walks of lineage trees that meet first what was used last, and so is likeliest still in the cache."""

    def __init__(self) -> None:
        self._clock = 0
        self._used = Remembered()

    def ended(self, problem: str, path: Path) -> None:
        """Take in that a request has ended: it has used what it and its ancestors have decoded."""
        self._clock += 1
        for depth in range(1, len(path) + 1):
            self._used.put(problem, path[:depth], self._clock)

    def key(self, problem: str, path: Path) -> tuple[tuple[int, int], ...]:
        """Return a key that sorts the requests of a problem as such a walk; ``order_key`` breaks ties."""
        numbers = order_key(path)
        return tuple(
            (-self._used.get(problem, path[:depth]), number) for depth, number in enumerate(numbers, 1)
        )

    def clear(self) -> None:
        """Forget everything."""
        self._clock = 0
        self._used.clear()


def shared(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return how many elements two sequences have in common from the beginning."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def switches(sequences: Sequence[Sequence[Hashable]]) -> int:
    """Return sum(nodes - shared) over neighbours: what has to be computed when only the last one is kept.

    The cost of an order as in FastTTS (arXiv 2509.00195), the first sequence included.
    """
    if not sequences:
        return 0
    pairs = itertools.pairwise(sequences)
    return len(sequences[0]) + sum(len(after) - shared(before, after) for before, after in pairs)


def replaced(sequences: Sequence[Sequence[Hashable]], room: int) -> int:
    """Return how many blocks are thrown out when sequences run in turn with room for ``room`` blocks.

    Each needs all its blocks at once, one for each element; what is shared is held once. The least recently
    used are thrown out first, of those used together the last ones of their sequence. Raises ``ValueError``
    for a sequence that has no room by itself.
    """
    held: dict[tuple[Hashable, ...], None] = {}
    out = 0
    for sequence in sequences:
        if len(sequence) > room:
            msg = f"{len(sequence)} blocks do not fit into {room}"
            raise ValueError(msg)
        mine = [tuple(sequence[: end + 1]) for end in range(len(sequence))]
        # The first block is needed by whoever needs the others, so it goes last.
        for block in reversed(mine):
            held.pop(block, None)
            held[block] = None
        while len(held) > room:
            del held[next(iter(held))]
            out += 1
    return out
