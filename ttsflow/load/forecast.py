"""What loads, or prices, have to be reckoned with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttsflow.errors import ConfigError

__all__ = ["FIFTHS", "PRIOR", "Forecast"]

#: One each of the loads of a published schedule: a high quantile of them is a cautious beginning.
PRIOR = (0.0, 0.25, 0.55, 0.85)

#: Quantiles that each stand for a fifth of the values to come.
FIFTHS = (0.1, 0.3, 0.5, 0.7, 0.9)

#: What weighs less than this, against 1 for the newest, is forgotten.
_LEAST = 1e-4


class Forecast:
    """A high quantile of what was seen, old values weighing less.

    A value that was followed by k others weighs exp(-k / window). The numbers of ``prior`` stand for values
    seen before all others, together: each weighs 1 until the first value comes, and fades as they do.
    ``quantile`` lies in [0, 1]. It knows no clock and no order but that of ``observe``.

    It never says what was neither seen nor given. Equal calls give equal forecasts.
    """

    def __init__(self, quantile: float = 0.9, window: float = 100.0, prior: Sequence[float] = PRIOR) -> None:
        if not 0 <= quantile <= 1:
            raise ConfigError(f"a quantile lies between 0 and 1, got {quantile}.", "quantile")
        if not 1 <= window <= 1e9:
            raise ConfigError(f"values of a window are between 1 and 1e9, got {window}.", "window")
        for value in prior:
            _finite(value, "prior")
        self.quantile, self.window, self.prior = quantile, window, tuple(prior)
        self._seen: list[float] = []
        self._told: dict[tuple[float, ...], list[float]] = {}
        #: How many were followed by so many others that they are forgotten.
        self._most = math.ceil(-math.log(_LEAST) * window)
        self._count = 0

    def observe(self, value: float) -> None:
        """Remember a value, which must be finite. Raises ``ConfigError``."""
        _finite(value, "value")
        self._seen.append(float(value))
        self._told.clear()
        self._count += 1
        if len(self._seen) >= 2 * self._most:
            del self._seen[: -self._most]

    def ahead(self) -> float:
        """Return the least value that has, with all below it, at least the share ``quantile`` of the weight.

        Raises ``ConfigError`` when nothing was seen and there is no prior.
        """
        return self.at((self.quantile,))[0]

    def at(self, quantiles: Sequence[float]) -> list[float]:
        """Return the same for other quantiles, which are given in ascending order."""
        wanted = tuple(quantiles)
        if wanted not in self._told:
            self._told[wanted] = self._at(wanted)
        return self._told[wanted]

    def _at(self, quantiles: tuple[float, ...]) -> list[float]:
        seen = np.array(self._seen[-self._most :])
        weights = np.exp(np.arange(1 - len(seen), 1) / self.window)
        old = math.exp(-self._count / self.window)
        if old >= _LEAST or not len(seen):
            seen = np.append(seen, self.prior)
            weights = np.append(weights, np.full(len(self.prior), max(old, _LEAST)))
        if not len(seen):
            raise ConfigError("nothing was seen yet; give at least one value to begin with.", "prior")
        order = np.argsort(seen, kind="stable")
        reached = np.cumsum(weights[order])
        # What rounding leaves above the whole is the last.
        places = np.searchsorted(reached, np.array(quantiles) * reached[-1])
        return [float(seen[order[min(place, len(order) - 1)]]) for place in places]

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "quantile": self.quantile,
            "window": self.window,
            "prior": list(self.prior),
            "seen": self._seen[-self._most :],
            "count": self._count,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Forecast:
        """Return the forecast that ``state`` describes. Raises ``ConfigError`` for anything else."""
        try:
            made = cls(state["quantile"], state["window"], state["prior"])
            seen, count = [float(value) for value in state["seen"]], int(state["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is no state of a forecast: {type(error).__name__}: {error}.") from error
        for value in seen:
            _finite(value, "seen")
        if count < len(seen):
            raise ConfigError(f"{len(seen)} values cannot be the last of {count}.", "count")
        made._seen, made._count = seen, count
        return made


def _finite(value: float, place: str) -> None:
    if not math.isfinite(value):
        raise ConfigError(f"must be a finite number, got {value!r}.", place)
