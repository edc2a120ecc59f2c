"""What ends problems before their strategy does: limits, the breaker of the run, and its reserve."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttsflow.driver.decoding import Decoding
from ttsflow.driver.ends import Ends
from ttsflow.driver.flight import Case
from ttsflow.ledger import Ledger
from ttsflow.protocols import Stage
from ttsflow.strategies.fallback import FALLBACKS
from ttsflow.trace import Recorder

__all__ = ["Limiting"]


class Limiting:
    """Holds a run to its budget. ``started`` is when it began, by the clock ``now`` of its engine.

    ``capped`` are problems in which a budget had a say: it ended or refused requests, or a stage asked for
    its funds and could have decided otherwise.
    """

    def __init__(
        self, ledger: Ledger, trace: Recorder, ends: Ends, decoding: Decoding, now: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._trace = trace
        self._ends = ends
        self._decoding = decoding
        self._now = now
        self._spent: str | None = None
        self.started = now()
        self.capped: set[str] = set()

    @property
    def over(self) -> str | None:
        """Why no problem is begun any more: the breaker has tripped, or a limit of the run is reached."""
        return self._ends.broken or self._spent

    def enforce(self, cases: Iterable[Case]) -> None:
        """End whatever has reached its limit; called after every engine step."""
        now = self._now()
        # What the run has spent is the sum over all problems, and the same for each of them.
        reached = self._ledger.run_exceeded(now, self.started)
        exceeded = reached and self._ledger.run_exceeded(now, self.started, live=True)
        self._spent = self._spent or reached
        for case in cases:
            if case.account.stopped is None:
                reason = self._limit(case, now, exceeded if case.live else reached, live=case.live > 0)
                if reason is not None:
                    case.account.stopped = reason
                    self.capped.add(case.problem.id)
                    self._decoding.stop(case, reason)
                    self._trace.event("stop", case.problem.id, {"reason": reason})

    def refused(self, case: Case, now: float) -> str | None:
        """Return the limit that forbids a problem new requests, None when there is none."""
        stopped = case.account.stopped or self._limit(
            case, now, self._ledger.run_exceeded(now, self.started), live=False
        )
        if stopped is not None:
            self.capped.add(case.problem.id)
        return stopped

    def fallback(self, case: Case) -> Stage | None:
        """Return what a problem gets in place of the strategy, None while there are funds for that."""
        name, low = self._ledger.budget.fallback, self._ledger.low(case.account, self._now(), self.started)
        if name is None or low is None:
            return None
        case.account.fallen = True
        reason = f"{low}, {name} in place of the strategy"
        case.account.early = reason
        self.capped.add(case.problem.id)
        self._trace.event("fallback", case.problem.id, {"reason": reason})
        return FALLBACKS[name]

    def _limit(self, case: Case, now: float, run: str | None, *, live: bool) -> str | None:
        """Return the limit that ends the running requests of a problem, or forbids it new ones.

        ``run`` is that of the run, if it is reached.
        """
        return self._ends.broken or run or self._ledger.exceeded(case.account, now, live=live)
