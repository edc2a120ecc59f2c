"""The choosers of a strategy: which there are, in which unit each counts, and whether they can begin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ttsflow.build import walk
from ttsflow.choice import ChooserPart
from ttsflow.errors import ConfigError, suggest
from ttsflow.ledger import Budget
from ttsflow.measuring import unit_of
from ttsflow.protocols import Task
from ttsflow.types import Problem

__all__ = ["check_choosers", "check_gold", "choosers_of"]


def _found(strategy: Any) -> Iterator[tuple[str, ChooserPart]]:
    """Yield the chooser of every stage that has one, and where its settings stand."""
    for path, part in walk(strategy, "strategy"):
        chooser = getattr(part, "chooser", None)
        if isinstance(chooser, ChooserPart):
            yield f"{path}.learning", chooser


def choosers_of(strategy: Any, budget: Budget, costs: Collection[str]) -> dict[ChooserPart, str]:
    """Return the choosers of a strategy, each with the unit that it counts.

    Raises ``ConfigError`` where there is no cost model of that name, or nobody says which of several budgets.
    """
    return {chooser: _unit_of(chooser, path, budget, costs) for path, chooser in _found(strategy)}


def check_choosers(strategy: Any, budget: Budget, costs: Collection[str]) -> None:
    """Refuse a chooser that cannot begin as its settings say."""
    units = choosers_of(strategy, budget, costs)
    for path, chooser in _found(strategy):
        try:
            chooser.open_chooser(units[chooser])
        except ConfigError as error:
            raise error.below(path) from error


def check_gold(strategy: Any, task: Task, problems: Sequence[Problem]) -> None:
    """Refuse to learn from right answers where nobody knows of any problem what is right."""
    for path, chooser in _found(strategy):
        if not chooser.graded or not problems:
            continue
        if all(p.gold is None and task.correct(None, p) is None for p in problems):
            raise ConfigError(
                "it learns from which answers are right, and this task has no gold answers; without any, "
                "`agreement` learns from votes.",
                f"{path.removesuffix('.learning')}.reward",
            )


def _unit_of(chooser: ChooserPart, path: str, budget: Budget, costs: Collection[str]) -> str:
    if budget.run:
        return unit_of(chooser.unit, path, budget)
    unit = chooser.unit or "tokens"
    if unit not in costs:
        raise ConfigError(
            f"no cost model of this run measures '{unit}'. {suggest(unit, costs)}", f"{path}.unit"
        )
    return unit
