"""A controller for searches: each question has an equal share of the funds, and buys rounds out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttsflow.control import Asking, Controller
from ttsflow.controllers.prices import Prices, open_prices, short_of
from ttsflow.costs.online import OnlineCost
from ttsflow.ops import Offer

__all__ = ["Shares"]


@dataclass(frozen=True, slots=True)
class Shares:
    """Grants a round of a search as long as it fits into the question's share of the funds.

    The share is an equal part of what is left and of what the questions under way have spent, for each of
    them and of those that wait. A round of n steps fits if the question can pay for it, and then for
    completing one candidate, out of its share. A single sample is granted as long as there are funds: it is
    what completes a search, or stands in its place.

    Steps and completions are measured as queries of so many samples. Since a search asks for many steps at
    once or for one completion, the price of one sample is that of a completion as soon as there was one.
    """

    unit: str | None = None
    prices: Prices = field(default_factory=Prices)

    def open(self, unit: str) -> Controller:
        """Return the working controller. Raises ``DataError`` for prices that cannot be read."""
        return _Shares(unit, open_prices(self.prices, unit))


class _Shares:
    def __init__(self, unit: str, prices: OnlineCost) -> None:
        self._unit = unit
        self._prices = prices

    def begin(self, problems: int, limit: float) -> None:
        """Do nothing: shares follow from what is left."""

    def offer(self, asking: Asking) -> Offer:
        """Return the price of steps or of a sample, or why they are not granted."""
        found = self._prices.estimate(asking.samples, asking.load)
        if found is None:
            return Offer(self._unit, None)
        return Offer(self._unit, found.mean, found.margin, 0.0, self._refused(asking, found.price))

    def _refused(self, asking: Asking, price: float) -> str | None:
        if price > asking.left:
            return short_of(asking, price, self._unit)
        one = self._prices.estimate(1, asking.load)
        if asking.samples == 1 or one is None:
            return None
        begun, gone, spent = asking.under_way()
        questions = asking.ahead - asking.first + begun
        left = (asking.left + gone) / max(1, questions) - spent
        if price + one.mean <= left:
            return None
        return (
            f"{asking.samples} steps would cost up to {price:.4g} {self._unit} and completing one "
            f"{one.mean:.4g}, and {max(0.0, left):.4g} of the question's share are left"
        )

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Learn from what steps or samples have cost."""
        self._prices.observe(samples, load, cost)

    def closed(self, spent: float) -> None:
        """Do nothing: shares follow from what is left."""

    def state(self) -> Mapping[str, Any]:
        """Return the prices."""
        return {"unit": self._unit, "prices": self._prices.state()}
