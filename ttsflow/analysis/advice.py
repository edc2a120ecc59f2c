"""Which strategy suits a type of model, as words to type after ``ttsflow run``.

What the profiles of the strategy ``recipe`` (see there) choose, with the number of samples that a budget
pays for. A high budget pays for ``n``. A low one is worth two to four samples of a question, unless the
profile says what low means: ``paper_table2`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ttsflow.analysis.horizon import Kind
from ttsflow.strategies.recipe import Horizon, Plan, Profile, Recipe, plan

__all__ = ["HORIZONS", "Advice", "advise"]

Budget: TypeAlias = Literal["low", "high"]
Objective: TypeAlias = Literal["tokens", "latency"]

#: What the strategy ``recipe`` calls a type. An undecided model is treated as a long-horizon one, the
#: careful choice: it never rests on the first of many samples to finish.
HORIZONS: Mapping[Kind, Horizon] = {
    "short-horizon": "short",
    "long-horizon": "long",
    "non-reasoning": "non_reasoning",
    "undecided": "long",
}

#: Samples that a low budget pays for: with objective latency five, of which three vote; with tokens two,
#: of which the first to finish answers, or three that vote where the first to finish is no good.
_LATENCY, _FIRST, _VOTE = 5, 2, 3


@dataclass(frozen=True, slots=True)
class Advice:
    """One choice. ``questions`` is "all", or "easy" or "hard" where a profile tells them apart."""

    profile: Profile
    budget: Budget
    objective: Objective
    questions: str
    words: str


def advise(kind: Kind, n: int) -> list[Advice]:
    """Return what every profile chooses per budget and objective, with ``n`` samples at a high budget."""
    return [
        Advice(profile, budget, objective, questions, _words(chosen))
        for profile in get_args(Profile)
        for objective in get_args(Objective)
        for budget in get_args(Budget)
        for questions, chosen in _plans(_recipe(n, profile, HORIZONS[kind], budget, objective), budget)
    ]


def _recipe(n: int, profile: Profile, horizon: Horizon, budget: Budget, objective: Objective) -> Recipe:
    """Return a recipe with the one of these settings that its profile reads."""
    if profile == "paper_table2":
        return Recipe(n, profile, horizon, compute=budget)
    return Recipe(n, profile, horizon, objective=objective if profile == "measured" else "tokens")


def _plans(recipe: Recipe, budget: Budget) -> Iterator[tuple[str, Plan]]:
    """Return the plans of a recipe by the questions they are for: one, or two that differ."""
    n = recipe.n
    if budget == "low" and recipe.profile == "measured":
        vote = _VOTE if recipe.horizon == "long" else _FIRST
        n = min(n, _LATENCY if recipe.objective == "latency" else vote)
    elif budget == "low" and recipe.profile == "article":
        n = min(n, _VOTE)
    easy, hard = plan(recipe, n), plan(recipe, n, hard=True)
    yield from [("all", easy)] if easy == hard else [("easy", easy), ("hard", hard)]


def _words(chosen: Plan) -> str:
    """Return a plan as settings; that all of the samples vote has one name."""
    if chosen.n == 1 or chosen.how == "single":
        return "strategy=single"
    if chosen.k == chosen.n:
        return f"strategy=majority strategy.n={chosen.n}"
    return f"strategy={chosen.how} strategy.k={chosen.k} strategy.n={chosen.n}"
