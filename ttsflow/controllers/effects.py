"""What each arm earns in each cell: a normal model of two effects, their interaction, and the question."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from ttsflow.controllers.tables import Floats, dumped, loaded

__all__ = ["Effects"]

#: The chance of a question to be solved by the cheapest arm, before anything is known: mean and deviation.
_CENTRE, _WIDTH = 0.5, 0.35
#: Variance of a reward about the mean of its arm and cell: what is the question's own, the same for all arms,
#: and the rest. The sum is 0.25, the most that a reward in [0, 1] can have; the shares are roughly those of
#: recorded samples, where voting strategies agree on most questions.
_QUESTION, _REST = 0.19, 0.06


class Effects:
    """Rewards in [0, 1]: difficulty of the cell + effect of the arm + interaction + question + rest.

    With y the reward of arm a on question q of cell c, all terms normal::

        y = d_c + e_a + i_ca + q + rest   d_c ~ N(0.5, 0.35^2)   e_a ~ N(prior_a, spread^2)
                                          i_ca ~ N(0, cell_spread^2)   q ~ N(0, 0.19)   rest ~ N(0, 0.06)

    a mixed model with crossed effects (Searle, Casella and McCulloch, Variance Components, 1992). What is
    learnt in one cell is believed of the others up to ``cell_spread``, so a cell with few observations goes
    by the arm's effect over all cells, and an arm that met the hard cells is not taken for a bad one. Arms
    that are told of the same question are compared on it: its own part is integrated out.

    The variances are given, so the posterior is normal, is drawn from exactly, and has sufficient statistics:
    per cell a precision (arms by arms) and a pull. With P and b those of a cell, t = d + e + i its means and
    K = cell_spread^2 I + 0.35^2 11' the prior covariance of t about 0.5 + e::

        e: precision I / spread^2 + sum over c of P - P (K^-1 + P)^-1 P
        t given e: covariance (K^-1 + P)^-1, mean (K^-1 + P)^-1 (K^-1 (0.5 + e) + b)

    Rewards are not normal; for a choice only their means matter, whose posterior is so after some dozens.
    """

    def __init__(self, prior: Floats, spread: float, cell_spread: float) -> None:
        arms = prior.size
        self.prior, self.spread = prior, spread
        self.precision, self.pull = np.zeros((0, arms, arms)), np.zeros((0, arms))
        width = _WIDTH**2
        self._inverse = (np.eye(arms) - width / (cell_spread**2 + arms * width)) / cell_spread**2

    def grow(self) -> None:
        """Make room for one cell more."""
        arms = self.prior.size
        self.precision = np.concatenate((self.precision, np.zeros((1, arms, arms))))
        self.pull = np.concatenate((self.pull, np.zeros((1, arms))))

    def learn(self, cell: int, rewards: Mapping[int, float]) -> None:
        """Take in the rewards, from 0 to 1, of one or more arms on one question."""
        at = sorted(rewards)
        shared = _QUESTION / (_REST + len(at) * _QUESTION)
        weights = (np.eye(len(at)) - shared) / _REST
        self.precision[cell][np.ix_(at, at)] += weights
        self.pull[cell][at] += weights @ [rewards[arm] for arm in at]

    def draw(self, rng: random.Random | None, boldness: float = 1.0) -> Floats:
        """Return mean rewards drawn from their joint posterior, the posterior means without an ``rng``.

        A ``boldness`` below 1 narrows what is drawn about the posterior mean, which explores less (posterior
        reshaping, Chapelle and Li, An Empirical Evaluation of Thompson Sampling, 2011).

        Shape (cells + 1, arms); the last row is a cell where nothing was observed yet.
        """
        cells, arms = self.pull.shape
        shape = (cells + 2, arms)
        noise = np.zeros(shape)
        if rng is not None:
            noise = np.array([rng.gauss(0.0, boldness) for _ in range(noise.size)]).reshape(shape)
        precision = np.concatenate((self.precision, np.zeros((1, arms, arms))))
        pull = np.concatenate((self.pull, np.zeros((1, arms))))
        given = np.linalg.inv(self._inverse + precision)
        given = (given + given.transpose(0, 2, 1)) / 2
        told = (precision - precision @ given @ precision).sum(axis=0)
        heard = ((self._inverse @ given) @ pull[:, :, None])[:, :, 0].sum(axis=0)
        whole = np.eye(arms) / self.spread**2 + (told + told.T) / 2
        side = self.prior / self.spread**2 + heard - told @ np.full(arms, _CENTRE)
        # S S' is the covariance.
        root = np.linalg.inv(np.linalg.cholesky(whole)).T
        effects = root @ (root.T @ side + noise[0])
        means = given @ ((self._inverse @ (_CENTRE + effects)) + pull)[:, :, None]
        drawn: Floats = (means + np.linalg.cholesky(given) @ noise[1:, :, None])[:, :, 0]
        return drawn

    def state(self) -> dict[str, list[list[float]]]:
        """Return what was observed, as lists that JSON can hold."""
        arms = self.prior.size
        return dumped(precision=self.precision.reshape(-1, arms), pull=self.pull)

    def load(self, state: Mapping[str, Any], cells: int) -> None:
        """Take in a state in place of what was observed. Raises ``ValueError`` for what is none."""
        arms = self.prior.size
        self.precision = loaded(state, "precision", (cells * arms, arms)).reshape(cells, arms, arms)
        self.pull = loaded(state, "pull", (cells, arms))
