"""The driver's side of a latency target: how long samples take, learnt from those of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ttsflow.driver.flight import Case
from ttsflow.types import Usage

if TYPE_CHECKING:
    from ttsflow.costs.online import OnlineCost

__all__ = ["Begun", "Pace"]


class Begun(NamedTuple):
    """When a problem asked for more samples: the load of others, and what it had spent before."""

    load: float
    before: Usage

    def drawn(self, case: Case, usage: Usage) -> int:
        """Return how many samples have ended since, that may teach something.

        0 while some still run, and where a budget ended them midway.
        """
        if case.live or case.account.stopped is not None:
            return 0
        return usage.requests - self.before.requests


class Pace:
    """How long samples take that are drawn at once: seconds of the problem that waits for them.

    They count from when samples are sent to the end of the last one, so that what other problems take of the
    engine is in them, and what a controller takes to grant them is not. Learnt by the model that controllers
    have for prices, one for the run.
    """

    def __init__(self, load: Callable[[int], float]) -> None:
        self._load = load
        self._cost: OnlineCost | None = None
        self._open: dict[Case, Begun] = {}

    def takes(self, case: Case, samples: int, now: float) -> float | None:
        """Return how many seconds so many more samples take, with the margin; None while nothing is known."""
        if self._cost is None:
            from ttsflow.costs.online import OnlineCost  # noqa: PLC0415 - numpy is for runs that ask

            self._cost = OnlineCost()
        self._observe(self._cost, case, now)
        load = self._load(case.index)
        if case not in self._open or not case.live:
            self._open[case] = Begun(load, case.account.usage(now))
        found = self._cost.estimate(samples, load)
        return None if found is None else found.price

    def launched(self, case: Case, now: float) -> None:
        """Take in that samples of a problem are sent to the engine."""
        begun = self._open.get(case)
        if begun is not None and not case.live:
            self._open[case] = begun._replace(before=case.account.usage(now))

    def _observe(self, cost: OnlineCost, case: Case, now: float) -> None:
        begun = self._open.get(case)
        if begun is None:
            return
        usage = case.account.usage(now)
        samples = begun.drawn(case, usage)
        if samples:
            cost.observe(samples, begun.load, usage.seconds - begun.before.seconds)
            self._open[case] = begun._replace(before=usage)

    def closed(self, case: Case, now: float) -> None:
        """Take in that a problem is over."""
        if self._cost is not None:
            self._observe(self._cost, case, now)
            self._open.pop(case, None)
