"""A controller that keeps a sample for every question, and sells what is above that for stability."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttsflow.control import Asking, Controller
from ttsflow.controllers.agreement import Agreement
from ttsflow.controllers.online import REFERENCE
from ttsflow.controllers.prices import Prices, open_agreement, open_prices, short_of
from ttsflow.costs.online import OnlineCost
from ttsflow.errors import ConfigError
from ttsflow.load.forecast import FIFTHS, PRIOR, Forecast
from ttsflow.ops import Offer
from ttsflow.strategies.climbing import LARGEST, effort
from ttsflow.strategies.rungs import check_rungs, rungs_to

__all__ = ["Reserve"]

#: How many questions ago what was spent weighs 1/e.
_MEMORY = 30.0
#: Prices per decade at which effort is worked out; between two of them it is a line in the logarithm.
_PER_DECADE = 8


@dataclass(frozen=True, slots=True)
class Reserve:
    """Grants the first sample of a question as long as there are funds, further ones above a reserve.

    The reserve is a sample for every question that has none yet, at the ``quantile`` of the loads to come: of
    those seen, each weighing 1 - 1 / ``window`` of the next, and of ``loads``, which are held to be possible
    from the start. Further samples have to add a rate in stability for a unit of cost. It is the one at which
    the funds that are left are spent on the questions that are left, at the same loads: what a question takes
    at a rate is foreseen for votes of an urn with ``alpha`` and ladders of ``rungs`` up to ``n``
    (``climbing.effort``), and corrected by what questions have taken so far. ``alpha`` None is learnt from
    how far the samples of the run agree (``ttsflow.controllers.agreement``), and told to ladders of
    ``alpha`` None. With ``wait`` questions whose further samples would touch the reserve have them later,
    when no other waits for its first one. ``retry`` and ``unit`` are those of ``online``.
    """

    unit: str | None = None
    n: int = 8
    rungs: tuple[int, ...] = (1, 3, 4, 6, 8)
    alpha: float | None = None
    quantile: float = 1.0
    window: float = 100.0
    loads: tuple[float, ...] = PRIOR
    retry: bool = False
    wait: bool = True
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= LARGEST:
            raise ConfigError(f"plans are made for 1 to {LARGEST} samples, got {self.n}.", "n")
        check_rungs(self.rungs)
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise ConfigError(f"must be above 0 and finite, got {self.alpha}.", "alpha")
        if not 0 < self.quantile <= 1:
            raise ConfigError(f"a share above 0 and up to 1, got {self.quantile}.", "quantile")
        if not 1 <= self.window <= 1e9:
            raise ConfigError(f"between 1 and 1e9 questions, got {self.window}.", "window")
        for load in self.loads:
            if not 0 <= load <= 1:
                raise ConfigError(f"a load lies between 0 and 1, got {load}.", "loads")

    def open(self, unit: str) -> Controller:
        """Return the working controller. Raises ``DataError`` for prices that cannot be read."""
        return _Reserve(self, unit, open_prices(self.prices, unit), open_agreement(self.prices))


class _Reserve:
    def __init__(self, part: Reserve, unit: str, prices: OnlineCost, agreement: Agreement) -> None:
        self._unit = unit
        self._prices = prices
        self._rungs = rungs_to(part.rungs, part.n)
        self._waits = part.wait
        self._fixed = part.alpha
        self._agreement = agreement
        # The worst that is possible stays so, however long it was not seen.
        self._worst = Forecast(part.quantile, 1e6, part.loads)
        self._usual = Forecast(0.5, part.window, part.loads)
        self._rate = 0.0
        #: Means of what questions took, and of what was foreseen for them.
        self._took, self._foreseen = _Mean(), _Mean()
        self._asked = (0, 0)

    def begin(self, problems: int, limit: float) -> None:
        """Begin a run, at the rate of ATEST until prices are known."""
        self._rate = REFERENCE * 0.02 * max(1, problems) / limit

    def offer(self, asking: Asking) -> Offer:
        """Return the price, or refuse what would be missing in the reserve."""
        waiting = asking.ahead, asking.held
        # Asked for a question's first sample, or when it goes on after it has waited.
        fresh = (asking.first or not asking.ahead) and waiting != self._asked
        if fresh:
            self._asked = waiting
        if fresh and asking.first:
            self._worst.observe(asking.load)
            self._usual.observe(asking.load)
        found = self._prices.estimate(asking.samples, asking.load)
        if found is None:
            return Offer(self._unit, None, rate=self._rate, alpha=self._alpha)
        if fresh:
            self._set_rate(asking)
        refused = self._refused(asking, found.price)
        later = self._waits and refused is not None and asking.ahead > 0 and found.price <= asking.left
        if fresh and asking.first and refused is None:
            self._foreseen.add(self._spending(self._line(asking.load), self._rate))
        return Offer(self._unit, found.mean, found.margin, self._rate, refused, self._alpha, later)

    @property
    def _alpha(self) -> float:
        return self._agreement.alpha if self._fixed is None else self._fixed

    @property
    def _factor(self) -> float:
        """How many times what is foreseen questions take."""
        took, foreseen = self._took.value, self._foreseen.value
        return min(4.0, max(0.25, took / foreseen)) if took > 0 and foreseen > 0 else 1.0

    def _refused(self, asking: Asking, price: float) -> str | None:
        unit = self._unit
        if price > asking.left:
            return short_of(asking, price, unit)
        if asking.first and asking.samples == 1:
            return None
        ahead = asking.ahead - asking.first
        kept = self._kept(ahead)
        if asking.left - price >= kept:
            return None
        return (
            f"{asking.samples} more would cost up to {price:.4g} {unit}; of {asking.left:.4g} that are left "
            f"{kept:.4g} are kept for {ahead} questions"
        )

    def _kept(self, ahead: int) -> float:
        """Return what a sample for each of so many questions costs at the worst load."""
        one = self._prices.estimate(1, self._worst.ahead())
        return 0.0 if one is None else ahead * one.mean

    def _set_rate(self, asking: Asking) -> None:
        """Choose the rate at which the funds last."""
        ahead = Counter(self._line(load) for load in self._usual.at(FIFTHS))
        one = self._prices.estimate(1, self._usual.at(FIFTHS)[2])
        # Those that wait have had a sample out of their part.
        had = asking.held * one.mean if one is not None else 0.0
        questions = max(1, asking.ahead + asking.held)
        funds = len(FIFTHS) * (asking.left + had) / questions / self._factor
        usual = 1 / max(each for _, each in ahead)
        low, high = 1e-6 * usual, 10 * usual
        for _ in range(24):
            middle = math.sqrt(low * high)
            if sum(count * self._spending(line, middle) for line, count in ahead.items()) > funds:
                low = middle
            else:
                high = middle
        self._rate = high

    def _line(self, load: float) -> tuple[float, float]:
        """Return the price of a query and of each sample in it."""
        one, more = self._prices.estimate(1, load), self._prices.estimate(self._rungs[-1], load)
        assert one is not None
        assert more is not None
        each = (more.mean - one.mean) / max(1, self._rungs[-1] - 1)
        each = max(each, 1e-3 * one.mean)
        return max(0.0, one.mean - each), each

    def _spending(self, line: tuple[float, float], rate: float) -> float:
        """Return what a question of the urn costs at such prices and a rate."""
        fixed, each = line
        queries, samples = _effort(self._rungs, round(fixed / each, 1), each * rate, self._alpha)
        return queries * fixed + samples * each

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Learn from what samples have cost."""
        self._prices.observe(samples, load, cost)

    def agreed(self, drawn: int, more: int, fresh: int) -> None:
        """Learn how far samples agree."""
        self._agreement.observe(drawn, more, fresh)

    def closed(self, spent: float) -> None:
        """Learn how far questions cost what was foreseen."""
        if spent > 0:
            self._took.add(spent)

    def state(self) -> Mapping[str, Any]:
        """Return the prices, the rate, what questions cost against what was foreseen, and the loads."""
        told: dict[str, Any] = {"agreement": self._agreement.state()}
        told |= {"rate": self._rate, "factor": self._factor, "loads": self._usual.state()}
        return {"unit": self._unit, "prices": self._prices.state()} | told


class _Mean:
    """A mean in which every number weighs a little less than the next; 0 before there is any."""

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, number: float) -> None:
        """Take in a number."""
        self._sum += (number - self._sum) / _MEMORY
        self._weight += (1 - self._weight) / _MEMORY

    @property
    def value(self) -> float:
        """The mean."""
        return self._sum / self._weight if self._weight else 0.0


def _effort(rungs: tuple[int, ...], ratio: float, each: float, alpha: float) -> tuple[float, float]:
    """Return ``effort`` at a price of a sample between those at which it is worked out."""
    place = _PER_DECADE * math.log10(min(1e3, max(1e-7, each)))
    low = math.floor(place)
    ends = [_at(rungs, ratio, place, alpha) for place in (low, low + 1)]
    share = place - low
    return (
        ends[0][0] * (1 - share) + ends[1][0] * share,
        ends[0][1] * (1 - share) + ends[1][1] * share,
    )


def _at(rungs: Sequence[int], ratio: float, place: int, alpha: float) -> tuple[float, float]:
    each = 10 ** (place / _PER_DECADE)
    return effort(tuple(rungs), ratio * each, each, alpha)
