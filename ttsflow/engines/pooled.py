"""Plays samples that were decoded before, and keeps what is decoded now.

A sample that is played grows by one token an iteration, beside those that are decoded, and takes a seat: so
whatever looks at samples while they grow sees what it would see without a pool. While nothing has to be
decoded, iterations cost nothing and are leapt over.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from ttsflow.engines.decorated import Decorated
from ttsflow.engines.pooled_run import Run
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Texts
from ttsflow.errors import EngineDead
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, Leaping, leaping

__all__ = ["Pooled"]


class Pooled(Decorated):
    """An engine around ``inner`` whose texts depend on ``texts``, and on nothing else but the requests.

    Seats are given by priority, then arrival. It is ``Leaping``, whatever ``inner`` is. What is known of a
    request may be its beginning. That is played; when more is wanted, the request is decoded from its start,
    and meanwhile nothing else is told to have grown.
    """

    def __init__(self, inner: Engine, store: SampleStore, texts: Texts) -> None:
        super().__init__(inner)
        self.leap: int | None = None
        self.advanced = 0
        self._store = store
        self._texts = texts
        self._core: Leaping | None = leaping(inner)
        self._arrivals = itertools.count()
        self._waiting: list[tuple[int, int, EngineRequest]] = []
        self._known: dict[str, EngineRequest] = {}
        self._seated: dict[str, Run] = {}
        #: By the name that a request has on the engine.
        self._inside: dict[str, Run] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new."""
        if request.id in self._known:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        self._known[request.id] = request
        heapq.heappush(self._waiting, (request.priority, next(self._arrivals), request))

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now, and keep what was decoded of them; no news of them follows."""
        inside = []
        for name in ids:
            self._known.pop(name, None)
            run = self._seated.pop(name, None)
            if run is not None and run.live is not None:
                inside.append(run.live)
                del self._inside[run.live]
                self._keep(run)
            if run is not None:
                self._count_unshown(run)
        if inside:
            self.inner.abort(inside)
        if not self._known:
            self._store.commit()

    def step(self) -> list[Progress]:
        """Let what runs grow by one token, or leap as far as nothing is decoded; return the news."""
        self._seat()
        runs = self._seated.values()
        for run in [run for run in runs if run.exhausted]:
            self._counts["pool_decoded_again"] += 1
            self._decode(run, run.again())
        if any(run.behind for run in runs):
            self._advance()
            self.advanced = 0
            self._store.commit()
            return []
        dry = {run for run in runs if run.dry}
        by = 1
        if dry:
            self._advance()
        else:
            by = min((run.ahead for run in runs), default=0)
            by = by if self.leap is None else min(by, max(1, self.leap))
        self.advanced = by
        grown = [run.grow(None if run in dry else by) for run in list(runs)]
        news = [item for item in grown if item is not None]
        for item in news:
            self._counts["pool_tokens"] += item.played
            if item.finish is not None:
                del self._known[item.id]
                self._count_unshown(self._seated.pop(item.id))
        self._store.commit()
        return news

    def counters(self) -> dict[str, float]:
        """Return what was found and played, and what was added; see docs/pool.md."""
        store = self._store
        return {**self._counts, "pool_written": store.written, "pool_unwritten": store.unwritten}

    def reset(self) -> None:
        """Forget every request; the pool keeps what it has."""
        self._waiting.clear()
        self._known.clear()
        self._seated.clear()
        self._inside.clear()
        self._counts = dict.fromkeys(_COUNTED, 0)
        super().reset()

    # --- seats --------------------------------------------------------------------------------------

    def _seat(self) -> None:
        while self._waiting and len(self._seated) < self.capacity:
            _, _, request = heapq.heappop(self._waiting)
            if self._known.get(request.id) is not request:
                continue
            limit = min(request.max_tokens, self.context - len(request.prompt))
            top = min(request.logprobs, self.capabilities.logprobs)
            certain = request.certainty and self.capabilities.certainty
            found = self._store.find(self._texts, request, top, certain=certain) if limit > 0 else None
            self._counts["pool_missed" if found is None else "pool_found"] += 1
            if found is not None and not (request.stream or found.whole or len(found.tokens) >= limit):
                # Nobody looks at it midway, so it will not be ended early: its beginning is of no use.
                found = None
                self._counts["pool_decoded_again"] += 1
            run = self._seated[request.id] = Run(request, limit, found, top=top, certain=certain)
            if found is None:
                self._decode(run, request.id)

    # --- the engine ---------------------------------------------------------------------------------

    def _decode(self, run: Run, name: str, request: EngineRequest | None = None) -> None:
        run.live = name
        self._inside[name] = run
        self.inner.submit(run.asked(name) if request is None else request)

    def _advance(self) -> None:
        """Advance the engine by one iteration, and take in what it has decoded."""
        if self._core is not None:
            self._core.leap = 1
        try:
            news = self.inner.step()
        except EngineDead:
            for started in self._inside.values():
                self._keep(started)
            self._store.commit()
            raise
        for item in news:
            run = self._inside.get(item.id)
            if run is not None:
                self._hear(run, item)

    def _hear(self, run: Run, item: Progress) -> None:
        run.hear(item)
        if item.finish is not None:
            del self._inside[item.id]
            run.live = None
            self._keep(run)
        if run.parted():
            self._go_on(run)

    def _go_on(self, run: Run) -> None:
        """Go on from what was played, since what is decoded now is something else."""
        self._counts["pool_parted"] += 1
        if run.live is not None:
            del self._inside[run.live]
            self.inner.abort([run.live])
        request = run.beyond(f"{run.request.id} behind")
        self._decode(run, request.id, request)

    # --- the pool -----------------------------------------------------------------------------------

    def _keep(self, run: Run) -> None:
        sample = run.sample()
        if sample is not None:
            self._store.add(self._texts, run.request, sample, self.inner.decode(sample.tokens))

    def _count_unshown(self, run: Run) -> None:
        self._counts["pool_unused_tokens"] += run.unshown


_COUNTED = (
    "pool_found",
    "pool_missed",
    "pool_tokens",
    "pool_decoded_again",
    "pool_parted",
    "pool_unused_tokens",
)
