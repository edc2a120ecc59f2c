"""The stage that asks for scores, and the one place where step scores become one number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ttsflow.lineage import Path
from ttsflow.ops import Score, Scored, Verdict
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["Reduce", "Verify", "reduce_scores", "unscored", "with_scores"]

Reduce = Literal["last", "min", "mean", "prod", "geometric"]


def reduce_scores(scores: Sequence[float | None], how: Reduce) -> float | None:
    """Return one score for a trajectory from its step scores.

    A missing score is left out; without any score the result is missing too. ``geometric`` is the
    geometric mean, which unlike ``prod`` does not punish length; both need scores >= 0.
    """
    known = [score for score in scores if score is not None]
    if not known:
        return None
    if how == "last":
        return known[-1]
    if how == "min":
        return min(known)
    if how == "mean":
        return math.fsum(known) / len(known)
    if min(known) < 0:
        msg = f"`reduce: {how}` needs step scores >= 0, got {min(known):.4g}."
        raise ValueError(msg)
    if how == "prod":
        return math.prod(known)
    # By logarithms: the product of a long chain would underflow to 0.
    return math.exp(math.fsum(map(math.log, known)) / len(known)) if min(known) > 0 else 0.0


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
