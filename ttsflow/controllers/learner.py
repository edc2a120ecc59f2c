"""A learner that picks a strategy for each question, by what the strategies earned and cost before."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttsflow.controllers.arm_costs import ArmCosts
from ttsflow.controllers.cells import EDGES, Cell, cell_of, checked_edges, numbered
from ttsflow.controllers.effects import Effects
from ttsflow.controllers.price import Funds, Rung, Taken, climb, hull
from ttsflow.controllers.tables import Floats
from ttsflow.errors import ConfigError, suggest

__all__ = ["Learner"]

_SETTINGS = ("budget", "questions", "price", "gain", "spread", "cell_spread", "boldness")
_COUNTERS = ("seen", "unrewarded", "ignored")
#: As many standard deviations more than what is expected have to be there for an arm above the cheapest.
_SURE = 2.0


class Learner:
    """Thompson sampling over reward minus price times cost, per cell of features.

    ``arms`` are strategies by name and what each costs in proportion to the others, in any unit: samples,
    say. The cheapest is the fallback. What a unit really costs, and each arm in each cell, is learnt.

    ``budget`` is what a run of so many ``questions`` may cost, in the unit of the costs it learns from. Every
    choice draws mean rewards from their posterior (``Effects``), and solves the linear program "earn most on
    the cells seen so far, at a mean cost of what is left per question left" with the draw: Thompson sampling
    under a knapsack constraint, Ferreira, Simchi-Levi and Wang, Online Network Revenue Management Using
    Thompson Sampling, Operations Research 66(6), 2018. The price of a cost is what the program makes of it:
    it rises as the budget falls behind the questions. What remains must also pay for the cheapest arm on
    every question that comes after, with a margin of two standard deviations since costs vary; an arm that
    would eat into that is not affordable.

    ``price`` is the least price of a cost: what reward as much as the cheapest arm costs must bring. Without
    a budget it is the price, times the share of questions left over the share of budget left where that is
    above 1. Before any cost was observed nothing is known to fit a budget, and the cheapest arm is chosen.

    ``gain`` is what reward twice the declared cost is expected to bring before anything is learnt,
    ``spread`` the standard deviation of an arm's effect about that, ``cell_spread`` that of an arm's effect
    in one cell about its effect over all; ``boldness`` narrows the draws, 1 being the posterior itself and 0
    its mean. They narrow further as questions are answered, by the share of those to come among these and
    those learnt from: what is tried can pay only later, and at the last question nothing but the mean counts.
    ``edges`` cut features that are numbers, see ``cells.EDGES``.

    The order of ``arms`` does not matter. Rewards that are missing and costs that cannot be are counted in
    ``unrewarded`` and ``ignored`` and otherwise left out. It may not know the question, its answer or its
    gold answer. Settings that cannot be raise a ``ConfigError``. It does no I/O.
    """

    def __init__(
        self,
        arms: Mapping[str, float],
        *,
        budget: float | None = None,
        questions: int = 1,
        price: float = 0.0,
        gain: float = 0.02,
        spread: float = 0.03,
        cell_spread: float = 0.03,
        boldness: float = 0.5,
        edges: Mapping[str, Sequence[float]] = EDGES,
    ) -> None:
        if not arms:
            raise ConfigError("at least one arm is needed.", "arms")
        for name, cost in arms.items():
            if not 0 < cost < math.inf:
                raise ConfigError(f"a declared cost lies above 0 and is finite, got {cost}.", f"arms.{name}")
        if budget is not None and not 0 < budget < math.inf:
            raise ConfigError(f"must lie above 0 and be finite, got {budget}.", "budget")
        if questions < 1:
            raise ConfigError(f"at least one question is needed, got {questions}.", "questions")
        for name, value, least in (("price", price, 0), ("gain", gain, -1), ("boldness", boldness, 0)):
            if not least <= value < math.inf:
                raise ConfigError(f"must be at least {least} and finite, got {value}.", name)
        for name, value in (("spread", spread), ("cell_spread", cell_spread)):
            if not 1e-4 <= value < 10:
                raise ConfigError(f"must be at least 0.0001 and below 10, got {value}.", name)
        self.arms = {name: float(arms[name]) for name in sorted(arms)}
        self.budget, self.questions, self.price = budget, questions, price
        self.gain, self.spread, self.cell_spread, self.boldness = gain, spread, cell_spread, boldness
        self.edges = checked_edges(edges)
        self.seen = self.unrewarded = self.ignored = 0
        declared = np.array(list(self.arms.values()))
        self._effects = Effects(gain * np.log2(declared / declared.min()), spread, cell_spread)
        self._costs = ArmCosts(declared)
        self._cells: dict[Cell, int] = {}

    def choose(
        self,
        features: Mapping[str, float | str],
        left_share: float,
        rng: random.Random,
        *,
        questions_left: float = 1.0,
    ) -> str:
        """Return the arm for a question. Changes nothing but the state of ``rng``.

        ``left_share`` is the share of the budget that is left, ``questions_left`` the share of questions,
        this one among them; both from 0 to 1. As many random numbers are drawn whatever they are, and with
        equal ones less budget never gives a dearer arm. Raises ``ValueError`` for shares that are none.
        """
        if not (0 <= left_share <= 1 and 0 <= questions_left <= 1):
            raise ValueError(f"shares lie between 0 and 1, got {left_share} and {questions_left}.")
        cell = self._cells.get(cell_of(features, self.edges), len(self._cells))
        coming = max(1.0, questions_left * self.questions)
        rewards = self._effects.draw(rng, self.boldness * coming / (coming + self.seen))
        coin = rng.random()
        costs = self._costs.estimate()
        if self.budget is not None and not self._costs.known:
            return self._name(int(costs[cell].argmin()))
        hulls = [hull(*rows) for rows in zip(rewards.tolist(), costs.tolist(), strict=True)]
        weights = self._weights(cell)
        cheapest = sum(weight * rungs[0].cost for weight, rungs in zip(weights, hulls, strict=True))
        least, pace, funds = self.price / cheapest, math.inf, Funds(math.inf if left_share else 0.0)
        if self.budget is not None:
            left = left_share * self.budget
            pace = left / coming
            funds = Funds(left, coming - 1, cheapest, _SURE * self._costs.deviation(costs))
        elif left_share:
            least *= max(1.0, questions_left / left_share)
        return self._name(_pick(hulls[cell], climb(hulls, weights, pace, least)[cell], funds, coin))

    def learn(
        self,
        arm: str,
        features: Mapping[str, float | str],
        reward: float | None,
        cost: float | None,
        *,
        also: Mapping[str, tuple[float | None, float | None]] | None = None,
    ) -> None:
        """Take in what an arm earned on a question, from 0 to 1, and what it cost.

        ``also`` are rewards and costs of other arms on the same question whose outcome is known without
        having been run, such as four of eight samples that were drawn: arms are compared on the question
        then, which teaches several times as much. A reward that is None or NaN is missing; a cost that is
        None, not finite or not above 0 is a measurement that failed. Raises ``ConfigError`` for an arm that
        does not exist and ``ValueError`` for a reward out of range, and then nothing is taken in.
        """
        told = {**(also or {}), arm: (reward, cost)}
        numbers, rewards = {name: self._number(name) for name in told}, {}
        for name, (earned, _) in told.items():
            if earned is not None and not math.isnan(earned):
                if not 0 <= earned <= 1:
                    raise ValueError(f"a reward lies between 0 and 1, got {earned} of {name!r}.")
                rewards[numbers[name]] = earned
        cell = self._row(cell_of(features, self.edges))
        self.seen += 1
        self.unrewarded += len(told) - len(rewards)
        if rewards:
            self._effects.learn(cell, rewards)
        self._costs.seen[cell] += 1
        for name, (_, spent) in told.items():
            self.ignored += not self._costs.learn(cell, numbers[name], spent)

    @property
    def priced(self) -> bool:
        """Whether any cost was observed, so that ``costs`` are in the unit of what is observed."""
        return self._costs.known

    def rewards(self, features: Mapping[str, float | str]) -> dict[str, float]:
        """Return the posterior mean of every arm's reward on such questions."""
        return self._of_cell(features, self._effects.draw(None))

    def costs(self, features: Mapping[str, float | str]) -> dict[str, float]:
        """Return what every arm is expected to cost on such questions, in declared units before any cost."""
        return self._of_cell(features, self._costs.estimate())

    def _of_cell(self, features: Mapping[str, float | str], table: Floats) -> dict[str, float]:
        row = table[self._cells.get(cell_of(features, self.edges), len(self._cells))]
        return dict(zip(self.arms, row.tolist(), strict=True))

    def _number(self, name: str) -> int:
        if name not in self.arms:
            raise ConfigError(f"there is no arm {name!r}. {suggest(name, self.arms)}", "arms")
        return list(self.arms).index(name)

    def _name(self, arm: int) -> str:
        return list(self.arms)[arm]

    def _row(self, cell: Cell) -> int:
        if cell not in self._cells:
            self._cells[cell] = len(self._cells)
            self._effects.grow()
            self._costs.grow()
        return self._cells[cell]

    def _weights(self, cell: int) -> list[float]:
        """Return the share of questions in each cell, as far as seen and with this one, unseen cells last."""
        seen = [*self._costs.seen, 0.0]
        seen[cell] += 1
        return [count / sum(seen) for count in seen]

    def state(self) -> dict[str, Any]:
        """Return all there is to it, settings too, as plain numbers, texts and lists that JSON can hold."""
        return {
            **{name: getattr(self, name) for name in (*_SETTINGS, *_COUNTERS)},
            "arms": dict(self.arms),
            "edges": {name: list(places) for name, places in self.edges.items()},
            "cells": [[list(pair) for pair in cell] for cell in self._cells],
            "rewards": self._effects.state(),
            "costs": self._costs.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], **settings: Any) -> Learner:
        """Return what ``state`` was taken from, to the last bit; ``settings`` replace those it had.

        So what was learnt goes into a run of another ``budget``. Arms and edges are what the state is about,
        and stay. Raises ``ValueError`` for what is no state, ``ConfigError`` for a setting that cannot be.
        """
        for name in settings:
            if name not in _SETTINGS:
                raise ConfigError(f"{name!r} cannot be set on a saved state. {suggest(name, _SETTINGS)}")
        kept = {name: state.get(name) for name in (*_SETTINGS, "arms", "edges")}
        try:
            learner = cls(**{**kept, **settings})
            cells = [tuple((str(name), str(bucket)) for name, bucket in cell) for cell in state["cells"]]
            learner._cells = numbered(cells)
            learner._effects.load(state["rewards"], len(learner._cells))
            learner._costs.load(state["costs"], len(learner._cells))
            for name in _COUNTERS:
                setattr(learner, name, int(state[name]))
        except (AttributeError, KeyError, TypeError, ValueError, ConfigError) as error:
            raise ValueError(f"this is no saved state of a learner: {error}.") from error
        return learner


def _pick(rungs: Sequence[Rung], taken: Taken, funds: Funds, coin: float) -> int:
    """Return the arm of the rung that was taken, or of the highest one below it that the funds cover."""
    at = taken.rungs + (coin < taken.share)
    while at and not funds.cover(rungs[at].cost):
        at -= 1
    return rungs[at].arm
