"""The model's own confidence, where a verifier is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.confidence import Measure
from ttsflow.strategies.confidence import Confidence
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched

__all__ = ["ConfidenceScore"]


@dataclass(frozen=True, slots=True)
class ConfidenceScore:
    """Scores a candidate by how sure the model was of its tokens, so that any strategy can use it.

    The settings are those of the stage ``confidence``, which strategies built on confidence use. One
    score per candidate, none for one whose engine said nothing of its tokens.
    """

    measure: Measure = "mean"
    group: int = 2048
    top: int = 20

    def __post_init__(self) -> None:
        self._stage()

    @property
    def logprobs(self) -> int:
        """Log-probabilities per token that the engine must give."""
        return self._stage().logprobs

    @property
    def certainty(self) -> bool:
        """Whether the engine must measure every token's distance from the uniform distribution."""
        return self._stage().certainty

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float]]:
        """Return one score per candidate."""
        values = (self._stage().value(candidate) for _, candidate in batch)
        return [[] if value is None else [value] for value in values]

    def _stage(self) -> Confidence:
        return Confidence(self.measure, self.group, self.top)
