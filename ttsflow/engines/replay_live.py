"""The engine of recorded samples: a virtual clock, seats, and what was recorded."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence

from ttsflow.engines.playing import Playing
from ttsflow.engines.recorded_paths import RecordedPaths
from ttsflow.ops import EngineRequest, Progress
from ttsflow.paths import Play
from ttsflow.protocols import Capabilities

__all__ = ["ReplayEngine"]


class _Run:
    """One request: what it plays, and where in time that starts and ends once it has a seat."""

    __slots__ = ("end", "play", "start")

    def __init__(self, play: Play) -> None:
        self.play = play
        self.start = self.end = 0


class ReplayEngine(Playing):
    """Plays recorded samples: all that have a seat grow together, one token per iteration.

    A step jumps to the next thing that happens: the end of a sequence, or ``leap`` tokens. Seats are given
    by priority, then arrival.
    """

    def __init__(
        self,
        paths: RecordedPaths,
        capabilities: Capabilities,
        *,
        seats: int = 64,
        token_seconds: float = 0.02,
    ) -> None:
        super().__init__(paths)
        self.capabilities = capabilities
        self.capacity = seats
        self.context = paths.context
        self._token_seconds = token_seconds
        self._clear()

    def reset(self) -> None:
        """Forget every request and set the clock back. Raises ``EngineDead`` when the file has changed."""
        self._paths.reset()
        self._clear()

    def _clear(self) -> None:
        self._tick = 0
        self._arrivals = itertools.count()
        self._known: dict[str, _Run] = {}
        self._waiting: list[tuple[int, int, _Run]] = []
        self._ends: list[tuple[int, int, _Run]] = []
        self._streams: dict[str, _Run] = {}
        self._seated = 0

    def close(self) -> None:
        """Forget every request."""
        self._clear()

    def now(self) -> float:
        """Return virtual seconds."""
        return self._tick * self._token_seconds

    def submit(self, request: EngineRequest) -> None:
        """Queue a request. Raises ``ConfigError`` when no sample was recorded for it."""
        if request.id in self._known:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        run = _Run(self._paths.play(request, self.context))
        self._known[request.id] = run
        heapq.heappush(self._waiting, (request.priority, next(self._arrivals), run))

    def abort(self, ids: Sequence[str]) -> None:
        """Forget requests."""
        for name in ids:
            run = self._known.pop(name, None)
            if run is not None and run.end:
                self._leave(run)

    def step(self) -> list[Progress]:
        """Jump to what happens next and return the news."""
        self._seat()
        ends = self._ends
        while ends and not self._runs(ends[0][2]):
            heapq.heappop(ends)
        if not ends:
            self.advanced = 0
            return []
        to = ends[0][0] if self.leap is None else min(ends[0][0], self._tick + max(1, self.leap))
        self.advanced, self._tick = to - self._tick, to
        ended = list(self._ended(to))
        news = [run.play.news(to - run.start, ended=False) for run in self._streams.values()]
        return news + [run.play.news(run.play.length, ended=True) for run in ended]

    def _seat(self) -> None:
        while self._waiting and self._seated < self.capacity:
            _, arrival, run = heapq.heappop(self._waiting)
            if not self._runs(run):
                continue
            self._seated += 1
            run.start = self._tick
            # Also a sequence without tokens takes an iteration to find out.
            run.end = self._tick + max(1, run.play.length)
            heapq.heappush(self._ends, (run.end, arrival, run))
            if run.play.request.stream:
                self._streams[run.play.request.id] = run

    def _ended(self, tick: int) -> Iterator[_Run]:
        """Yield what ends now, in the order of arrival, and take it off its seat."""
        while self._ends and self._ends[0][0] == tick:
            run = heapq.heappop(self._ends)[2]
            if self._runs(run):
                del self._known[run.play.request.id]
                self._leave(run)
                yield run

    def _runs(self, run: _Run) -> bool:
        """Return whether a request was not aborted meanwhile."""
        return self._known.get(run.play.request.id) is run

    def _leave(self, run: _Run) -> None:
        self._seated -= 1
        self._streams.pop(run.play.request.id, None)
