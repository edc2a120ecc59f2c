"""The stage that lets likely particles live on in several copies, and unlikely ones not at all."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ttsflow_particles.weights import How, Weigh, draw, effective, factor, shares

from ttsflow.errors import ConfigError
from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["Resample", "log_weight", "tag"]

#: Keys of a candidate's ``extra``, which its children begin with.
_LOG, _BEFORE = "log_weight", "weighed"


def log_weight(candidate: Candidate) -> float:
    """Return the logarithm of a particle's weight; 0 of one that was not weighed since it was drawn."""
    value: float = candidate.extra.get(_LOG, 0.0)
    return value


def tag(pool: Sequence[Candidate], turn: int = 0) -> str:
    """Return the name of the randomness of a draw; islands of particles, as `each` makes them, draw apart."""
    return f"resample {min(candidate.path[:1] for candidate in pool)} {turn}"


@dataclass(frozen=True, slots=True)
class Resample:
    """Weighs the particles of the pool by their last scores, and draws as many anew.

    Source: particle filtering, arXiv 2502.01618

    Every place in the pool is a particle. ``weigh`` says what a step multiplies a weight by, with
    ``temperature`` as T: ``logit`` (s / (1 - s))^(1/T), ``softmax`` exp(s / T), ``likelihood`` s^(1/T),
    ``ratio`` (s / s before)^(1/T). A finished particle is absorbing: it is weighed with its last score in
    every round, competes, and may be copied, but does not grow. One that was cut, ended or failed has no
    weight. One without a score is worth as much as the lowest one. Particles are drawn anew when the
    effective sample size, 1 / sum w^2, is at most ``ess`` times their number, with 1 always; until then
    weights multiply. Once none can go on they keep their weights, for ``posterior``.
    """

    weigh: Weigh = "logit"
    temperature: float = 1.0
    how: How = "multinomial"
    ess: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"scores", "steps"})

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"must be above 0, got {self.temperature}.", "temperature")
        if not 0 <= self.ess <= 1:
            raise ConfigError(f"a share lies between 0 (never) and 1 (always), got {self.ess}.", "ess")

    def __call__(self, state: State) -> Steps:
        """Weigh, draw where it is due, and tell the trace who lives on."""
        pool = self.weighed(state.pool)
        if not any(candidate.active for candidate in pool):
            return state.with_(pool=pool)
        drawn = self.drawn(pool, len(pool), state.rng(tag(pool)))
        if drawn is None:
            return state.with_(pool=pool)
        yield self.note(pool, drawn)
        return state.with_(pool=drawn)

    def weighed(self, pool: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """Return the particles with their weights after one more step."""
        known = [candidate.score for candidate in pool if candidate.score is not None and _alive(candidate)]
        lowest = min(known, default=None)
        return tuple(self._weigh(candidate, lowest) for candidate in pool)

    def _weigh(self, candidate: Candidate, lowest: float | None) -> Candidate:
        score = lowest if candidate.score is None else candidate.score
        if not _alive(candidate):
            return _with(candidate, -math.inf, score)
        if score is None:  # nobody has one
            return _with(candidate, log_weight(candidate), None)
        more = factor(score, candidate.extra.get(_BEFORE), self.weigh, self.temperature)
        return _with(candidate, log_weight(candidate) + more, score)

    def drawn(
        self, pool: Sequence[Candidate], count: int, rng: random.Random
    ) -> tuple[Candidate, ...] | None:
        """Return ``count`` particles of equal weight drawn from ``pool``; None where none are to be drawn."""
        weights = shares([log_weight(candidate) for candidate in pool])
        if not weights or effective(weights) > self.ess * len(pool) * (1 + 1e-9):
            return None
        return tuple(self.fresh(pool[place]) for place in draw(weights, count, self.how, rng))

    def fresh(self, candidate: Candidate) -> Candidate:
        """Return a particle that was just drawn: all weigh the same."""
        return _with(candidate, 0.0, candidate.extra.get(_BEFORE))

    def note(self, pool: Sequence[Candidate], drawn: Sequence[Candidate]) -> Note:
        """Return what the trace is told of a draw."""
        weights = shares([log_weight(candidate) for candidate in pool])
        copies = Counter(candidate.path for candidate in drawn)
        paths = dict.fromkeys(candidate.path for candidate in pool)
        data: dict[str, Any] = {
            "by": self.how,
            "kept": list(copies),
            "dropped": [path for path in paths if path not in copies],
            "copies": list(copies.values()),
            "weights": weights,
            "effective": effective(weights),
        }
        return Note("select", data)


def _alive(candidate: Candidate) -> bool:
    return candidate.active or candidate.finished


def _with(candidate: Candidate, log: float, before: float | None) -> Candidate:
    return candidate.with_(extra={**candidate.extra, _LOG: log, _BEFORE: before})
