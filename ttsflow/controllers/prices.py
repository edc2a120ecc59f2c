"""What every controller has: prices that are learnt, and the settings that say how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttsflow.control import Asking
from ttsflow.controllers.agreement import Agreement
from ttsflow.costs.calibrated import is_calibration, load_json, parse_calibration
from ttsflow.costs.online import OnlineCost
from ttsflow.errors import ConfigError, DataError

__all__ = ["LEARNT", "Prices", "open_agreement", "open_prices", "read_learnt", "short_of"]


#: Where a controller has the file.
_START = "prices.start"

#: What a run writes into its folder.
LEARNT = "learnt.json"

_WRITERS = f"a run with a controller writes {LEARNT}, and `ttsflow calibrate` a profile"


@dataclass(frozen=True, slots=True)
class Prices:
    """How the price of samples is learnt (see ``ttsflow.costs.online``).

    ``forgetting``: what a measurement still weighs after the next one. ``beta``: standard deviations of the
    margin that is set aside above the price. ``prior``, where they are known beforehand, are the price of a
    query, that of a sample in it, and what full load adds to each. ``start`` is the file
    `learnt.json` of an earlier run, where its prices were at the end these begin, or one of
    ``ttsflow calibrate``, whose costs are then the ``prior``.
    """

    forgetting: float = 0.98
    beta: float = 2.0
    prior: tuple[float, float, float, float] | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.forgetting <= 1:
            raise ConfigError(f"a share above 0 and up to 1, got {self.forgetting}.", "forgetting")
        if not 0 <= self.beta <= 100:
            raise ConfigError(f"between 0 and 100 standard deviations, got {self.beta}.", "beta")
        if self.prior is not None and self.start is not None:
            raise ConfigError("prices begin as `start` says or as `prior` does; leave one out.", "prior")
        OnlineCost(forgetting=self.forgetting, beta=self.beta, prior=self.prior)


def open_prices(settings: Prices, unit: str) -> OnlineCost:
    """Return prices in ``unit`` that begin as the settings say. Raises ``DataError`` for a file of none."""
    if settings.start is None:
        return OnlineCost(forgetting=settings.forgetting, beta=settings.beta, prior=settings.prior)
    path = Path(settings.start).expanduser()
    saved = load_json(path, _START, _WRITERS, "prices")
    if is_calibration(saved):
        known = parse_calibration(saved, path, unit, _START)
        return OnlineCost(forgetting=settings.forgetting, beta=settings.beta, prior=known.cost)
    learnt = _check_learnt(saved, path, "prices", _START, unit=unit, how=_WRITERS)
    try:
        return OnlineCost.from_state(_under(learnt["prices"], settings))
    except ValueError as error:
        raise DataError(f"{path}: {error}", _START) from error


def open_agreement(settings: Prices) -> Agreement:
    """Return how far samples agree, as far as ``start`` tells of it. Raises ``DataError``."""
    if settings.start is None:
        return Agreement()
    path = Path(settings.start).expanduser()
    saved = load_json(path, _START, _WRITERS, "prices")
    # Of a run or of a calibration: what either holds was checked with its prices.
    state = saved.get("agreement") if isinstance(saved, Mapping) else None
    try:
        return Agreement() if state is None else Agreement.from_state(state)
    except ValueError as error:
        raise DataError(f"{path}: {error}", _START) from error


def read_learnt(file: str, what: str, unit: str, setting: str) -> Mapping[str, Any]:
    """Return what an earlier run has learnt, in ``unit``, with a mapping under the key ``what``.

    Raises ``DataError`` for a file that does not hold that, and ``ConfigError`` for another unit; both say
    that ``setting`` named the file.
    """
    path, how = Path(file).expanduser(), f"a run with a controller writes {LEARNT}"
    return _check_learnt(load_json(path, setting, how, what), path, what, setting, unit=unit, how=how)


def _check_learnt(
    saved: Any, path: Path, what: str, setting: str, *, unit: str, how: str
) -> Mapping[str, Any]:
    """Return what was read from ``path``; raises as ``read_learnt``, and says ``how`` to get a file."""
    if not isinstance(saved, Mapping) or not isinstance(saved.get(what), Mapping):
        raise DataError(f"{path}: it holds no {what}; {how}.", setting)
    if saved.get("unit") != unit:
        raise ConfigError(f"{path} has {what} in {saved.get('unit')}, and this run counts {unit}.", setting)
    return saved


def _under(state: Mapping[str, Any], settings: Prices) -> Mapping[str, Any]:
    """Return a saved state as it goes on under other settings."""
    model = state.get("model")
    if isinstance(model, Mapping):
        model = {**model, "forgetting": settings.forgetting}
    return {**state, "beta": settings.beta, "model": model}


def short_of(asking: Asking, price: float, unit: str) -> str:
    """Return what to say where funds are less than a price."""
    left = max(0.0, asking.left)
    return f"{asking.samples} more would cost up to {price:.4g} {unit}, and {left:.4g} are left"
