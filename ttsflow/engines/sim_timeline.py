"""What ran when on a simulated device, thinned so that a long run stays small."""

from __future__ import annotations

from typing import NamedTuple

from ttsflow.engines.sim_batch import Batch

__all__ = ["Moment", "Timeline"]

#: Moments kept; beyond that every second one is dropped.
MOST = 4096


class Moment(NamedTuple):
    """The end of an event: seconds, sequences running and waiting, blocks in use and kept for later.

    ``evicted``, ``preempted``, ``decoded`` and ``read`` count from the beginning; ``verifying`` are candidates
    that a verifier on the same device was reading.
    """

    seconds: float
    running: int
    waiting: int
    used: int
    cached: int
    evicted: int
    preempted: int
    decoded: int
    read: int
    verifying: int = 0


class Timeline:
    """The moments of a run, in order of time."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._every = 1
        self._skipped = 0

    def add(self, seconds: float, batch: Batch, verifying: int = 0) -> None:
        """Note how things stand."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        cache = batch.cache
        self.moments.append(
            Moment(
                seconds,
                batch.running,
                batch.waiting,
                cache.pinned + cache.private,
                cache.cached,
                cache.evicted,
                batch.preempted,
                batch.decoded,
                batch.read,
                verifying,
            )
        )
        if len(self.moments) > MOST:
            self.moments = self.moments[1::2]
            self._every *= 2
