"""Hands requests to an engine in the order of their prefixes, and no more than its KV cache holds.

An engine that starts whatever fits at the moment runs out of blocks as its sequences grow, sends some back
and reads them again. Here a request waits until the most that it and those that run come to need has room, by
how long others were, where what they share counts once. Those that share a prefix go in next to each other.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from ttsflow.engines.decorated import Decorated
from ttsflow.engines.prefix import Recency
from ttsflow.engines.room import Room
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine

__all__ = ["PrefixOrdered"]

_Place = tuple[int, tuple[tuple[int, int], ...], int]


class PrefixOrdered(Decorated):
    """An engine around ``inner``; on one that knows nothing of blocks it counts seats alone."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self._room = Room(inner)
        self._recency = Recency()
        self._waiting: list[tuple[_Place, EngineRequest]] = []
        self._held: dict[str, EngineRequest] = {}
        self._running: dict[str, EngineRequest] = {}
        self._arrivals = itertools.count()
        self.delayed = 0

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new."""
        if request.id in self._held or request.id in self._running:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        self._held[request.id] = request
        place = (request.priority, self._recency.key(request.problem, request.path), next(self._arrivals))
        heapq.heappush(self._waiting, (place, request))

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows."""
        inside = []
        for name in ids:
            if self._held.pop(name, None) is None and self._running.pop(name, None) is not None:
                self._room.leave(name)
                inside.append(name)
        if inside:
            self.inner.abort(inside)

    def step(self) -> list[Progress]:
        """Let in what has room, advance by one iteration and return the news."""
        self.delayed += self.crowded()
        news = self.inner.step()
        self._room.hear(news)
        for item in news:
            if item.finish is not None and (request := self._running.pop(item.id, None)) is not None:
                self._recency.ended(request.problem, request.path)
        return news

    def counters(self) -> dict[str, float]:
        """Return the steps in which a request had to wait for a place."""
        return {"delayed_steps": self.delayed}

    def reset(self) -> None:
        """Forget everything."""
        self.delayed = 0
        self._waiting.clear()
        self._held.clear()
        self._running.clear()
        self._room.clear()
        self._recency.clear()
        super().reset()

    def fits(self, request: EngineRequest) -> bool:
        """Whether a request would be let in at once, and none would have to wait for it."""
        return not self.crowded() and self._has_room(request)

    def crowded(self) -> bool:
        """Let in what has room; return whether anything has to wait."""
        self._admit()
        return bool(self._held)

    def _admit(self) -> None:
        while self._waiting:
            request = self._waiting[0][1]
            if self._held.get(request.id) is not request:
                heapq.heappop(self._waiting)
                continue
            if self._running and not self._has_room(request):
                return
            heapq.heappop(self._waiting)
            del self._held[request.id]
            self._running[request.id] = request
            self._room.enter(request)
            self.inner.submit(request)

    def _has_room(self, request: EngineRequest) -> bool:
        return len(self._running) < self.capacity and self._room.has(request)
