"""What queries have cost, in the order in which they began."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FIRST", "Queries"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

#: So many queries of a run have to be known before its prices are gone by.
FIRST = 8


class Queries(Generic[K, T]):
    """Hands on what is told of queries in the order in which they began, one of a key at a time.

    Of many that run side by side the short ones end first: whoever listens in the order of their ends
    hears too little at the beginning. In the order of their beginnings every part of what was heard is a
    fair sample. ``known`` counts those that were handed on, ``ended`` those that were told or dropped.
    """

    def __init__(self) -> None:
        self.known = 0
        self.ended = 0
        self._line: deque[K] = deque()
        #: None: it has ended, and there is nothing to tell of it.
        self._told: dict[K, deque[T | None]] = {}
        self._open: set[K] = set()

    def begin(self, key: K) -> None:
        """Take in that a query of ``key`` begins, unless one of it runs."""
        if key not in self._open:
            self._open.add(key)
            self._line.append(key)

    def runs(self, key: K) -> bool:
        """Return whether a query of this key has not ended."""
        return key in self._open

    @property
    def running(self) -> int:
        """Queries that have not ended."""
        return len(self._open)

    def end(self, key: K, told: T | None) -> list[T]:
        """Take in the end of a query, and what there is to tell of it; return what is handed on now.

        A query that did not begin here is handed on at once.
        """
        if key not in self._open:
            return [] if told is None else [told]
        self._open.remove(key)
        self._told.setdefault(key, deque()).append(told)
        self.ended += 1
        due: list[T] = []
        while self._line and self._told.get(self._line[0]):
            first = self._line.popleft()
            item = self._told[first].popleft()
            if not self._told[first]:
                del self._told[first]
            if item is not None:
                due.append(item)
        self.known += len(due)
        return due
