"""The stage that scores a step by what would come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Request, Score, Scored
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.reduce import Reduce
from ttsflow.strategies.verify import unscored, with_scores
from ttsflow.types import State

__all__ = ["Lookahead"]


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Scores every candidate after up to ``steps`` more steps, decoded greedily and then thrown away.

    Lookahead search (arXiv 2408.03314, section 5.2): a beam search whose scores come from here instead
    of from ``verify``. The tokens of what is thrown away count like all others. A candidate that has
    ended is scored as it is.
    """

    steps: int = 1
    reduce: Reduce = "last"
    separator: str | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"verifier", "continuation"})
    gives: ClassVar[frozenset[str]] = frozenset({"scores"})
    keeps_candidates: ClassVar[bool] = True
    unit: ClassVar[str] = "step"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"at least one step is looked ahead, got {self.steps}.", "steps")

    def __call__(self, state: State) -> Steps:
        """Roll out, score, and give the scores to those the rollouts began from."""
        wanted = unscored(state.pool)
        if not wanted:
            return state
        ends = dict(wanted)
        for _ in range(self.steps):
            going = [path for path, end in ends.items() if end.active]
            if not going:
                break
            requests = (Request(ends[path], "step", self.separator, greedy=True) for path in going)
            got: Generated = yield Generate(tuple(requests))
            state = state.with_(spent=got.spent, stopped=got.stopped or state.stopped)
            ends.update(zip(going, got.candidates, strict=False))
        scored: Scored = yield Score(tuple(ends.values()))
        pool = with_scores(state.pool, wanted, scored.verdicts, self.reduce)
        known = [c for c in pool if c.path in wanted and c.score is not None]
        yield Note("lookahead", {"scores": [{"path": c.path, "score": c.score} for c in known]})
        return state.with_(pool=pool, spent=scored.spent)
