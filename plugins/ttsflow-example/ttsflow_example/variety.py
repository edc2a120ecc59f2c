"""A verifier made of a plain function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, check_separator, steps_of

__all__ = ["Variety"]


@dataclass(frozen=True, slots=True)
class Variety:
    """Scores a step by the share of its characters that are different ones."""

    separator: str = "\n"

    def __post_init__(self) -> None:
        check_separator(self.separator)

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score, self.separator)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float]]:
        """Return one score per step, above 0 and up to 1, for every candidate."""
        return [
            [len(set(step)) / len(step) for step in steps_of(candidate.text, self.separator)]
            for _, candidate in batch
        ]
