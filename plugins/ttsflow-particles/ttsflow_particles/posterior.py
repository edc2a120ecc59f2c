"""The stage that makes an answer of weighted particles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ttsflow_particles.resample import log_weight
from ttsflow_particles.weights import shares

from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["Posterior"]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Chooses the answer from the particles that have one, each place in the pool with its weight.

    ``how``: best takes the particle of the highest score, vote the answer with the largest sum of weights,
    sample a particle drawn in proportion to its weight.
    """

    how: Literal["best", "vote", "sample"] = "best"

    needs: ClassVar[frozenset[str]] = frozenset({"scores"})

    def __call__(self, state: State) -> Steps:
        """Choose, and tell the trace the weight of every answer."""
        found = [c for c in state.pool if c.finished and c.answer and log_weight(c) > -math.inf]
        found.sort(key=lambda candidate: candidate.path)
        if not found:
            yield Note("aggregate", {"how": self.how, "weights": {}})
            return state.with_(answer=None, chosen=None)
        weights = shares([log_weight(candidate) for candidate in found])
        sums: dict[str, float] = {}
        for candidate, weight in zip(found, weights, strict=True):
            sums[_key(candidate)] = sums.get(_key(candidate), 0.0) + weight
        if self.how == "sample":
            (chosen,) = state.rng("posterior").choices(found, weights)
        elif self.how == "best":
            chosen = max(found, key=lambda c: -math.inf if c.score is None else c.score)
        else:
            top = max(sums.values())
            chosen = next(c for c in found if math.isclose(sums[_key(c)], top, rel_tol=1e-12))
        yield Note("aggregate", {"how": self.how, "weights": sums, "chosen": chosen.path})
        return state.with_(answer=chosen.answer, chosen=chosen)


def _key(candidate: Candidate) -> str:
    return candidate.answer.key if candidate.answer else ""
