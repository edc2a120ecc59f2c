"""ATEST-Calibrated: how many samples a question gets follows from accuracy and cost measured beforehand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttsflow.control import Asking, Controller
from ttsflow.controllers.price import climb, hull
from ttsflow.controllers.prices import short_of
from ttsflow.costs.calibrated import Calibration, read_calibration
from ttsflow.costs.online import OnlineCost
from ttsflow.errors import ConfigError
from ttsflow.load.forecast import FIFTHS, Forecast
from ttsflow.ops import Offer
from ttsflow.strategies.rungs import check_rungs, rungs_to

__all__ = ["Calibrated"]

#: So little is missing to a whole question where its share was meant to be one.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Grants each question the number of samples that its funds buy, by accuracy for cost.

    ``profile`` is a file of ``ttsflow calibrate``. Before a question's first sample the ``rungs`` up to ``n``
    are climbed by what they add in accuracy for a unit of cost, at the loads to come and the present one
    together, until the mean cost is what is left for each question that waits; the question gets the rung
    that its load came to. Where two rungs share the questions of a load, they take turns. Never is more
    granted than leaves the lowest rung to all that wait, at the worst load that was calibrated or seen.

    With ``correct`` costs go on to be learnt from what samples do cost. ``beta`` are the standard deviations
    of the margin above a price. ``retry`` and ``unit`` are those of ``online``.
    """

    profile: str | None = None
    unit: str | None = None
    n: int = 8
    rungs: tuple[int, ...] = (1, 3, 4, 6, 8)
    correct: bool = True
    beta: float = 2.0
    retry: bool = False

    def __post_init__(self) -> None:
        check_rungs(self.rungs)
        if self.n < 1:
            raise ConfigError(f"at least one sample is drawn, got {self.n}.", "n")
        if not 0 <= self.beta <= 100:
            raise ConfigError(f"between 0 and 100 standard deviations, got {self.beta}.", "beta")

    def open(self, unit: str) -> Controller:
        """Return the working controller.

        Raises ``ConfigError`` without a profile and for one that does not fit, ``DataError`` for no profile.
        """
        if self.profile is None:
            raise ConfigError(
                "accuracy and cost come from a profile, and none is named. Make one with `ttsflow calibrate "
                "-o FILE` and the engine, task and meter of the run, and set strategy.profile=FILE.",
                "profile",
            )
        return self.with_profile(read_calibration(self.profile, unit, "profile"))

    def with_profile(self, profile: Calibration) -> Controller:
        """Return the working controller with a profile at hand. Raises ``ConfigError`` if it lacks a rung."""
        return _Calibrated(self, profile)


class _Calibrated:
    def __init__(self, part: Calibrated, profile: Calibration) -> None:
        self._unit = profile.unit
        self._correct = part.correct
        self._rungs = rungs_to(part.rungs, part.n)
        self._accuracy = profile.accuracy_of(self._rungs)
        self._prices = OnlineCost(beta=part.beta, prior=profile.cost)
        self._usual = Forecast(0.5, prior=profile.loads)
        self._worst = Forecast(1.0, 1e6, profile.loads)
        self._asked = 0
        #: Samples for the question that asks, and how far the rung above is owed to one.
        self._chosen, self._owed = self._rungs[0], 0.0

    def begin(self, problems: int, limit: float) -> None:
        """Do nothing: all follows from what is left."""

    def offer(self, asking: Asking) -> Offer:
        """Return the price, or refuse what is more than was chosen or than there are funds."""
        if asking.first and asking.ahead != self._asked:
            self._asked = asking.ahead
            self._usual.observe(asking.load)
            self._worst.observe(asking.load)
            self._chosen = self._choose(asking)
        found = self._prices.estimate(asking.samples, asking.load)
        assert found is not None
        refused = self._refused(asking, found.price)
        return Offer(self._unit, found.mean, found.margin, refused=refused)

    def _refused(self, asking: Asking, price: float) -> str | None:
        if price > asking.left:
            return short_of(asking, price, self._unit)
        if asking.samples > self._chosen:
            return f"{self._chosen} samples are what a question's share of the funds buys at this load"
        return None

    def _choose(self, asking: Asking) -> int:
        """Return how many samples the question that begins gets."""
        weights: dict[float, float] = defaultdict(float)
        here = asking.load
        weights[here] = 1 / asking.ahead
        for load in self._usual.at(FIFTHS):
            weights[load] += (1 - 1 / asking.ahead) / len(FIFTHS)
        hulls = {load: hull(self._accuracy, self._costs(load)) for load in weights}
        pace = asking.left / asking.ahead
        taken = climb([*hulls.values()], [*weights.values()], pace, 0.0)[[*weights].index(here)]
        place = taken.rungs
        if taken.share:
            self._owed += taken.share
            if self._owed >= 1 - _ROUNDING:
                self._owed -= 1
                place += 1
        ladder = hulls[here]
        funds = asking.left - (asking.ahead - 1) * self._costs(self._worst.ahead())[0]
        while place and ladder[place].cost > funds:
            place -= 1
        return self._rungs[ladder[place].arm]

    def _costs(self, load: float) -> list[float]:
        """Return the mean cost of each rung."""
        found = (self._prices.estimate(rung, load) for rung in self._rungs)
        return [one.mean for one in found if one is not None]

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Learn from what samples have cost, if that is wanted."""
        if self._correct:
            self._prices.observe(samples, load, cost)

    def closed(self, spent: float) -> None:
        """Do nothing: what was spent is no longer left."""

    def state(self) -> Mapping[str, Any]:
        """Return the prices and the loads."""
        return {"unit": self._unit, "prices": self._prices.state(), "loads": self._usual.state()}
