"""What a run is measured and steered by: controllers, meter, load monitor, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttsflow.budget import Budget
from ttsflow.build import walk
from ttsflow.control import ControllerPart
from ttsflow.errors import ConfigError, suggest
from ttsflow.meters.attribution import check_attribution
from ttsflow.meters.plain import UNMETERED, NoMeter
from ttsflow.protocols import CostModel, EnginePart
from ttsflow.sensors import MeterPart

__all__ = ["check_controllers", "check_meter", "controllers_of", "unit_of", "with_joules"]


def controllers_of(strategy: Any, budget: Budget) -> dict[ControllerPart, str]:
    """Return the controllers of a strategy, each with the unit of the run's budget that it spends.

    Raises ``ConfigError`` where there is none, or where nobody says which of several.
    """
    found: dict[ControllerPart, str] = {}
    for path, part in walk(strategy, "strategy"):
        if isinstance(part, ControllerPart):
            found[part] = unit_of(part.unit, path, budget)
    return found


def check_controllers(strategy: Any, budget: Budget) -> None:
    """Refuse a controller that has no funds, or that cannot begin as its settings say."""
    units = controllers_of(strategy, budget)
    for path, part in walk(strategy, "strategy"):
        if isinstance(part, ControllerPart):
            try:
                part.open(units[part])
            except ConfigError as error:
                raise error.below(path) from error


def unit_of(wanted: str | None, path: str, budget: Budget) -> str:
    """Return the unit of the run's budget that is spent; ``wanted`` names it, None: the only one.

    Raises ``ConfigError`` where there is none, or where nobody says which of several.
    """
    units = [*budget.run]
    if not units:
        raise ConfigError(
            "a controller spends the funds of a run, and this one has none. Set some in any unit that a cost "
            "measures, such as budget.run.tokens=200000, budget.run.seconds=600, or with a meter "
            "budget.run.joules=50000.",
            "budget.run",
        )
    if wanted is None:
        if len(units) > 1:
            known = ", ".join(units)
            raise ConfigError(
                f"the run has budgets in {known}; say which of them it spends, the others stay limits.",
                f"{path}.unit",
            )
        return units[0]
    if wanted not in units:
        raise ConfigError(f"the run has no budget in '{wanted}'. {suggest(wanted, units)}", f"{path}.unit")
    return wanted


def with_joules(costs: Mapping[str, Any], meter: MeterPart) -> Mapping[str, Any]:
    """Return the costs of a config, with joules among them where something measures them."""
    if isinstance(meter, NoMeter) or "joules" in costs:
        return costs
    return {**costs, "joules": {"use": "joules"}}


def check_meter(
    meter: MeterPart, attribution: str, costs: Mapping[str, CostModel], engine: EnginePart, concurrency: int
) -> None:
    """Refuse a cost in joules that nobody measures, and a meter that does not go with the engine."""
    check_attribution(attribution, concurrency)
    for name, cost in costs.items():
        if "joules" in getattr(cost, "needs", ()) and isinstance(meter, NoMeter):
            raise ConfigError(UNMETERED, f"cost.{name}")
    if getattr(meter, "wall", False) and getattr(engine, "virtual", False):
        raise ConfigError(
            "this engine's clock is virtual, and what a device takes meanwhile is not what the run would "
            "take. meter=model goes with it: watts times its seconds.",
            "meter",
        )
    try:
        meter.check()
    except ConfigError as error:
        raise error.below("meter") from error
