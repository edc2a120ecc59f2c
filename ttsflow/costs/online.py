"""What the next samples will cost, learned from what the last ones did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ttsflow.costs.recursive import RecursiveLeastSquares
from ttsflow.errors import ConfigError

__all__ = ["Estimate", "OnlineCost"]


#: So many costs of 0 in a row are shared by the next one above 0; before them the meter was silent.
_MOST_FREE = 100


class Estimate(NamedTuple):
    """A cost as expected, and what to keep ready above it; both in the unit of what was observed."""

    mean: float
    margin: float

    @property
    def price(self) -> float:
        """What to reckon with."""
        return self.mean + self.margin


class OnlineCost:
    """The price of n samples taken at once while others load the machine by u, in any one unit.

    A line in n whose fixed part and slope are lines in u: a + b n + c u + d n u, fitted by recursive least
    squares with ``forgetting`` on the features 1, n/``usual``, u and n u/``usual``, all about 1. ``usual`` is
    a usual number of samples; u is the load of others, in [0, 1] as a rule: own work must not be part of it.

    The margin is ``beta`` standard deviations, of which one counts as ``least`` of the mean at least. The
    mean is never below ``least`` of the last cost measured, scaled by samples, so that it stays above 0; for
    the first ``cold`` steps it is not below all of that.

    ``prior`` are the a, b, c and d of that line, as of a calibrated model: they are trusted like one
    observation with an error of ``least``, there is an estimate before anything was observed, and no cold
    start. Measurements that failed are counted in ``ignored`` and otherwise left out. A cost of 0, as of
    samples that end between two refreshes of a meter, is not one by itself: it is kept until a cost above 0
    comes, and their mean counts as one measurement at the mean of their features.

    Settings that cannot be raise a ``ConfigError``, samples below 1 and loads that are no finite number from
    0 up a ``ValueError``. It does no I/O.

    ``variance`` and ``trace_cap`` are of the coefficients, over the variance of the noise: a first jump of
    the load is mostly covered with the cap at 1000, and not with 400 (``benchmarks/cost_models.py``).
    """

    def __init__(
        self,
        *,
        forgetting: float = 0.98,
        beta: float = 2.0,
        least: float = 0.1,
        cold: int = 4,
        usual: float = 4.0,
        prior: Sequence[float] | None = None,
        variance: float = 100.0,
        trace_cap: float = 1000.0,
    ) -> None:
        if not 0 <= beta < math.inf:
            raise ConfigError(f"must be at least 0 and finite, got {beta}.", "beta")
        if not 0 < least < math.inf:
            raise ConfigError(f"must lie above 0, to keep means there, and be finite, got {least}.", "least")
        if cold < 0:
            raise ConfigError(f"a number of steps is at least 0, got {cold}.", "cold")
        if not 0 < usual < math.inf:
            raise ConfigError(f"a number of samples lies above 0, got {usual}.", "usual")
        self.beta, self.least, self.cold, self.usual = beta, least, cold, usual
        self.seen = 0
        self.ignored = 0
        #: Features of what was observed at a cost of 0 since the last cost above it.
        self._free: list[tuple[float, ...]] = []
        self._last: tuple[float, int] | None = None
        self._warm = prior is not None
        if prior is None:
            self._model = RecursiveLeastSquares(4, forgetting, variance, trace_cap)
            return
        if len(prior) != 4 or not all(0 <= value < math.inf for value in prior) or not prior[0] + prior[1]:
            raise ConfigError(
                f"four finite numbers from 0 up, a + b above 0, are needed, got {prior}.", "prior"
            )
        a, b, c, d = prior
        self._model = RecursiveLeastSquares(
            4,
            forgetting,
            1.0,
            trace_cap,
            start=(a, b * usual, c, d * usual),
            noise=(least * (a + b * usual)) ** 2,
        )

    def estimate(self, samples: int, load: float) -> Estimate | None:
        """Return what ``samples`` more cost at ``load``; None where nothing is known yet."""
        point = self._point(samples, load)
        if not self.seen and not self._warm:
            return None
        mean, sigma = self._model.predict(point)
        if self._last is not None:
            scaled = self._last[0] * samples / self._last[1]
            mean = max(mean, scaled if self.seen < self.cold and not self._warm else self.least * scaled)
        return Estimate(mean, self.beta * max(sigma, self.least * mean))

    def observe(self, samples: int, load: float, cost: float | None) -> bool:
        """Take in that ``samples`` at ``load`` cost so much, and return whether it was taken in.

        A cost that is None, not finite or below 0 is a measurement that failed: it is counted, no more. One
        of 0 waits for the next above 0.
        """
        point: tuple[float, ...] = self._point(samples, load)
        if cost == 0:
            self._free.append(point)
            del self._free[:-_MOST_FREE]
            return False
        if cost is None or not 0 < cost < math.inf:
            self.ignored += 1
            return False
        if self._free:
            together = [*self._free, point]
            point = tuple(sum(column) / len(together) for column in zip(*together, strict=True))
            samples, cost = max(1, round(point[1] * self.usual)), cost / len(together)
            self._free.clear()
        self._model.update(point, cost)
        self._last = (float(cost), samples)
        self.seen += 1
        return True

    def _point(self, samples: int, load: float) -> tuple[float, float, float, float]:
        if samples < 1:
            raise ValueError(f"a price is asked for at least one sample, got {samples}.")
        if not 0 <= load < math.inf:
            raise ValueError(f"a load is a finite number from 0 up, got {load}.")
        n = samples / self.usual
        return 1.0, n, load, n * load

    def state(self) -> dict[str, Any]:
        """Return all there is to it, settings too, as plain numbers and lists that JSON can hold."""
        return {
            "beta": self.beta,
            "least": self.least,
            "cold": self.cold,
            "usual": self.usual,
            "seen": self.seen,
            "ignored": self.ignored,
            "free": [list(point) for point in self._free],
            "last": None if self._last is None else list(self._last),
            "warm": self._warm,
            "model": self._model.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OnlineCost:
        """Return what ``state`` was taken from, to the last bit. Raises ``ValueError`` for what is none."""
        try:
            price = cls(**{name: state[name] for name in ("beta", "least", "cold", "usual")})
            price.seen, price.ignored, price._warm = (state[name] for name in ("seen", "ignored", "warm"))
            price._free = [_features(point) for point in state.get("free", ())]
            if state["last"] is not None:
                cost, samples = state["last"]
                price._last = (float(cost), samples)
                price._point(samples, cost)
            price._model = RecursiveLeastSquares.from_state(state["model"])
            fits = price._model.size == 4 and (price.seen > 0) == (price._last is not None)
        except (KeyError, OverflowError, TypeError, ConfigError) as error:
            raise ValueError(f"this is no saved state of an online price: {error}.") from error
        if not fits:
            raise ValueError("this is no saved state of an online price: its parts do not belong together.")
        return price


def _features(point: Any) -> tuple[float, ...]:
    """Return saved features. Raises ``ValueError`` for what is none."""
    found = tuple(float(value) for value in point)
    if len(found) != 4 or not all(0 <= value < math.inf for value in found):
        raise ValueError(f"features are four finite numbers from 0 up, got {point}.")
    return found
