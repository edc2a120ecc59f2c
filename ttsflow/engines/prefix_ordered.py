"""Hands requests to an engine in the order of their prefixes, and no more than its KV cache holds.

An engine that starts whatever fits at the moment runs out of blocks as its sequences grow, sends some back
and reads them again. Here a request waits until it has room to grow as long as others did, where what running
requests share counts once. Those that share a prefix go in next to each other.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from ttsflow.engines.decorated import Decorated
from ttsflow.engines.occupancy import Growth, Occupancy
from ttsflow.engines.prefix import order_key
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, Paged, innermost

__all__ = ["PrefixOrdered"]

_Place = tuple[int, tuple[int, ...], int]


class PrefixOrdered(Decorated):
    """An engine around ``inner``; on one that knows nothing of blocks it counts seats alone."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        core = innermost(inner)
        self._paged: Paged | None = core if isinstance(core, Paged) else None
        self._occupancy = Occupancy(1 if self._paged is None else self._paged.block_size)
        self._growth = Growth()
        self._waiting: list[tuple[_Place, EngineRequest]] = []
        self._held: dict[str, EngineRequest] = {}
        self._running: dict[str, list[int]] = {}
        self._arrivals = itertools.count()
        #: Steps in which a request had to wait, for the summary of a run.
        self.delayed = 0

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new."""
        if request.id in self._held or request.id in self._running:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        self._held[request.id] = request
        place = (request.priority, order_key(request.path), next(self._arrivals))
        heapq.heappush(self._waiting, (place, request))
        self._occupancy.know(request)

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows."""
        inside = []
        for name in ids:
            if self._held.pop(name, None) is None and self._running.pop(name, None) is not None:
                self._occupancy.leave(name)
                inside.append(name)
        if inside:
            self.inner.abort(inside)

    def step(self) -> list[Progress]:
        """Let in what has room, advance by one iteration and return the news."""
        self.delayed += self.crowded()
        news = self.inner.step()
        for item in news:
            counted = self._running.get(item.id)
            if counted is None:
                continue
            counted[0] += len(item.tokens)
            if item.finish is not None:
                self._growth.observe(counted[0])
                self._occupancy.leave(item.id)
                del self._running[item.id]
        return news

    def reset(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._held.clear()
        self._running.clear()
        self._occupancy.clear()
        super().reset()

    def fits(self, request: EngineRequest) -> bool:
        """Whether a request would be let in at once, and none would have to wait for it."""
        self._occupancy.know(request)
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
            self._running[request.id] = [0]
            self._occupancy.enter(request, self._growth.expected(request.max_tokens))
            self.inner.submit(request)

    def _has_room(self, request: EngineRequest) -> bool:
        if len(self._running) >= self.capacity:
            return False
        if self._paged is None:
            return True
        growth = self._growth.expected(request.max_tokens)
        return self._occupancy.used + self._occupancy.needed(request, growth) <= self._paged.kv_blocks
