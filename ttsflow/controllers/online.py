"""ATEST-Online: every sample has a price that is learnt, and every question a share of the funds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttsflow.control import Asking, Controller
from ttsflow.controllers.prices import Prices, open_prices, short_of
from ttsflow.costs.online import OnlineCost
from ttsflow.errors import ConfigError
from ttsflow.ops import Offer

__all__ = ["Online"]

#: The samples of a query to which a question's share of the funds is set equal.
REFERENCE = 4


@dataclass(frozen=True, slots=True)
class Online:
    """The budget controller of ATEST, Algorithm 1.

    A question's first sample is granted if its price and margin are no more than an equal share of what is
    left for each of those that still wait; else the question is deferred. Further ones are granted as long as
    there are funds, and have to add ``gain`` in stability for what a sample costs when four are a question's
    share of all funds. With ``carry`` what earlier questions have left is shared by the later ones; without
    it every share is that of the beginning. With ``retry`` a deferred question is asked once more at the end.
    ``unit`` is that of the budget for the run; None: the only one it has.
    """

    unit: str | None = None
    gain: float = 0.02
    carry: bool = True
    retry: bool = False
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        if not 0 < self.gain < 1:
            raise ConfigError(f"stability lies between 0 and 1, got {self.gain}.", "gain")

    def open(self, unit: str) -> Controller:
        """Return the working controller. Raises ``DataError`` for prices that cannot be read."""
        return _Online(self, unit, open_prices(self.prices, unit))


class _Online:
    def __init__(self, part: Online, unit: str, prices: OnlineCost) -> None:
        self._part = part
        self._unit = unit
        self._prices = prices
        self._share = 0.0

    def begin(self, problems: int, limit: float) -> None:
        """Begin a run."""
        self._share = limit / max(1, problems)

    def offer(self, asking: Asking) -> Offer:
        """Return the price, or refuse what is more than the share or the funds."""
        found = self._prices.estimate(asking.samples, asking.load)
        rate = REFERENCE * self._part.gain / self._share
        if found is None:
            return Offer(self._unit, None, rate=rate)
        return Offer(self._unit, found.mean, found.margin, rate, self._refused(asking, found.price))

    def _refused(self, asking: Asking, price: float) -> str | None:
        unit = self._unit
        if price > asking.left:
            return short_of(asking, price, unit)
        if not asking.first:
            return None
        share = asking.left / asking.ahead if self._part.carry else self._share
        if price <= share:
            return None
        return f"a sample would cost up to {price:.4g} {unit}, and the share of a question is {share:.4g}"

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Learn from what samples have cost."""
        self._prices.observe(samples, load, cost)

    def closed(self, spent: float) -> None:
        """Do nothing: shares follow from what is left."""

    def state(self) -> Mapping[str, Any]:
        """Return the prices."""
        return {"unit": self._unit, "prices": self._prices.state()}
