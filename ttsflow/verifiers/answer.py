"""The oracle: what the best possible verifier would reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.protocols import Task
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched

__all__ = ["GoldAnswer"]


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """Scores a candidate 1 when its answer equals the gold one, else 0: an upper bound, never a result.

    ``best_of_n`` with it measures pass@n. It reads the gold answer, so it is refused unless
    ``evaluation`` says that this is wanted. A problem without a gold answer has no scores.
    """

    evaluation: bool = False

    def check(self) -> None:
        """Raise ``ConfigError`` unless the oracle is asked for by name."""
        if not self.evaluation:
            raise ConfigError(
                "this verifier reads the gold answers, so what it reaches is an upper bound and no result; "
                "set verifier.evaluation=true to measure that bound.",
                "evaluation",
            )

    def open(self) -> Batched:
        """Raise ``ConfigError``: without a task there is no gold answer to compare with."""
        raise ConfigError("this verifier needs the task that says what is correct; see open_for.")

    def open_for(self, task: Task) -> Batched:
        """Return the working verifier for the answers of ``task``."""

        def score(batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float]]:
            verdicts = (_verdict(task, problem, candidate) for problem, candidate in batch)
            return [[] if verdict is None else [float(verdict)] for verdict in verdicts]

        return Batched(score)


def _verdict(task: Task, problem: Problem, candidate: Candidate) -> bool | None:
    if problem.gold is None:
        return None
    return candidate.answer is not None and task.correct(candidate.answer, problem)
