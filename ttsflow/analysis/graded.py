"""Questions with several graded samples, as arrays: what length and being right are compared on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttsflow.recordings import Recording

__all__ = ["Flags", "Floats", "Question", "graded"]

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Question:
    """One question by samples: their lengths, and which are right, have an answer, think and were cut."""

    dataset: str
    tokens: Floats
    right: Flags
    answered: Flags
    thinks: Flags
    cut: Flags

    def keep(self, places: Sequence[int]) -> Question:
        """Return the question with some of its samples alone."""
        at = [place for place in places if place < len(self.tokens)]
        return Question(
            dataset=self.dataset,
            tokens=self.tokens[at],
            right=self.right[at],
            answered=self.answered[at],
            thinks=self.thinks[at],
            cut=self.cut[at],
        )

    @property
    def accuracy(self) -> float:
        """The share of its samples that are right."""
        return float(self.right.mean())

    @property
    def pairs(self) -> tuple[float, int]:
        """In how many pairs of a right and a wrong sample the right one is shorter, and all pairs."""
        gaps = self.tokens[~self.right][None, :] - self.tokens[self.right][:, None]
        return float((gaps > 0).sum() + (gaps == 0).sum() / 2), gaps.size

    @property
    def gain(self) -> float:
        """What taking its shortest sample with an answer is worth over taking any one."""
        if not self.answered.any():
            return 0.0
        tokens, right = self.tokens[self.answered], self.right[self.answered]
        return float(right[tokens == tokens.min()].mean()) - self.accuracy


def graded(recordings: Sequence[Recording]) -> list[Question]:
    """Return the questions that were graded: every answer has a verdict, and something was to be judged.

    A sample that is right counts as having an answer, whether it is on record or not. A sample counts as
    cut when the record says so, or when it has the greatest length of its data set and no other length
    is as frequent there: a limit leaves such a heap.
    """
    chosen = [
        one
        for one in recordings
        if all(sample.correct is not None for sample in one.samples if sample.answer is not None)
        and (one.gold is not None or any(sample.correct is not None for sample in one.samples))
    ]
    limits = {dataset: _limit(chosen, dataset) for dataset in {one.dataset for one in chosen}}
    return [
        Question(
            dataset=one.dataset,
            tokens=np.array([sample.tokens for sample in one.samples], float),
            right=np.array([bool(sample.correct) for sample in one.samples]),
            answered=np.array([sample.answer is not None or bool(sample.correct) for sample in one.samples]),
            thinks=np.array(["</think>" in (sample.text or "") for sample in one.samples]),
            cut=np.array(
                [sample.finish == "length" or sample.tokens == limits[one.dataset] for sample in one.samples]
            ),
        )
        for one in chosen
    ]


def _limit(recordings: Sequence[Recording], dataset: str) -> int | None:
    """Return the length at which a limit seems to have cut samples of a data set."""
    counts = Counter(s.tokens for one in recordings if one.dataset == dataset for s in one.samples)
    longest = max(counts)
    heap = counts.pop(longest)
    return longest if heap >= 3 and heap > max(counts.values(), default=0) else None
