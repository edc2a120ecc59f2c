"""The stage that gives good candidates more children than poor ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ttsflow.errors import ConfigError
from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.idle import refuse_idle
from ttsflow.types import Candidate, State

__all__ = ["Branch", "largest_remainder", "rebase"]

#: What the weakest candidate is worth in dynamic branching, so that equal scores share alike.
_LEAST = 1e-6


def rebase(scores: Sequence[float], width: int, temperature: float) -> list[int]:
    """Return how many children each score gets: ``width`` in all, by softmax(score / temperature).

    The best is visited first; each takes its share, rounded up, of what is left (REBASE, arXiv
    2408.00724, section 3.2). Equal scores are visited in their order.
    """
    top = max(scores)
    weights = [math.exp((score - top) / temperature) for score in scores]
    counts = [0] * len(scores)
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    left = width
    for number, place in enumerate(order):
        total = math.fsum(weights[later] for later in order[number:])
        share = left * weights[place] / total if total > 0 else 0.0
        # A share of 3.0000000000000004 is 3.
        counts[place] = min(left, math.ceil(share - 1e-9))
        left -= counts[place]
    return counts


def largest_remainder(scores: Sequence[float], width: int) -> list[int]:
    """Return ``width`` children shared in proportion to score - lowest score, by largest remainders."""
    lowest = min(scores)
    weights = [score - lowest + _LEAST for score in scores]
    total = math.fsum(weights)
    shares = [width * weight / total for weight in weights]
    counts = [math.floor(share + 1e-9) for share in shares]
    order = sorted(range(len(scores)), key=lambda place: (counts[place] - shares[place], place))
    for place in order[: width - sum(counts)]:
        counts[place] += 1
    return counts


@dataclass(frozen=True, slots=True)
class Branch:
    """Shares ``into`` places of the next pool among the active candidates, by their scores.

    Candidates that have finished stay aside and take one place each. ``how`` rebase gives children in
    proportion to softmax(score / ``temperature``) (arXiv 2408.00724), proportional in proportion to the
    distance from the lowest score. One that gets no child is pruned; at least one always lives on. A
    candidate without a score is worth as much as the lowest one.
    """

    into: int
    how: Literal["rebase", "proportional"] = "rebase"
    temperature: float = 0.2

    needs: ClassVar[frozenset[str]] = frozenset({"scores", "steps"})

    def __post_init__(self) -> None:
        if self.into < 1:
            raise ConfigError(f"at least one candidate must live on, got {self.into}.", "into")
        if not self.temperature > 0:
            raise ConfigError(f"must be above 0, got {self.temperature}.", "temperature")
        refuse_idle(self, self.how == "rebase", "temperature", "`how: rebase`")

    def __call__(self, state: State) -> Steps:
        """Share the places, and tell the trace who got how many."""
        active = sorted({c.path: c for c in state.pool if c.active}.values(), key=lambda c: c.path)
        if not active:
            return state
        ended = tuple(c for c in state.pool if not c.active)
        width = max(1, self.into - len(ended))
        counts = self._counts(active, width)
        children = {c.path: count for c, count in zip(active, counts, strict=True)}
        yield Note(
            "select",
            {
                "by": self.how,
                "kept": [path for path, count in children.items() if count],
                "dropped": [path for path, count in children.items() if not count],
                "copies": [count for count in counts if count],
            },
        )
        pool = tuple(c for c, count in zip(active, counts, strict=True) for _ in range(count))
        return state.with_(pool=ended + pool)

    def _counts(self, active: Sequence[Candidate], width: int) -> list[int]:
        known = [c.score for c in active if c.score is not None]
        lowest = min(known, default=0.0)
        scores = [lowest if c.score is None else c.score for c in active]
        if self.how == "proportional":
            return largest_remainder(scores, width)
        if math.isinf(self.temperature):
            return rebase([0.0] * len(scores), width, 1.0)
        return rebase(scores, width, self.temperature)
