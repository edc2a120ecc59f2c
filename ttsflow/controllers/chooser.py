"""The chooser that learns: which strategy to run, by what strategies earned and cost before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttsflow.choice import Chooser, Outcome, Question
from ttsflow.controllers.prices import read_learnt
from ttsflow.errors import ConfigError, DataError
from ttsflow.ops import Chosen

if TYPE_CHECKING:
    from ttsflow.controllers.learner import Learner

__all__ = ["Learning", "LearningChooser"]

_START = "start"
#: Settings of ``Learning`` that are those of the learner.
_OWN = ("price", "gain", "spread", "cell_spread", "boldness")


@dataclass(frozen=True, slots=True)
class Learning:
    """How it is learnt which strategy to run (see ``ttsflow.controllers.learner``).

    ``unit`` is that of costs: of a budget of the run, or of any cost model in a run without one; None: of the
    only budget, or tokens. ``price`` is what reward as much as the cheapest arm costs must bring. Before
    anything is learnt, twice the cost is expected to bring ``gain``, give or take a standard deviation of
    ``spread``; ``cell_spread`` is that of what sets one sort of question apart. ``boldness`` narrows the
    draws by which arms are tried: 1 is the posterior itself, 0 its mean; they narrow as fewer questions are
    to come. ``start`` is the file `learnt.json` of an earlier run, where this one goes on.
    """

    unit: str | None = None
    price: float = 0.002
    gain: float = 0.02
    spread: float = 0.03
    cell_spread: float = 0.03
    boldness: float = 0.5
    start: str | None = None

    def __post_init__(self) -> None:
        self.learner({"any": 1.0})

    def learner(
        self, arms: Mapping[str, float], saved: Mapping[str, Any] | None = None, **run: Any
    ) -> Learner:
        """Return a learner of these arms, or what was ``saved`` of one, for a ``run`` of a budget.

        Raises ``ConfigError`` for settings that cannot be, ``ValueError`` for what is no saved state.
        """
        from ttsflow.controllers.learner import Learner  # noqa: PLC0415 - it needs numpy

        settings = {name: getattr(self, name) for name in _OWN} | run
        return Learner(arms, **settings) if saved is None else Learner.from_state(saved, **settings)


@dataclass(frozen=True, slots=True)
class LearningChooser:
    """A chooser among ``arms``, (name, declared cost) each; ``reward`` is the name of what they earn.

    ``features`` are those that make a sort of question; one that a question does not have is left out.
    """

    learning: Learning
    arms: tuple[tuple[str, float], ...]
    reward: str
    features: tuple[str, ...]

    @property
    def unit(self) -> str | None:
        """That of the settings."""
        return self.learning.unit

    @property
    def graded(self) -> bool:
        """Whether the reward is that an answer is right."""
        return self.reward == "correct"

    def open_chooser(self, unit: str) -> Chooser:
        """Return the working chooser.

        Raises ``DataError`` for a file that holds no learner, ``ConfigError`` for one that learnt other arms,
        another reward or in another unit; both with the path ``start``.
        """
        return _Chooser(self, unit, None if self.learning.start is None else self._saved(unit))

    def _saved(self, unit: str) -> Mapping[str, Any]:
        file = self.learning.start or ""
        saved = read_learnt(file, "learner", unit, _START)
        told, arms = {name: saved.get(name) for name in ("reward", "features")}, dict(self.arms)
        if told["reward"] != self.reward:
            raise ConfigError(
                f"{file} was learnt from the reward {told['reward']}, and this run has {self.reward}.", _START
            )
        if told["features"] != [*self.features]:
            raise ConfigError(
                f"{file} was learnt by the features {told['features']}, and this run has {[*self.features]}.",
                _START,
            )
        learner: Mapping[str, Any] = saved["learner"]
        try:
            known = dict(learner["arms"])
            self.learning.learner(arms, learner)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file}: {error}", _START) from error
        if known != arms:
            theirs, ours = (
                ", ".join(f"{name} at {cost:g}" for name, cost in sorted(each.items()))
                for each in (known, arms)
            )
            raise ConfigError(f"{file} was learnt of the arms {theirs}, and this run has {ours}.", _START)
        return learner


class _Chooser:
    def __init__(self, part: LearningChooser, unit: str, saved: Mapping[str, Any] | None) -> None:
        self._part, self._unit, self._saved = part, unit, saved
        self._problems, self._limit = 1, None
        self._learner = part.learning.learner(dict(part.arms), saved)

    def begin(self, problems: int, limit: float | None) -> None:
        """Begin a run."""
        self._problems = max(1, problems)
        run = {"budget": limit, "questions": self._problems}
        self._learner = self._part.learning.learner(dict(self._part.arms), self._saved, **run)

    def choose(self, question: Question, rng: random.Random) -> Chosen:
        """Return the arm, or that even the cheapest costs more than is left."""
        learner, features, left = self._learner, self._cut(question.features), question.left
        share = 1.0
        if left is not None and learner.budget is not None:
            share = min(1.0, left / learner.budget)
        ahead = min(1.0, question.ahead / self._problems)
        arm = learner.choose(features, share, rng, questions_left=ahead)
        if not learner.priced:
            return Chosen(arm)
        expected = learner.costs(features)[arm]
        if left is None or expected <= left:
            return Chosen(arm, expected)
        told = f"the cheapest, {arm}, costs {expected:.4g} {self._unit}, and {left:.4g} are left"
        return Chosen(None, refused=told)

    def learn(self, arm: str, features: Mapping[str, float | str], outcomes: Mapping[str, Outcome]) -> None:
        """Learn from what arms earned and cost."""
        reward, cost = outcomes[arm]
        also = {name: (outcome.reward, outcome.cost) for name, outcome in outcomes.items() if name != arm}
        self._learner.learn(arm, self._cut(features), reward, cost, also=also)

    def _cut(self, features: Mapping[str, float | str]) -> dict[str, float | str]:
        return {name: features[name] for name in self._part.features if name in features}

    def state(self) -> Mapping[str, Any]:
        """Return what the learner knows, and of what."""
        part = self._part
        told = {"unit": self._unit, "reward": part.reward, "features": [*part.features]}
        return {**told, "learner": self._learner.state()}
