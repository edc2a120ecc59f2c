"""The fake engine's settings, and a verifier and a task to go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.protocols import Capabilities, Verifier
from ttsflow.testing.fake import FakeEngine
from ttsflow.types import Answer, Candidate, Problem
from ttsflow.verifiers.batch import Batched

__all__ = ["FakeEnginePart", "FakeTask", "FakeVerifierPart"]


@dataclass(frozen=True, slots=True)
class FakeEnginePart:
    """Settings of the fake engine: seats, context in tokens, and how it schedules."""

    capacity: int = 16
    context: int = 4096
    logprobs: int = 20
    certainty: bool = True
    preempt: float = 0.0
    schedule_seed: int = 0
    dies_after: int | None = None

    virtual: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    def text_settings(self) -> dict[str, object]:
        """Return nothing: no setting changes a text."""
        return {}

    def __post_init__(self) -> None:
        for name in ("capacity", "context"):
            if getattr(self, name) < 1:
                raise ConfigError(f"must be at least 1, got {getattr(self, name)}.", name)
        for name in ("logprobs", "dies_after"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"must be at least 0, got {getattr(self, name)}.", name)
        if not 0 <= self.preempt <= 1:
            raise ConfigError(f"a share lies between 0 and 1, got {self.preempt}.", "preempt")

    @property
    def capabilities(self) -> Capabilities:
        """All of them, but for log-probabilities and certainty as set."""
        return Capabilities(logprobs=self.logprobs, certainty=self.certainty)

    def open(self) -> FakeEngine:
        """Return a new engine."""
        return FakeEngine(
            capacity=self.capacity,
            context=self.context,
            logprobs=self.logprobs,
            certainty=self.certainty,
            preempt=self.preempt,
            schedule_seed=self.schedule_seed,
            dies_after=self.dies_after,
        )


def fake_scores(batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float | None]]:
    """Score every non-empty line by a hash of it and all lines before, in [0, 1)."""
    scored: list[list[float | None]] = []
    for _, candidate in batch:
        lines = [line for line in candidate.text.split("\n") if line.strip()]
        scored.append([derive(*lines[: i + 1]) / 2**63 for i in range(len(lines))])
    return scored


@dataclass(frozen=True, slots=True)
class FakeVerifierPart:
    """Scores lines by a hash: arbitrary, but a pure function of the text."""

    def open(self) -> Verifier:
        """Return the working verifier."""
        return Batched(fake_scores)


@dataclass(frozen=True, slots=True)
class FakeTask:
    """Numbered questions whose answer is the digit after "Answer: "; every second gold is 2."""

    size: int = 8
    stop: tuple[str, ...] = ()
    separator: str = "\n"
    probe: str = "\nAnswer: "
    start: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)

    def problems(self) -> list[Problem]:
        """Return the questions."""
        return [
            Problem(f"Question {i}\n", id=f"fake-{i}", gold="2" if i % 2 else "1", data=self.extra)
            for i in range(self.start, self.start + self.size)
        ]

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the digit, None where there is none."""
        del problem
        _, found, digit = text.rpartition("Answer: ")
        return Answer(digit[:1], digit[:1]) if found and digit[:1].isdigit() else None

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Compare with the gold digit."""
        return None if problem.gold is None else answer is not None and answer.key == problem.gold
