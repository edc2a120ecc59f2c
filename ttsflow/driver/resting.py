"""Problems that wait until all others have had a sample."""

from __future__ import annotations

from collections.abc import Callable

from ttsflow.driver.controlling import Controlling
from ttsflow.driver.flight import Case, Frame
from ttsflow.driver.metering import Metering
from ttsflow.ledger import Ledger

__all__ = ["Resting"]


class Resting:
    """Keeps stages that wait for the samples of others, and takes their problems out of what is looked at.

    A problem rests once, and only as a whole: a branch of a fork, or one with requests under way, goes on at
    once. ``settle`` brings the books up to date.
    """

    def __init__(
        self,
        ledger: Ledger,
        controlling: Controlling,
        metering: Metering | None,
        *,
        settle: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._controlling = controlling
        self._metering = metering
        self._settle = settle
        self._frames: dict[Case, Frame] = {}

    def __len__(self) -> int:
        return len(self._frames)

    def rest(self, frame: Frame, now: float) -> bool:
        """Return whether the problem of a stage rests from now on."""
        case = frame.case
        if frame.parent is not None or case.live:
            self._controlling.wake(case)
            return False
        self._settle()
        self._controlling.hold(case)
        if self._metering is not None:
            self._metering.rest(case.account)
        self._ledger.rest(case.account, now)
        self._frames[case] = frame
        return True

    def wake(self, active: int) -> Frame | None:
        """Return the stage that goes on, the first of the run; None while anybody waits for a first sample.

        ``active`` problems are in flight and do not rest: without any there is nobody to wait for.
        """
        if not self._frames or (active and not self._controlling.settled):
            return None
        case = min(self._frames, key=lambda one: one.index)
        self._ledger.wake(case.account)
        self._controlling.wake(case)
        return self._frames.pop(case)

    def leave(self, case: Case) -> None:
        """Forget a problem that has ended."""
        self._frames.pop(case, None)
