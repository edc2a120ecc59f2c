"""What picks one of several strategies for each problem of a run: a chooser, and what it hears."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ttsflow.ops import Chosen

__all__ = ["Chooser", "ChooserPart", "Outcome", "Question"]


class Question(NamedTuple):
    """A problem that needs an arm: its features, and the funds.

    ``left`` of the run's funds, in the chooser's unit, are neither spent nor set aside for others, what this
    problem has spent for the choice among them; None where the run has no limit in that unit. ``ahead``
    problems have no arm yet, this one included.
    """

    features: Mapping[str, float | str]
    left: float | None
    ahead: int


class Outcome(NamedTuple):
    """What an arm earned on a problem, from 0 to 1, and what it cost; None: not known."""

    reward: float | None
    cost: float | None


@runtime_checkable
class Chooser(Protocol):
    """What outlives a problem: what each arm earns and costs on which problems."""

    def begin(self, problems: int, limit: float | None) -> None:
        """Begin a run of so many problems; ``limit`` are its funds, None where there is no limit."""
        ...

    def choose(self, question: Question, rng: random.Random) -> Chosen:
        """Return the arm for a problem, or why there is none. Chance comes from ``rng`` alone."""
        ...

    def learn(self, arm: str, features: Mapping[str, float | str], outcomes: Mapping[str, Outcome]) -> None:
        """Take in what came of a choice: of the arm that ran, and of others that are known with it.

        Outcomes come in the order of the choices.
        """
        ...

    def state(self) -> Mapping[str, Any]:
        """Return what it has learnt, as plain data."""
        ...


@runtime_checkable
class ChooserPart(Protocol):
    """Settings of a chooser, comparable by value. Stages with equal ones share one chooser in a run."""

    @property
    def unit(self) -> str | None:
        """The unit it counts costs in; None: that of the run's only budget, or tokens without one."""
        ...

    @property
    def graded(self) -> bool:
        """Whether the reward is that an answer is right, which the driver finds out."""
        ...

    def open_chooser(self, unit: str) -> Chooser:
        """Return the working chooser, which counts in ``unit``."""
        ...
