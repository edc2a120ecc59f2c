"""Verifiers that know nothing: the controls every search has to beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, check_separator, steps_of

__all__ = ["Constant", "RandomScore"]


@dataclass(frozen=True, slots=True)
class Constant:
    """Gives every step the same score, so that only tie rules choose."""

    value: float = 0.5
    separator: str = "\n"

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ConfigError(f"must be a finite number, got {self.value!r}", "value")
        check_separator(self.separator)

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score, self.separator)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float]]:
        """Return ``value`` once per step."""
        return [[self.value] * len(steps_of(candidate.text, self.separator)) for _, candidate in batch]


@dataclass(frozen=True, slots=True)
class RandomScore:
    """Gives every step a score drawn from [0, 1): a search guided by it is a search by chance.

    A score is a pure function of ``seed``, the problem's id and the text up to the end of the step, so
    that it stays the same when the candidate grows, in any order of work. Equal texts score alike.
    """

    seed: int = 0
    separator: str = "\n"

    def __post_init__(self) -> None:
        check_separator(self.separator)

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score, self.separator)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float]]:
        """Return one random score per step."""
        return [self._steps(problem.id, candidate.text) for problem, candidate in batch]

    def _steps(self, problem_id: str, text: str) -> list[float]:
        steps = steps_of(text, self.separator)
        return [
            derive("score", self.seed, problem_id, *steps[: number + 1]) / 2**63
            for number in range(len(steps))
        ]
