"""The stage that asks for scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.lineage import Path
from ttsflow.ops import Score, Scored, Verdict
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.reduce import Reduce, reduce_scores
from ttsflow.types import Candidate, State

__all__ = ["Verify", "unscored", "with_scores"]


@dataclass(frozen=True, slots=True)
class Verify:
    """Has the verifier score every candidate of the pool that has no scores yet.

    ``reduce`` makes one score of a candidate's step scores; every later stage reads that one. A
    candidate the verifier could not score is failed, with its reason; the others go on.
    """

    reduce: Reduce = "last"

    needs: ClassVar[frozenset[str]] = frozenset({"verifier"})
    gives: ClassVar[frozenset[str]] = frozenset({"scores"})
    keeps_candidates: ClassVar[bool] = True
    #: It asks for the scores of every candidate that has none.
    scores_pool: ClassVar[bool] = True

    def __call__(self, state: State) -> Steps:
        """Ask for the scores and store them."""
        wanted = unscored(state.pool)
        if not wanted:
            return state
        reply: Scored = yield Score(tuple(wanted.values()))
        pool = with_scores(state.pool, wanted, reply.verdicts, self.reduce)
        return state.with_(pool=pool, spent=reply.spent)


def unscored(pool: Sequence[Candidate]) -> dict[Path, Candidate]:
    """Return the candidates that a verifier has yet to see, by path."""
    return {
        candidate.path: candidate
        for candidate in pool
        if candidate.tokens and not candidate.scores and candidate.finish not in {"aborted", "failed"}
    }


def with_scores(
    pool: Sequence[Candidate], asked: Mapping[Path, Candidate], verdicts: Sequence[Verdict], reduce: Reduce
) -> tuple[Candidate, ...]:
    """Return the pool with the verdicts on those ``asked`` about, in the order of asking."""
    scored = {}
    for candidate, verdict in zip(asked.values(), verdicts, strict=True):
        reason, score = verdict.reason, None
        if not reason:
            try:
                score = reduce_scores(verdict.scores, reduce)
            except ValueError as error:
                reason = str(error)
        if reason:
            scored[candidate.path] = candidate.with_(finish="failed", answer=None, reason=reason)
        else:
            scored[candidate.path] = candidate.with_(scores=verdict.scores, score=score)
    return tuple(scored.get(candidate.path, candidate) for candidate in pool)
